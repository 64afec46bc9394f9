"""What a known format is, what it sees of a file, and what it makes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from engine.data.problems import Problem
from engine.data.raw import RawTable

if TYPE_CHECKING:
    from engine.data.formats.building import Builder

Shape = Literal["table", "document", "log"]
"""Rows of any file that is read as a table; one JSON object; an Inspect archive."""


class RowError(Exception):
    """A record cannot enter the tables.

    Attributes:
        what: what was found.
        fix: what the user can do.
        column: where; empty for the whole record.
    """

    def __init__(self, what: str, fix: str, column: str = "") -> None:
        super().__init__(what)
        self.what, self.fix, self.column = what, fix, column


@dataclass(frozen=True)
class Record:
    """One record of a file.

    Attributes:
        row: 1-based number.
        line: 1-based line of the file where it starts.
        cells: value by column; text where the file is a table, JSON's own types where it is a document.
    """

    row: int
    line: int
    cells: Mapping[str, Any]

    def get(self, column: str) -> str:
        """The cell as text, blank where it is missing or null."""
        value = self.cells.get(column)
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if isinstance(value, str):
            return value
        return json.dumps(value, ensure_ascii=False)

    def text(self, column: str) -> str:
        """The cell as text; an empty one is a text.

        Raises:
            RowError: it is missing.
        """
        if self.cells.get(column) is None:
            raise RowError(f"{column} is missing.", "Fill it in, or remove the row.", column)
        return self.get(column)

    def needed(self, column: str) -> str:
        """The cell as text that says something.

        Raises:
            RowError: it is missing or blank.
        """
        value = self.get(column)
        if not value.strip():
            raise RowError(f"{column} is missing.", "Fill it in, or remove the row.", column)
        return value

    def json(self, column: str) -> Any:
        """The cell as JSON's own types; None where it is missing.

        Raises:
            RowError: a text that is no JSON.
        """
        value = self.cells.get(column)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            raise RowError(
                f"{column} holds {value[:40]!r}, which is no JSON.", "Export the file as JSON lines or parquet.", column
            ) from None


@dataclass(frozen=True)
class Source:
    """A file as a format sees it; exactly one of `table`, `document` and `log` is there.

    Attributes:
        filename: of the file; it is not opened.
        table: its rows.
        document: the JSON object it is.
        log: the bytes of an Inspect archive, or of an Inspect log in JSON.
        companions: further files that belong to it, such as answers and questions.
        encoding: of the text, as `RawTable` has it; empty where there is none.
    """

    filename: str
    table: RawTable | None = None
    document: Mapping[str, Any] | None = None
    log: bytes | None = None
    companions: tuple[Source, ...] = ()
    encoding: str = ""

    @property
    def shape(self) -> Shape:
        """What kind of file it is."""
        if self.table is not None:
            return "table"
        return "document" if self.document is not None else "log"

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table, or keys of the object."""
        if self.table is not None:
            return frozenset(map(str, self.table.frame.columns))
        return frozenset(self.document or ())

    def some(self, column: str, most: int = 20) -> list[str]:
        """The first values of a column that are not missing; empty where there is none."""
        if self.table is None or column not in self.columns:
            return []
        return [str(v) for v in self.table.frame[column].dropna().iloc[:most]]


@dataclass(frozen=True)
class HubSet:
    """A data set on the Hugging Face Hub that comes in a format.

    Attributes:
        dataset_id: owner and name.
        splits: the splits it has, the usual one first.
        config: the subset its files lie under.
        file: the file to take where the set is not split; empty otherwise.
    """

    dataset_id: str
    splits: tuple[str, ...] = ("train",)
    config: str = "default"
    file: str = ""


@dataclass(frozen=True)
class Format:
    """One known format.

    Attributes:
        name: what `--format` calls it.
        title: what the page calls it.
        holds: what is in it, in a sentence.
        needs: sets of columns (of a document: keys) of which one must be there as a whole.
        read: fills a builder from a source.
        task: what the items ask for, a value of `schema.Task`.
        write: the bytes of a file with these tables.
        against: what speaks against a file that has the columns; empty where nothing does.
        ending: of a file that is written.
        shape: kind of file.
        telling: columns that give the format away even where others are missing.
        aspects: what `NAME:ASPECT` can choose, the default first.
        companions: what further files it can use, in a sentence.
        hub: sets on the Hub.
        no_place: why each pair cannot be written, "" where it can; `write` is given those that can.
    """

    name: str
    title: str
    holds: str
    needs: tuple[tuple[str, ...], ...]
    read: Callable[[Source, Builder], None]
    task: str
    write: Callable[[Imported], bytes]
    against: Callable[[Source], str] = lambda _: ""
    ending: str = ".jsonl"
    shape: Shape = "table"
    telling: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()
    companions: str = ""
    hub: tuple[HubSet, ...] = ()
    no_place: Callable[[Imported], list[str]] = lambda found: [""] * len(found.comparisons)

    def lacks(self, source: Source) -> str:
        """What keeps a file from being of this format, in words; empty where nothing does."""
        if source.shape != self.shape:
            wanted = {"table": "records", "document": "one JSON object", "log": "an Inspect log"}[self.shape]
            return f"the file is not {wanted}"
        missing = min(([c for c in names if c not in source.columns] for names in self.needs), key=len)
        return f"no {', '.join(missing)}" if missing else self.against(source)


@dataclass(frozen=True)
class Imported:
    """What a file of a known format holds.

    Attributes:
        format: name of the format.
        name: of the file.
        task: a value of `schema.Task`.
        items: table `items`; also `responses`, `comparisons` (one row a vote) and `verdicts`, all in the file's order.
        origin: id of a comparison, response or verdict -> what the file says of it and the tables have no column for.
        problems: by row; a row with an `excluded` one is in no table.
        notes: how it was understood, in sentences.
        labels: label as the file spells it -> how it was read.
        n_records: records of the file.
        how_read: encoding and kind of file, in words.
        source: format, encoding, delimiter and part, as a data set keeps them.
    """

    format: str
    name: str
    task: str
    items: pd.DataFrame
    responses: pd.DataFrame
    comparisons: pd.DataFrame
    verdicts: pd.DataFrame
    origin: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    n_records: int = 0
    how_read: str = ""
    source: dict[str, Any] = field(default_factory=dict)

    @property
    def n_excluded(self) -> int:
        """Records that are in no table."""
        return len({p.row for p in self.problems if p.severity == "excluded"})

    @property
    def judges(self) -> list[str]:
        """Whose verdicts are in the file, in its order."""
        return [str(j) for j in self.verdicts["judge"].unique()]

    @property
    def has_texts(self) -> bool:
        """Whether at least one response has its text."""
        return bool(self.responses["text"].notna().any())

    def problems_of_file(self) -> list[Problem]:
        """The problems with their rows in words only, for tables whose rows are others."""
        return [replace(p, row=None) for p in self.problems]

    def counts(self) -> str:
        """In one line: "96 responses, 48 items, 48 pairs, 40 with a human preference, 96 verdicts"."""
        labelled = int(self.comparisons["human"].notna().sum())
        rated = int(self.responses["human_score"].notna().sum())
        parts = [plural(len(self.responses), "response"), plural(len(self.items), "item")]
        if len(self.comparisons):
            parts += [plural(len(self.comparisons), "pair"), f"{labelled:,} with a human preference"]
        if rated:
            parts.append(plural(rated, "human score"))
        if len(self.verdicts):
            parts.append(f"{plural(len(self.verdicts), 'verdict')} of {plural(len(self.judges), 'judge')}")
        return ", ".join(parts)


def plural(n: int, noun: str) -> str:
    """The number and the noun, such as "96 responses"."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")

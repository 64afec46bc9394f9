"""A known format: its view of a file, and its reading of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from engine.core.errors import InputError, shown
from engine.core.json import check_depth
from engine.core.schema import COMPARISONS, ITEMS, NONE, RESPONSES, VERDICTS, Order, Outcome, Protocol
from engine.data.raw import Problem, RawTable, Severity, place
from engine.data.recording_rules import PAIR_RULE, normalised

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
            found = json.loads(value, parse_constant=lambda _: None)
            check_depth(found)
            return found
        except (ValueError, RecursionError):
            raise RowError(
                f"{column} holds {shown(value)}, which is no JSON.", "Export the file as JSON lines or parquet.", column
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
        """Kind of the file."""
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
        write: the bytes of a file with these tables; None where the format is only read.
        against: what speaks against a file that has the columns; empty where nothing does.
        ending: of a file that is written.
        shape: kind of file.
        telling: columns that give the format away even where others are missing.
        aspects: what `NAME:ASPECT` can choose, the default first.
        companions: what further files it can use, in a sentence.
        hub: sets on the Hub.
        calls: judge calls of a record that holds verdicts; 1 where records differ.
    """

    name: str
    title: str
    holds: str
    needs: tuple[tuple[str, ...], ...]
    read: Callable[[Source, Builder], None]
    task: str
    write: Callable[[Imported], bytes] | None = None
    against: Callable[[Source], str] = lambda _: ""
    ending: str = ".jsonl"
    shape: Shape = "table"
    telling: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()
    companions: str = ""
    hub: tuple[HubSet, ...] = ()
    calls: int = 1

    def lacks(self, source: Source) -> str:
        """Reason for a file not to be of this format, in words; empty where there is none."""
        if source.shape != self.shape:
            wanted = {"table": "records", "document": "one JSON object", "log": "an Inspect log"}[self.shape]
            return f"the file is not {wanted}"
        missing = min(([c for c in names if c not in source.columns] for names in self.needs), key=len)
        return f"no {', '.join(missing)}" if missing else self.against(source)


@dataclass(frozen=True)
class Imported:
    """Content of a file of a known format.

    Attributes:
        format: name of the format.
        name: of the file.
        task: a value of `schema.Task`.
        items: table `items`; also `responses`, `comparisons` (one row a vote) and `verdicts`, all in the file's order.
        origin: id of a comparison or verdict -> what the file says of it and the tables have no column for.
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
        """True where at least one response has its text."""
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


NOTHING_READ = "Nothing in the record could be read."

# Records of a known format -> rows of the tables: checked against one another, a record enters whole or not at all.

Row = dict[str, Any]
_ITEM_FIELDS = ("context", "reference", "group")
_RESPONSE_FIELDS = ("item_id", "text", "system", "human_score", "quality")


class Builder:
    """Collects what a format reads.

    Attributes:
        aspect: what `NAME:ASPECT` chose; empty for the default.
        notes: how the file was understood.
        labels: label as spelled -> how it was read.
        origin: see `Imported.origin`.
    """

    def __init__(self, form: Format, source: Source, aspect: str = "") -> None:
        self._form, self._source = form, source
        self.aspect = aspect
        self.notes: list[str] = []
        self.labels: dict[str, str] = {}
        self.origin: dict[str, Row] = {}
        table = source.table
        self.problems: list[Problem] = list(table.problems) if table else []
        self._faulty = {p.row for p in self.problems if p.severity == "excluded"}
        self._items: dict[str, Row] = {}
        self._responses: dict[str, Row] = {}
        self._first: dict[tuple[str, str], int] = {}
        self._comparisons: list[Row] = []
        self._ids: dict[str, int] = {}
        self._taken: set[int] = set()
        self._verdicts: list[Row] = []
        self.n_records = len(table.frame) if table else 0

    def records(self, source: Source | None = None) -> Iterator[Record]:
        """The records of a table that could be read; of the file itself where no companion is given."""
        table = (source or self._source).table
        if table is None:
            return
        faulty = self._faulty if source is None else {p.row for p in table.problems if p.severity == "excluded"}
        names = list(map(str, table.frame.columns))
        for row, values in enumerate(table.frame.itertuples(index=False, name=None), start=1):
            if row not in faulty:
                cells = {n: v for n, v in zip(names, values, strict=True) if isinstance(v, str)}
                yield Record(row, table.lines[row - 1], cells)

    def elements(self, found: object, what: str) -> Iterator[Record]:
        """The objects of a list in a document; their line is their number.

        Raises:
            InputError: it is no list.
        """
        if not isinstance(found, list):
            raise InputError(f"{self._source.filename!r}: {what} is no list. Export the file again.")
        self.n_records += len(found)
        for row, value in enumerate(found, start=1):
            record = Record(row, row, value if isinstance(value, Mapping) else {})
            if isinstance(value, Mapping):
                yield record
            else:
                self.report("excluded", record, "The element is no object.", "Export the file again.")

    def report(self, severity: Severity, record: Record, what: str, fix: str, column: str = "") -> None:
        """List a finding about a record."""
        self.problems.append(Problem(severity, place(record.row, record.line, column), what, fix, record.row))

    @contextmanager
    def row(self, record: Record, companion: str = "") -> Iterator[None]:
        """A record under way, of the file itself or of a companion: a `RowError` leaves it out and lists why."""
        try:
            yield
        except RowError as error:
            if companion:  # its rows are not the file's
                where = f"{companion}, {place(record.row, record.line, error.column)}"
                self.problems.append(Problem("warning", where, error.what, error.fix))
            else:
                self.report("excluded", record, error.what, error.fix, error.column)

    def side(self, record: Record, column: str, rule: Mapping[str, Outcome] = PAIR_RULE) -> str | None:
        """The preference a label stands for; None and a warning where it is blank.

        Raises:
            RowError: the label is in no rule.
        """
        label = record.get(column)
        if not label.strip():
            self.report("warning", record, f"{column} is blank: nobody was asked.", "Fill it in if it was.", column)
            return None
        found = rule.get(normalised(label))
        if found is None:
            known = ", ".join(dict.fromkeys(rule))
            raise RowError(f"{column} {shown(label)} is in no rule.", f"Known: {known}. Rename the label.", column)
        self.labels.setdefault(label, found.value)
        return found.value

    def add(
        self,
        record: Record,
        items: Sequence[Row] = (),
        responses: Sequence[Row] = (),
        comparisons: Sequence[Row] = (),
        verdicts: Sequence[Row] = (),
    ) -> None:
        """Take the rows of a record, all of them or none.

        A comparison whose id is taken gets a number behind it; `origin` in a row goes to `Imported.origin`.

        Raises:
            RowError: an item or response is there already with other content, or a pair is of one response.
        """
        for row in items:
            self._check(self._items, row, "item_id", _ITEM_FIELDS)
        for row in responses:
            self._check(self._responses, row, "response_id", _RESPONSE_FIELDS)
        for row in (*comparisons, *(v for v in verdicts if v.get("response_b"))):
            if row.get("response_a", row.get("response_id")) == row["response_b"]:
                raise RowError("Both responses of the pair are of one system.", "Remove the row.")
        self._taken.add(record.row)
        for row in items:
            self._merge(record, self._items, row, "item_id")
        for row in responses:
            self._merge(record, self._responses, row, "response_id")
        for row in comparisons:
            self._comparisons.append({**row, "comparison_id": self._numbered(str(row["comparison_id"]), row)})
        for row in verdicts:
            order = f"-{row['order']}" if row.get("order") else ""
            made = {"attack": NONE, "defense": NONE, **row}
            made["verdict_id"] = self._numbered(f"row-{record.row}{order}", made)
            self._verdicts.append(made)

    def has(self, response_id: str) -> bool:
        """True where a response of this id is there."""
        return response_id in self._responses

    def _numbered(self, name: str, row: Row) -> str:
        count = self._ids[name] = self._ids.get(name, 0) + 1
        made = name if count == 1 else f"{name}#{count}"
        if more := row.pop("origin", None):
            self.origin[made] = dict(more)
        return made

    def _check(self, held: Mapping[str, Row], row: Row, key: str, fields: Sequence[str]) -> None:
        before = held.get(str(row[key]))
        for name in fields if before else ():
            old, new = (before or {}).get(name), row.get(name)
            if old is not None and new is not None and old != new:
                first = self._first[key, str(row[key])]
                raise RowError(
                    f"{key} {shown(row[key])} stands in row {first} with another {name}.",
                    "Give the two different ids, or make them the same to the last character.",
                )

    def _merge(self, record: Record, held: dict[str, Row], row: Row, key: str) -> None:
        known = held.setdefault(str(row[key]), {})
        self._first.setdefault((key, str(row[key])), record.row)
        known.update({k: v for k, v in row.items() if v is not None or k not in known})

    def finish(self) -> Imported:
        """The tables.

        Raises:
            InputError: no record could be used; the message names the first reasons.
        """
        name = self._source.filename
        self._account()
        if not (self._responses or self._verdicts):
            reasons = "; ".join(f"{p.where}: {p.what}" for p in self.problems[:3]) or "it has no records"
            raise InputError(f"{name!r} holds nothing that can be used as {self._form.title}: {reasons}")
        items = [{"task": self._form.task, **row} for row in self._items.values()]
        return Imported(
            self._form.name + (f":{self.aspect}" if self.aspect else ""),
            name,
            self._form.task,
            ITEMS.conform(pd.DataFrame(items, columns=ITEMS.names)),
            RESPONSES.conform(pd.DataFrame(list(self._responses.values()), columns=RESPONSES.names)),
            COMPARISONS.conform(pd.DataFrame(self._comparisons, columns=COMPARISONS.names)),
            VERDICTS.conform(pd.DataFrame(self._verdicts, columns=VERDICTS.names)),
            self.origin,
            sorted(self.problems, key=lambda p: p.row or 0),
            self.notes,
            self.labels,
            self.n_records,
        )

    def _account(self) -> None:
        """List every record that is in no table and has no reason yet, so that none is lost in silence."""
        named = self._taken | {p.row for p in self.problems if p.severity == "excluded" and p.row is not None}
        lines = self._source.table.lines if self._source.table else range(1, self.n_records + 1)
        for row in range(1, self.n_records + 1):
            if row not in named:
                self.report("excluded", Record(row, lines[row - 1], {}), NOTHING_READ, "Export the file again.")


def records_of(verdicts: pd.DataFrame) -> list[int]:
    """The record of each verdict of an import, 1-based, as its id says."""
    return [int(n) for n in verdicts["verdict_id"].str.extract(r"^row-(\d+)", expand=False)]


def pair_verdict(
    judge: str, item: str, a: str, b: str, order: Order | None, outcome: str | None, unread: str = "", raw: str = ""
) -> Row:
    """A row of `verdicts` about a pair, in the pair's own names."""
    return {
        "judge": judge,
        "protocol": Protocol.PAIRWISE.value,
        "item_id": item,
        "response_id": a,
        "response_b": b,
        "order": order.value if order else None,
        "p_a": None if outcome is None else float(outcome == Outcome.A.value),
        "p_tie": None if outcome is None else float(outcome == Outcome.TIE.value),
        "outcome": outcome,
        "unread_reason": None if outcome else unread or "no verdict recorded",
        "raw_text": raw or None,
    }


def score_verdict(judge: str, item: str, response: str, score: float | None, unread: str = "", raw: str = "") -> Row:
    """A row of `verdicts` with a score."""
    return {
        "judge": judge,
        "protocol": Protocol.POINTWISE.value,
        "item_id": item,
        "response_id": response,
        "score": score,
        "unread_reason": None if score is not None else unread or "no verdict recorded",
        "raw_text": raw or None,
    }


def pair_rows(
    item: str, context: str, group: str, texts: tuple[str, str], systems: tuple[str, str]
) -> tuple[Row, list[Row]]:
    """The item of a pair, named like it, and its two responses."""
    row = {"item_id": item, "context": context, "group": group or None}
    responses = [
        {"response_id": f"{item}:{side}", "item_id": item, "system": system or None, "text": text}
        for side, text, system in zip("ab", texts, systems, strict=True)
    ]
    return row, responses


def comparison_row(item: str, human: str | None, **more: Any) -> Row:
    """The pair itself; `more` are further columns."""
    return {"comparison_id": item, "item_id": item, "response_a": f"{item}:a", "response_b": f"{item}:b",
            "human": human, **more}  # fmt: skip

"""A file as it was read, and the checks that every reader makes: names, widths, counts, lengths of cells."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from engine.data.encodings import TITLES, Candidate
from engine.data.problems import Problem, place
from engine.errors import InputError
from engine.strict_json import dumps

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
"""The delimiters that are read, and their names in messages."""

MAX_CELL = 1_000_000
"""Longest cell [characters]; a record with a longer one is excluded."""

MAX_ROWS = 200_000
"""Most records of a file."""

MAX_COLUMNS = 1_000
"""Most columns of a file; JSON lines could otherwise bring new ones on every line."""

MAX_UNPACKED = 400_000_000
"""Most bytes that a compressed file (xlsx, parquet) may unpack to, so that a small upload cannot fill the memory."""

Format = Literal["csv", "jsonl", "json", "xlsx", "parquet"]
_SHOWN_OF_LONG_CELL = 200
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class RawTable:
    """A file as it was read.

    Attributes:
        frame: one row per record, every column of dtype str, verbatim; missing (null or absent) is NaN, an
            empty cell of a CSV file is the empty text.
        lines: for each row, the 1-based line of the file where its record starts; of a workbook the row of the
            sheet, of a parquet file the number of the record.
        format: `csv` stands for any delimiter.
        encoding: a key of `encodings.TITLES`; empty for xlsx and parquet, which say it themselves.
        delimiter: what separates the cells; empty where nothing does.
        problems: what is wrong, row by row; a row with an `excluded` one does not enter a data set.
        candidates: the encodings that could be meant, the one that was used first; empty where it is certain.
        doubt: why the encoding is a guess, for the user; empty where it is none.
        part: the sheet, or the key of a JSON object, that was read; empty where the file is one table.
        parts: what `part` could be.
    """

    frame: pd.DataFrame
    lines: list[int]
    format: Format
    encoding: str
    delimiter: str
    problems: list[Problem] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    doubt: str = ""
    part: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def is_guess(self) -> bool:
        """Whether the user has to say first which encoding is meant."""
        return bool(self.candidates)

    def how_read(self) -> str:
        """In words: "Read as UTF-8, a semicolon between the cells: 6 rows, 3 columns."."""
        cells = {"jsonl": "one JSON object a line", "json": "a list of JSON objects"}.get(self.format, "")
        if self.delimiter:
            cells = f"a {DELIMITERS[self.delimiter]} between the cells"
        number = f" ({self.parts.index(self.part) + 1} of {len(self.parts)})" if len(self.parts) > 1 else ""
        named = {"xlsx": f"the sheet “{self.part}”{number} of a workbook", "parquet": "a parquet file"}
        if self.format == "json" and self.part:
            cells = f"the list “{self.part}”{number} of a JSON object"
        how = named.get(self.format) or f"{TITLES[self.encoding]}, {cells}"
        rows, columns = len(self.frame), len(self.frame.columns)
        return (
            f"{'Read as' if self.format != 'xlsx' else 'Read from'} {how}: "
            f"{rows:,} {'row' if rows == 1 else 'rows'}, {columns:,} {'column' if columns == 1 else 'columns'}."
        )

    def require_certain(self, filename: str, next_step: str) -> None:
        """Refuse a guess where nobody can be asked.

        Args:
            filename: for the message.
            next_step: what to do, such as "Say which with --encoding NAME.".

        Raises:
            InputError: the encoding is a guess; the message shows the candidates and what they make of the file.
        """
        if not self.candidates:
            return
        shown = [
            f"{c.encoding} ({c.title}):" + "".join(f"\n    line {number}: {text}" for number, text in c.lines)
            for c in self.candidates
        ]
        raise InputError(
            f"The encoding of {filename!r} is not certain. {self.doubt} It could be\n  "
            + "\n  ".join(shown)
            + f"\n{next_step}"
        )


def cell_text(value: object) -> str | None:
    """A typed cell as text: true and 3.5 as JSON spells them, lists and objects as JSON, dates in ISO 8601."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        plain = value.tzinfo is None and value.time() == dt.time()
        return value.date().isoformat() if plain else value.isoformat(sep=" ")
    if isinstance(value, (list, tuple, dict)):
        return dumps(value)
    return str(value)


def unwritable(text: str) -> bool:
    """Whether it holds what no text file can: NUL, or half of a surrogate pair."""
    return _UNWRITABLE.search(text) is not None


def check_header(filename: str, header: Sequence[str], line: int) -> None:
    """Every column has a name of its own.

    Raises:
        InputError: a name is blank or stands twice, or there are too many columns.
    """
    names = [name.strip() for name in header]
    if "" in names:
        raise InputError(
            f"{filename!r}: column {names.index('') + 1} of {len(names)} has no name in the header "
            f"(line {line}). Name it or remove it (pandas writes one unless to_csv gets index=False)."
        )
    check_width(filename, len(names))
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in first:
            raise InputError(
                f"{filename!r}: the column name {name!r} stands twice in the header (line {line}), as "
                f"columns {first[name] + 1} and {i + 1}. Give each column its own name."
            )
        first[name] = i


def check_width(filename: str, width: int) -> None:
    """Raises InputError for more than `MAX_COLUMNS`."""
    if width > MAX_COLUMNS:
        raise InputError(f"{filename!r} has more than {MAX_COLUMNS:,} columns. Remove those that are not needed.")


def check_count(filename: str, count: int) -> None:
    """Raises InputError for more than `MAX_ROWS`."""
    if count > MAX_ROWS:
        raise InputError(f"{filename!r} has more than {MAX_ROWS:,} records. Split it, or sample from it.")


def check_unpacked(filename: str, size: int) -> None:
    """Raises InputError for more than `MAX_UNPACKED` bytes."""
    if size > MAX_UNPACKED:
        raise InputError(
            f"{filename!r} unpacks to more than {MAX_UNPACKED // 1_000_000:,} MB, too much to be read. "
            "Split it, remove what is not needed, or save it as CSV."
        )


def no_records(filename: str, header: Sequence[str]) -> InputError:
    """The error for a file that has column names and nothing below them."""
    return InputError(f"{filename!r} has a header ({', '.join(header)}) and no records. Add one record a response.")


def long_cells(row: int, line: int, columns: Sequence[str], cells: Sequence[str | None]) -> list[Problem]:
    """A problem for each cell that is longer than what is read; its record is excluded."""
    return [
        Problem(
            "excluded",
            place(row, line, column),
            f"The cell has {len(cell):,} characters; at most {MAX_CELL:,} are read.",
            "Shorten the cell. Only this row is left out.",
            row,
        )
        for column, cell in zip(columns, cells, strict=True)
        if cell is not None and len(cell) > MAX_CELL
    ]


def short(cell: str | None) -> str | None:
    """The cell, or the beginning of one that is too long to show; its record is excluded anyway."""
    if cell is None or len(cell) <= MAX_CELL:
        return cell
    return f"{cell[:_SHOWN_OF_LONG_CELL]} [... {len(cell):,} characters]"


def frame_of(rows: Sequence[Sequence[str | None]], columns: Sequence[str]) -> pd.DataFrame:
    """The table of these records; column by column, as pandas would otherwise guess numbers and dates."""
    cells: Any = zip(*rows, strict=True)
    return pd.DataFrame(
        {name: pd.Series(list(column), dtype="str") for name, column in zip(columns, cells, strict=True)}
    )

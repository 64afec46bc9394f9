"""A file as it was read, and the checks that every reader makes: names, widths, counts, lengths of cells."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.json import dumps
from engine.data.encodings import TITLES, Candidate

# What is wrong with a row of the user's file: where it is, what it means, and what to do about it.

Severity = Literal["error", "excluded", "warning"]


@dataclass(frozen=True)
class Problem:
    """One finding about the user's data.

    Attributes:
        severity: `error` blocks saving; `excluded` leaves the row out of the data set (it stays listed in the
            raw table); `warning` keeps the row and says what was done with it.
        where: the place in the user's words, such as "row 7 (line 12), column text".
        what: what was found there.
        fix: what the user can do.
        row: 1-based record number (the header is not counted); None where the whole file is meant.
    """

    severity: Severity
    where: str
    what: str
    fix: str
    row: int | None = None

    @property
    def column(self) -> str:
        """The column meant, as `place` wrote it; empty for the whole record or file."""
        return self.where.partition("), column ")[2] if self.row is not None else ""

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)


def place(row: int, line: int, column: str = "") -> str:
    """Name a record, and a column of it: "row 7 (line 12), column text".

    Args:
        row: 1-based record number, the header not counted.
        line: 1-based line of the file where the record starts.
        column: the column's name in the user's file; empty for the whole record.
    """
    return f"row {row} (line {line})" + (f", column {column}" if column else "")


@dataclass(frozen=True)
class ProblemGroup:
    """Findings of one kind, which call for the same thing.

    Attributes:
        severity: of all of them.
        where: "row 7 (line 12), column text" for one, "rows 3, 6, 9 and 12 more, column text" for several.
        what: what was found, where it is the same in all rows; else what was found in the first.
        fix: what the user can do.
        rows: the rows meant, in order; empty where the whole file is.
        count: findings, at least one.
    """

    severity: Severity
    where: str
    what: str
    fix: str
    rows: tuple[int, ...]
    count: int


_ORDER: dict[Severity, int] = {"error": 0, "excluded": 1, "warning": 2}


def group_problems(problems: Iterable[Problem]) -> list[ProblemGroup]:
    """Put together what is in the same column and calls for the same thing; what blocks saving comes first."""
    groups: dict[tuple[Severity, str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.severity, problem.column, problem.fix), []).append(problem)
    made = [_group(found) for found in groups.values()]
    return sorted(made, key=lambda g: _ORDER[g.severity])


def _group(found: list[Problem]) -> ProblemGroup:
    first = found[0]
    rows = tuple(sorted({p.row for p in found if p.row is not None}))
    if len(found) == 1:
        return ProblemGroup(first.severity, first.where, first.what, first.fix, rows, 1)
    column = f", column {first.column}" if first.column else ""
    where = f"{rows_text(rows)}{column}" if rows else first.where
    what = first.what
    if any(p.what != what for p in found):
        what = f"{what} (That is {f'row {first.row}' if first.row else 'the first'}; the others are alike.)"
    return ProblemGroup(first.severity, where, what, first.fix, rows, len(found))


def rows_text(rows: Sequence[int], most: int = 4) -> str:
    """Rows in words: "row 3", "rows 3 and 6", "rows 3, 6, 9 and 12 more"."""
    if len(rows) == 1:
        return f"row {rows[0]:,}"
    shown = [f"{row:,}" for row in (rows if len(rows) <= most else rows[: most - 1])]
    last = shown.pop() if len(rows) <= most else f"{len(rows) - len(shown):,} more"
    return f"rows {', '.join(shown)} and {last}"


DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
"""The delimiters that are read, and their names in messages."""

MAX_CELL = 1_000_000
"""Longest cell [characters]; a record with a longer one is excluded."""

MAX_ROWS = 200_000
"""Most records of a file."""

MAX_COLUMNS = 1_000
"""Most columns of a file; JSON lines could otherwise bring new ones on every line."""

MAX_COLUMN_NAME = 1_000
"""Longest name of a column [characters]."""

MAX_CELLS = 16_000_000
"""Most cells of a table; a few short records under many columns would otherwise fill the memory with nothing."""

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
        unguarded: cells whose apostrophe before a formula's sign was taken off; only tables that we wrote have them.
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
    unguarded: int = 0

    @property
    def is_guess(self) -> bool:
        """True where the user has to say first which encoding is meant."""
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
        ) + (f" The apostrophe of our export was taken off {self.unguarded:,} cells." if self.unguarded else "")

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
        candidates = [
            f"{c.encoding} ({c.title}):" + "".join(f"\n    line {number}: {text}" for number, text in c.lines)
            for c in self.candidates
        ]
        raise InputError(
            f"The encoding of {filename!r} is not certain. {self.doubt} It could be\n  "
            + "\n  ".join(candidates)
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
    """True where it holds what no text file can: NUL, or half of a surrogate pair."""
    return _UNWRITABLE.search(text) is not None


def title_above(text: str) -> Problem:
    """A title that stands above the header and is no record."""
    what = f"The title {shown(text.strip())} stands above the header; it is left out."
    return Problem("warning", "the first line", what, "Nothing, if the columns below look right.")


INDEX = "index"
"""Name of an index that a table library wrote without one."""


def with_index_named(header: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """The header with a name for its first column where only that one has none, and what is to be known about it."""
    names = list(header)
    if len(names) < 2 or names[0].strip() or not all(name.strip() for name in names[1:]):
        return names, []
    taken = {name.strip().casefold() for name in names}
    own = next(name for name in (INDEX, *(f"{INDEX} {n}" for n in range(2, 2 + len(names)))) if name not in taken)
    what = f"The first column has no name, as an index mostly has none; it is called “{own}” here."
    return [own, *names[1:]], [Problem("warning", "the header", what, "Nothing, if it is only an index.")]


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
    for name in names:
        check_name(filename, name, line)
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in first:
            raise InputError(
                f"{filename!r}: the column name {shown(name)} stands twice in the header (line {line}), as "
                f"columns {first[name] + 1} and {i + 1}. Give each column its own name."
            )
        first[name] = i


def check_name(filename: str, name: str, line: int) -> None:
    """Raises InputError for a column name longer than `MAX_COLUMN_NAME`; it is probably a text."""
    if len(name) > MAX_COLUMN_NAME:
        raise InputError(
            f"{filename!r}: {shown(name)} on line {line} cannot name a column, whose name has at most "
            f"{MAX_COLUMN_NAME:,} characters. Is the header missing, or is the delimiter another one?"
        )


def check_width(filename: str, width: int) -> None:
    """Raises InputError for more than `MAX_COLUMNS`."""
    if width > MAX_COLUMNS:
        raise InputError(f"{filename!r} has more than {MAX_COLUMNS:,} columns. Remove those that are not needed.")


def check_count(filename: str, count: int, width: int = 1) -> None:
    """Raises InputError for more than `MAX_ROWS` records, or more than `MAX_CELLS` cells at this many columns."""
    if count > MAX_ROWS:
        raise InputError(f"{filename!r} has more than {MAX_ROWS:,} records. Split it, or sample from it.")
    if count * width > MAX_CELLS:
        raise InputError(
            f"{filename!r} has more than {MAX_CELLS:,} cells in {width:,} columns. Remove columns that are not needed, "
            "or split it."
        )


def check_unpacked(filename: str, size: int) -> None:
    """Raises InputError for more than `MAX_UNPACKED` bytes."""
    if size > MAX_UNPACKED:
        raise InputError(
            f"{filename!r} unpacks to more than {MAX_UNPACKED // 1_000_000:,} MB, too much to be read. "
            "Split it, remove what is not needed, or save it as CSV."
        )


def no_records(filename: str, header: Sequence[str]) -> InputError:
    """The error for a file that has column names and nothing below them."""
    return InputError(f"{filename!r} has a header ({listed(header)}) and no records. Add one record a response.")


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


def cells_of(column: pd.Series) -> list[Any]:
    """The cells with None for what is missing; much faster than walking over a column of texts."""
    cells = np.array(column, dtype=object)
    cells[column.isna().to_numpy()] = None
    out: list[Any] = cells.tolist()
    return out

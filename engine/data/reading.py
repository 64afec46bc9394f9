"""Bytes of an uploaded file -> a table of verbatim text, with each record's line and what is wrong with it.

Nothing is stripped or normalised: a response of one space, a quoted newline and a carriage return inside a
cell come out as they went in. A damaged record is listed with a `Problem` and the rest loads; only what makes
the whole file unreadable is an `InputError`.
"""

from __future__ import annotations

import csv
import io
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

import pandas as pd

from engine.data.jsonl import JsonRecord, json_records
from engine.data.problems import Problem, place
from engine.errors import InputError

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
"""The delimiters that are read, and their names in messages."""

EXTENSIONS = (".csv", ".tsv", ".jsonl")
"""The file name endings that are read."""

MAX_CELL = 1_000_000
"""Longest cell [characters]; a record with a longer one is excluded."""

MAX_ROWS = 200_000
"""Most records of a file."""

MAX_COLUMNS = 1_000
"""Most columns of a file; JSON lines could otherwise bring new ones on every line."""

_SNIFFED_RECORDS = 20
_SHOWN_OF_LONG_CELL = 200

# csv.field_size_limit belongs to the process, so only one reader may have it raised at a time.
_field_limit_lock = threading.Lock()


@dataclass(frozen=True)
class RawTable:
    """A file as it was read.

    Attributes:
        frame: one row per record, every column of dtype str, verbatim; missing (null or absent) is NaN, an
            empty cell of a CSV file is the empty text.
        lines: for each row, the 1-based line of the file where its record starts.
        format: `csv` (any delimiter) or `jsonl`.
        encoding: `utf-8` or `utf-8-sig` (with a byte order mark).
        delimiter: what separates the cells; empty for jsonl.
        problems: what is wrong, row by row; a row with an `excluded` one does not enter a data set.
    """

    frame: pd.DataFrame
    lines: list[int]
    format: Literal["csv", "jsonl"]
    encoding: str
    delimiter: str
    problems: list[Problem] = field(default_factory=list)


def read_table(filename: str, content: bytes, *, delimiter: str | None = None) -> RawTable:
    """Read a CSV, TSV or JSON lines file.

    Args:
        filename: its ending decides the format (`.csv` and `.tsv` are read alike); it is not opened.
        content: the bytes of the file, UTF-8 with or without a byte order mark.
        delimiter: `,`, `;` or tab; None finds it from the first records. Ignored for JSON lines.

    Raises:
        InputError: the whole file cannot be read: wrong ending, empty, no records, not UTF-8, NUL bytes,
            blank or repeated column names, a quote that is never closed, too many records or columns.
    """
    ending = PurePath(filename).suffix.lower()
    if ending not in EXTENSIONS:
        raise InputError(
            f"{filename!r} does not end in {' or '.join(EXTENSIONS)}, the formats that are read. "
            "Save the table as CSV (UTF-8) or as JSON lines, one object a line."
        )
    if delimiter is not None and delimiter not in DELIMITERS:
        raise InputError(f"The delimiter {delimiter!r} is not known; allowed: {', '.join(DELIMITERS.values())}.")
    text, encoding = _decode(filename, content)
    if not text.strip():
        raise InputError(f"{filename!r} is empty. Upload a file with a header line and one record a response.")
    if ending == ".jsonl":
        return _read_jsonl(filename, text, encoding)
    return _read_csv(filename, text, encoding, delimiter or sniff_delimiter(text))


def sniff_delimiter(text: str) -> str:
    """The delimiter that splits the header and under which the first records agree best with it.

    A delimiter that the header does not hold is never chosen over one that it holds: the file would then be
    read as one column and its damaged records would pass for text. A single column is read with commas.
    """

    def fit(delimiter: str) -> tuple[bool, float, int]:
        widths: list[int] = []
        reader = csv.reader(_stream(text), delimiter=delimiter, strict=True)
        try:
            with _large_fields(len(text)):
                widths += (len(row) for row in itertools.islice(filter(None, reader), _SNIFFED_RECORDS + 1))
        except csv.Error:
            widths.append(0)  # a record that disagrees
        header, *records = widths or [0]
        agreement = sum(width == header for width in records) / len(records) if records else 1.0
        return header > 1, agreement, header

    return max(DELIMITERS, key=fit)


def _decode(filename: str, content: bytes) -> tuple[str, str]:
    encoding = "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        # utf-8-sig reports offsets counted after the byte order mark
        offset = error.start + (3 if encoding == "utf-8-sig" else 0)
        line = content.count(b"\n", 0, offset) + 1
        raise InputError(
            f"{filename!r} is not UTF-8: byte {content[offset]:#04x} at offset {offset} (line {line}) cannot "
            "be read. Save the file again as UTF-8 (in a spreadsheet: CSV UTF-8)."
        ) from None
    if "\x00" in text:
        line = text.count("\n", 0, text.index("\x00")) + 1
        raise InputError(
            f"{filename!r} holds a NUL byte on line {line}, so it is not a text file in UTF-8 (UTF-16 looks "
            "like this). Save the file again as UTF-8."
        )
    return text, encoding


@contextmanager
def _large_fields(size: int) -> Iterator[None]:
    """Let the csv module read cells of up to `size` characters, inside this block only."""
    with _field_limit_lock:
        before = csv.field_size_limit(max(size + 1, csv.field_size_limit()))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _stream(text: str) -> io.StringIO:
    return io.StringIO(text, newline="")  # keeps the line breaks inside a cell as they are


def _csv_records(filename: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line where it starts; empty lines are passed over."""
    reader = csv.reader(_stream(text), delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # A stray quote may have swallowed later records, so what follows cannot be trusted either.
            closed = "is never closed" if "unexpected end" in str(error) else "is followed by other text"
            raise InputError(
                f"{filename!r}: a quote in the record that starts on line {start} {closed} (noticed on line "
                f"{reader.line_num}, read with {DELIMITERS[delimiter]}). Close it, and write a quote inside "
                'a quoted cell twice ("").'
            ) from None
        if row:
            yield start, row


def _read_csv(filename: str, text: str, encoding: str, delimiter: str) -> RawTable:
    rows: list[Sequence[str | None]] = []
    lines: list[int] = []
    problems: list[Problem] = []
    with _large_fields(len(text)):
        records = _csv_records(filename, text, delimiter)
        header_line, header = next(records)
        _check_header(filename, header, header_line)
        for line, cells in records:
            lines.append(line)
            _check_count(filename, len(lines))
            row, found = _fit_record(cells, header, len(lines), line)
            rows.append(row)
            problems += found
    if not rows:
        raise InputError(f"{filename!r} has a header ({', '.join(header)}) and no records. Add one record a response.")
    return RawTable(_frame(rows, header), lines, "csv", encoding, delimiter, problems)


def _check_header(filename: str, header: list[str], line: int) -> None:
    names = [name.strip() for name in header]
    if "" in names:
        raise InputError(
            f"{filename!r}: column {names.index('') + 1} of {len(names)} has no name in the header "
            f"(line {line}). Name it or remove it (pandas writes one unless to_csv gets index=False)."
        )
    _check_width(filename, len(names))
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(
                f"{filename!r}: the column name {name!r} stands twice in the header (line {line}), as "
                f"columns {names.index(name) + 1} and {i + 1}. Give each column its own name."
            )


def _check_width(filename: str, width: int) -> None:
    if width > MAX_COLUMNS:
        raise InputError(f"{filename!r} has more than {MAX_COLUMNS:,} columns. Remove those that are not needed.")


def _check_count(filename: str, count: int) -> None:
    if count > MAX_ROWS:
        raise InputError(f"{filename!r} has more than {MAX_ROWS:,} records. Split it, or sample from it.")


def _fit_record(cells: list[str], header: list[str], row: int, line: int) -> tuple[list[str | None], list[Problem]]:
    """The record cut or filled to the header's width, and what is wrong with it."""
    if len(cells) != len(header):
        kind = "more" if len(cells) > len(header) else "fewer"
        problem = Problem(
            "excluded",
            place(row, line),
            f"The record has {len(cells)} cells, {kind} than the {len(header)} columns of the header.",
            "Check its delimiters, and put quotes around a cell that holds a delimiter or a line break.",
            row,
        )
        padded = [*cells, *[None] * (len(header) - len(cells))][: len(header)]
        return [_short(c) for c in padded], [problem]
    if len(header) > 1 and not any(cells):
        problem = Problem("excluded", place(row, line), "Every cell of the record is empty.", "Remove the line.", row)
        return list(cells), [problem]
    problems = [_long_cell(row, line, n, c) for n, c in zip(header, cells, strict=True) if len(c) > MAX_CELL]
    return [_short(c) for c in cells], problems


def _long_cell(row: int, line: int, column: str, cell: str) -> Problem:
    return Problem(
        "excluded",
        place(row, line, column),
        f"The cell has {len(cell):,} characters; at most {MAX_CELL:,} are read.",
        "Shorten the cell. Only this row is left out.",
        row,
    )


def _short(cell: str | None) -> str | None:
    """The cell, or the beginning of one that is too long to show; its record is excluded anyway."""
    if cell is None or len(cell) <= MAX_CELL:
        return cell
    return f"{cell[:_SHOWN_OF_LONG_CELL]} [... {len(cell):,} characters]"


def _read_jsonl(filename: str, text: str, encoding: str) -> RawTable:
    columns: dict[str, int] = {}
    records: list[JsonRecord] = []
    problems: list[Problem] = []
    for record in json_records(text):
        records.append(record)
        row = len(records)
        _check_count(filename, row)
        if record.fault:
            problems.append(Problem("excluded", place(row, record.line), record.fault, record.fix, row))
        for name, cell in record.cells.items():
            if not name.strip():
                raise InputError(f"{filename!r}: an object has a blank column name on line {record.line}. Name it.")
            columns.setdefault(name, record.line)
            if cell is not None and len(cell) > MAX_CELL:
                problems.append(_long_cell(row, record.line, name, cell))
                record.cells[name] = _short(cell)
        _check_width(filename, len(columns))
    if not columns:
        first = f"{problems[0].where}: {problems[0].what}" if problems else "every object is empty"
        raise InputError(
            f"{filename!r} has no line that can be read ({first}). Each line must be one JSON object with a response."
        )
    rows = [[record.cells.get(name) for name in columns] for record in records]
    return RawTable(_frame(rows, list(columns)), [r.line for r in records], "jsonl", encoding, "", problems)


def _frame(rows: Sequence[Sequence[str | None]], columns: list[str]) -> pd.DataFrame:
    # Column by column: pandas would otherwise guess numbers and dates from the text.
    cells = zip(*rows, strict=True)
    return pd.DataFrame(
        {name: pd.Series(list(column), dtype="str") for name, column in zip(columns, cells, strict=True)}
    )

"""A sheet of an xlsx workbook -> a table of verbatim text.

Values only: a formula counts with the value that the spreadsheet program kept beside it, and is never worked out
here; macros and links to other files are not opened. The first row that holds anything is the header.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from engine.core.errors import InputError, shown
from engine.data.raw import (
    MAX_COLUMNS,
    Problem,
    RawTable,
    cell_text,
    check_count,
    check_header,
    check_unpacked,
    frame_of,
    long_cells,
    no_records,
    place,
    short,
    unwritable,
)

CELL_LIMIT = 32_767
"""Most characters that a spreadsheet program keeps in a cell; it cuts longer ones without a word."""

_LAST_ROW = 1_048_576
_MOST_MEMBERS = 10_000
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ElementTree.ParseError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    OSError,
    EOFError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)
"""What the zip, XML and workbook code raises on a file that is not what it says."""


@dataclass(frozen=True)
class _Cell:
    column: int
    value: Any
    kind: str


def read_workbook(filename: str, content: bytes, sheet: str | None = None) -> RawTable:
    """Read one sheet.

    Args:
        filename: for messages.
        content: the bytes of the workbook.
        sheet: its name; None takes the first that is not hidden.

    Raises:
        InputError: no workbook, protected, damaged or too large when unpacked; no such sheet; a sheet without
            header or records; too many rows or columns.
    """
    with _damage_named(filename):
        _check_archive(filename, content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about styles and rules that nothing here reads
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
            try:
                chosen = _choose(filename, book.worksheets, sheet)
                without_value = _formulas_without_value(content, chosen)
                return _read(filename, chosen, [s.title for s in book.worksheets], without_value)
            finally:
                book.close()


def sheet_names(filename: str, content: bytes) -> list[str]:
    """The names of the sheets, hidden ones too.

    Raises:
        InputError: no workbook, protected, damaged or too large when unpacked.
    """
    with _damage_named(filename):
        _check_archive(filename, content)
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, keep_links=False)
        try:
            return [s.title for s in book.worksheets]
        finally:
            book.close()


@contextmanager
def _damage_named(filename: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise InputError(
            f"{filename!r} cannot be read as an xlsx workbook ({type(error).__name__}: {str(error)[:200]}). "
            "Open it in a spreadsheet program and save it again, as xlsx or as CSV UTF-8."
        ) from None


def _check_archive(filename: str, content: bytes) -> None:
    """Refuse what is no plain workbook before anything is unpacked."""
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(
            f"{filename!r} is protected with a password, or an old xls file under another name. "
            "Save it without a password as xlsx, or as CSV UTF-8."
        )
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        # zipfile never unpacks more of a member than the directory states, so this bounds what follows
        check_unpacked(filename, sum(m.file_size for m in members))
        if len(members) > _MOST_MEMBERS:
            raise InputError(f"{filename!r} has {len(members):,} parts, more than a workbook needs. Save it as CSV.")
        for member in members:
            if member.filename.endswith((".xml", ".rels")):
                with archive.open(member) as part:
                    if b"<!DOCTYPE" in part.read(2048):
                        raise InputError(f"{filename!r} defines XML entities, which no workbook needs. Save it again.")


def _choose(filename: str, sheets: list[Any], wanted: str | None) -> Any:
    names = [s.title for s in sheets]
    if wanted is not None:
        for each in sheets:
            if each.title == wanted:
                return each
        raise InputError(f"{filename!r} has no sheet {wanted!r}. Its sheets: {', '.join(names)}.")
    if not sheets:
        raise InputError(f"{filename!r} has no sheet with cells. Save the table as xlsx or CSV again.")
    return next((s for s in sheets if s.sheet_state == "visible"), sheets[0])


def _formulas_without_value(content: bytes, sheet: Any) -> set[str]:
    """Coordinates of the formulas beside which no value is kept; openpyxl shows them as empty cells."""
    found: set[str] = set()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(sheet._worksheet_path) as part:
        for _, element in ElementTree.iterparse(part):
            if element.tag == f"{_MAIN}c" and element.find(f"{_MAIN}f") is not None:
                value = element.find(f"{_MAIN}v")
                empty_text = value is not None and element.get("t") == "str"  # the kept value of ="" is no text at all
                if not (empty_text or (value is not None and value.text)) and (where := element.get("r")):
                    found.add(where)
            elif element.tag == f"{_MAIN}row":
                element.clear()
    return found


def _rows(filename: str, sheet: Any) -> Iterator[tuple[int, list[_Cell]]]:
    """Number and filled cells of each row that has any."""
    sheet.reset_dimensions()  # what a file says of its own size is often wrong, and would cut it
    for number, row in enumerate(sheet.iter_rows(), start=1):
        if number > _LAST_ROW:
            raise InputError(f"{filename!r} has a row beyond {_LAST_ROW:,}, the last of a sheet. Save it again.")
        cells = [_Cell(i, c.value, c.data_type) for i, c in enumerate(row, start=1) if c.value is not None]
        if cells:
            yield number, cells


def _read(filename: str, sheet: Any, names: list[str], without_value: set[str]) -> RawTable:
    rows = _rows(filename, sheet)
    header_row, header_cells = next(rows, (0, []))
    others = [n for n in names if n != sheet.title]
    hint = f"Choose another sheet ({', '.join(others)})" if others else "Add a header and one record a response"
    if not header_cells:
        raise InputError(f"The sheet {sheet.title!r} of {filename!r} is empty. {hint}.")
    first, width = _columns(filename, header_cells)
    header = [""] * width
    for cell in header_cells:
        header[cell.column - first] = _text(cell) or ""
    check_header(filename, header, header_row)
    table: list[list[str | None]] = []
    lines: list[int] = []
    problems: list[Problem] = []
    missing = _by_row(without_value)
    for line, cells in rows:
        lines.append(line)
        check_count(filename, len(lines))
        row, found = _record(len(lines), line, cells, header, first)
        problems += found
        problems += _unknown_values(len(lines), line, header, first, missing.pop(line, []))
        table.append(row)
    if not table:
        named = f"The sheet {sheet.title!r} of {filename!r}"
        raise InputError(f"{named} has a header ({', '.join(header)}) and no records. {hint}.")
    # a row of nothing but such formulas has no cell for openpyxl; it is named all the same
    problems += [_row_without_value(line) for line in sorted(missing) if line > header_row]
    return RawTable(frame_of(table, header), lines, "xlsx", "", "", problems, part=sheet.title, parts=names)


def _columns(filename: str, header: list[_Cell]) -> tuple[int, int]:
    """The first column of the header, and how many it spans."""
    first, last = header[0].column, header[-1].column
    if last - first + 1 > MAX_COLUMNS:
        raise InputError(f"{filename!r} has more than {MAX_COLUMNS:,} columns. Remove those that are not needed.")
    return first, last - first + 1


def _record(
    row: int, line: int, cells: list[_Cell], header: list[str], first: int
) -> tuple[list[str | None], list[Problem]]:
    out: list[str | None] = [None] * len(header)
    problems: list[Problem] = []
    outside = 0
    for cell in cells:
        index = cell.column - first
        if not 0 <= index < len(header):
            outside += 1
            continue
        out[index], problem = _checked(row, line, cell, header[index])
        problems += [problem] if problem else []
    if outside:
        what = f"The row has {outside} filled {'cell' if outside == 1 else 'cells'} outside the header's columns."
        fix = "Give the column a name in the header, or empty the cell."
        problems.append(Problem("excluded", place(row, line), what, fix, row))
    problems += long_cells(row, line, header, out)
    return [short(c) for c in out], problems


def _checked(row: int, line: int, cell: _Cell, column: str) -> tuple[str | None, Problem | None]:
    """The cell's text and what is to be known about it."""
    where = place(row, line, column)
    if cell.kind == "e":
        what = f"The cell holds the error {cell.value}; it counts as missing."
        return None, Problem("warning", where, what, "Correct the formula, or write the value itself.", row)
    text = _text(cell)
    if text is not None and unwritable(text):
        what = "The cell holds a NUL character or half of a surrogate pair, which is no text."
        return None, Problem("excluded", where, what, "Write the character itself.", row)
    if isinstance(cell.value, str) and len(cell.value) == CELL_LIMIT:
        what = f"The cell has {CELL_LIMIT:,} characters, the most a spreadsheet keeps, so its end may be missing."
        fix = "Compare it with the original; CSV, JSON and parquet files hold longer texts."
        return text, Problem("warning", where, what, fix, row)
    return text, None


def _by_row(coordinates: set[str]) -> dict[int, list[int]]:
    """Sheet row -> 1-based columns."""
    out: dict[int, list[int]] = {}
    for coordinate in coordinates:
        row, column = openpyxl.utils.cell.coordinate_to_tuple(coordinate)
        out.setdefault(row, []).append(column)
    return out


def _unknown_values(row: int, line: int, header: list[str], first: int, columns: list[int]) -> list[Problem]:
    return [
        Problem(
            "warning",
            place(row, line, header[column - first]),
            "The cell holds a formula without a kept value; it counts as missing.",
            "Open the file in a spreadsheet program and save it, or write the value itself.",
            row,
        )
        for column in sorted(columns)
        if 0 <= column - first < len(header)
    ]


def _row_without_value(line: int) -> Problem:
    return Problem(
        "warning",
        f"line {line} of the sheet",
        "The row holds nothing but formulas without a kept value; it is not read.",
        "Open the file in a spreadsheet program and save it, or write the values themselves.",
    )


def _text(cell: _Cell) -> str | None:
    if isinstance(cell.value, float) and cell.value.is_integer() and abs(cell.value) < 1e15:
        return str(int(cell.value))  # a sheet knows one kind of number: 4.0 is stored and shown as 4
    if isinstance(cell.value, str):
        # how the format spells characters that XML cannot hold, such as _x000D_ for a carriage return
        return _ESCAPED.sub(lambda m: chr(int(m[1], 16)), cell.value)
    return cell_text(cell.value)


def write_workbook(table: pd.DataFrame) -> bytes:
    """A workbook of one sheet that `read_workbook` gives back text for text; no text is a formula.

    Raises:
        InputError: a text is longer than a cell may be; the message names its row and column.
    """
    names = [str(name) for name in table.columns]
    rows = [[_held(name, 0, name) for name in names]]
    for row, values in enumerate(table.itertuples(index=False, name=None), start=1):
        rows.append([_held(value, row, name) for name, value in zip(names, values, strict=True)])
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("data")
    for held in rows:
        cells = [openpyxl.cell.WriteOnlyCell(sheet, value=value) for value in held]
        for cell, value in zip(cells, held, strict=True):
            if isinstance(value, str):
                cell.data_type = "s"  # not a formula, not an error, whatever it looks like
        sheet.append(cells)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _held(value: Any, row: int, column: str) -> Any:
    """What goes into a cell: a number as it is, a text with what XML cannot hold spelled as the format does."""
    if pd.isna(value) or not isinstance(value, str):
        return None if pd.isna(value) else value
    text = _TO_ESCAPE.sub(lambda m: f"_x{ord(m[0]):04X}_", value)
    if len(text) > CELL_LIMIT:
        raise InputError(
            f"{place(row, row + 1, shown(column))} has {len(text):,} characters, and a cell of a workbook holds "
            f"{CELL_LIMIT:,}. Write a file that ends in .csv, .jsonl or .parquet."
        )
    return text


# A parquet file -> a table of text: typed cells are spelled as JSON would spell them.

_BATCH = 256
"""Rows unpacked at once; a file whose cells are long is refused before it fills the memory."""


def read_parquet(filename: str, content: bytes) -> RawTable:
    """Read a parquet file: texts, numbers, booleans, dates, nulls, lists and structs.

    Raises:
        InputError: it is damaged or too large when unpacked, has no rows, too many, or a bad header.
    """
    rows: list[list[str | None]] = []
    problems: list[Problem] = []
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        header = list(file.schema_arrow.names)
        check_header(filename, header, 1)
        check_count(filename, file.metadata.num_rows)
        unpacked = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            unpacked += batch.nbytes
            check_unpacked(filename, unpacked)
            for cells in zip(*(_texts(column) for column in batch.columns), strict=True):
                row = len(rows) + 1
                found, kept = _checked_frame(row, header, list(cells))
                problems += found
                rows.append(kept)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{filename!r} is no readable parquet file ({str(error)[:200]}). Write it again, or save it as CSV."
        ) from None
    if not rows:
        raise no_records(filename, header)
    lines = list(range(1, len(rows) + 1))
    return RawTable(frame_of(rows, header), lines, "parquet", "", "", problems)


def _texts(column: pa.Array) -> list[str | bytes | None]:
    if pa.types.is_floating(column.type) and column.type != pa.float64():
        # the shortest spelling of a 32-bit number: 0.1, not 0.10000000149011612
        return [cell_text(None if v is None else float(str(np.float32(v)))) for v in column.to_pylist()]
    return [v if isinstance(v, bytes) else cell_text(v) for v in column.to_pylist()]


def _checked_frame(
    row: int, header: list[str], cells: list[str | bytes | None]
) -> tuple[list[Problem], list[str | None]]:
    out: list[str | None] = []
    problems: list[Problem] = []
    for name, cell in zip(header, cells, strict=True):
        text = _decoded(cell) if isinstance(cell, bytes) else cell
        if (text is None and cell is not None) or (text is not None and unwritable(text)):
            what = "The cell holds bytes that are no text, or a NUL character."
            problems.append(Problem("excluded", place(row, row, name), what, "Write the column as text.", row))
            text = None
        out.append(text)
    problems += long_cells(row, row, header, out)
    return problems, [short(c) for c in out]


def _decoded(cell: bytes) -> str | None:
    """Some writers leave out that a column of bytes is text in UTF-8."""
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        return None

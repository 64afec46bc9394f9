"""A sheet of an xlsx workbook -> a table of verbatim text.

Values only: a formula counts with the value that the spreadsheet program kept beside it, and is never worked out
here; macros and links to other files are not opened. The first row that holds anything is the header, or the next one
where the first is a title.
"""

from __future__ import annotations

import io
import itertools
import posixpath
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.core.errors import InputError, listed, shown
from engine.data.mapping import suggest_mapping
from engine.data.raw import (
    MAX_CELL,
    MAX_CELLS,
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
    title_above,
    unwritable,
    with_index_named,
)

CELL_LIMIT = 32_767
"""Most characters that a spreadsheet program keeps in a cell; it cuts longer ones without a word."""

_HEADING, _LOOKED_AT = 60, 50
"""Longest name of a column below a title [characters]; rows that are looked at for an index without a name."""
_LAST_ROW = 1_048_576
_LAST_COLUMN = 16_384
_MOST_MEMBERS = 10_000
_MOST = {
    "sheets": 256,
    "styles, names and other settings": 50_000,
    "rows": _LAST_ROW,
    "cells": 2_000_000,
    "parts of cells": 4_000_000,
    "columns in all rows together": MAX_CELLS,
    "texts": 4_000_000,
    "elements of charts, pivot tables and other parts": 1_000_000,
}
"""Most elements of each kind in the whole workbook: openpyxl makes objects of them, hundreds of bytes each."""
_READ_WHOLE = ("workbook", "styleSheet", "Types", "Relationships", "coreProperties", "Properties")
_FIXED = ("xl/workbook.xml", "xl/styles.xml", "[Content_Types].xml", "docProps/core.xml", "docProps/custom.xml")
"""Roots and places of the parts that openpyxl reads as one tree; sheets and shared texts it reads as a stream."""
_SMALL_PART = 1_000_000
_DEEPEST = 100
_LONGEST_TAG = 4_000_000
_CHUNK = 1 << 20
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
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
"""Errors of the zip, XML and workbook code on a file that is not what it says."""


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
    import openpyxl

    with _damage_named(filename):
        without_value = _scan(filename, content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about styles and rules that nothing here reads
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
            try:
                chosen = _choose(filename, book.worksheets, sheet)
                missing = without_value.get(chosen._worksheet_path, set())
                return _read(filename, chosen, [s.title for s in book.worksheets], missing)
            finally:
                book.close()


def sheet_names(filename: str, content: bytes) -> list[str]:
    """The names of the sheets, hidden ones too.

    Raises:
        InputError: no workbook, protected, damaged or too large when unpacked.
    """
    import openpyxl

    with _damage_named(filename):
        _scan(filename, content)
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


def _scan(filename: str, content: bytes) -> dict[str, set[str]]:
    """Refuse what is no plain workbook, or becomes huge when it is read, before the workbook code sees it.

    Returns:
        Part of the archive -> coordinates of its formulas beside which no value is kept, which openpyxl shows as empty.

    Raises:
        InputError: as said; the message names what there is too much of.
    """
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
        if any(m.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for m in members):
            raise InputError(f"{filename!r} is packed in a way that no spreadsheet program uses. Save it again.")
        scan = _Scan(filename)
        for member in members:
            with archive.open(member) as part:
                scan.read(member.filename, part)
        scan.check_parts({m.filename: m.file_size for m in members})
        return scan.without_value


class _Scan:
    """Counts what a workbook is made of, while it is unpacked; a part that is no XML is left at its first byte.

    Attributes:
        without_value: part -> coordinates of formulas beside which no value is kept.
    """

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._counts = dict.fromkeys(_MOST, 0)
        self._formula = self._valued = self._textual = False
        self._where = ""
        self._roots: dict[str, str] = {}
        self._main: set[str] = set()
        self._sheets: Counter[str] = Counter()
        self._targets: Counter[tuple[str, str]] = Counter()
        self.without_value: dict[str, set[str]] = {}

    def read(self, name: str, part: IO[bytes]) -> None:
        """Count one part."""
        self._name = name
        self._depth, self._cell_depth, self._column, self._widest = 0, 0, 0, 0
        self._cells_of_row = 0
        self._lone: set[str] = set()
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.StartDoctypeDeclHandler = self._doctype
        given = 0
        try:
            while chunk := part.read(_CHUNK):
                parser.Parse(chunk)
                given += len(chunk)
                if given - parser.CurrentByteIndex > _LONGEST_TAG:
                    raise self._too_much("characters in one tag")
            parser.Parse(b"", True)
        except expat.ExpatError:
            pass  # a picture; or damage, which the workbook code meets at the same place
        if self._lone:
            self.without_value[name] = self._lone

    def check_parts(self, sizes: Mapping[str, int]) -> None:
        """Refuse parts that are read in another way than they were counted, or many times over.

        Args:
            sizes: part -> bytes.
        """
        if any(self._roots.get(name) != "workbook" for name in self._main):
            raise InputError(f"{self._filename!r} has no workbook where it says. Save it again.")
        large = (sizes.get(t, 0) > _SMALL_PART and t in self._roots for (_, t), n in self._targets.items() if n > 1)
        if max(self._sheets.values(), default=0) > 1 or any(large):
            raise InputError(f"{self._filename!r} has several sheets with the same cells in the file. Save it again.")

    def _doctype(self, *_: object) -> None:
        raise InputError(f"{self._filename!r} defines XML entities, which no workbook needs. Save it again.")

    def _too_much(self, what: str) -> InputError:
        return InputError(
            f"{self._filename!r} has too many {what} to be read as a workbook. Copy the table into a new workbook, or "
            "save it as CSV UTF-8."
        )

    def _count(self, what: str, n: int = 1) -> None:
        self._counts[what] += n
        if self._counts[what] > _MOST[what]:
            raise self._too_much(f"{what} (more than {_MOST[what]:,})")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._too_much("levels of nesting")
        name = tag.rpartition(":")[2]
        if self._depth == 1:
            self._roots[self._name] = root = name
            self._whole = root in _READ_WHOLE or self._name in _FIXED or self._name.endswith(".rels")
            self._streamed = root in ("worksheet", "sst") and not self._whole
        if self._whole:
            self._note_use(name, attributes)
        if not self._streamed:
            settings = (
                "styles, names and other settings"
                if self._whole
                else "elements of charts, pivot tables and other parts"
            )
            self._count("sheets" if name == "sheet" and self._whole else settings)
        elif self._cell_depth:
            self._count("parts of cells")
            if name == "f" and self._depth == self._cell_depth + 1:
                self._formula = True
            elif name == "v":
                self._valued = self._textual  # the kept value of ="" is no text at all
                self._parser.CharacterDataHandler = self._value
        elif name == "c":
            self._start_cell(attributes)
        elif name == "row":
            self._count("rows")
            self._column = self._widest = self._cells_of_row = 0
        else:
            self._count("texts" if name in ("si", "t", "r") else "styles, names and other settings")

    def _note_use(self, name: str, attributes: dict[str, str]) -> None:
        """The part that is the workbook, and how often each part is used."""
        if name == "Override" and attributes.get("ContentType", "").endswith(".main+xml"):
            self._main.add(attributes.get("PartName", "").removeprefix("/"))
        elif name == "sheet":
            self._sheets.update(value for key, value in attributes.items() if key.endswith(":id"))
        elif name == "Relationship" and attributes.get("TargetMode") != "External":
            target = attributes.get("Target", "")
            beside = posixpath.dirname(posixpath.dirname(self._name))  # xl/_rels/workbook.xml.rels speaks for xl
            path = target[1:] if target.startswith("/") else posixpath.normpath(posixpath.join(beside, target))
            self._targets[self._name, path] += 1

    def _start_cell(self, attributes: dict[str, str]) -> None:
        self._count("cells")
        self._cell_depth = self._depth
        self._formula = self._valued = False
        self._where, self._textual = attributes.get("r", ""), attributes.get("t") == "str"
        column = 0
        for letter in self._where:
            if not "A" <= letter <= "Z":
                break
            column = column * 26 + ord(letter) - 64
            if column > _LAST_COLUMN:
                break
        self._column = column or self._column + 1
        self._cells_of_row += 1
        if max(self._column, self._cells_of_row) > _LAST_COLUMN:
            raise self._too_much(f"columns (more than {_LAST_COLUMN:,})")
        if self._column > self._widest:  # a row is filled up with empty cells to its last one
            self._count("columns in all rows together", self._column - self._widest)
            self._widest = self._column

    def _value(self, text: str) -> None:
        self._valued = self._valued or bool(text)

    def _end(self, _: str) -> None:
        if self._depth == self._cell_depth:
            self._cell_depth = 0
            if self._formula and not self._valued and self._where:
                self._lone.add(self._where)
        elif self._parser.CharacterDataHandler:
            self._parser.CharacterDataHandler = None
        self._depth -= 1


def _choose(filename: str, sheets: list[Any], wanted: str | None) -> Any:
    names = [s.title for s in sheets]
    if wanted is not None:
        for each in sheets:
            if each.title == wanted:
                return each
        raise InputError(f"{filename!r} has no sheet {shown(wanted)}. Its sheets: {listed(names)}.")
    if not sheets:
        raise InputError(f"{filename!r} has no sheet with cells. Save the table as xlsx or CSV again.")
    return next((s for s in sheets if s.sheet_state == "visible"), sheets[0])


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
    above, rows = _without_title(_rows(filename, sheet))
    header_row, header_cells = next(rows, (0, []))
    others = [n for n in names if n != sheet.title]
    hint = f"Choose another sheet ({listed(others)})" if others else "Add a header and one record a response"
    if not header_cells:
        raise InputError(f"The sheet {shown(sheet.title)} of {filename!r} is empty. {hint}.")
    first, width = _columns(filename, header_cells)
    header = [""] * width
    for cell in header_cells:
        header[cell.column - first] = _text(cell) or ""
    rows, begun = itertools.tee(rows)
    if first == 2 and all(cells[0].column == 1 for _, cells in itertools.islice(begun, _LOOKED_AT)):
        first, header = 1, ["", *header]
    header, named_index = with_index_named(header)
    check_header(filename, header, header_row)
    table: list[list[str | None]] = []
    lines: list[int] = []
    problems: list[Problem] = [*above, *named_index]
    missing = _by_row(without_value)
    for line, cells in rows:
        lines.append(line)
        check_count(filename, len(lines), len(header))
        row, found = _record(len(lines), line, cells, header, first)
        problems += found
        problems += _unknown_values(len(lines), line, header, first, missing.pop(line, []))
        table.append(row)
    if not table:
        named = f"The sheet {shown(sheet.title)} of {filename!r}"
        raise InputError(f"{named} has a header ({listed(header)}) and no records. {hint}.")
    # a row of nothing but such formulas has no cell for openpyxl; it is named all the same
    problems += [_row_without_value(line) for line in sorted(missing) if line > header_row]
    return RawTable(frame_of(table, header), lines, "xlsx", "", "", problems, part=sheet.title, parts=names)


def _without_title(
    rows: Iterator[tuple[int, list[_Cell]]],
) -> tuple[list[Problem], Iterator[tuple[int, list[_Cell]]]]:
    """The rows from the header on: a lone cell above several short, different texts is a title."""
    first, second = next(rows, None), next(rows, None)
    held = [row for row in (first, second) if row]
    if first and second and len(first[1]) == 1 and len(second[1]) > 1:
        title, names = _text(first[1][0]) or "", [_text(cell) or "" for cell in second[1]]
        short_texts = all(cell.kind in ("s", "inlineStr") for cell in second[1]) and max(map(len, names)) <= _HEADING
        if short_texts and len(set(names)) == len(names) and not suggest_mapping(pd.DataFrame(columns=[title])):
            return [title_above(title)], itertools.chain(held[1:], rows)
    return [], itertools.chain(held, rows)


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
        what = f"The cell holds the error {listed([cell.value])}; it counts as missing."
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
    import openpyxl

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
    import openpyxl

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
    """Content of a cell: a number as it is, a text with what XML cannot hold spelled as the format does."""
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
"""Rows unpacked at once."""
_MOST_IN_CELL = MAX_CELL // 2
"""Most values in one cell: with a comma between them they are longer than a cell may be."""
_NO_TEXT = (ArithmeticError, ValueError, TypeError, LookupError, RecursionError, pa.ArrowException)
"""Errors of a value that Python cannot hold: dates and times out of its range, an unknown time zone, no UTF-8."""
_NO_PARQUET = (*_NO_TEXT, OSError, NotImplementedError, MemoryError)


def read_parquet(filename: str, content: bytes) -> RawTable:
    """Read a parquet file: texts, numbers, booleans, dates, nulls, lists and structs.

    Raises:
        InputError: it is damaged or too large when unpacked, has no rows, too many, or a bad header.
    """
    rows: list[list[str | None]] = []
    problems: list[Problem] = []
    try:
        file = _opened(filename, content)
        header = list(file.schema_arrow.names)
        written = 0
        for batch in file.iter_batches(batch_size=_BATCH):
            for cells in zip(*(_texts(column) for column in batch.columns), strict=True):
                row = len(rows) + 1
                found, kept = _checked_frame(row, header, list(cells))
                problems += found
                rows.append(kept)
                written += sum(len(cell) for cell in kept if cell)
            check_unpacked(filename, written)
    except _NO_PARQUET as error:
        raise InputError(
            f"{filename!r} is no readable parquet file ({str(error)[:200]}). Write it again, or save it as CSV."
        ) from None
    if not rows:
        raise no_records(filename, header)
    lines = list(range(1, len(rows) + 1))
    return RawTable(frame_of(rows, header), lines, "parquet", "", "", problems)


def _opened(filename: str, content: bytes) -> pq.ParquetFile:
    """The file, once it is known what it unpacks to; texts stay references to a dictionary until they are read.

    Raises:
        InputError: too many rows, columns or values, or too much text, all told before any of it is written out.
    """
    schema = pq.ParquetFile(io.BytesIO(content)).schema
    columns = [schema.column(i) for i in range(len(schema))]
    texts = [c.path for c in columns if c.physical_type == "BYTE_ARRAY" and c.logical_type.type != "DECIMAL"]
    file = pq.ParquetFile(io.BytesIO(content), read_dictionary=texts)
    header = list(file.schema_arrow.names)
    check_header(filename, header, 1)
    about = file.metadata
    check_count(filename, about.num_rows, len(header))
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    check_unpacked(filename, sum(group.total_byte_size for group in groups))
    values = [sum(group.column(i).num_values for group in groups) for i in range(len(columns))]
    if sum(values) > MAX_CELLS:
        raise InputError(f"{filename!r} has more than {MAX_CELLS:,} values in its lists. Split it, or sample from it.")
    check_unpacked(filename, sum(n * max(c.length, 0) for n, c in zip(values, columns, strict=True)))
    unpacked = row = 0
    for batch in file.iter_batches(batch_size=_BATCH):
        for name, column in zip(header, batch.columns, strict=True):
            size, most = _weight(column)
            unpacked += size
            check_unpacked(filename, unpacked)
            if most > _MOST_IN_CELL and (at := _heavy_row(column)) is not None:
                raise InputError(
                    f"{filename!r}, {place(row + at + 1, row + at + 1, shown(name))}: the cell has more than "
                    f"{_MOST_IN_CELL:,} values. Leave the column out, or shorten the cell."
                )
        row += batch.num_rows
    return file


def _weight(array: pa.Array) -> tuple[int, int]:
    """Bytes of an array with every text written out, and how many single values it holds."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary)
        return pc.sum(pc.take(lengths, array.indices)).as_py() or 0, len(array)
    if pa.types.is_struct(kind):
        parts = [_weight(part) for part in array.flatten()]
        return sum(size for size, _ in parts), sum(n for _, n in parts)
    if pa.types.is_nested(kind) and hasattr(array, "flatten"):
        return _weight(array.flatten())
    return array.nbytes, len(array)


def _heavy_row(column: pa.Array) -> int | None:
    """The first row whose one cell holds too many values."""
    return next((i for i in range(len(column)) if _weight(column.slice(i, 1))[1] > _MOST_IN_CELL), None)


class _Unwritable:
    """A value for which there is no text, such as a date beyond the year 9999."""


def _texts(column: pa.Array) -> Iterator[str | bytes | _Unwritable | None]:
    # the shortest spelling of a 32-bit number: 0.1, not 0.10000000149011612
    narrow = pa.types.is_floating(column.type) and column.type != pa.float64()
    for scalar in column:
        try:
            value = scalar.as_py()
            if narrow and value is not None:
                value = float(str(np.float32(value)))
            yield value if isinstance(value, bytes) else cell_text(value)
        except _NO_TEXT:
            yield _Unwritable()


def _checked_frame(
    row: int, header: list[str], cells: list[str | bytes | _Unwritable | None]
) -> tuple[list[Problem], list[str | None]]:
    out: list[str | None] = []
    problems: list[Problem] = []
    for name, cell in zip(header, cells, strict=True):
        text = _decoded(cell) if isinstance(cell, bytes) else None if isinstance(cell, _Unwritable) else cell
        if (text is None and cell is not None) or (text is not None and unwritable(text)):
            what = "The cell holds bytes that are no text, a NUL character, or a date outside the years 1 to 9999."
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

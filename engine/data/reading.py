"""Bytes of an uploaded file -> a table of verbatim text, with each record's line and what is wrong with it.

Nothing is stripped or normalised: a response of one space, a quoted newline and a carriage return inside a
cell come out as they went in. A damaged record is listed with a `Problem` and the rest loads; only what makes
the whole file unreadable is an `InputError`. Text files are read here, workbooks and parquet in `workbook`.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import is_formula, plain_cell
from engine.core.json import check_depth
from engine.data.encodings import Decoded, decode
from engine.data.mapping import suggest_mapping
from engine.data.raw import (
    DELIMITERS,
    MAX_CELL,
    Format,
    Problem,
    RawTable,
    check_count,
    check_header,
    check_name,
    check_width,
    frame_of,
    long_cells,
    no_records,
    place,
    short,
    title_above,
    unwritable,
    with_index_named,
)
from engine.data.workbook import read_parquet, read_workbook, sheet_names

TEXT_EXTENSIONS = (".csv", ".tsv", ".jsonl", ".json")
"""Endings of files that are text, in some encoding."""

EXTENSIONS = (".csv", ".tsv", ".xlsx", ".json", ".jsonl", ".parquet")
"""The file name endings that are read."""

_OTHER_KINDS = {b"PK\x03\x04": "a zip archive such as xlsx", b"PAR1": "a parquet file", b"%PDF": "a PDF file"}


def read_table(
    filename: str,
    content: bytes,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> RawTable:
    """Read a table from a file.

    Args:
        filename: its ending decides the format (see `EXTENSIONS`); it is not opened.
        content: the bytes of the file.
        delimiter: `,`, `;` or tab, or its name; None finds it from the first records. Only for csv and tsv.
        encoding: any spelling of an encoding in `encodings.TITLES`; None takes what is certain, else guesses, and
            `RawTable.candidates` says so. Only for text files.
        sheet: of a workbook, or the key of a JSON object that holds several lists; None takes the first.

    Raises:
        InputError: the whole file cannot be read: wrong ending, empty, no records, undecodable bytes, NUL,
            blank or repeated column names, a quote that is never closed, too many records or columns.
    """
    ending = PurePath(filename).suffix.lower()
    if ending not in EXTENSIONS:
        hint = (
            "Save an old xls file as xlsx." if ending == ".xls" else "Save the table as CSV UTF-8, or as one of these."
        )
        raise InputError(f"{filename!r} does not end in {' or '.join(EXTENSIONS)}, the formats that are read. {hint}")
    if not content:
        raise InputError(f"{filename!r} is empty. Upload a file with a header line and one record a response.")
    if ending == ".xlsx":
        return read_workbook(filename, content, sheet)
    if ending == ".parquet":
        return read_parquet(filename, content)
    for start, kind in _OTHER_KINDS.items():
        if content.startswith(start):
            raise InputError(f"{filename!r} is {kind}, whatever its name says. Give it its own ending.")
    decoded = decode(filename, content, encoding)
    if not decoded.text.strip():
        raise InputError(f"{filename!r} is empty. Upload a file with a header line and one record a response.")
    if ending == ".jsonl":
        return _of_records(filename, decoded, json_records(decoded.text), "jsonl")
    if ending == ".json":
        return _read_json(filename, decoded, sheet)
    return read_delimited(filename, decoded, _delimiter(delimiter), is_tsv=ending == ".tsv")


def list_parts(filename: str, content: bytes, encoding: str | None = None) -> list[str]:
    """Values of `sheet`, for a file that could not be read as asked; empty where there is no choice."""
    ending = PurePath(filename).suffix.lower()
    try:
        if ending == ".xlsx":
            return sheet_names(filename, content)
        if ending == ".json":
            return [each.key for each in json_lists(filename, decode(filename, content, encoding).text) if each.key]
    except (InputError, JsonLinesError, IndexError):
        pass  # the reader has said what is wrong
    return []


def _delimiter(spelled: str | None) -> str | None:
    if spelled is None or spelled in DELIMITERS:
        return spelled
    for delimiter, name in DELIMITERS.items():
        if spelled.strip().lower() == name or (spelled, name) == (r"\t", "tab"):
            return delimiter
    raise InputError(f"The delimiter {shown(spelled)} is not known; allowed: {', '.join(DELIMITERS.values())}.")


def _read_json(filename: str, decoded: Decoded, key: str | None) -> RawTable:
    try:
        lists = json_lists(filename, decoded.text)
    except JsonLinesError:
        return _of_records(filename, decoded, json_records(decoded.text), "jsonl")
    keys = [each.key for each in lists if each.key]
    if key is not None and key not in keys:
        found = f"Its lists of objects: {listed(keys)}." if keys else "It is one list."
        raise InputError(f"{filename!r} has no list of objects under the key {shown(key)}. {found}")
    chosen = lists[0] if key is None else next(each for each in lists if each.key == key)
    records = list_records(filename, decoded.text, chosen.start)
    return _of_records(filename, decoded, records, "json", chosen.key, keys)


def _of_records(
    filename: str,
    decoded: Decoded,
    found: Iterable[JsonRecord],
    kind: Format,
    part: str = "",
    parts: list[str] | None = None,
) -> RawTable:
    """The table of objects; a key that some lack is missing there."""
    columns: dict[str, int] = {}
    records: list[JsonRecord] = []
    problems: list[Problem] = []
    for record in found:
        records.append(record)
        row = len(records)
        check_count(filename, row, len(columns))
        if record.fault:
            problems.append(Problem("excluded", place(row, record.line), record.fault, record.fix, row))
        for name in record.cells:
            if not name.strip():
                raise InputError(f"{filename!r}: an object has a blank column name on line {record.line}. Name it.")
            if name not in columns:
                check_name(filename, name, record.line)
                columns[name] = record.line
        problems += long_cells(row, record.line, list(record.cells), list(record.cells.values()))
        check_width(filename, len(columns))
    check_count(filename, len(records), len(columns))
    if not columns:
        first = f"{problems[0].where}: {problems[0].what}" if problems else "there is no object with a key"
        unit = "line" if kind == "jsonl" else "element"
        raise InputError(
            f"{filename!r} has no {unit} that can be read ({first}). Each must be one JSON object with a response."
        )
    return RawTable(
        frame_of([[short(record.cells.get(name)) for name in columns] for record in records], list(columns)),
        [record.line for record in records],
        kind,
        decoded.encoding,
        "",
        problems,
        candidates=decoded.candidates,
        doubt=decoded.doubt,
        part=part,
        parts=parts or [],
    )


# Text: records between delimiters, JSON lines, lists in a JSON object.

_SNIFFED_RECORDS = 20
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")

# csv.field_size_limit belongs to the process, so only one reader may have it raised at a time.
_field_limit_lock = threading.Lock()


class _QuoteError(InputError):
    """A quote does not pair up; `line` is where its record starts."""

    def __init__(self, message: str, line: int, what: str) -> None:
        super().__init__(message)
        self.line, self.what = line, what


def read_delimited(filename: str, decoded: Decoded, delimiter: str | None, *, is_tsv: bool) -> RawTable:
    """Read records whose cells stand between delimiters, quoted where they have to be.

    Many tab-separated files are not quoted at all. One whose quotes do not pair up is read as such a file, which
    is said in a problem.

    Raises:
        InputError: no record, a bad header, too many records or columns, or a quote that is never closed.
    """
    decoded, titles = _without_title(decoded)
    text = decoded.text
    if delimiter is None:
        has_tab = "\t" in text.lstrip("\r\n").partition("\n")[0]
        delimiter = "\t" if is_tsv and has_tab else sniff_delimiter(text)
    try:
        raw = _read(filename, decoded, delimiter, quoted=True)
        return replace(raw, problems=[*titles, *raw.problems])
    except _QuoteError as error:
        if not is_tsv or delimiter != "\t":
            raise
        raw = _read(filename, decoded, delimiter, quoted=False)
        problem = Problem(
            "warning",
            "the file",
            f"A quote in the record that starts on line {error.line} {error.what}, so quotes are read as ordinary "
            "characters, as in tab-separated files without quoting.",
            "Nothing, if the cells look right below; else close the quote.",
        )
        return replace(raw, problems=[*titles, problem, *raw.problems])


def _without_title(decoded: Decoded) -> tuple[Decoded, list[Problem]]:
    """The text without a title above its header: a line without a delimiter, an empty line, then one with several.

    Empty lines stand in for the title, so that later lines keep their numbers.
    """
    lines = decoded.text.split("\n", 3)
    if len(lines) < 4 or not lines[0].strip() or lines[1].strip() or any(d in lines[0] for d in DELIMITERS):
        return decoded, []
    if '"' in lines[0] or suggest_mapping(pd.DataFrame(columns=[lines[0].strip()])):
        return decoded, []
    if not any(d in lines[2] for d in DELIMITERS):
        return decoded, []
    return replace(decoded, text="\n".join(["", *lines[1:]])), [title_above(lines[0])]


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


@contextmanager
def _large_fields(size: int) -> Iterator[None]:
    """Let the csv module read cells of up to `size` characters, inside this block only."""
    with _field_limit_lock:
        before = csv.field_size_limit(max(size + 1, csv.field_size_limit()))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _stream(text: str) -> Iterator[str]:
    """Its lines with their breaks as they are; a buffer of the io module would hold four bytes a character."""
    return (line.group() for line in _LINE.finditer(text))


def _records(filename: str, text: str, delimiter: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line where it starts; empty lines are passed over."""
    stream = _stream(text)
    if quoted:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(stream, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # A stray quote may have swallowed later records, so what follows cannot be trusted either.
            what = "is never closed" if "unexpected end" in str(error) else "is followed by other text"
            raise _QuoteError(
                f"{filename!r}: a quote in the record that starts on line {start} {what} (noticed on line "
                f"{reader.line_num}, read with {DELIMITERS[delimiter]}). Close it, and write a quote inside "
                'a quoted cell twice ("").',
                start,
                what,
            ) from None
        if row:
            yield start, row


def _read(filename: str, decoded: Decoded, delimiter: str, *, quoted: bool) -> RawTable:
    rows: list[Sequence[str | None]] = []
    lines: list[int] = []
    with _large_fields(len(decoded.text)):
        records = _records(filename, decoded.text, delimiter, quoted)
        header_line, header = next(records)
        header, problems = with_index_named(header)
        check_header(filename, header, header_line)
        for line, cells in records:
            lines.append(line)
            check_count(filename, len(lines), len(header))
            if len(cells) == len(header) and 0 < max(map(len, cells)) <= MAX_CELL:
                rows.append(cells)
                continue
            row, found = _fit_record(cells, header, len(lines), line)
            rows.append(row)
            problems += found
    if not rows:
        raise no_records(filename, header)
    unguarded = 0
    if _is_our_export(decoded, delimiter, header) and not any(is_formula(c) for row in rows for c in row if c):
        unguarded = sum(cell is not None and plain_cell(cell) != cell for row in (header, *rows) for cell in row)
        rows = [[None if cell is None else plain_cell(cell) for cell in row] for row in rows]
        header = [plain_cell(name) for name in header]
    return RawTable(
        frame_of(rows, header),
        lines,
        "csv",
        decoded.encoding,
        delimiter,
        problems,
        candidates=decoded.candidates,
        doubt=decoded.doubt,
        unguarded=unguarded,
    )


def _is_our_export(decoded: Decoded, delimiter: str, header: list[str]) -> bool:
    """True where `files.safe_csv` wrote the file: its byte order mark, its quotes around every name, its line ends."""
    first = ",".join('"' + name.replace('"', '""') + '"' for name in header) + "\r\n"
    return decoded.encoding == "utf-8-sig" and delimiter == "," and decoded.text.startswith(first)


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
        return [short(c) for c in padded], [problem]
    if len(header) > 1 and not any(cells):
        problem = Problem("excluded", place(row, line), "Every cell of the record is empty.", "Remove the line.", row)
        return list(cells), [problem]
    return [short(c) for c in cells], long_cells(row, line, header, cells)


# JSON objects -> verbatim text: numbers as they are written, nested values as JSON, null as missing.
#
# They stand one a line (JSON lines), in a list, or in a list that is the value of a key of one object.


@dataclass
class JsonRecord:
    """One object of the file.

    Attributes:
        line: 1-based line where it starts.
        cells: text by key; None for null. Empty where the object could not be read.
        fault: what is wrong with it; empty where nothing is.
        fix: what the user can do about the fault.
    """

    line: int
    cells: dict[str, str | None] = field(default_factory=dict)
    fault: str = ""
    fix: str = ""


class _Number(float):
    """A float that remembers how it was written, so that 1.50 stays 1.50."""

    text: str

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class _RepeatedKeyError(ValueError):
    pass


class JsonLinesError(Exception):
    """The text is no one JSON document but JSON lines."""


@dataclass(frozen=True)
class JsonList:
    """A list of objects in a JSON document.

    Attributes:
        key: of the object that holds it; empty where the list is the document.
        start: position of its bracket in the text.
    """

    key: str
    start: int


def json_records(text: str) -> Iterator[JsonRecord]:
    r"""Each line that is not blank; lines end with \n or \r\n (a U+2028 inside a text is no line break)."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _line_record(number, line)


def json_lists(filename: str, text: str) -> list[JsonList]:
    """The lists of objects that a JSON document is or holds at its top, in its order.

    Raises:
        JsonLinesError: one complete object is followed by another.
        InputError: it is no JSON, or there is no such list in it.
    """
    start = _skip(text, 0)
    if text[start] == "[":
        return [JsonList("", start)]
    wanted = 'Write a list of objects, [{"response": "..."}, ...], or one object a line in a file that ends in .jsonl.'
    if text[start] != "{":
        raise InputError(f"{filename!r} holds neither a JSON list nor an object. {wanted}")
    found, keys, end = _members(filename, text, start)
    rest = _skip(text, end)
    if text.startswith("{", rest):
        raise JsonLinesError
    if rest < len(text):
        raise _broken(filename, json.JSONDecodeError("Extra data", text, rest))
    if not found:
        raise InputError(
            f"{filename!r} is one JSON object ({listed(keys) or 'no key'}), and no value in it is a list of objects. "
            f"{wanted}"
        )
    return found


def list_records(filename: str, text: str, start: int) -> Iterator[JsonRecord]:
    """Each element of the list whose bracket is at `start`.

    Raises:
        InputError: the text is no JSON; what is wrong with one element only is a fault of its record.
    """
    at, line, counted = _skip(text, start + 1), 1, 0
    while not text.startswith("]", at):
        line += text.count("\n", counted, at)
        counted = at
        record, end = _element(filename, text, at, line)
        yield record
        at = _skip(text, end)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith("]", at):
            raise _broken(filename, json.JSONDecodeError("Expecting ',' or ']'", text, at))
    if start == _skip(text, 0) and (rest := _skip(text, at + 1)) < len(text):
        raise _broken(filename, json.JSONDecodeError("Extra data", text, rest))


def _element(filename: str, text: str, at: int, line: int) -> tuple[JsonRecord, int]:
    """The record of the value that starts at `at`, and where it ends."""
    try:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except _RepeatedKeyError as error:
            end = _LENIENT.raw_decode(text, at)[1]
            return JsonRecord(line, fault=f"The object cannot be read: {error}.", fix="Correct the object."), end
    except (ValueError, RecursionError) as error:
        raise _broken(filename, error) from None
    try:
        check_depth(value)
    except ValueError as error:
        return JsonRecord(line, fault=f"The object cannot be read: {error}.", fix="Correct the object."), end
    return _record(line, value, "element"), end


def _members(filename: str, text: str, start: int) -> tuple[list[JsonList], list[str], int]:
    """The lists of objects among an object's values, its keys, and where it ends."""
    found: list[JsonList] = []
    keys: dict[str, None] = {}
    at = _skip(text, start + 1)
    try:
        while not text.startswith("}", at):
            key, end = _LENIENT.raw_decode(text, at)
            at = _skip(text, end)
            if not isinstance(key, str) or not text.startswith(":", at):
                raise json.JSONDecodeError("Expecting a key and ':'", text, at)
            if key in keys:
                raise InputError(f"{filename!r}: the key {shown(key)} stands twice in the object. Keep one.")
            keys[key] = None
            at = _skip(text, at + 1)
            value, end = _LENIENT.raw_decode(text, at)
            if isinstance(value, list) and any(isinstance(v, dict) for v in value):
                found.append(JsonList(key, at))
            at = _skip(text, end)
            if text.startswith(",", at):
                at = _skip(text, at + 1)
            elif not text.startswith("}", at):
                raise json.JSONDecodeError("Expecting ',' or '}'", text, at)
    except (ValueError, RecursionError) as error:
        raise _broken(filename, error) from None
    return found, list(keys), at + 1


def _broken(filename: str, error: Exception) -> InputError:
    if isinstance(error, json.JSONDecodeError):
        line, column = error.lineno, error.colno
        return InputError(
            f"{filename!r} is not valid JSON: {error.msg} at line {line}, character {column}. "
            "Correct it there, or write it again."
        )
    return InputError(f"{filename!r} holds a number or nesting beyond bounds. Write simpler JSON.")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _line_record(number: int, line: str) -> JsonRecord:
    try:
        value = _DECODER.decode(line)
        check_depth(value)
    except json.JSONDecodeError as error:
        return JsonRecord(
            number,
            fault=f"The line is not valid JSON: {error.msg} at character {error.pos + 1}.",
            fix="Write one JSON object a line, with line breaks inside a text as \\n.",
        )
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _RepeatedKeyError) else "it holds a number or nesting beyond bounds"
        return JsonRecord(number, fault=f"The line cannot be read: {reason}.", fix="Correct the object.")
    return _record(number, value, "line")


def _record(number: int, value: object, place: str) -> JsonRecord:
    if not isinstance(value, dict):
        return JsonRecord(
            number,
            fault=f"The {place} holds {_kind(value)}, not an object.",
            fix='Write each record as an object: {"response": "...", ...}.',
        )
    cells = {key: _text(cell) for key, cell in value.items()}
    return _without_unwritable(number, cells)


def _without_unwritable(number: int, cells: dict[str, str | None]) -> JsonRecord:
    """Refuse what JSON escapes can spell and no text file can hold: NUL and half a surrogate pair."""
    for key, cell in cells.items():
        if unwritable(key) or unwritable(cell or ""):
            spelled = key[:60].encode("ascii", "backslashreplace").decode("ascii")
            return JsonRecord(
                number,
                fault=f"{spelled} holds a NUL character or half of a surrogate pair, which is no text.",
                fix="Write the character itself, or a whole pair such as \\ud83d\\ude00.",
            )
    return JsonRecord(number, cells)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, _Number):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def _constant(name: str) -> str | None:
    """Python writes a missing number as NaN, which is not JSON; read it as null."""
    return None if name == "NaN" else name


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise _RepeatedKeyError(f"the key {shown(key)} stands twice in one object")
        out[key] = value
    return out


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_float=_Number, parse_constant=_constant, object_pairs_hook=_object_without_repeats)
# Finds where a value ends, whatever it holds.
_LENIENT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)

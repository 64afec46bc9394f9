"""Bytes of an uploaded file -> a table of verbatim text, with each record's line and what is wrong with it.

Nothing is stripped or normalised: a response of one space, a quoted newline and a carriage return inside a
cell come out as they went in. A damaged record is listed with a `Problem` and the rest loads; only what makes
the whole file unreadable is an `InputError`. One module a kind of file; all give the same `RawTable`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from engine.core.errors import InputError, listed, shown
from engine.data.encodings import Decoded, decode
from engine.data.raw import (
    DELIMITERS,
    Format,
    Problem,
    RawTable,
    check_count,
    check_name,
    check_width,
    frame_of,
    long_cells,
    place,
    short,
)
from engine.data.text_files import JsonLinesError, JsonRecord, json_lists, json_records, list_records, read_delimited
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

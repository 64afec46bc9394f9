"""Text with delimiters (csv, tsv) -> a table of verbatim text."""

from __future__ import annotations

import csv
import io
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.data.encodings import Decoded
from engine.data.problems import Problem, place
from engine.data.raw import DELIMITERS, RawTable, check_count, check_header, frame_of, long_cells, no_records, short
from engine.errors import InputError

_SNIFFED_RECORDS = 20

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
    text = decoded.text
    if delimiter is None:
        has_tab = "\t" in text.lstrip("\r\n").partition("\n")[0]
        delimiter = "\t" if is_tsv and has_tab else sniff_delimiter(text)
    try:
        return _read(filename, decoded, delimiter, quoted=True)
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
        return replace(raw, problems=[problem, *raw.problems])


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


def _stream(text: str) -> io.StringIO:
    return io.StringIO(text, newline="")  # keeps the line breaks inside a cell as they are


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
    problems: list[Problem] = []
    with _large_fields(len(decoded.text)):
        records = _records(filename, decoded.text, delimiter, quoted)
        header_line, header = next(records)
        check_header(filename, header, header_line)
        for line, cells in records:
            lines.append(line)
            check_count(filename, len(lines))
            row, found = _fit_record(cells, header, len(lines), line)
            rows.append(row)
            problems += found
    if not rows:
        raise no_records(filename, header)
    return RawTable(
        frame_of(rows, header),
        lines,
        "csv",
        decoded.encoding,
        delimiter,
        problems,
        candidates=decoded.candidates,
        doubt=decoded.doubt,
    )


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

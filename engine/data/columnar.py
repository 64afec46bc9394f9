"""A parquet file -> a table of text: typed cells are spelled as JSON would spell them."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.data.problems import Problem, place
from engine.data.raw import (
    RawTable,
    cell_text,
    check_count,
    check_header,
    check_unpacked,
    frame_of,
    long_cells,
    no_records,
    short,
    unwritable,
)
from engine.errors import InputError

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
                found, kept = _checked(row, header, list(cells))
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


def _checked(row: int, header: list[str], cells: list[str | bytes | None]) -> tuple[list[Problem], list[str | None]]:
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

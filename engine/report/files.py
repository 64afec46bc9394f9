"""A report as files: figures for paper, tables, scripts; in a folder or in one zip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence

from engine.errors import EngineError
from engine.figures.export import render
from engine.report.basket import Report
from engine.report.filled import Filled
from engine.report.page import report_html
from engine.report.tables import strict_table
from engine.spreadsheet import safe_csv

FORMATS = ("svg", "pdf", "png")
File = tuple[str, bytes]


def figure_files(pieces: Sequence[Filled], fmt: str, columns: str) -> Iterator[File]:
    """Every figure drawn for paper.

    Args:
        pieces: of a report.
        fmt: svg, pdf or png.
        columns: single or double.

    Raises:
        RenderError: Chrome is missing or failed.
        InputError: another format or width.
    """
    for piece in pieces:
        if piece.figure is not None:
            yield f"{piece.name}.{fmt}", render(piece.figure, fmt, columns=columns)


def data_files(pieces: Sequence[Filled]) -> Iterator[File]:
    """Every table as CSV that is safe for spreadsheets, and as strict JSON."""
    for piece in pieces:
        if piece.table is not None:
            yield f"{piece.name}.csv", safe_csv(piece.table)
            yield f"{piece.name}.json", strict_table(piece).encode("utf-8")


def script_files(pieces: Sequence[Filled]) -> Iterator[File]:
    """The script of every figure that can be made again."""
    for piece in pieces:
        if piece.script:
            yield f"{piece.name}.py", piece.script.encode("utf-8")


def caption_file(pieces: Sequence[Filled]) -> File:
    """Every caption as plain text."""
    said = [f"{p.label}. {p.caption}\n({p.where or p.problem})" for p in pieces if p.number]
    return "captions.txt", ("\n\n".join(said) + "\n").encode("utf-8")


def everything(report: Report, pieces: Sequence[Filled], fmt: str, columns: str) -> Iterator[File]:
    """HTML, figures, tables, scripts and captions; without Chrome a text says what to do instead of the figures."""
    yield "report.html", report_html(report, pieces).encode("utf-8")
    yield caption_file(pieces)
    yield from data_files(pieces)
    yield from script_files(pieces)
    try:
        yield from figure_files(pieces, fmt, columns)
    except EngineError as error:
        yield "figures-missing.txt", f"{error}\n".encode()


def zipped(files: Iterator[File]) -> bytes:
    """The files in one zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()

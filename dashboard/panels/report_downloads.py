"""The report as one page and as files, made when they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import streamlit as st

from dashboard import picking, ui
from dashboard.panels.report_parts import filled
from engine.errors import EngineError
from engine.figures.export import can_render
from engine.report import files
from engine.report.basket import Report
from engine.report.filled import Filled, numbered
from engine.report.page import report_html

FORMAT, COLUMNS = "report_format", "report_columns"
WIDTHS = {"single": "One column, 85 mm", "double": "Two columns, 170 mm"}
ZIP = "application/zip"


def one_page() -> None:
    """The report for a reader, in one press wherever one is on the page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.download("One HTML page", _page, "report.html", "text/html", key="report_html", type="primary")
        ui.note("Figures that zoom, captions, data and scripts in one file of about 5 MB that opens without a network.")


def downloads(report: Report) -> None:
    """One button for each kind of file for a paper."""
    missing = [made for made in made_of(report) if made.problem]
    for made in missing:
        ui.warn(f"{made.label}, “{made.piece.title}”, is left out: {made.problem}")
    with st.container(horizontal=True, gap="medium"):
        fmt = st.segmented_control(
            "Figures as", list(files.FORMATS), default="pdf", format_func=str.upper, key=FORMAT, required=True,
            persist_state="session",
        )  # fmt: skip
        columns = st.segmented_control(
            "Width on paper", list(WIDTHS), default="single", format_func=WIDTHS.__getitem__, key=COLUMNS,
            required=True, persist_state="session",
        )  # fmt: skip
    if not can_render():
        ui.note(
            "No Chrome was found, so figures cannot be drawn as files. The page has a camera on each figure that saves "
            "it as SVG; the zip of everything holds all the rest."
        )
    given = (str(fmt), str(columns))
    with st.container(horizontal=True, gap="small"):
        if can_render():
            _zip("Figures (zip)", "figures", lambda made: files.figure_files(made, *given))
        _zip("Data (zip)", "data", files.data_files)
        _zip("Scripts (zip)", "scripts", files.script_files)
        ui.download("Everything (zip)", lambda: _everything(*given), "report.zip", ZIP, key="report_everything")
    ui.note(
        "Figures keep type of 7 pt or more at that width and can be told apart in grey; a PDF carries its fonts. Data "
        "are CSV that is safe to open in a spreadsheet, and strict JSON. A script makes its figure again from the run "
        "folder."
    )


def made_of(report: Report) -> list[Filled]:
    """Every part with its figure, in light colours."""
    return [filled(piece, number) for piece, number in numbered(report)]


def _zip(label: str, name: str, of: Callable[[list[Filled]], Iterator[files.File]]) -> None:
    def make() -> bytes:
        made = made_of(picking.report())
        try:
            return files.zipped(iter([*of(made), files.caption_file(made)]))
        except EngineError as error:
            return files.zipped(iter([("not-made.txt", f"{error}\n".encode()), files.caption_file(made)]))

    ui.download(label, make, f"report-{name}.zip", ZIP, key=f"report_{name}")


def _page() -> bytes:
    report = picking.report()
    return report_html(report, made_of(report)).encode("utf-8")


def _everything(fmt: str, columns: str) -> bytes:
    report = picking.report()
    return files.zipped(files.everything(report, made_of(report), fmt, columns))

"""Report: the figures that were picked, in order, with captions and notes; as one page and as files."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from dashboard import report_picks, ui
from dashboard.pages.report.parts import (
    downloads,
    head,
    one_page,
    opening,
    parts,
    preview,
    put_back,
    take_from_run,
)
from engine.core.errors import EngineError
from engine.plots.text import listed, plural

EDIT, PREVIEW, FILES = "Arrange", "Preview", "Download"

frame = ui.page_frame("Report")
try:
    report = report_picks.report()
except EngineError as error:
    ui.show_error(error, "The report cannot be opened.")
else:
    kinds = Counter(piece.kind for piece in report.pieces)
    with frame.banner:
        put_back(report)
    if report.pieces:
        held = listed([plural(kinds[kind], kind) for kind in ("figure", "table", "note") if kinds[kind]])
        frame.headline(f"{held} in this report.")
        with frame.actions:
            one_page()
        with frame.hero:
            head(report)
            ui.bullets(opening(report))
        with frame.body:
            edit, show, files = st.tabs(
                [EDIT, PREVIEW, FILES], key="report_tab", bind="query-params", on_change="rerun"
            )
            if edit.open:
                with edit:
                    parts(report)
                    take_from_run(report)
            if show.open:
                with show:
                    preview(report)
            if files.open:
                with files:
                    downloads(report)
    else:
        ui.nothing_yet(
            "The report is empty. “Add to report” stands below every figure; or take figures of a run here.",
            "pages/attack_lab/page.py",
            "Attack lab",
        )
        take_from_run(report)

"""The report as a reader will see it; text is shown verbatim."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.panels.marked import show_verbatim
from dashboard.panels.report_parts import draw_piece, filled
from engine.report.basket import Report
from engine.report.filled import numbered


def preview(report: Report) -> None:
    """Title, authors, then every part with its caption."""
    ui.finding(report.title.strip() or "Report")
    ui.note(report.authors)
    for place, (piece, number) in enumerate(numbered(report)):
        if piece.kind == "note":
            if piece.text.strip():
                show_verbatim(piece.text, label=f"Note {place + 1}")
            continue
        made = filled(piece, number, ui.mode())
        if made.problem:
            ui.show_error(made.problem, f"{made.label} cannot be made now.")
            continue
        draw_piece(made, key=f"report_preview_{piece.piece_id}")
        ui.note(f"{made.label}. {made.caption}")
        st.divider()

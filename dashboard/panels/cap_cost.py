"""What a defense costs when nobody attacks: agreement with ratings, tokens, seconds; and what anchors do."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.panels.cap_view import CapView
from engine.gallery.cap import ROWS, row_figure


def cost(view: CapView) -> None:
    """Four small figures, each with its own unit."""
    if not len(view.metrics):
        ui.note("Costs are known when the attacks have been run.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        rows_figure(view, "spearman")
        rows_figure(view, "gap")
    with right:
        rows_figure(view, "tokens")
        rows_figure(view, "effect")
    rows_figure(view, "seconds")
    ui.note(
        "Seconds are wall time of what was asked anew in this run, batches shared, other work on the machine included; "
        "an arm whose answers came from the cache has none. Exchanged: mean absolute change; shown: mean change "
        "against no anchors."
    )


def rows_figure(view: CapView, name: str) -> None:
    """A figure with a row for each defense or attack; a note where the run did not measure it."""
    if len(row_figure(name, view.metrics)):
        ui.show_entry(view.source, name, key=f"cap_{name}")
    else:
        ui.note(f"{ROWS[name].title} Not measured in this run.")

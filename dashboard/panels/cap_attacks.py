"""Do anchors hold the score? Every attack behind every defense, suffix lengths, comparative against absolute."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.panels.cap_cost import rows_figure
from dashboard.panels.cap_view import CapView
from engine.gallery.cap import UNITS, lengths, row_figure, units_of

_CAPTIONS = {
    "shift": "Attacked minus clean score under the same defense.",
    "from_undefended": "Attacked score behind the defense minus the clean score without one: where a defense itself "
    "moves clean scores, this is away from zero even without a shift.",
}


def attacks(view: CapView) -> None:
    """The grid first, then one figure for each further question."""
    if not len(view.metrics):
        ui.note("The attacks come last in a run; they appear here when it gets to them.")
        return
    _grid(view)
    left, right = st.columns(2, gap="large")
    with left:
        if len(lengths(view.metrics)):
            ui.show_entry(view.source, "lengths", key="cap_lengths")
        else:
            ui.note("The run tried no suffixes of several lengths.")
    with right:
        if len(row_figure("comparative", view.metrics)):
            rows_figure(view, "comparative")
        else:
            ui.note("This judge has no pairwise prompt, so comparative judging was not measured.")


@st.fragment
def _grid(view: CapView) -> None:
    metric = st.segmented_control(
        "Shift in", list(units_of(view.metrics)), default="shift", format_func=UNITS.get, key="cap_unit", required=True
    )
    ui.show_entry(
        view.source,
        "grid",
        key="cap_grid",
        caption=_CAPTIONS.get(str(metric), _CAPTIONS["shift"]) + " An unread response leaves its arm, not the others.",
        metric=str(metric),
    )

"""Do anchors hold the score? Every attack behind every defense, suffix lengths, comparative against absolute."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.panels import cap_findings, findings
from dashboard.panels.cap_view import CapView
from engine import catalog
from engine.figures import attack as figures
from engine.figures import cap_lengths, cap_rows
from engine.schema import NONE

UNITS = {"shift": "Points", "relative_shift": "% of the clean mean"}


def attacks(view: CapView) -> None:
    """The grid first, then one figure for each further question."""
    if not len(view.metrics):
        ui.note("The attacks come last in a run; they appear here when it gets to them.")
        return
    titles = cap_findings.titles_of(view.metrics)
    note = findings.origin(view.manifest, recorded=view.recorded)
    _grid(view, titles, note)
    left, right = st.columns(2, gap="large")
    with left:
        prepared = cap_lengths.prepare_cap_lengths(view.metrics, catalog.parse_attack("suffix").length)
        named = {NONE: "No defense", **titles}
        if prepared.empty:
            ui.note("The run tried no suffixes of several lengths.")
        else:
            ui.show_figure(
                lambda mode: cap_lengths.plot_cap_lengths(prepared, titles=named, mode=mode, note=note),
                prepared,
                key="cap_lengths",
            )
    with right:
        _comparative(view, titles, note)


@st.fragment
def _grid(view: CapView, titles: dict[str, str], note: str) -> None:
    metric = st.segmented_control(
        "Shift in", list(UNITS), default="shift", format_func=UNITS.get, key="cap_unit", required=True
    )
    prepared = figures.prepare_grid(_main(view.metrics), metric=str(metric), titles=titles)
    ui.show_figure(
        lambda mode: figures.plot_grid(prepared, mode=mode, title="Do anchors hold the score?", note=note),
        prepared,
        key="cap_grid",
        caption="Attacked minus clean score under the same defense. An unread response leaves its arm, not the others.",
    )


def _main(metrics: pd.DataFrame) -> pd.DataFrame:
    """Attacks that every defense met; suffixes of other lengths have a figure of their own."""
    shifts = metrics[metrics["metric"] == "shift"]
    met = shifts.groupby("attack")["defense"].nunique()
    return metrics[metrics["attack"].isin(met[met == met.max()].index) | (metrics["attack"] == NONE)]


def _comparative(view: CapView, titles: dict[str, str], note: str) -> None:
    series = {"absolute_shift_sd": "score, absolute", "comparative_shift_sd": "preference, comparative"}
    prepared = cap_rows.prepare_cap_rows(view.metrics, series, by="attack", titles=titles)
    if prepared.empty:
        ui.note("This judge has no pairwise prompt, so comparative judging was not measured.")
        return
    colours = {"score, absolute": "attacked", "preference, comparative": "clean"}
    ui.show_figure(
        lambda mode: cap_rows.plot_cap_rows(
            prepared, title="Is comparing more robust than scoring?", axis="shift, in clean standard deviations",
            colours=colours, mode=mode, note=note,
        ),
        prepared,
        key="cap_comparative",
    )  # fmt: skip

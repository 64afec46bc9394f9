"""What a defense costs when nobody attacks: agreement with ratings, tokens, seconds; and what anchors do."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.panels import cap_findings, findings
from dashboard.panels.cap_view import CapView
from engine.figures import cap_rows
from engine.schema import NONE

_ALONE, _SHARED = "one response, alone", "16 responses × 4 attacks share the anchors"


def cost(view: CapView) -> None:
    """Four small figures, each with its own unit."""
    if not len(view.metrics):
        ui.note("Costs are known when the attacks have been run.")
        return
    left, right = st.columns(2, gap="large")
    with left:
        _rows(view, {"spearman": "Spearman"}, "Do clean scores still agree with ratings?", "Spearman with the ratings",
              {"Spearman": "human"}, "cap_spearman")  # fmt: skip
        _rows(view, {"anchor_gap": "high − low anchor"}, "Are the anchors apart for the judge?",
              "undefended score, high − low (points)", {"high − low anchor": "high"}, "cap_gap")  # fmt: skip
    with right:
        _rows(view, {"tokens_alone": _ALONE, "tokens_shared": _SHARED}, "How many tokens does a verdict take?",
              "tokens per verdict", {_ALONE: "attacked", _SHARED: "defended"}, "cap_tokens", positive=True)  # fmt: skip
        _rows(view, {"anchor_effect": "anchors exchanged", "anchor_lift": "anchors shown"},
              "Does the judge read its anchors?", "change of the clean score (points)",
              {"anchors exchanged": "defended", "anchors shown": "clean"}, "cap_effect")  # fmt: skip
    _rows(view, {"seconds_alone": _ALONE, "seconds_shared": _SHARED}, "How long does a verdict take?",
          "seconds per verdict", {_ALONE: "attacked", _SHARED: "defended"}, "cap_seconds", positive=True)  # fmt: skip
    ui.note(
        "Seconds are wall time of what was asked anew in this run, batches shared, other work on the machine included; "
        "an arm whose answers came from the cache has none. Exchanged: mean absolute change; shown: mean change "
        "against no anchors."
    )


def _rows(
    view: CapView,
    series: dict[str, str],
    title: str,
    axis: str,
    colours: dict[str, str],
    key: str,
    *,
    positive: bool = False,
) -> None:
    metrics = view.metrics[(view.metrics["attack"] == NONE) & view.metrics["value"].notna()]
    titles = {NONE: "No defense", **cap_findings.titles_of(metrics)}
    prepared = cap_rows.prepare_cap_rows(metrics, series, titles=titles)
    note = findings.origin(view.manifest, recorded=view.recorded)
    ui.show_figure(
        lambda mode: cap_rows.plot_cap_rows(
            prepared, title=title, axis=axis, colours=colours, positive=positive, mode=mode, note=note
        ),
        prepared,
        key=key,
    )

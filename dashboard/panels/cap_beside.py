"""Two tutors side by side: what each tutor's anchors do to the same judge on the same data."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels import cap_findings, findings
from dashboard.panels.cap_view import CAP, CapView, extended, view_of
from dashboard.panels.run_table import run_table
from dashboard.watching import RECORDED, runs_about, version_of
from engine.data.store import DEMO_NAMES
from engine.errors import EngineError
from engine.figures import cap_rows
from engine.figures.text import three_digits
from engine.gallery.words import cap_titles
from engine.schema import NONE

BESIDE = "cap_beside"
_MEANINGS = ("attacked", "defended", "high")
"""Colours of the undefended judge, of the first tutor and of the second."""


def beside(view: CapView, judge: str, dataset_id: str) -> None:
    """The other tutor's run, then the shifts behind both, and the chain of reasons for each."""
    others = _others(view, judge, dataset_id)
    if not others:
        ui.note(
            f"Every run of this judge on these data is by the tutor {tutor_of(view)}. Choose another tutor in “Run the "
            "study on this data”, and both stand here side by side (the paper's CAP_L and CAP_M)."
        )
        return
    state.seed(BESIDE, list(others), next(iter(others)))
    chosen = ui.pick("The other tutor", list(others), key=BESIDE, title=lambda run_id: _title(others[run_id]))
    other = others[chosen]
    names = _names(view, other)
    _shifts(view, other, names)
    facts = pd.DataFrame(_facts(view, other, names))
    st.dataframe(facts, hide_index=True, key="cap_beside_facts")
    run_table(view, facts, title="Two tutors side by side", key="cap_beside_kept", file="two_tutors.csv")
    first, second = ({one.question: one for one in cap_findings.diagnosis(v)} for v in (view, other))
    rows = [
        {
            "Question": ui.plain(question),  # a table's cells are read as Markdown
            ui.plain(names[0]): ui.plain(_said(first.get(question))),
            ui.plain(names[1]): ui.plain(_said(second.get(question))),
        }
        for question in dict.fromkeys([*first, *second])
    ]
    st.table(pd.DataFrame(rows).set_index("Question"), border="horizontal")


def tutor_of(view: CapView) -> str:
    """The spec of a run's tutor."""
    return str(view.manifest.get("tutor", {}).get("spec") or view.manifest.get("config", {}).get("tutor", ""))


def _others(view: CapView, judge: str, dataset_id: str) -> dict[str, CapView]:
    """The newest run of each other tutor that judged something, by run id."""
    found: dict[str, CapView] = {}
    for manifest in (m for m in runs_about(judge, dataset_id) if m.get("study") == CAP):
        _add(found, view, str(manifest["run_id"]), f"{version_of(manifest)} {extended(manifest)}")
    if dataset_id in DEMO_NAMES:
        _add(found, view, RECORDED + dataset_id, "recorded")
    return found


def _add(found: dict[str, CapView], view: CapView, run_id: str, version: str) -> None:
    try:
        one = view_of(run_id, version)
    except EngineError:  # a damaged run must not hide the others
        return
    if one is None or not len(one.metrics) or one.manifest.get("judge", {}).get("spec") != _judge(view):
        return
    if tutor_of(one) not in {tutor_of(view), *(tutor_of(other) for other in found.values())}:
        found[run_id] = one


def _judge(view: CapView) -> str:
    return str(view.manifest.get("judge", {}).get("spec", ""))


def _title(view: CapView) -> str:
    return f"{tutor_of(view)}, {findings.provenance(view.manifest, recorded=view.recorded)}"


def _names(view: CapView, other: CapView) -> tuple[str, str]:
    return f"CAP by {tutor_of(view)}", f"CAP by {tutor_of(other)}"


def _shifts(view: CapView, other: CapView, names: tuple[str, str]) -> None:
    parts = []
    for source, defense, name in ((view, NONE, "no defense"), (view, CAP, names[0]), (other, CAP, names[1])):
        own = source.metrics[(source.metrics["metric"] == "shift") & (source.metrics["defense"] == defense)]
        parts.append(own.assign(metric=name))
    both = set(parts[1]["attack"]) & set(parts[2]["attack"])
    joined = pd.concat(parts)
    joined = joined[joined["attack"].isin(both)]
    titles = cap_titles(joined)
    series = {name: name for name in ("no defense", *names)}
    prepared = cap_rows.prepare_cap_rows(joined, series, by="attack", titles=titles)
    colours = dict(zip(series, _MEANINGS, strict=True))
    note = f"{findings.origin(view.manifest, recorded=view.recorded)}; the other run is named above"
    ui.show_figure(
        lambda mode: cap_rows.plot_cap_rows(
            prepared, title="Do another tutor's anchors hold the score better?", axis="shift of the mean score, points",
            colours=colours, mode=mode, note=note,
        ),
        prepared,
        key="cap_beside_fig",
    )  # fmt: skip


def _facts(view: CapView, other: CapView, names: tuple[str, str]) -> list[dict[str, str]]:
    asked = {
        "Layers of the tutor": lambda v: str(v.manifest.get("tutor", {}).get("layers", "")),
        "Layer steered": lambda v: str(v.cap.get("layer", "")),
        "Separability there, after PCA": _separability,
        "Standards, low and high": lambda v: _pair(v.cap, "standard_low", "standard_high"),
        "Alphas, low and high": lambda v: _pair(v.cap, "alpha_low", "alpha_high"),
    }
    rows = [{"": name, names[0]: read(view), names[1]: read(other)} for name, read in asked.items()]
    for metric, name in (("anchor_gap", "High anchor above low one"), ("spearman", "Spearman with ratings")):
        rows.append({"": name, names[0]: cap_findings.behind_cap(view, metric), names[1]:
                     cap_findings.behind_cap(other, metric)})  # fmt: skip
    return rows


def _separability(view: CapView) -> str:
    own = view.layers[(view.layers["space"] == "pca") & (view.layers["layer"] == view.cap.get("layer"))]
    if not len(own):
        return ""
    row = own.iloc[0]
    return f"{three_digits(row['value'])} (95 % of the null below {three_digits(row['null_high'])})"


def _pair(held: dict[str, Any], *keys: str) -> str:
    return ", ".join(three_digits(float(held[k])) if held.get(k) is not None else "–" for k in keys)


def _said(one: cap_findings.Answer | None) -> str:
    return f"{one.answer}. {one.numbers}" if one else "not measured"

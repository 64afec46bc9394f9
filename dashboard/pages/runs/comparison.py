"""Two runs side by side: how far apart, in which settings they differ, which calls differ most."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.runs.drift import drift
from dashboard.run_view import RunView, read, version_of
from engine.core.errors import EngineError
from engine.core.files import safe_csv
from engine.core.settings import get_settings
from engine.plots.compare import MOST_ROWS, NAMES, plot_compare, prepare_compare
from engine.plots.text import interval_text, plural
from engine.runs.compare import SAME, Comparison, compare_runs, differing_settings, same_responses, same_scale

TABS = ("Differences", "Drift")
UNIT, WHAT = "compare_unit", "compare_what"
UNITS = {"points": "Scores", "share": "Shares", "own unit": "The studies' own metrics"}
MOST_CALLS = 200
MOST_AT_ONCE = 12
"""Rows of a forest from which on one quantity is shown first rather than all."""


def comparison(first_id: str, second_id: str) -> None:
    """Everything about two runs."""
    try:
        first, second = read(first_id), read(second_id)
        found = _compared(first_id, second_id, version_of(first.manifest), version_of(second.manifest))
    except EngineError as error:
        ui.show_error(error, "These runs cannot be compared.")
        return
    names = [run.title or run.run_id for run in (first, second)]
    st.subheader("Second minus first", anchor=False)
    ui.facts({"First": names[0], "Second": names[1]})
    differences, gate = st.tabs(TABS, key="compare_tab", on_change="rerun", bind="query-params")
    if differences.open:
        with differences:
            _differences(found, first, second, names)
    if gate.open:
        with gate:
            drift(first, second)


def _differences(found: Comparison, first: RunView, second: RunView, names: list[str]) -> None:
    ui.finding(_sentence(found))
    only = f"{plural(found.only_a, 'call')} only in the first, {found.only_b:,} only in the second"
    ui.note(f"{plural(found.matched, 'judge call')} made by both; {only}.")
    for remark in found.remarks:
        ui.warn(remark)
    _settings(first, second)
    if len(found.differences):
        _forest(found, f"{names[1]} − {names[0]}")
    else:
        ui.nothing_yet("The two runs have no judge call and no metric in common, so there is nothing to subtract.")
    _calls(found, _both(first, second))


@st.cache_resource(max_entries=8, show_spinner="Comparing")
def _compared(first_id: str, second_id: str, first_version: str, second_version: str) -> Comparison:
    del first_version, second_version  # part of the cache key only
    runs = [read(run_id) for run_id in (first_id, second_id)]
    ids = [str(run.manifest.get("data", {}).get("dataset_id") or run.data) for run in runs]
    settings = get_settings()
    same = same_responses(*ids, datasets=settings.datasets, comparisons=settings.comparisons)
    verdicts = (runs[0].folder.table("verdicts"), runs[1].folder.table("verdicts"))
    metrics = (runs[0].folder.table("metrics"), runs[1].folder.table("metrics"))
    return compare_runs(verdicts, metrics, same=same, same_scale=same_scale(runs[0].manifest, runs[1].manifest))


def _sentence(found: Comparison) -> str:
    """The clearest difference of all paired ones, or that there is none."""
    paired = found.differences[(found.differences["paired"] == 1) & found.differences["q_value"].notna()]
    if paired.empty:
        return "Nothing that both judged can be paired; the metrics both runs hold are compared below."
    if (paired["value"] == 0).all():
        return f"Both runs gave the same answers: all {len(paired)} paired differences are 0."
    clear = paired[paired["q_value"] < 0.05]
    if clear.empty:
        return f"None of {plural(len(paired), 'paired difference')} is clear of zero (false discovery rate 5 %)."
    row = clear.sort_values("q_value", kind="stable").iloc[0]
    factor = 100.0 if row["unit"] == "share" else 1.0
    numbers = interval_text(
        *(factor * float(row[k]) for k in ("value", "lower", "upper")), signed=True,
        unit="points of 100" if factor > 1 else "points",
    )  # fmt: skip
    titles = findings.short_titles(paired)
    arm = ", ".join(titles[str(row[k])] for k in ("attack", "defense") if row[k] not in ("", "none")) or "clean"
    what = NAMES.get(str(row["what"]), str(row["what"]))
    verb = "is" if len(clear) == 1 else "are"
    count = f"{len(clear)} of {plural(len(paired), 'paired difference')} {verb} clear of zero"
    return f"{count}; the clearest is {what} ({arm}): {numbers}."


def _settings(first: RunView, second: RunView) -> None:
    changed = differing_settings(first.manifest, second.manifest)
    if changed.empty:
        ui.note("No setting, data, judge or version differs.")
        return
    with st.expander(f"What differs: {plural(len(changed), 'entry').replace('entrys', 'entries')}", expanded=True):
        st.dataframe(
            changed.rename(columns={"part": "Part", "setting": "Setting", "a": "First", "b": "Second"}),
            key="compare_settings",
            hide_index=True,
            height=min(280, 40 + 35 * len(changed)),
            placeholder="",
            alt="Settings that differ",
        )
        ui.table_bar(
            changed, title="What differs between the two runs", about=_both(first, second), key="compare_changed"
        )


def _forest(found: Comparison, note: str) -> None:
    units = [unit for unit in UNITS if (found.differences["unit"] == unit).any()]
    state.seed(UNIT, units, units[0])
    own = found.differences
    left, right = st.columns(2, gap="medium")
    with left:
        unit = ui.pick("Differences of", units, key=UNIT, title=lambda u: UNITS[u])
    kinds = list(dict.fromkeys(own.loc[own["unit"] == unit, "what"]))
    options = kinds if unit == "own unit" else ["", *kinds]
    many = int((own["unit"] == unit).sum()) > MOST_AT_ONCE
    state.seed(WHAT, options, kinds[0] if many else options[0])
    with right:
        what = ui.pick("Quantity", options, key=WHAT, title=lambda w: NAMES.get(w, w) if w else "All of them")
    prepared = prepare_compare(own, unit=unit, what=what, titles=findings.short_titles(own))
    title = "How far apart are the two runs?" if not what else f"How far apart: {NAMES.get(what, what)}"
    ui.show_figure(
        lambda mode: plot_compare(prepared, mode=mode, title=title, note=note), prepared, key="compare_forest"
    )
    here = int(((own["unit"] == unit) & (own["what"].isin([what]) if what else True)).sum())
    if here > MOST_ROWS:
        ui.note(f"The figure has the first {MOST_ROWS} of {here} rows; choose one quantity, or take the whole table.")
    ui.download("All differences (CSV)", lambda: safe_csv(own), "differences.csv", "text/csv", key="differences_csv")


def _both(first: RunView, second: RunView) -> str:
    return f"First: run {first.run_id}. Second: run {second.run_id}."


def _calls(found: Comparison, about: str) -> None:
    apart = found.calls.assign(difference=found.calls["b"] - found.calls["a"])
    moved = apart[apart["difference"].abs() >= SAME].sort_values("difference", key=abs, ascending=False, kind="stable")
    if moved.empty:
        return
    with st.expander(f"Calls that differ most, of {plural(len(moved), 'differing call')}"):
        names = ["protocol", "attack", "defense", "response_id", "response_b", "order", "a", "b", "difference"]
        shown = moved[names].head(MOST_CALLS)
        shown = shown.loc[:, [n for n in names if (shown[n].astype(str) != "").any()]]
        st.dataframe(
            shown,
            key="compare_calls",
            hide_index=True,
            height=320,
            placeholder="",
            alt="Calls that differ most",
            column_config={n: st.column_config.NumberColumn(format="%.3f") for n in ("a", "b", "difference")},
        )
        ui.table_bar(
            pd.DataFrame(moved), title="Calls that differ most", key="calls", shown=shown, label="Calls (CSV)",
            about=f"{about} The first {len(shown)} of {len(moved)}.",
        )  # fmt: skip

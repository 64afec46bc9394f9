"""The results on the page Trust: the live picture of three numbers, and tabs, of which only the open one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.trust.numbers import Live, TrustRun
from engine.core.files import safe_csv
from engine.plots.text import fixed, interval_text, plural, three_digits
from engine.plots.theme import ROLES, Mode
from engine.studies.figure import upper_first
from engine.studies.registry import entry_of
from engine.studies.trust.figures import CORRECTED, RAW
from engine.studies.trust.metrics import NO_CONFIDENCE, needed_table, select, selection_table

ERRS, WHO, MEANT, KEEP, NEEDED, ATTACKED = (
    "Where it errs", "Systems and groups", "Calibration", "Keep or send", "Labels needed", "Under attack",
)  # fmt: skip


def results(run: TrustRun, frame: ui.Frame) -> None:
    """Headline, slider, main picture and facts in one fragment; then the tabs."""
    with frame.hero:
        st.fragment(_hero)(run)
    tabs = [ERRS, WHO, MEANT, KEEP, NEEDED, *([ATTACKED] if len(run.source.table("trust_attacked")) else [])]
    with frame.body:
        for name, tab in zip(tabs, st.tabs(tabs, key="trust_tab", on_change="rerun", bind="query-params"), strict=True):
            if tab.open:
                with tab:
                    _SHOW[name](run)
    frame.measured(_measured(run), key="trust")


# The three numbers, live.


def _hero(run: TrustRun) -> None:
    place = st.container()
    k = _slider(run)
    own = k == run.n_labels
    live = run.source if own else run.with_labels(k)
    with place:
        ui.headline(headline(live.table("trust"), share=run.is_share, truth=run.truth))
        ui.facts(_facts(live.table("trust"), live.table("metrics")))
    _figure(run, "estimates", live, key="trust_main", own=own)
    ui.note(_moved(run, k))


def _slider(run: TrustRun) -> int:
    """How many labels are used; the run's own number where there is nothing to choose."""
    stops, key = run.stock.stops, f"trust_labels_{run.run_id}"
    if len(stops) < 2:
        return run.n_labels
    asked = st.query_params.get("labels", "")
    if key not in st.session_state:
        st.session_state[key] = int(asked) if asked.isdecimal() and int(asked) in stops else run.n_labels
    known = "Every row of the demo has a label. " if len(run.stock.order) > run.n_labels else ""
    k = int(
        st.select_slider(
            "Labels used", stops, key=key, persist_state="session",
            help=f"{known}Labels are taken in one random order; nothing is run anew.",
        )
    )  # fmt: skip
    state.publish("labels", str(k), str(run.n_labels))
    return k


def _moved(run: TrustRun, k: int) -> str:
    about = run.about
    rows = f"{about['n_responses']:,} rows, {k:,} labels used"
    unread = f", {about['n_unread']:,} without a verdict" if about.get("n_unread") else ""
    below = "" if k == run.n_labels else f" The tabs below use the run's {run.n_labels:,}."
    return f"{rows}{unread}; {findings.origin(run.manifest, recorded=run.recorded)}.{below}"


def number_of(table: pd.DataFrame, estimate: str) -> dict[str, Any]:
    """The row of one estimate of all rows; empty where there is none."""
    found = table[(table["scope"] == "all") & (table["estimate"] == estimate)]
    return {} if found.empty else {str(k): v for k, v in found.iloc[0].to_dict().items()}


def headline(table: pd.DataFrame, *, share: bool, truth: float = float("nan")) -> str:
    """Raw and corrected number, and the truth where it is known.

    Args:
        table: table `trust`.
        share: numbers are shares, shown in percent; else scores.
        truth: by all labels; NaN where nobody knows it.
    """
    raw, mended = number_of(table, RAW), number_of(table, CORRECTED)
    labels = int(mended.get("n_labels", 0))

    def amount(x: float) -> str:
        return f"{fixed(100 * x, 0)} %" if share else fixed(x, 2)

    first = f"The judge says {amount(raw['value'])}"
    if not np.isfinite(mended.get("lower", np.nan)):
        return f"{first}; {plural(labels, 'label')} are too few to correct it."
    low, high = (fixed(100 * mended[e], 0) if share else fixed(mended[e], 2) for e in ("lower", "upper"))
    said = f"{first}; corrected by {plural(labels, 'label')} it is {amount(mended['value'])} [{low}, {high}]"
    return f"{said}; the truth is {amount(truth)}." if np.isfinite(truth) else f"{said}."


def _facts(table: pd.DataFrame, metrics: pd.DataFrame) -> Mapping[str, str]:
    """Labels saved, true positive and negative rate, kappa; agreement where labels are not of two kinds."""
    saved = float(number_of(table, CORRECTED).get("labels_saved", np.nan))
    whole = metrics[metrics["group"].fillna("") == ""].set_index("metric")
    titles = {"tpr": "True positive rate", "tnr": "True negative rate", "agreement": "Agreement", "kappa": "Kappa"}
    shown = [name for name in titles if name in whole.index and not (name == "agreement" and "tpr" in whole.index)]
    return {
        "Labels saved": fixed(saved, 0) if np.isfinite(saved) else "not known",
        **{
            titles[name]: interval_text(*(float(whole.loc[name, c]) for c in ("value", "lower", "upper")))
            for name in shown
        },
    }


def _figure(run: TrustRun, name: str, live: Any = None, *, key: str = "", own: bool = True, caption: str = "") -> None:
    """A figure of the run, or of the same run with some tables changed; where it has none, why."""
    source = run.source if live is None else live
    entry = entry_of(run.source, name)
    if why := entry.missing(source):
        ui.note(f"Not shown: {why}")
    elif own:
        ui.show_entry(run.source, name, key=key or f"trust_{name}", caption=caption)
    else:
        prepared, draw, _ = ui.figure_parts(source, name)
        ui.show_figure(draw, prepared, key=key or f"trust_{name}", caption=caption)


# The tabs.


def _errs(run: TrustRun) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        _figure(run, "confusion")
    with right:
        _figure(run, "agreement")


def _who(run: TrustRun) -> None:
    _figure(run, "differences")
    left, right = st.columns(2, gap="large")
    with left:
        _figure(run, "systems")
    with right:
        _figure(run, "groups")


def _meant(run: TrustRun) -> None:
    _figure(run, "calibration")


def _keep(run: TrustRun) -> None:
    st.fragment(_keep_live)(run)


def _keep_live(run: TrustRun) -> None:
    """Threshold and bound; the rows below the threshold go to people."""
    config = run.config
    left, right = st.columns(2, gap="large")
    with left:
        bound = st.slider(
            "Largest error among kept verdicts (%)", 1, 50, round(100 * float(config["bound"])), key="trust_bound",
            help="The threshold is chosen so that the error stays below it, with the confidence said below.",
        ) / 100  # fmt: skip
    given = (bound, float(config["delta"]), float(config["off_by"]))
    selection = run.source.memo(("trust_keep", *given), lambda: select(run.rows, *given))
    if selection is None or not selection.steps:
        ui.note(f"Not shown: {NO_CONFIDENCE}.")
        return
    steps = selection.steps
    names = {three_digits(step.threshold): i for i, step in enumerate(steps)}
    start = selection.chosen if selection.chosen is not None else 0
    with right:
        at = steps[
            names[
                str(
                    st.select_slider(
                        "Least confidence of a kept verdict", list(names), list(names)[start],
                        key=f"trust_threshold_{bound:g}", disabled=len(names) < 2,
                        help="From the surest verdicts alone, left, to all of them.",
                    )
                )
            ]
        ]  # fmt: skip
    sent = rows_to_people(run.labelled, at.threshold)
    ui.facts(
        {
            "Kept": f"{at.kept:.0%} of verdicts",
            "Wrong among them": f"{at.error:.0%}, at most {at.upper:.0%}" if at.n_labels else "no labels",
            "To people": plural(len(sent), "row"),
            "Chosen for you": f"from {three_digits(steps[start].threshold)} on"
            if selection.chosen is not None
            else "none",
        }
    )
    sure = f"{1 - selection.delta:.0%}"
    ui.note(
        f"No threshold keeps the error below {bound:.0%}: {selection.reason}."
        if selection.chosen is None
        else f"The chosen threshold keeps the error below {bound:.0%} with {sure} confidence; a threshold that you "
        "pick by looking carries no such guarantee."
    )
    ui.download(
        f"Rows to people (CSV, {len(sent):,})", lambda: safe_csv(sent), "rows_to_people.csv", "text/csv",
        key="trust_people",
    )  # fmt: skip
    live = Live(run.source, {"trust_selection": selection_table(selection)}, {"bound": bound})
    prepared, draw, pick = ui.figure_parts(live, "selection")
    own = bound == float(config["bound"]) and at is steps[start]
    ui.show_figure(
        draw if own else partial(_marked, draw, at.kept), prepared, key="trust_selection", pick=pick if own else None,
    )  # fmt: skip


def _marked(draw: ui.Draw, kept: float, mode: Mode) -> go.Figure:
    """The figure with a line where the slider stands."""
    fig = draw(mode)
    line = {"color": ROLES[mode]["ink"], "width": 1.5}
    return fig.add_shape(type="line", x0=kept, x1=kept, y0=0, y1=1, yref="paper", line=line)


def rows_to_people(labelled: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Rows whose verdict is missing or less sure than the threshold, the least sure first."""
    sure = labelled["confidence"].fillna(-np.inf)
    sent = labelled[(sure < threshold) | labelled["verdict"].isna()]
    columns = ["row_id", "item_id", "system", "group", "verdict", "confidence", "label"]
    return sent.sort_values("confidence", kind="stable", na_position="first")[columns].dropna(axis="columns", how="all")


def _needed(run: TrustRun) -> None:
    st.fragment(_needed_live)(run)


def _needed_live(run: TrustRun) -> None:
    """Labels for a half width that the user types in."""
    scale = 100.0 if run.is_share else 1.0
    unit = "percentage points" if run.is_share else "points of the scale"
    asked = st.number_input(
        f"Half width of the interval, ± {unit}", 0.5 if run.is_share else 0.01, 40.0 if run.is_share else None,
        scale * float(run.config["half"]), 0.5 if run.is_share else 0.01, key=f"trust_half_{run.run_id}", format="%g",
        width=320,
    )  # fmt: skip
    half = float(asked) / scale
    agreement = float(run.config.get("agreement", 0.8))
    table = run.source.memo(("trust_needed", half), lambda: needed_table(run.rows, half, agreement))
    row = table.iloc[int((table["half"] - half).abs().argmin())]

    def amount(name: str) -> str:
        return f"{np.ceil(float(row[name])):,.0f}" if np.isfinite(row[name]) else "not with these rows"

    ui.facts(
        {
            "With the judge": amount("with_judge"),
            "Labels alone": amount("labels_only"),
            "Before any label": amount("before") if np.isfinite(row["before"]) else "not for scores",
            "There are": plural(run.n_labels, "label"),
        }
    )
    if isinstance(row["reason"], str):
        ui.note(f"{upper_first(row['reason'])}.")
    _figure(run, "labels", Live(run.source, {"trust_needed": table}), own=half == float(run.config["half"]))


def _attacked(run: TrustRun) -> None:
    table = run.source.table("trust_attacked")
    if said := after_labels(table, share=run.is_share):
        ui.finding(said)
    least = (run.manifest.get("noticed") or {}).get("least_share")
    seen = f"from {float(least):.0%} of rows on" if least is not None and float(least) <= 1 else "at no share of rows"
    ui.note(f"Labelled and unlabelled rows would differ in their verdicts visibly {seen} (80 % power).")
    _figure(run, "attacked")


def after_labels(table: pd.DataFrame, *, share: bool) -> str:
    """The corrected number once every row without a label is attacked; empty where it is not known.

    Args:
        table: table `trust_attacked`.
        share: numbers are shares, shown in percent; else scores.
    """
    own = table[(table["case"] == "after") & (table["estimate"] == CORRECTED)].sort_values("share")
    if own.empty or not np.isfinite(own["value"]).all():
        return ""
    before, hit = own.iloc[0], own.iloc[-1]
    scale, digits, unit = (100, 0, " %") if share else (1, 2, "")
    first, last, low, high = (
        fixed(scale * float(x), digits) for x in (before["value"], hit["value"], hit["lower"], hit["upper"])
    )
    return (
        "Labels taken before an attack do not see it: with every row without a label attacked, the corrected number "
        f"goes from {first}{unit} to {last}{unit} [{low}, {high}]."
    )


_SHOW = {ERRS: _errs, WHO: _who, MEANT: _meant, KEEP: _keep, NEEDED: _needed, ATTACKED: _attacked}


def _measured(run: TrustRun) -> Sequence[str]:
    about = run.about
    spellings = ", ".join(f"{spelled} is {value}" for spelled, value in (about.get("spellings") or {}).items())
    read = f"Read: {spellings}." if spellings else ""
    truth = "The truth is the mean of all labels, of which the run shows a part." if np.isfinite(run.truth) else ""
    return (
        f"{upper_first(findings.provenance(run.manifest, recorded=run.recorded))}.",
        f"{about.get('name')}: {plural(int(about.get('n_items') or 0), 'item')}. {read}",
        truth,
        "Corrected is prediction-powered (PPI++, Angelopoulos, Duchi and Zrnic 2023): the judge's mean over all rows, "
        "moved by its mean error on the labelled ones, the judge weighted by how much it helps.",
        "Rogan-Gladen turns the raw share by the true positive and true negative rate; it is shown for pass or fail.",
        "Rows of one item count as one observation. Unequal chances to be labelled enter as weights.",
        "Labels saved: how many more labels alone would need for the corrected interval's width.",
        "Labels must be drawn at random, or with known chances in a column weight: labels of the odd rows alone would "
        "correct nothing.",
    )

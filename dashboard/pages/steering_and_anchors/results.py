"""Steering and anchors, put together: finding, diagnosis, and one tab for each part of the method."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.linked_run import runs_of, shown
from dashboard.pages.steering_and_anchors.findings import (
    Answer,
    CapView,
    behind_cap,
    diagnosis,
    headline,
    sweep_sentence,
)
from dashboard.pages.steering_and_anchors.setup import cost, rows_figure, setup, watched
from dashboard.progress import progress, start_job, watched_job
from dashboard.run_view import load
from dashboard.ui import show_verbatim
from engine.core.errors import EngineError
from engine.core.schema import NONE
from engine.data.dataset import Dataset
from engine.data.store import DEMO_DIALOGUE
from engine.jobs.manager import Job, manager
from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.text import plural, three_digits
from engine.studies.cap.figures import UNITS, prepare_lengths, row_figure, units_of
from engine.studies.cap.metrics import nearest_in
from engine.studies.cap.steering_figures import BY_SCORE, BY_SIDE, SIDES, alpha_rows, standard_of
from engine.studies.cap.study import CAP
from engine.studies.figure import cap_name, cap_titles

# Alpha: the curve from the computed grid, the texts at two alphas, and a button that extends the grid.

EXTEND = "cap_sweep"


def alpha(view: CapView, job: Job | None) -> None:
    """Sliders over the alphas of the grid; the button asks the worker for more of them."""
    _curve(view)
    _extend(view, job)


@st.fragment
def _curve(view: CapView) -> None:
    rows = alpha_rows(view.source)
    chosen: dict[str, float] = {}
    for side, column in zip(SIDES, st.columns(2, gap="large"), strict=True):
        known = [float(a) for a in rows.loc[rows["side"] == side, "alpha"]]
        with column:
            wrote = float(view.cap.get(f"alpha_{side}") or known[0])
            start = wrote if wrote in known else known[0]
            key, param = f"cap_alpha_{side}_{len(known)}", f"alpha_{side}"
            state.seed_number(key, min(known), max(known), start, param=param)
            state.put(key, min(known, key=lambda a, key=key: abs(a - float(st.session_state[key]))))
            chosen[side] = float(
                st.select_slider(
                    f"alpha, steered {side}",
                    known,
                    format_func=three_digits,
                    key=key,
                    help="Eqs. 4 and 5 of paper 001. The slider starts at the alpha nearest to the standard; every "
                    "stop is computed already.",
                )
            )
            state.publish(param, repr(chosen[side]), repr(start))
    ui.finding(sweep_sentence(view, rows, chosen))
    standards = (float(view.cap["standard_high"]), float(view.cap["standard_low"]))
    spread = "; ".join(_spread(rows, side, chosen[side]) for side in SIDES)
    ui.note(f"Mean ± standard deviation: {spread}. {_nearest(view, rows, standards)}")
    ui.show_entry(view.source, "sweep", key="cap_sweep", alpha_high=chosen["high"], alpha_low=chosen["low"])
    _texts(view, chosen)


def _nearest(view: CapView, rows: pd.DataFrame, standards: tuple[float, float]) -> str:
    """The alphas of the grid that come nearest to the standards, and those that wrote the anchors."""
    said = []
    for side, standard in zip(SIDES, standards, strict=True):
        best = nearest_in(rows, side, standard)
        wrote = view.cap.get(f"alpha_{side}")
        other = "" if wrote is None or wrote == best else f" (the anchors were written with {three_digits(wrote)})"
        other += _few_read(rows[rows["side"] == side], wrote)
        said.append(f"{side} {three_digits(best)}{other}")
    return f"Nearest to the standards in this grid: {'; '.join(said)}."


def _few_read(rows: pd.DataFrame, wrote: float | None) -> str:
    """That the alpha of the anchors was chosen from the contexts that still had a text, where some had none."""
    row = rows[rows["alpha"] == wrote]
    if not len(row) or not int(row["n_unread"].iloc[0]):
        return ""
    n, of = int(row["n"].iloc[0]), int(row["n"].iloc[0] + row["n_unread"].iloc[0])
    return f" (with {three_digits(float(wrote or 0))}, {n} of {of} contexts had a text that could be scored)"


def _spread(rows: pd.DataFrame, side: str, value: float) -> str:
    row = rows[(rows["side"] == side) & (rows["alpha"] == value)]
    if not len(row) or math.isnan(float(row["mean"].iloc[0])):
        return f"{side} unread"
    return f"{side} {three_digits(float(row['mean'].iloc[0]))} ± {three_digits(float(row['sd'].iloc[0]))}"


def _texts(view: CapView, chosen: dict[str, float]) -> None:
    items = list(dict.fromkeys(view.sweep["item_id"]))
    item = st.selectbox("Training context", items, key="cap_sweep_item", persist_state="session")
    for side, column in zip(SIDES, st.columns(2, gap="large"), strict=True):
        texts = view.sweep[
            (view.sweep["side"] == side) & (view.sweep["alpha"] == chosen[side]) & (view.sweep["item_id"] == item)
        ]
        with column:
            if len(texts):
                row = texts.iloc[0]
                ui.note(f"Steered {side}: score {three_digits(float(row['score']))}")
                show_verbatim(str(row["text"]) if isinstance(row["text"], str) else "", label=f"Steered {side}")


def _extend(view: CapView, job: Job | None) -> None:
    """More alphas for a run of this machine."""
    if view.recorded:
        ui.note("This run is a recording; run the study on this machine to add alphas to its sweep.")
        return
    busy = bool(job and job.active)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        size = st.number_input(
            "Relative edit to reach, in %", 1.0, 95.0, 75.0, 5.0, key="cap_extend_size",
            help="The alpha that changes the activations by this share is worked out and tried on both sides.",
        )  # fmt: skip
        if st.button("Extend the sweep", icon=":material/add:", key="cap_extend", disabled=busy):
            _submit(view, float(size) / 100)


def _submit(view: CapView, reach: float) -> None:
    config = view.manifest["config"]
    params = {"study_id": view.run_id, "judge": config["judge"], "data": config["data"], "reach": reach}
    start_job(EXTEND, params, "The sweep could not be extended.", lambda job: state.put(EXTEND, job))


# The anchors of one context side by side: the texts that the judge sees as low and as high.


@st.fragment
def anchors(view: CapView, dataset: Dataset) -> None:
    """A context, and for every anchored arm its low and its high anchor."""
    items = view.evaluated
    item = st.selectbox("Context", items, key="cap_item", persist_state="session")
    contexts = dataset.items.set_index("item_id")["context"]
    if item in contexts.index and isinstance(contexts[item], str):
        show_verbatim(contexts[item], label="The context")
    written = view.anchors[view.anchors["item_id"] == item]
    if written.empty:
        ui.note("No anchors were written for this context.")
    for arm in dict.fromkeys(written["arm"]):
        st.subheader(cap_name(str(arm)), anchor=False)
        for side, column in zip(("low", "high"), st.columns(2, gap="large"), strict=True):
            row = written[(written["arm"] == arm) & (written["side"] == side)].iloc[0]
            with column:
                score, strength = float(row["score"]), float(row["alpha"])
                steered = "" if math.isnan(strength) else f", alpha {three_digits(strength)}"
                ui.note(f"Shown to the judge as the {side} one: scored {three_digits(score)} alone{steered}")
                show_verbatim(str(row["text"]) if isinstance(row["text"], str) else "", label=f"{arm}, {side}")
    ui.note("Scores are the undefended judge's, of each anchor as if it were the response.")


# Do anchors hold the score? Every attack behind every defense, suffix lengths, comparative against absolute.

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
        if len(prepare_lengths(view.metrics)):
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


# Two tutors side by side: the effect of each tutor's anchors on the same judge and data.

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
    chosen = ui.pick(
        "The other tutor",
        list(others),
        key=BESIDE,
        default=next(iter(others)),
        title=lambda run_id: _title(others[run_id]),
    )
    other = others[chosen]
    names = _names(view, other)
    _shifts(view, other, names)
    facts = pd.DataFrame(_facts(view, other, names))
    st.dataframe(facts, hide_index=True, key="cap_beside_facts")
    ui.run_table(view, facts, title="Two tutors side by side", key="cap_beside_kept", file="two_tutors.csv")
    first, second = ({one.question: one for one in diagnosis(v)} for v in (view, other))
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
    others: dict[str, CapView] = {}
    for run_id in runs_of(CapView.kind, judge, dataset_id):
        try:
            one = load(CapView, run_id)
        except EngineError:  # a damaged run must not hide the others
            continue
        if one is None or not len(one.metrics) or _judge(one) != _judge(view):
            continue
        if tutor_of(one) not in {tutor_of(view), *(tutor_of(other) for other in others.values())}:
            others[run_id] = one
    return others


def _judge(view: CapView) -> str:
    return str(view.manifest.get("judge", {}).get("spec", ""))


def _title(view: CapView) -> str:
    return f"{tutor_of(view)}, {findings.provenance(view.manifest, recorded=view.recorded)}"


def _names(view: CapView, other: CapView) -> tuple[str, str]:
    return f"CAP by {tutor_of(view)}", f"CAP by {tutor_of(other)}"


def _shifts(view: CapView, other: CapView, names: tuple[str, str]) -> None:
    parts = []
    for source, defense, name in ((view, NONE, "no defense"), (view, CAP, names[0]), (other, CAP, names[1])):
        shifts = source.metrics[(source.metrics["metric"] == "shift") & (source.metrics["defense"] == defense)]
        parts.append(shifts.assign(metric=name))
    both = set(parts[1]["attack"]) & set(parts[2]["attack"])
    joined = pd.concat(parts)
    joined = joined[joined["attack"].isin(both)]
    titles = cap_titles(joined)
    series = {name: name for name in ("no defense", *names)}
    prepared = prepare_dots(joined, series, by="attack", titles=titles)
    colours = dict(zip(series, _MEANINGS, strict=True))
    note = f"{findings.origin(view.manifest, recorded=view.recorded)}; the other run is named above"
    ui.show_figure(
        lambda mode: plot_dots(
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
        rows.append({"": name, names[0]: behind_cap(view, metric), names[1]:
                     behind_cap(other, metric)})  # fmt: skip
    return rows


def _separability(view: CapView) -> str:
    rows = view.layers[(view.layers["space"] == "pca") & (view.layers["layer"] == view.cap.get("layer"))]
    if not len(rows):
        return ""
    row = rows.iloc[0]
    return f"{three_digits(row['value'])} (95 % of the null below {three_digits(row['null_high'])})"


def _pair(held: dict[str, Any], *keys: str) -> str:
    return ", ".join(three_digits(float(held[k])) if held.get(k) is not None else "–" for k in keys)


def _said(one: Answer | None) -> str:
    return f"{one.answer}. {one.numbers}" if one else "not measured"


# Standards: thresholds of the pools, separability by layer, the map of one layer.

PCA, UMAP = "PCA", "UMAP"
SPACES = {"pca": "After PCA", "raw": "Raw"}
LAYER, PERCENTILES = "cap_layer", "cap_percentiles"
_LEAST = 8


def standards(view: CapView) -> None:
    """The three figures of the first half of the method."""
    _scores(view)
    left, right = st.columns(2, gap="large")
    with left:
        _layers(view)
    with right:
        _map(view)


@st.fragment
def _scores(view: CapView) -> None:
    config = view.manifest["config"]
    chosen = (int(config["low_percentile"]), int(config["high_percentile"]))
    if PERCENTILES not in st.session_state:
        state.put(PERCENTILES, _from_url(chosen))
    low, high = st.slider(
        "Percentiles of the first pool that set the standards",
        0,
        100,
        key=PERCENTILES,
        persist_state="session",
        help="The judge's scores of the first pool set the thresholds; texts of a second pool are retained at or "
        "beyond them (paper 001, section 4.2). The run used the percentiles the slider starts with.",
    )
    state.publish("percentiles", f"{low}-{high}", f"{chosen[0]}-{chosen[1]}")
    standard = standard_of(view.source, high, low)
    ui.finding(
        f"Standards {three_digits(standard.thresholds.low)} and {three_digits(standard.thresholds.high)}: "
        f"{standard.n_low} of {standard.n} new texts are retained as low, {standard.n_high} as high."
    )
    if min(standard.n_high, standard.n_low) < _LEAST:
        ui.warn(f"A side needs {_LEAST} texts for a standard vector. Move the percentiles nearer to each other.")
    elif (low, high) != chosen:
        ui.note("The figures and anchors below belong to the percentiles of the run; a new run takes others.")
    ui.show_entry(view.source, "scores", key="cap_scores", low=low, high=high)


def _from_url(default: tuple[int, int]) -> tuple[int, int]:
    """The percentiles of a link such as `?percentiles=10-90`; the run's where there are none that can be read."""
    low, _, high = st.query_params.get("percentiles", "").partition("-")
    if low.isdecimal() and high.isdecimal() and int(low) <= int(high) <= 100:
        return int(low), int(high)
    return default


@st.fragment
def _layers(view: CapView) -> None:
    space = st.segmented_control(
        "Separability (eq. 3)",
        list(SPACES),
        default="pca",
        format_func=SPACES.get,
        key="cap_space",
        required=True,
        help="Distance of the two means over the mean distances within the sides. The paper takes it after PCA; raw "
        "values depend on the number of texts, so look at the shuffled sides beside them.",
    )
    ui.show_entry(view.source, "layers", key="cap_layers", space=str(space))


@st.fragment
def _map(view: CapView) -> None:
    count = int(view.points["layer"].max()) if len(view.points) else 1
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        method = st.segmented_control("Map", [PCA, UMAP], default=PCA, key="cap_method", required=True)
        colour = st.segmented_control(
            "Colour", [BY_SIDE, BY_SCORE], default=BY_SIDE, format_func=str.capitalize, key="cap_colour", required=True
        )
    layer = int(view.cap["layer"])
    if method == PCA and count > 1:
        chosen = layer
        state.seed_number(LAYER, 1, count, chosen)
        layer = int(st.slider("Layer", 1, count, key=LAYER, persist_state="session"))
        state.publish(LAYER, str(layer), str(chosen))
    elif method == UMAP:
        ui.note(f"UMAP was computed for the chosen layer {layer}; distances between far groups mean nothing in it.")
    at = {"layer": layer, "method": str(method), "colour": str(colour)}
    prepared, draw, pick = ui.figure_parts(view.source, "map", **at)
    ui.show_figure(draw, prepared, key="cap_map", pick=pick)
    _standard_texts(view, prepared)


def _standard_texts(view: CapView, prepared: pd.DataFrame) -> None:
    """The texts behind the points, highest score first."""
    with st.expander(f"The {plural(len(prepared), 'retained text')}", on_change="rerun", key="cap_texts") as texts:
        if not texts.open:
            return
        table = prepared.sort_values("score", ascending=False)[["side", "score", "text", "text_id"]]
        st.dataframe(
            table,
            hide_index=True,
            key="cap_texts_table",
            alt="Retained texts with their side and score",
            column_config={"score": st.column_config.NumberColumn(format="%.2f", width="small")},
        )
        if len(table):
            ui.run_table(view, table, title="Retained texts", key="cap_texts_kept", file="retained_texts.csv")
            ui.note("The highest and the lowest one")
            for which in (0, -1):
                show_verbatim(str(table["text"].iloc[which]), label=f"Retained text {table['text_id'].iloc[which]}")


TABS = ("Standards", "Alpha", "Anchors", "Attacks", "Cost and agreement", "Two tutors")
TAB = "part"


def cap_page(judge: str, dataset: Dataset) -> None:
    """The newest run of this judge on this data, the controls for a new one, and what is going on."""
    job = watched(judge, dataset.dataset_id)
    more = _extension(judge, dataset.dataset_id)
    view = shown(CapView, judge, dataset.dataset_id, job)
    if view:
        st.badge(findings.provenance(view.manifest, recorded=view.recorded), icon=":material/history:", color="gray")
        ui.finding(headline(view))
    elif job is None:
        ui.nothing_yet(_empty(dataset.dataset_id))
    setup(judge, dataset, job)
    going = next((one for one in (job, more) if one and (one.active or one.state != "done")), None)
    if going:
        progress(going)
    if view:
        _diagnosis(view)
        _parts(view, judge, dataset, more)


def _empty(dataset_id: str) -> str:
    recorded = (
        "" if dataset_id == DEMO_DIALOGUE else " A recorded run comes with the demo dialogues and the careful judge."
    )
    return f"The study has not been run with this judge on this data yet: open “Run the study on this data”.{recorded}"


def _extension(judge: str, dataset_id: str) -> Job | None:
    held = manager().get(str(st.session_state.get(EXTEND, "")))
    return held or watched_job(EXTEND, judge=judge, data=dataset_id)


def _diagnosis(view: CapView) -> None:
    """The links of the chain from the tutor's activations to the judge's score, weakest ones plain to see."""
    answers = diagnosis(view)
    if not answers:
        return
    with st.container(border=True, key="cap_diagnosis", gap="small"):
        st.subheader("Why it holds, or does not", anchor=False)
        columns = st.columns(2, gap="medium")
        for k, one in enumerate(answers):
            colour = {True: "green", False: "orange", None: "gray"}[one.good]
            with (
                columns[2 * k // len(answers)],  # column by column, so that a phone keeps the chain's order
                st.container(gap=None),
            ):
                with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                    st.markdown(ui.plain(one.question), width="content")
                    st.badge(ui.plain(one.answer), color=colour)
                ui.note(one.brief)
        with st.expander("How each answer was reached"):
            ui.bullets([one.numbers for one in answers])


def _parts(view: CapView, judge: str, dataset: Dataset, more: Job | None) -> None:
    first, second, third, fourth, fifth, sixth = st.tabs(list(TABS), key=TAB, bind="query-params", on_change="rerun")
    if first.open:
        with first:
            standards(view)
    if second.open:
        with second:
            if len(view.sweep):
                alpha(view, more)
            else:
                ui.note("The sweep follows when the standards are found.")
    if third.open:
        with third:
            anchors(view, dataset)
    if fourth.open:
        with fourth:
            attacks(view)
    if fifth.open:
        with fifth:
            cost(view)
    if sixth.open:
        with sixth:
            beside(view, judge, dataset.dataset_id)

"""Steering and anchors, put together: headline, score against alpha with its texts, a tab for each further part."""

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
    measured,
)
from dashboard.pages.steering_and_anchors.setup import (
    OPEN,
    actions,
    cost,
    rows_figure,
    setup,
    watched,
)
from dashboard.progress import POLL_S, progress, start_job, watched_job
from dashboard.run_view import load
from dashboard.ui import show_verbatim
from engine.core.errors import EngineError
from engine.core.schema import NONE
from engine.data.dataset import Dataset
from engine.jobs.manager import Ask, Job, manager
from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.text import interval_text, label, plural, three_digits
from engine.studies.cap.figures import UNITS, prepare_lengths, row_figure, units_of
from engine.studies.cap.metrics import by_alpha
from engine.studies.cap.steering_figures import (
    BY_SCORE,
    BY_SIDE,
    SIDES,
    alpha_rows,
    plot_alpha,
    prepare_alpha,
    standard_of,
)
from engine.studies.cap.study import CAP
from engine.studies.figure import cap_name, cap_titles

# The hero: score against alpha, with the texts at the alpha looked at. An alpha that the run lacks is asked live.

EXTEND, LIVE = "cap_sweep", "cap_alpha"
ALPHA = "alpha"
CONTEXTS = 3
"""Contexts that a new alpha is tried on."""
_PATIENCE_S = 0.3
"""A kept answer comes within this time, and needs no second drawing."""
_STEPS = 200


@st.fragment
def hero(view: CapView, dataset: Dataset, busy: bool) -> None:
    """The slider, the figure, and beside it both texts; a new alpha is decoded and judged while the rest stays."""
    rows = alpha_rows(view.source)
    known = {side: [float(a) for a in rows.loc[rows["side"] == side, "alpha"]] for side in SIDES}
    chosen, start, step = _slider(view, max(map(max, known.values())))
    at = {side: min(known[side], key=lambda a: abs(a - chosen)) for side in SIDES}
    new = [side for side in SIDES if abs(at[side] - chosen) > step / 2]
    ask = _ask(view, chosen) if new and abs(chosen - start) > step / 2 else None
    live = _live_rows(view, chosen)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _curve(view, rows, live, chosen)
    with right:
        ui.facts({f"steered {side}": _score(rows, live, side, at[side], new) for side in SIDES})
        if new and view.imported:
            ui.note("This run was imported, so its judge is not asked. Run the study here to try any alpha.")
        _texts(view, dataset, live, at, new)
    if ask and ask.error:
        with right:
            ui.show_error(ask.error, "This alpha could not be tried.")
    elif ask and not ask.answered:
        st.fragment(_waiting, run_every=POLL_S)(ask)
    elif len(live) and view.editable and not view.imported:
        with right:
            _keep(view, chosen, new, busy=busy)


def _slider(view: CapView, most: float) -> tuple[float, float, float]:
    """Alpha, where its slider starts (at that of the high anchors) and its step; it takes any value.

    At the start nobody is asked: the page opens on what the run holds.
    """
    top = float(f"{1.25 * most:.2g}") or 1.0
    step = float(f"{top / _STEPS:.1g}")
    start = round(float(view.cap.get("alpha_high") or most) / step) * step
    state.seed_number(ALPHA, 0.0, top, start)
    value = float(
        st.slider(
            "alpha, how hard the tutor is steered", 0.0, top, step=step, key=ALPHA, persist_state="session",
            help="Equations 4 and 5 of the CAP paper. Any value may be tried: a new one is written and judged here on "
            f"{CONTEXTS} contexts and drawn as a hollow point.",
        )
    )  # fmt: skip
    state.publish(ALPHA, f"{value:g}", f"{start:g}")
    return value, start, step


def _asked() -> dict[tuple[str, float], Ask]:
    """What was asked live in this session, by run and alpha."""
    held: dict[tuple[str, float], Ask] = st.session_state.setdefault(LIVE, {})
    return held


def _live_rows(view: CapView, alpha: float) -> pd.DataFrame:
    """Texts and scores that were asked live at this alpha; empty where there are none (yet)."""
    ask = _asked().get((view.run_id, alpha))
    return pd.DataFrame(ask.result.get("rows", [])) if ask and ask.answered else pd.DataFrame()


def _all_live(view: CapView) -> pd.DataFrame:
    held = [_live_rows(view, alpha) for run, alpha in _asked() if run == view.run_id]
    texts = [t.assign(perplexity=math.nan, repetition=math.nan) for t in held if len(t)]
    return by_alpha(pd.concat(texts).astype({"score": float})) if texts else pd.DataFrame()


def _ask(view: CapView, alpha: float) -> Ask | None:
    """The ask for this alpha, a new one or one under way; those that nobody waits for any more are stopped.

    None for an imported run: its judge is only a name that somebody wrote.
    """
    if view.imported:
        return None
    known, key = _asked(), (view.run_id, alpha)
    for other, ask in list(known.items()):
        if other != key and not ask.answered:
            manager().give_up(ask)
            del known[other]
    if key not in known:
        known[key] = manager().begin(LIVE, {"study_id": view.run_id, "alpha": alpha, "contexts": CONTEXTS})
    ask = known[key]
    if ask.event.wait(_PATIENCE_S) and ask.error:
        known.pop(key)  # the next try asks anew
    return ask


def _waiting(ask: Ask) -> None:
    """What the worker is doing; when the answer is there the hero is drawn with it."""
    if ask.answered:
        st.rerun()
    ui.note(f"{ask.step} … {2 * CONTEXTS} texts are written and judged; until then the nearest known alpha stands.")


def _curve(view: CapView, rows: pd.DataFrame, live: pd.DataFrame, alpha: float) -> None:
    standards = (float(view.cap["standard_high"]), float(view.cap["standard_low"]))
    _, _, pick = ui.figure_parts(view.source, "alpha", alpha=alpha)
    prepared = prepare_alpha(rows, _all_live(view))
    note = findings.origin(view.manifest, recorded=view.recorded)
    ui.show_figure(
        lambda mode: plot_alpha(prepared, alpha=alpha, standards=standards, mode=mode, note=note),
        prepared, key="cap_hero", pick=None if len(live) else pick,
    )  # fmt: skip


def _score(rows: pd.DataFrame, live: pd.DataFrame, side: str, near: float, new: list[str]) -> str:
    """Mean score at this alpha; where it is not known yet, that of the nearest alpha of the run."""
    if side in new and len(live):
        own = live.loc[live["side"] == side, "score"].astype(float)
        return f"{three_digits(float(own.mean()))} (just now, n = {int(own.notna().sum())})"
    row = rows[(rows["side"] == side) & (rows["alpha"] == near)].iloc[0]
    said = interval_text(float(row["mean"]), float(row["lower"]), float(row["upper"]))
    return f"{said} at {three_digits(near)}, the nearest known" if side in new else said


def _keep(view: CapView, alpha: float, new: list[str], *, busy: bool) -> None:
    """A new alpha for every context, stored with the run."""
    if st.button("Add to the curve, all contexts", icon=":material/add:", key="cap_extend", disabled=busy):
        config = view.manifest["config"]
        params: dict[str, object] = {"study_id": view.run_id, "judge": config["judge"], "data": config["data"]}
        params |= {side: [alpha] for side in new}
        start_job(EXTEND, params, "The sweep could not be extended.", lambda job: state.put(EXTEND, job))


def _texts(view: CapView, dataset: Dataset, live: pd.DataFrame, at: dict[str, float], new: list[str]) -> None:
    """The two texts of one context at this alpha."""
    items = list(dict.fromkeys(view.sweep["item_id"]))
    contexts = dataset.items.set_index("item_id")["context"].fillna("").to_dict()
    item = ui.pick(
        "Context", items, key="cap_sweep_item", default=items[0],
        title=lambda i: f"{label(str(contexts.get(i, '')), 60) or i}",
    )  # fmt: skip
    for side in SIDES:
        fresh = side in new and len(live) > 0
        table = live if fresh else view.sweep[view.sweep["alpha"] == at[side]]
        row = table[(table["side"] == side) & (table["item_id"] == item)]
        if not len(row):
            ui.note(f"Steered {side}: not tried for this context.")
            continue
        score = row["score"].iloc[0]
        said = "unread" if pd.isna(score) else three_digits(float(score))
        old = f" (alpha {three_digits(at[side])})" if side in new and not fresh else ""
        ui.note(f"Steered {side}, score {said}{old}")
        text = row["text"].iloc[0]
        show_verbatim(text if isinstance(text, str) else "", label=f"Steered {side}")


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
    with st.expander("Longer suffixes, and comparing in place of scoring", on_change="rerun", key="cap_more") as opened:
        if opened.open:
            _further(view)


def _further(view: CapView) -> None:
    """Score against the suffix's length, and the comparative form beside the absolute one."""
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
        caption=_CAPTIONS.get(str(metric), _CAPTIONS["shift"]) + " A response without a score is left out of its cell.",
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
            f"Every run of this judge on these data is by the tutor {tutor_of(view)}. Choose another under “Run”, "
            "and both stand here side by side (the paper's CAP_L and CAP_M)."
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


def layers(view: CapView) -> None:
    """Separability by layer, and the scores that the two standards come from."""
    _layers(view)
    with st.expander("The scores behind both standards", on_change="rerun", key="cap_scores_open") as opened:
        if opened.open:
            _scores(view)


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
        "beyond them (CAP, section 4.2). The run used the percentiles the slider starts with.",
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
        "Separability",
        list(SPACES),
        default="pca",
        format_func=SPACES.get,
        key="cap_space",
        required=True,
        help="Equation 3 of the CAP paper: distance of the two means over the mean distances within the sides. The "
        "paper takes it after PCA; raw values depend on the number of texts: look at the shuffled sides beside them.",
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


TABS = ("Layers", "Map", "Attacks", "Cost")
TAB = "part"


def cap_page(judge: str, dataset: Dataset, frame: ui.Frame) -> None:
    """The newest run of this judge on this data, the controls for a new one, and what is going on."""
    job = watched(judge, dataset.dataset_id)
    more = _extension(judge, dataset.dataset_id)
    view = shown(CapView, judge, dataset.dataset_id, job)
    with frame.actions:
        ui.compare_judge(key="cap")
        actions(judge, dataset, view, job)
    with frame.top:
        if view:
            frame.headline(headline(view))
        elif job is None:
            frame.headline(
                "Steer a small model towards good and poor texts, and see whether such anchors hold a score."
            )
        going = next((one for one in (job, more) if one and (one.active or one.state != "done")), None)
        if going:
            progress(going)
    if view is None or st.session_state.get(OPEN):
        with frame.top:
            setup(judge, dataset, job)
    if view is None:
        return
    with frame.hero:
        if len(view.sweep):
            hero(view, dataset, bool(more and more.active))
        else:
            ui.note("The curve follows when the standards are found.")
    with frame.body:
        _parts(view, judge, dataset)
        _diagnosis(view)
    frame.measured(measured(view), key="cap")


def _extension(judge: str, dataset_id: str) -> Job | None:
    held = manager().get(str(st.session_state.get(EXTEND, "")))
    return held or watched_job(EXTEND, judge=judge, data=dataset_id)


def _diagnosis(view: CapView) -> None:
    """The links of the chain from the tutor's activations to the judge's score, weakest ones plain to see."""
    with st.expander("Why it holds, or does not", on_change="rerun", key="cap_diagnosis") as opened:
        if not opened.open:
            return
        answers = diagnosis(view)
        for one in answers:
            colour = {True: "green", False: "orange", None: "gray"}[one.good]
            with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                st.markdown(ui.plain(one.question), width="content")
                st.badge(ui.plain(one.answer), color=colour)
            ui.note(one.numbers)
        if not answers:
            ui.note("The answers follow when the standards are found.")


def _parts(view: CapView, judge: str, dataset: Dataset) -> None:
    first, second, third, fourth = st.tabs(list(TABS), key=TAB, bind="query-params", on_change="rerun")
    if first.open:
        with first:
            layers(view)
    if second.open:
        with second:
            _map(view)
    if third.open:
        with third:
            attacks(view)
            with st.expander("The anchors, context by context", on_change="rerun", key="cap_anchors_open") as opened:
                if opened.open:
                    anchors(view, dataset)
    if fourth.open:
        with fourth:
            cost(view)
            with st.expander("Fluency of the steered texts", on_change="rerun", key="cap_fluency") as opened:
                if opened.open and len(view.sweep):
                    ui.show_entry(view.source, "sweep", key="cap_sweep")
            with st.expander("Two tutors", on_change="rerun", key="cap_two") as opened:
                if opened.open:
                    beside(view, judge, dataset.dataset_id)

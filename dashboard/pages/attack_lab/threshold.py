"""Attack lab, "Perplexity threshold": where the threshold of best F1 lies, and what it does on other items."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.linked_run import about, shown
from dashboard.progress import newest_job, progress, start_job
from dashboard.run_view import RunView, Stored
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.data.dataset import Dataset
from engine.plots.text import interval_text, plural, three_digits
from engine.stats.detection import detection_at, fitted, side_of
from engine.studies.figure import Source
from engine.studies.perplexity_threshold.study import STUDY

WINDOW, FAMILY, THRESHOLD = "screen_window", "screen_family", "screen_threshold"
WINDOWS = {0: "The whole text", 8: "Any 8 tokens", 16: "Any 16 tokens"}
FAMILIES = {"suffix": "Learned phrases", "prompt": "Prompt attacks"}
PROMPTS = ("dsi", "bed", "adaptive")


class ReadingsRun(RunView):
    """Perplexities of a data set's texts, clean and attacked."""

    kind = "perplexity_threshold"
    readings = Stored("readings")


def screen_threshold(dataset: Dataset) -> None:
    """The choices, the job, the curve with its slider."""
    job = newest_job(STUDY.names[0], data=dataset.dataset_id)
    busy = bool(job and job.active)
    _setup(dataset, busy=busy)
    if job and job.state != "done":
        progress(job)
    if busy and not about(STUDY.kind, "", dataset.dataset_id):
        ui.note("The curve appears when all texts are read.")
        return
    try:
        view = shown(ReadingsRun, "", dataset.dataset_id, job if job and job.state == "done" else None)
        if view is None:
            ui.nothing_yet("The base model has not read these data under attack here yet. Choose, then Read.")
            return
        _curve(view)
    except EngineError as error:
        ui.show_error(error, "The readings cannot be used.")


def _setup(dataset: Dataset, *, busy: bool) -> None:
    phrases = ["suffix", *(f"suffix:{name}" for name in catalog.saved_phrases())]
    with st.container(border=True, key="screen_setup"):
        left, right = st.columns(2, gap="medium")
        with left:
            window = st.segmented_control(
                "Perplexity of",
                list(WINDOWS),
                default=0,
                key=WINDOW,
                format_func=lambda w: WINDOWS[w],
                required=True,
                persist_state="session",
            )
        with right:
            suffixes = st.pills(
                "Learned phrases",
                phrases,
                selection_mode="multi",
                default=phrases[:1],
                key="screen_suffixes",
                format_func=findings.attack_name,
                persist_state="session",
                wrap=True,
            )
        n = len(dataset.responses)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            go = st.button(
                "Read", type="primary", icon=":material/play_arrow:", key="screen_run", disabled=busy or not suffixes
            )
            texts = n * (1 + len(suffixes) + len(PROMPTS))
            ui.note(
                f"{plural(n, 'response')}, each clean and under {len(suffixes) + len(PROMPTS)} attacks: at most "
                f"{plural(texts, 'text')}, one pass of the base model each. Half of the items fit the threshold."
            )
    if go:
        start_job(
            STUDY.names[0],
            {"data": dataset.dataset_id, "window": int(window or 0), "suffixes": suffixes, "prompts": PROMPTS},
            "The readings could not be started.",
        )


def _curve(view: ReadingsRun) -> None:
    readings, origin = view.readings, findings.origin(view.manifest, recorded=view.recorded)
    st.badge(origin, color="gray")
    families = [f for f in FAMILIES if (readings["family"] == f).any()]
    family = ui.pick("Against", families, key=FAMILY, default=families[0], title=lambda f: FAMILIES[f])
    st.fragment(_one_family)(view.run_id, view.source, readings, family)


def _one_family(run_id: str, source: Source, readings: pd.DataFrame, family: str) -> None:
    """The sentence, the curve and the button; the slider redraws only this."""
    f1, best = fitted(readings, family)
    test = side_of(readings, family, "test")
    values = test["value"].dropna()
    low, high = (math.log10(max(1.0, float(v))) for v in (min(values.min(), best), max(values.max(), best)))
    picked = st.slider(
        "Threshold, log₁₀ of perplexity",
        math.floor(100 * low) / 100,
        math.ceil(100 * high) / 100,
        round(math.log10(max(1.0, best)), 2),
        0.01,
        key=f"{THRESHOLD}_{run_id}_{family}",
    )
    fitted_one = abs(picked - round(math.log10(max(1.0, best)), 2)) < 0.005
    threshold = best if fitted_one else 10**picked
    found = detection_at(test, threshold)
    parts = {
        name: interval_text(i.value, i.lower, i.upper, method=i.method, n_clusters=i.n_clusters)
        for name, i in found.items()
    }
    rule = f"best F1 on the fitting side, {three_digits(f1)}" if fitted_one else "set by hand"
    ui.headline(
        f"Perplexity above {three_digits(threshold)} flags {found['recall'].value:.0%} of attacked texts, and "
        f"{found['false_alarms'].value:.0%} of clean ones."
    )
    ui.note(
        f"Threshold: {rule}. Of other items are flagged {parts['recall']} of the attacked and {parts['false_alarms']} "
        f"of the clean texts; F1 {parts['f1']}, precision {parts['precision']}."
    )
    ui.show_entry(
        source, "curve", key=f"screen_curve_{family}", family=family, threshold=None if fitted_one else threshold
    )
    screen = str(readings["screen"].iloc[0])
    window = screen.partition("window=")[2]
    name = f"perplexity?threshold={threshold:.1f}" + (f"&window={window}" if window else "")
    used = st.button(
        "Use this threshold as a defense",
        icon=":material/shield:",
        key="screen_use",
        on_click=use_threshold,
        args=(name,),
    )
    if used:
        st.rerun()  # the whole page, which a click inside a fragment does not redraw


def use_threshold(name: str) -> None:
    """Set the defense and go to the tab of one response; called before the page is drawn."""
    try:
        arm = catalog.describe_defense(name).name
    except InputError:
        return
    state.put(state.DEFENSE, [arm])
    state.put(state.TAB, state.TAB_ONE)

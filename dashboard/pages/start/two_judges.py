"""Two judges of one base model under the same attacks, recorded: the picture that a visitor sees first."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import findings, run_view, state, ui
from dashboard.datasets import dataset
from dashboard.pages.attack_lab.effects import GridRun, dumbbells, forest, grid
from dashboard.pages.lessons.texts import JUDGE, NAIVE, Preset
from dashboard.pages.lessons.view import open_preset
from engine.core.schema import NONE
from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.rows import arm_title
from engine.plots.text import fixed

RUNS = {"Naive judge": "recorded:dialogue/naive", "Careful judge": "recorded:dialogue/run"}
ATTACK = "bed"
RESPONSE = "d01-off-topic"
"""A reply to another dialogue: weak replies rise most, good ones are near the top of the scale already."""
MOST_MOVED = 14
CAPTION = (
    "BED is a note that poses as a rule of the evaluation, DSI a sentence; both ask for a high score. Delimiters fence "
    "the response in the judge's prompt. The careful judge was also trained on broken and foreign texts."
)
QUESTION = "Same base model, two recipes: which would you deploy?"


def attack_on(judge: str) -> Preset:
    """The Attack lab on the demo dialogues with the attack that tells the two judges apart."""
    query = {
        state.JUDGE: judge,
        state.DATA: state.DEFAULT_DATA,
        state.ATTACK: ATTACK,
        state.DEFENSE: NONE,
        state.RESPONSE: RESPONSE,
    }
    return Preset("Attack lab", "pages/attack_lab/page.py", {**query, state.TAB: state.TAB_ONE})


def two_recipes() -> None:
    """Shifts of both judges in one figure, with a button to attack each of them live."""
    st.header(QUESTION, anchor=False)
    runs = {name: run_view.load_or_none(GridRun, run_id) for name, run_id in RUNS.items()}
    naive, careful = runs.values()
    if naive is None or careful is None:
        ui.nothing_yet(
            "The recorded run is missing from this copy of the project; make one of your own in the Attack lab.",
            "pages/attack_lab/page.py",
            "Attack lab",
        )
        return
    st.badge(findings.provenance(naive.manifest, recorded=True), icon=":material/history:", color="gray")
    ui.finding(findings.run_sentences(naive.metrics, findings.judge_name(naive.judge))[0])
    ui.note(by_quality(naive.shifts, dataset(state.DEFAULT_DATA).responses))
    prepared = side_by_side({name: run.metrics for name, run in runs.items() if run})
    ui.show_figure(
        lambda mode: plot_dots(
            prepared, title="How far does each attack move the score?", axis="points of the scale from 1 to 5",
            colours={"Naive judge": "attacked", "Careful judge": "clean"}, mode=mode, note="recorded",
        ),
        prepared, key="two_recipes", caption=CAPTION,
    )  # fmt: skip
    with st.container(horizontal=True, gap="small"):
        for name, spec in (("naive", NAIVE), ("careful", JUDGE)):
            if st.button(f"Attack the {name} judge", icon=":material/bolt:", key=f"attack_{name}"):
                open_preset(attack_on(spec))
    # three figures that most visits do not need: drawn when asked for, so that the page opens at once
    with st.expander("The naive judge: defenses, responses", key="recorded_figures", on_change="rerun") as figures:
        if figures.open:
            _figures(naive)


def by_quality(shifts: pd.DataFrame, responses: pd.DataFrame) -> str:
    """Mean shift of each level of quality in a sentence, the largest first.

    Args:
        shifts: one row per response and arm, from `paired_shifts`.
        responses: with response_id and quality.
    """
    own = shifts[(shifts["attack"] == ATTACK) & (shifts["defense"] == NONE)]
    means = own.merge(responses, on="response_id").groupby("quality")["shift"].mean().sort_values(ascending=False)
    parts = [f"{str(level).replace('_', ' ')} {fixed(value, 2, signed=True)}" for level, value in means.items()]
    return f"By what the replies are: {', '.join(parts)}."


def side_by_side(metrics: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Shifts of several judges, a row for each arm; the title of a judge is its series.

    Args:
        metrics: title of each judge and the table `metrics` of its run.
    """
    titles = findings.short_titles(next(iter(metrics.values())))
    parts = []
    for name, table in metrics.items():
        rows = table[(table["metric"] == "shift") & table["defense"].isin([NONE, "delimiters"])]
        arms = [arm_title(a, d, titles) for a, d in zip(rows["attack"], rows["defense"], strict=True)]
        parts.append(rows.assign(metric=name, arm=arms))
    both = pd.concat(parts, ignore_index=True)
    return prepare_dots(both, {name: name for name in metrics}, by="arm")


def _figures(view: GridRun) -> None:
    """Two columns on a wide screen, one on a phone."""
    left, right = st.columns(2, gap="large")
    with left:
        forest(view, key="recorded_forest")
    with right:
        attack, defense = findings.strongest_arm(view.metrics)
        dumbbells(view, attack, defense, key="recorded_dumbbells", most=MOST_MOVED)
    grid(view, key="recorded_grid")
    ui.note(
        "A shift is the score with the attack minus the score without it, under the same defense; intervals treat "
        "all responses to one item as one observation."
    )

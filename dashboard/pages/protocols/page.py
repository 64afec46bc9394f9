"""Protocols and leaderboard: pairwise or pointwise for my data, and who gains if a weak system sounds more sure?"""

from __future__ import annotations

import streamlit as st

from dashboard import run_view as data
from dashboard import state, ui
from dashboard.pages.protocols import data as protocols_data
from dashboard.pages.protocols.live import one_comparison
from dashboard.pages.protocols.results import results
from dashboard.pages.protocols.setup import setup, watched
from engine.core.errors import EngineError
from engine.core.schema import Task
from engine.data.store import DEMO_INSTRUCTION

SUITS = (Task.INSTRUCTION, Task.QUESTION)

st.title("Protocols and leaderboard", anchor=False)
ui.note(
    "A distractor changes the manner of a response and not its content: assertive, prolix or sycophantic. Paper 004 "
    "asks whether comparisons (pairwise) or scores (pointwise) fall for it, and which systems climb by it."
)
try:
    chosen = data.dataset(state.text(state.DATA))
    fits = chosen.task in SUITS and chosen.responses["system"].nunique() > 1
    dataset = chosen if fits else data.dataset(DEMO_INSTRUCTION)
except EngineError as error:
    ui.show_error(error, "The chosen data cannot be opened.")
    ui.nothing_yet("Choose other data on the left, or upload the file again.", "pages/data/page.py", "Data")
else:
    judge = state.text(state.JUDGE)
    if dataset is not chosen:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            ui.note("The data on the left are no instructions answered by several systems; shown are the demo ones.")
            st.button(
                "Use the demo instructions", key="protocols_demo", on_click=state.choose_data, args=(DEMO_INSTRUCTION,)
            )
    whole, one = st.tabs(["Whole set", "One comparison"], key="protocols_part", bind="query-params", on_change="rerun")
    if whole.open:
        with whole:
            setup(judge, dataset, watched(judge, dataset.dataset_id))
            run = protocols_data.latest(judge, dataset.dataset_id)
            if run and run.distractors:
                results(run, dataset)
            else:
                ui.nothing_yet(
                    "This judge has not been run on these data here yet. Open “Run this judge here”, then Run."
                )
    if one.open:
        with one:
            one_comparison(judge, dataset)

"""Protocols and leaderboard: pairwise or pointwise for my data, and who gains if a weak system sounds more sure?"""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.datasets import suitable_dataset
from dashboard.linked_run import latest
from dashboard.pages.protocols.data import ProtocolRun
from dashboard.pages.protocols.live import one_comparison
from dashboard.pages.protocols.results import results
from dashboard.pages.protocols.setup import setup
from dashboard.progress import newest_job
from engine.core.schema import Task
from engine.data.store import DEMO_INSTRUCTION

SUITS = (Task.INSTRUCTION, Task.QUESTION)

st.title("Protocols and leaderboard", anchor=False)
ui.note(
    "A distractor changes the manner of a response and not its content: assertive, prolix or sycophantic. Paper 004 "
    "asks whether comparisons (pairwise) or scores (pointwise) fall for it, and which systems climb by it."
)
dataset = suitable_dataset(
    lambda held: held.task in SUITS and held.responses["system"].nunique() > 1,
    DEMO_INSTRUCTION,
    said="this page takes instructions or questions, each answered by several systems.",
)
if dataset:
    judge = state.text(state.JUDGE)
    whole, one = st.tabs(["Whole set", "One comparison"], key="protocols_part", bind="query-params", on_change="rerun")
    if whole.open:
        with whole:
            setup(judge, dataset, newest_job(ProtocolRun.kind, judge=judge, data=dataset.dataset_id))
            run = latest(ProtocolRun, judge, dataset.dataset_id)
            if run and run.distractors:
                results(run, dataset)
            else:
                ui.nothing_yet(
                    "This judge has not been run on these data here yet. Open “Run this judge here”, then Run."
                )
    if one.open:
        with one:
            one_comparison(judge, dataset)

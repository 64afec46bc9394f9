"""Reference swap: which empty answers does my verifier accept, and does max_p_cf tell them apart?"""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.datasets import suitable_dataset
from dashboard.linked_run import latest
from dashboard.pages.reference_swap.data import SwapRun
from dashboard.pages.reference_swap.results import NOBODY, pick_judges, results, verifier_title
from dashboard.pages.reference_swap.setup import RUN, setup
from dashboard.progress import newest_job
from engine.core.schema import Task
from engine.data.store import DEMO_VERIFICATION

st.title("Reference swap", anchor=False)
ui.note(
    "A master key is a response without content, such as “Solution” or a space, that a reference verifier accepts. "
    "RefSwap asks again under K references that are not the right one: a YES stays only if the largest of those "
    "probabilities, max_p_cf, reaches γ (paper 003, eq. 4)."
)
dataset = suitable_dataset(
    lambda held: held.task == Task.VERIFICATION,
    DEMO_VERIFICATION,
    said="this page takes answers that are checked against a reference.",
)
if dataset:
    first, second = pick_judges()
    job = newest_job(SwapRun.kind, judge=first, data=dataset.dataset_id)
    setup(first, dataset, job)
    runs = []
    for spec in dict.fromkeys((first, second)):
        run = None if spec == NOBODY else latest(SwapRun, spec, dataset.dataset_id)
        if run:
            runs.append(run)
        elif spec == first and not (job and job.active):
            ui.nothing_yet(f"“{verifier_title(spec)}” has not been run on these data here yet: open “{RUN}”, then Run.")
        elif spec not in (first, NOBODY):
            ui.note(
                f"“{verifier_title(spec)}” has not been run on these data here yet; choose it as Verifier to run it."
            )
    if runs:
        results(runs, dataset)

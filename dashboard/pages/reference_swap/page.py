"""Reference swap: which empty answers does my verifier accept, and does max_p_cf tell them apart?"""

from __future__ import annotations

import streamlit as st

from dashboard import run_view as data
from dashboard import state, ui
from dashboard.pages.reference_swap import data as refswap_data
from dashboard.pages.reference_swap.results import NOBODY, pick_judges, results, verifier_title
from dashboard.pages.reference_swap.setup import RUN, setup, watched
from engine.core.errors import EngineError
from engine.core.schema import Task
from engine.data.store import DEMO_VERIFICATION

st.title("Reference swap", anchor=False)
ui.note(
    "A master key is a response without content, such as “Solution” or a space, that a reference verifier accepts. "
    "RefSwap asks again under K references that are not the right one: a YES stays only if the largest of those "
    "probabilities, max_p_cf, reaches γ (paper 003, eq. 4)."
)
try:
    chosen = data.dataset(state.text(state.DATA))
    dataset = chosen if chosen.task == Task.VERIFICATION else data.dataset(DEMO_VERIFICATION)
except EngineError as error:
    ui.show_error(error, "The chosen data cannot be opened.")
    ui.nothing_yet("Choose other data on the left, or upload the file again.", "pages/data/page.py", "Data")
else:
    if dataset is not chosen:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            ui.note("The data on the left have no reference answers; shown are the demo questions.")
            st.button("Use the demo questions", key="swap_demo", on_click=state.choose_data, args=(DEMO_VERIFICATION,))
    first, second = pick_judges()
    job = watched(first, dataset.dataset_id)
    setup(first, dataset, job)
    shown = []
    for spec in dict.fromkeys((first, second)):
        found = None if spec == NOBODY else refswap_data.latest(spec, dataset.dataset_id)
        if found:
            shown.append(found)
        elif spec == first and not (job and job.active):
            ui.nothing_yet(f"“{verifier_title(spec)}” has not been run on these data here yet: open “{RUN}”, then Run.")
        elif spec not in (first, NOBODY):
            ui.note(
                f"“{verifier_title(spec)}” has not been run on these data here yet; choose it as Verifier to run it."
            )
    if shown:
        results(shown, dataset)

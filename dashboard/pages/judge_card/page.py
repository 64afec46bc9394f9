"""Judge: which model is asked, and with which prompt?"""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.datasets import chosen_dataset
from dashboard.pages.judge_card.form import begin, fields
from dashboard.pages.judge_card.gallery import gallery
from dashboard.pages.judge_card.saved import OWN_CARD, listed, save, show_failure, source, trial
from engine.data.dataset import Dataset


def _own_prompt(dataset: Dataset) -> None:
    source()
    draft = fields()
    if draft.error:
        ui.show_error(draft.error, "This card cannot be used yet.")
    for notice in draft.notices:
        ui.show_problem(notice.where, notice.what, notice.fix, is_error=notice.error)
    st.header("Three rows", anchor=False)
    trial(draft, dataset)
    st.header("Save it", anchor=False)
    save(draft)


st.title("Judge", anchor=False)
ui.headline("Choose a judge with one click, or bring your own model and prompt; every page then asks it.")
gallery()
if dataset := chosen_dataset():
    begin(dataset.task)
    show_failure()
    with st.expander(
        "Your own prompt: write it, try it on three rows, save it", key=OWN_CARD, on_change="rerun",
        icon=":material/edit_note:", expanded="?card=" in state.text(state.JUDGE),
    ) as own:  # fmt: skip
        if own.open:
            _own_prompt(dataset)
    listed()

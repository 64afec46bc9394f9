"""Judge card: is my production prompt read as I meant it, and what does the judge answer?"""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.datasets import chosen_dataset
from dashboard.pages.judge_card.form import begin, fields
from dashboard.pages.judge_card.saved import listed, save, source, trial

st.title("Judge card", anchor=False)
ui.finding("A judge is a model and its prompt. Write or paste yours, try it on three rows, use it everywhere.")
if dataset := chosen_dataset():
    begin(dataset.task)
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
    st.header("Saved cards", anchor=False)
    listed()

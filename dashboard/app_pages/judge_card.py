"""Judge card: is my production prompt read as I meant it, and what does the judge answer?"""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from dashboard.panels import card_saved
from dashboard.panels.card_form import begin, fields
from dashboard.panels.card_trial import trial
from engine.errors import EngineError

st.title("Judge card", anchor=False)
ui.finding("A judge is a model and its prompt. Write or paste yours, try it on three rows, use it everywhere.")
try:
    dataset = data.dataset(state.text(state.DATA))
except EngineError as error:
    ui.show_error(error, "The chosen data cannot be opened.")
    ui.nothing_yet("Choose other data on the left, or upload the file again.", "app_pages/data.py", "Data")
else:
    begin(dataset.task)
    card_saved.source()
    draft = fields()
    if draft.error:
        ui.show_error(draft.error, "This card cannot be used yet.")
    for notice in draft.notices:
        ui.show_problem(notice.where, notice.what, notice.fix, is_error=notice.error)
    st.header("Three rows", anchor=False)
    trial(draft, dataset)
    st.header("Save it", anchor=False)
    card_saved.save(draft)
    st.header("Saved cards", anchor=False)
    card_saved.listed()

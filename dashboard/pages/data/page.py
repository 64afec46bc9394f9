"""Data: are my responses read correctly?"""

from __future__ import annotations

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.pages.data.results import next_steps, verdict_file
from dashboard.pages.data.rows import preview
from dashboard.pages.data.upload import review, uploader
from engine.core.errors import EngineError

st.title("Data", anchor=False)
held = state.held_upload()
if held:
    review(*held)
else:
    try:
        current = datasets.dataset(state.text(state.DATA))
    except EngineError as error:
        ui.show_error(error, "The chosen data cannot be opened.")
    else:
        ui.finding(f"In use: “{current.name}” with {datasets.counts(current)}.")
        next_steps(current)
        st.subheader("Bring your own responses", anchor=False)
        uploader()
        st.subheader("What is in use now", anchor=False)
        preview(current, key="current_data")
        st.subheader("Verdicts you already have", anchor=False)
        ui.note("Order bias, shifts and acceptance from a judge's recorded verdicts; no judge is asked.")
        verdict_file()

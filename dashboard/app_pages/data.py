"""Data: are my responses read correctly?"""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from dashboard.panels.next_steps import next_steps
from dashboard.panels.responses import preview
from dashboard.panels.upload import review, uploader
from dashboard.panels.verdict_file import verdict_file
from engine.errors import EngineError

st.title("Data", anchor=False)
held = state.held_upload()
if held:
    review(*held)
else:
    try:
        current = data.dataset(state.text(state.DATA))
    except EngineError as error:
        ui.show_error(error, "The chosen data cannot be opened.")
    else:
        ui.finding(f"In use: “{current.name}” with {data.counts(current)}.")
        next_steps(current)
        st.subheader("Bring your own responses", anchor=False)
        uploader()
        st.subheader("What is in use now", anchor=False)
        preview(current, key="current_data")
        st.subheader("Verdicts you already have", anchor=False)
        ui.note("Order bias, shifts and acceptance from a judge's recorded verdicts; no judge is asked.")
        verdict_file()

"""Steering and anchors: where in the tutor does quality live, what does alpha do, do anchors hold the score?"""

from __future__ import annotations

import streamlit as st

from dashboard import run_view as data
from dashboard import state, ui
from dashboard.pages.steering_and_anchors.results import cap_page
from engine.core.errors import EngineError

st.title("Steering and anchors", anchor=False)
try:
    dataset = data.dataset(state.text(state.DATA))
except EngineError as error:
    ui.show_error(error, "The chosen data cannot be opened.")
    ui.nothing_yet("Choose other data on the left, or upload the file again.", "pages/data/page.py", "Data")
else:
    cap_page(state.text(state.JUDGE), dataset)

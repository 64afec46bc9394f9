"""Runs: what has been run, what each rests on, how two of them differ; titles, tags, trash, zips."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.pages.runs.comparison import comparison
from dashboard.pages.runs.one import one_run
from dashboard.pages.runs.overview import bring_in, choose, trash

st.title("Runs", anchor=False)
ui.note(
    "Every run keeps its settings, data digest, judge, prompts and versions, so that its numbers can be made again."
)
chosen = choose()
if len(chosen) == 1:
    one_run(chosen[0])
elif len(chosen) == 2:
    comparison(*chosen)
bring_in()
trash()

"""Runs: what has been run, what each rests on, how two of them differ; titles, tags, trash, zips."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.panels.runs_compare import comparison
from dashboard.panels.runs_files import bring_in, trash
from dashboard.panels.runs_list import choose
from dashboard.panels.runs_one import one_run

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

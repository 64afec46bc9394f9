"""Data: are my responses read correctly?"""

from __future__ import annotations

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.pages.data.results import next_steps, verdict_file
from dashboard.pages.data.rows import preview
from dashboard.pages.data.upload import review, uploader
from engine.core.errors import EngineError


def _in_use() -> None:
    """What the pages are about now, and where to go with it."""
    chosen = state.text(state.DATA)
    if chosen in datasets.pair_sets():
        ui.headline(f"In use: “{datasets.titles()[chosen]}” with {datasets.count_line(chosen)}.")
        return
    try:
        current = datasets.dataset(chosen)
    except EngineError as error:
        ui.show_error(error, "The chosen data cannot be opened.")
        return
    ui.headline(f"In use: “{current.name}” with {datasets.counts(current)}.")
    next_steps(current)
    with st.expander("The responses in use", key="data_in_use", on_change="rerun", icon=":material/table:") as table:
        if table.open:
            preview(current, key="current_data")


st.title("Data", anchor=False)
if held := state.held_upload():
    review(*held)
else:
    _in_use()
    st.subheader("Bring your own responses", anchor=False)
    uploader()
    st.subheader("Verdicts you already have", anchor=False)
    ui.note("Order bias, shifts and acceptance from a judge's recorded verdicts; no judge is asked.")
    verdict_file()

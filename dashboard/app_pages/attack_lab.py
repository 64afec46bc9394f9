"""Attack lab: what does this attack do to this response, now? And over the whole set?"""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from dashboard.panels.one_response import one_response
from dashboard.panels.whole_set import whole_set
from engine.errors import EngineError

st.title("Attack lab", anchor=False)
try:
    dataset = data.dataset(state.text(state.DATA))
except EngineError as error:
    ui.show_error(error, "The chosen data cannot be opened.")
    ui.nothing_yet("Choose other data on the left, or upload the file again.", "app_pages/data.py", "Data")
else:
    judge = state.text(state.JUDGE)
    one, whole = st.tabs([state.TAB_ONE, state.TAB_SET], key=state.TAB, bind="query-params", on_change="rerun")
    if one.open:
        with one:
            one_response(judge, dataset)
    if whole.open:
        with whole:
            whole_set(judge, dataset)

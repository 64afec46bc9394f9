"""Attack lab: what does this attack do to this response, now? And over the whole set?"""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from dashboard.panels.one_response import one_response
from dashboard.panels.refswap_one import verify_one
from dashboard.panels.screen_threshold import screen_threshold
from dashboard.panels.suffix_search import suffix_search
from dashboard.panels.whole_set import whole_set
from engine.errors import EngineError
from engine.schema import Task

st.title("Attack lab", anchor=False)
try:
    dataset = data.dataset(state.text(state.DATA))
except EngineError as error:
    ui.show_error(error, "The chosen data cannot be opened.")
    ui.nothing_yet("Choose other data on the left, or upload the file again.", "app_pages/data.py", "Data")
else:
    if dataset.task == Task.VERIFICATION:
        verify_one(dataset)
        ui.nothing_yet("All questions under all master keys:", "app_pages/reference_swap.py", "Reference swap")
    else:
        judge = state.text(state.JUDGE)
        names = [state.TAB_ONE, state.TAB_SET, state.TAB_SUFFIX, state.TAB_SCREEN]
        one, whole, learn, screen = st.tabs(names, key=state.TAB, bind="query-params", on_change="rerun")
        if one.open:
            with one:
                one_response(judge, dataset)
        if whole.open:
            with whole:
                whole_set(judge, dataset)
        if learn.open:
            with learn:
                suffix_search(judge, dataset)
        if screen.open:
            with screen:
                screen_threshold(dataset)

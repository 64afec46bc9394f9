"""From data to the pages that put a judge to the test on them."""

from __future__ import annotations

import streamlit as st

from dashboard import state
from engine.data.dataset import Dataset
from engine.data.store import DEMO_NAMES
from engine.schema import Task


def next_steps(dataset: Dataset) -> None:
    """One button a page; the first is what comes next, once the data are the user's own."""
    kind = "secondary" if dataset.dataset_id in DEMO_NAMES else "primary"
    with st.container(horizontal=True, gap="small", key="next_steps"):
        if dataset.task == Task.VERIFICATION:
            if st.button("Swap the references", type=kind, icon=":material/swap_horiz:", key="next_swap"):
                st.switch_page("app_pages/reference_swap.py")
        else:
            if st.button("Attack one response", type=kind, icon=":material/bolt:", key="next_one"):
                _attack(state.TAB_ONE)
            if st.button("Attack the whole set", icon=":material/grid_on:", key="next_set"):
                _attack(state.TAB_SET)
        if st.button("Check up the judge", icon=":material/stethoscope:", key="next_checkup"):
            st.switch_page("app_pages/checkup.py")


def _attack(tab: str) -> None:
    """Open the Attack lab at a tab that a reload keeps; the address has it only if it is given one."""
    state.put(state.TAB, tab)
    st.switch_page("app_pages/attack_lab.py", query_params={state.TAB: tab})

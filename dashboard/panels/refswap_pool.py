"""Where a run's counterfactual references come from: these data, other data, or a file of the user's own."""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from engine.data.pools import MAX_MB, list_pools, pool_of_lines, save_pool
from engine.errors import EngineError
from engine.figures.text import plural
from engine.schema import Task
from engine.settings import get_settings

POOL = "swap_pool"
OWN_POOL = "data"


def pick_pool() -> str:
    """The pool chosen, by the name a job knows it by; below it a file can be added to the list."""
    titles = {OWN_POOL: "The references of these data"} | {
        name: title for name, title in data.dataset_titles().items() if _has_references(name)
    }
    titles |= {p.pool_id: f"Your file {p.name} ({plural(p.n, 'reference')})" for p in list_pools(get_settings().pools)}
    state.seed(POOL, list(titles), OWN_POOL)
    chosen = ui.pick("Counterfactual references from", list(titles), key=POOL, title=lambda p: titles[p])
    # another key where another pool is chosen: a panel that did its work closes
    add = f"swap_pool_add_{chosen}"
    with st.popover("References of your own", type="tertiary", icon=":material/upload_file:", key=add):
        _upload(chosen)
    return chosen


def _upload(chosen: str) -> None:
    """A text file with one reference a line; it is used once it was read and the user says so."""
    held = st.file_uploader(
        "A text file, one reference a line", type=["txt"], max_upload_size=MAX_MB, key=f"pool_file_{chosen}"
    )
    if held is None:
        ui.note("For answers that fit no other data: each line a final answer, of several kinds if you can.")
        return
    try:
        kinds = pool_of_lines(held.name, held.getvalue()).counts
    except EngineError as error:
        ui.show_error(error, "These references cannot be used as they are.")
        return
    ui.note(", ".join(f"{n} {kind.value.replace('_', ' ')}" for kind, n in kinds.items()))
    if st.button("Use these references", type="primary", key="use_pool"):
        saved = save_pool(held.name, held.getvalue(), get_settings().pools)
        state.after_rerun({POOL: saved.pool_id})
        st.rerun()


@st.cache_data(max_entries=64, show_spinner=False)
def _has_references(dataset_id: str) -> bool:
    try:
        found = data.dataset(dataset_id)
    except EngineError:
        return False
    return found.task == Task.VERIFICATION and bool(found.items["reference"].notna().any())

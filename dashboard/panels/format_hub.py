"""Known data sets of the Hugging Face Hub: the only thing on the page that calls out, and only when asked."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from engine.data.formats.hub import HUB, fetch, known_sets
from engine.data.formats.registry import FORMATS
from engine.errors import EngineError

_OTHER = "another id"


def hub_panel() -> None:
    """Choose a set and fetch it; it then is reviewed like an uploaded file."""
    with st.expander("From the Hugging Face Hub", icon=":material/cloud_download:", on_change="rerun",
                     key="hub") as panel:  # fmt: skip
        if not panel.open:
            return
        ui.note("Fetching asks huggingface.co for one data file, never for code. Without a network, upload the file.")
        sets = known_sets()
        chosen = st.selectbox(
            "Data set",
            [*sets, _OTHER],
            format_func=lambda i: i if i == _OTHER else f"{i} ({FORMATS[sets[i][0]].title})",
            key="hub_set",
        )
        if chosen == _OTHER:
            name = st.text_input("Id, owner/name", key="hub_id", placeholder="owner/name?split=test")
        else:
            splits = sets[chosen][1].splits
            split = st.segmented_control("Split", splits, default=splits[0], required=True, key=f"hub_split_{chosen}")
            known = sets[chosen][1]
            name = chosen if known.file and split == splits[0] else f"{chosen}?split={split}"
        if st.button("Fetch", icon=":material/download:", key="hub_fetch", disabled=not name):
            _fetch(name)


def _fetch(name: str) -> None:
    try:
        with st.spinner("Fetching …"):
            found = fetch(HUB + name)
    except EngineError as error:
        ui.show_error(error, "Nothing was fetched.")
        return
    state.hold_upload(found.filename, found.content)
    st.rerun()

"""Which encoders an audit may use, and embeddings of the user's own."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import state, ui
from engine import catalog
from engine.data.comparisons import Comparisons
from engine.data.embeddings import KINDS, RULES, list_embeddings, read_embeddings, save_embeddings
from engine.errors import EngineError
from engine.settings import get_settings


def titles(found: Comparisons) -> dict[str, str]:
    """Spec and title of every encoder on offer: the user's own embeddings of these pairs, then the listed ones."""
    own = {spec: f"Your embeddings: {name}" for spec, name in list_embeddings(_root(), found.set_id).items()}
    return own | {card.spec: f"{card.title} ({card.about})" for card in catalog.ENCODERS}


def short_title(spec: str) -> str:
    """What a table calls an encoder."""
    return next((card.title for card in catalog.ENCODERS if card.spec == spec), spec)


def choose_encoders(found: Comparisons, key: str, default: str) -> list[str]:
    """The encoders chosen, the first being the audit's; any other can be named by its spec."""
    options = titles(found)
    if key not in st.session_state:
        st.session_state[key] = [default]
    return list(
        st.multiselect(
            "Encoders, the first is the audit's",
            list(dict.fromkeys([*options, *st.session_state[key]])),
            key=key,
            format_func=lambda spec: options.get(spec, spec),
            accept_new_options=True,
            persist_state="session",
            help="Or type a spec: hf:ORG/NAME for any model on the hub, path:FOLDER for one on this machine.",
        )
    )


def upload(found: Comparisons, key: str) -> None:
    """A file of embeddings, matched to these pairs by the visible rule or refused by name; `key` is the chooser's."""
    held = st.file_uploader(
        "A file of embeddings", type=[kind.removeprefix(".") for kind in KINDS], key=f"embeddings_file_{found.set_id}"
    )
    for kind, rule in RULES.items():
        ui.note(f"{kind}: {rule}.")
    if held is None:
        return
    try:
        read = read_embeddings(held.name, held.getvalue(), found)
    except EngineError as error:
        ui.show_error(error, "These embeddings cannot be used as they are.")
        return
    ui.note(read.counts())
    if st.button("Use these embeddings", type="primary", key="use_embeddings"):
        spec = save_embeddings(read, _root())
        state.after_rerun({key: [spec]})
        st.rerun()


def _root() -> Path:
    return get_settings().embeddings

"""Saving a judge card, and the saved ones: used, edited, renamed, deleted with undo, taken as a file."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.panels.card_form import MODES, NAME, PROTOCOLS, SOURCE, Draft, fill_fields
from engine import catalog
from engine.errors import EngineError, InputError
from engine.settings import get_settings

DELETED, FAILED, FILE_ROUND = "card_deleted", "card_error", "card_file_round"
_BLANK = ("built-in", "")


def source() -> None:
    """Where the fields are filled from: a built-in card as a copy, a saved one, a TOML file."""
    left, right = st.columns(2, gap="large", vertical_alignment="bottom")
    with left, st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        options = [("built-in", n) for n, c in catalog.built_in_cards().items() if c.protocol.value in PROTOCOLS]
        options += [("saved", n) for n in _saved()]
        st.selectbox(
            "Begin with", options, key=SOURCE, format_func=lambda o: f"{o[1]} ({o[0]})", persist_state="session",
            help="A built-in card is copied; the original stays as it is.",
        )  # fmt: skip
        st.button("Fill the fields", key="card_fill", on_click=_take_over)
    with right:
        held = st.file_uploader(
            "or a card's TOML file", type=["toml"], key=f"card_file_{st.session_state.get(FILE_ROUND, 0)}",
            max_upload_size=1,
        )  # fmt: skip
        if held is not None:
            st.button("Fill the fields from the file", key="card_from_file", on_click=_from_file,
                      args=(held.name, held.getvalue()))  # fmt: skip
    if failed := str(st.session_state.pop(FAILED, "")):
        ui.show_error(failed, "That did not work.")


def _saved() -> dict[str, catalog.Card]:
    return catalog.saved_cards(get_settings().cards)


def _take_over() -> None:
    kind, name = st.session_state.get(SOURCE) or _BLANK
    if kind == "saved" and name in _saved():
        fill_fields(_saved()[name], name=name)
    elif name in catalog.built_in_cards():
        fill_fields(catalog.built_in_cards()[name])


def _from_file(name: str, content: bytes) -> None:
    try:
        card = catalog.upload_card(content, name)
        if card.protocol.value not in PROTOCOLS:
            raise InputError(f"{name} is a {card.protocol} card, which this page does not edit.")
    except EngineError as error:
        st.session_state[FAILED] = str(error)
        return
    fill_fields(card, name=card.name)
    st.session_state[FILE_ROUND] = int(st.session_state.get(FILE_ROUND, 0)) + 1


def save(draft: Draft) -> None:
    """The name and the buttons; an error stands where the eye is."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        name = st.text_input(
            "Name of the card", key=NAME, max_chars=60, placeholder="such as support-replies", persist_state="session"
        )
        taken = str(name or "").strip() in _saved()
        ready = draft.usable and bool(str(name or "").strip())
        st.button(
            "Replace the saved card" if taken else "Save", key="card_save", type="primary", icon=":material/save:",
            disabled=not ready, on_click=_save, args=(draft, False, taken),
        )  # fmt: skip
        st.button(
            "Save and use as the judge", key="card_save_use", disabled=not ready, on_click=_save,
            args=(draft, True, taken),
        )  # fmt: skip
        if draft.card is not None:
            text, file_name = catalog.card_toml(draft.card), f"{str(name or '').strip() or 'judge-card'}.toml"
            ui.download("TOML", text.encode, file_name, "application/toml", key="card_toml")
    ui.note(
        "Saved cards stand in every page's list of judges, and on the command line as --judge-card NAME. The card's "
        "digest is part of the judge's fingerprint and stands in the judge's spec."
    )


def _save(draft: Draft, use: bool, replace: bool) -> None:
    assert draft.card is not None
    try:
        catalog.save_card(get_settings().cards, draft.card, replace=replace)
    except EngineError as error:
        st.session_state[FAILED] = str(error)
        return
    st.session_state[DELETED] = None
    state.say_after_rerun(f"Saved the card {draft.card.name}.")
    if use:
        _use(draft.card.name)


def _use(name: str) -> None:
    card = _saved()[name]
    state.after_rerun({state.JUDGE: catalog.card_spec(card.spec or catalog.DEFAULT_MODEL, card)})


def listed() -> None:
    """The saved cards, one box each."""
    cards = _saved()
    deleted = st.session_state.get(DELETED)
    if not cards and not deleted:
        ui.note("No card is saved yet.")
    if deleted:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            ui.note(f"The card “{deleted.name}” is deleted.")
            st.button("Undo", type="tertiary", icon=":material/undo:", key="card_undo", on_click=_put_back)
    for name, card in cards.items():
        _box(name, card)
    for name, why in catalog.broken_cards(get_settings().cards).items():
        ui.show_problem(f"{name}.toml", why, "Mend the file or move it away; it is not used.", is_error=True)


def _box(name: str, card: catalog.Card) -> None:
    with st.container(border=True, key=f"card_box_{name}"):
        ui.finding(name)
        model = catalog.describe_judge(card.spec or catalog.DEFAULT_MODEL).title
        kind = PROTOCOLS.get(card.protocol.value, card.protocol.value)
        ui.note(f"{kind}; answers {', '.join(card.labels[:12])}; {MODES[card.mode].lower()}; asked of: {model}.")
        with st.container(horizontal=True, gap="small"):
            st.button("Use as the judge", key=f"card_use_{name}", on_click=_use, args=(name,))
            st.button("Edit", key=f"card_edit_{name}", type="tertiary", icon=":material/edit:",
                      on_click=fill_fields, args=(card,), kwargs={"name": name})  # fmt: skip
            with st.popover("Rename", type="tertiary", key=f"card_rename_{name}"):
                st.text_input("New name", value=name, max_chars=60, key=f"card_new_{name}")
                st.button("Rename it", key=f"card_do_rename_{name}", on_click=_rename, args=(name,))
            ui.download("TOML", catalog.card_toml(card).encode, f"{name}.toml", "application/toml",
                        key=f"card_toml_{name}")  # fmt: skip
            st.button("Delete", type="tertiary", icon=":material/delete:", key=f"card_delete_{name}",
                      on_click=_delete, args=(name,))  # fmt: skip


def _rename(name: str) -> None:
    try:
        catalog.rename_card(get_settings().cards, name, " ".join(state.text(f"card_new_{name}").split()))
    except EngineError as error:
        st.session_state[FAILED] = str(error)
        return
    state.say_after_rerun("Renamed. Runs made under the old name keep it.")


def _delete(name: str) -> None:
    try:
        st.session_state[DELETED] = catalog.delete_card(get_settings().cards, name)
    except EngineError as error:
        st.session_state[FAILED] = str(error)


def _put_back() -> None:
    deleted = st.session_state.get(DELETED)
    if deleted is None:
        return
    try:
        catalog.save_card(get_settings().cards, deleted)
    except EngineError as error:
        st.session_state[FAILED] = str(error)
        return
    st.session_state[DELETED] = None

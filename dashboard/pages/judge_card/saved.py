"""Saving a judge card, and the saved ones: used, edited, renamed, deleted with undo, taken as a file."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.pages.judge_card.form import MODES, NAME, PROTOCOLS, SOURCE, Draft, fill_fields
from dashboard.ui import show_verbatim
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.core.files import safe_csv
from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.jobs.manager import manager
from engine.plots.text import plural, three_digits

OWN_CARD = "own_card"
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


def show_failure() -> None:
    """What the last press could not do, once."""
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
    if cards:
        st.header("Saved cards", anchor=False)
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
                      on_click=_edit, args=(name, card))  # fmt: skip
            with st.popover("Rename", type="tertiary", key=f"card_rename_{name}"):
                st.text_input("New name", value=name, max_chars=60, key=f"card_new_{name}")
                st.button("Rename it", key=f"card_do_rename_{name}", on_click=_rename, args=(name,))
            ui.download("TOML", catalog.card_toml(card).encode, f"{name}.toml", "application/toml",
                        key=f"card_toml_{name}")  # fmt: skip
            st.button("Delete", type="tertiary", icon=":material/delete:", key=f"card_delete_{name}",
                      on_click=_delete, args=(name,))  # fmt: skip


def _edit(name: str, card: catalog.Card) -> None:
    fill_fields(card, name=name)
    state.put(OWN_CARD, True)  # the drawer with the fields


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


# A judge card on three rows of the data: the prompt, the probability of each answer, what else the model would say.

ROWS, HELD = "card_rows", "card_trial"
MOST = 3
_LISTED = 500
LOW_COVERAGE = 0.5


def trial(draft: Draft, dataset: Dataset) -> None:
    """Choose rows, ask, and show the last answer as long as it is about this very card."""
    ids = dataset.responses.drop_duplicates("item_id")["response_id"].astype(str).tolist()
    offered = list(dict.fromkeys([*ids[:MOST], *dataset.responses["response_id"].astype(str).head(_LISTED)]))
    key = f"{ROWS}_{dataset.dataset_id}"
    if key not in st.session_state:
        st.session_state[key] = ids[:MOST]
    chosen = st.multiselect(
        f"Rows of {dataset.name}", offered, key=key, max_selections=MOST, persist_state="session",
        help="The first responses of three items, unless you choose others.",
    )  # fmt: skip
    card = draft.card
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        go = st.button(
            "Try it on these rows", type="primary", icon=":material/play_arrow:", key="card_try",
            disabled=not draft.usable or not chosen,
        )  # fmt: skip
        ui.note(_why_not(draft, chosen, dataset))
    if card is None:
        return
    asked = (card.digest, draft.model, dataset.dataset_id, tuple(chosen))
    if go:
        _ask(asked, card, draft.model)
    held = st.session_state.get(HELD)
    if held and held[0] == asked:
        _show(held[1], card)
    elif held:
        ui.note("The card or the rows have changed since it was tried; try it again.")


def _why_not(draft: Draft, chosen: list[str], dataset: Dataset) -> str:
    if not draft.usable:
        return "The card has an error, see above."
    if not chosen:
        return "Choose a row."
    if draft.card and dataset.task not in draft.card.tasks:
        return f"These data are of the kind {dataset.task}, and the card is for: {', '.join(draft.card.tasks)}."
    return f"{plural(len(chosen), 'judge call')}; the first question loads the model."


def _ask(asked: tuple[Any, ...], card: catalog.Card, model: str) -> None:
    _, _, data, rows = asked
    params = {"card": card.model_dump(mode="json", exclude_defaults=True), "model": model, "data": data}
    try:
        with st.spinner("Asking the judge …", show_time=True):
            result = manager().ask("card_preview", {**params, "response_ids": list(rows)})
    except EngineError as error:
        st.session_state.pop(HELD, None)
        ui.show_error(error, "The card could not be tried.")
        return
    st.session_state[HELD] = (asked, result)


def _show(result: dict[str, Any], card: catalog.Card) -> None:
    rows = result["rows"]
    read = [row for row in rows if not row["unread_reason"]]
    ui.finding(f"{len(read)} of {len(rows)} rows have a verdict. {_coverage(rows)}")
    columns = st.columns(len(rows), gap="medium")
    for i, (column, row) in enumerate(zip(columns, rows, strict=True)):
        with column:
            _row(row, result["labels"], card, i)
    table = pd.DataFrame(
        [
            {"response": r["response_id"], "verdict": _verdict(r, card), "coverage": r["coverage"],
             **{f"p({label})": p for label, p in zip(result["labels"], r["raw"] or [], strict=False)},
             "unread": r["unread_reason"], "prompt": r["prompt"]}
            for r in rows
        ]
    )  # fmt: skip
    ui.download("Rows and prompts (CSV)", lambda: safe_csv(table), "card_rows.csv", "text/csv", key="card_rows_csv")
    ui.note(f"Device {result['device']}; fingerprint {result['fingerprint']}, whose end is the card's.")


def _coverage(rows: list[dict[str, Any]]) -> str:
    known = [r["coverage"] for r in rows if r["coverage"] is not None]
    if not known:
        return ""
    low = min(known)
    if low < LOW_COVERAGE:
        return (
            f"The answers hold as little as {three_digits(low)} of the probability: say in the prompt which answers "
            "there are, and that nothing else is wanted."
        )
    return f"The answers hold at least {three_digits(low)} of the probability (coverage)."


def _row(row: dict[str, Any], labels: list[str], card: catalog.Card, i: int) -> None:
    st.subheader(ui.plain(row["response_id"]), anchor=False)
    if row["stand_in"]:
        ui.note(f"{row['stand_in'][:1].upper()}{row['stand_in'][1:]}.")
    if row["unread_reason"]:
        ui.warn(f"Unread: {row['unread_reason']}.")
    else:
        ui.finding(_verdict(row, card))
    facts = {"Prompt tokens": f"{row['prompt_tokens']:,}"}
    if row["coverage"] is not None:
        facts = {"Coverage": three_digits(row["coverage"]), **facts}
    ui.facts(facts)
    if row["raw"]:
        _bars(pd.DataFrame({"Answer": labels, "Probability": row["raw"]}), f"card_p_{i}", "Probability of each answer")
    if row["next"]:
        tokens = pd.DataFrame(row["next"], columns=["First token", "Probability"])
        tokens["First token"] = tokens["First token"].map(lambda text: repr(text)[1:-1])
        # where the answers hold most of the probability, the tokens repeat them
        with st.expander("The likeliest first tokens", expanded=row["coverage"] < LOW_COVERAGE):
            _bars(tokens, f"card_next_{i}", "The likeliest first tokens")
    if row["raw_text"]:
        ui.note("What it wrote")
        show_verbatim(row["raw_text"], label="The judge's reply")
    with st.expander("The prompt as the model reads it"):
        st.code(row["prompt"], language=None, wrap_lines=True, height=300)


def _bars(table: pd.DataFrame, key: str, what: str) -> None:
    bar = st.column_config.ProgressColumn("Probability", min_value=0.0, max_value=1.0, format="%.4f")
    st.dataframe(table, hide_index=True, key=key, alt=what, column_config={"Probability": bar})


def _verdict(row: dict[str, Any], card: catalog.Card) -> str:
    if row["unread_reason"]:
        return ""
    if card.protocol is Protocol.POINTWISE:
        top = f" of {max(card.values):g}" if card.values else ""
        return f"Score {three_digits(math.nan if row['score'] is None else row['score'])}{top}"
    if card.protocol is Protocol.PAIRWISE:
        return f"Better: {'a tie' if row['outcome'] == 'tie' else 'response ' + str(row['outcome']).upper()}"
    return f"{str(row['outcome']).upper()}, p(YES) {three_digits(row['p_yes'])}"

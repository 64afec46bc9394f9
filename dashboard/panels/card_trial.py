"""A judge card on three rows of the data: the prompt, the probability of each answer, what else the model would say."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.panels.card_form import Draft
from dashboard.panels.marked import show_verbatim
from engine import catalog, jobs
from engine.data.dataset import Dataset
from engine.errors import EngineError
from engine.figures.text import plural, three_digits
from engine.schema import Protocol
from engine.spreadsheet import safe_csv

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
            result = jobs.manager().ask("card_preview", {**params, "response_ids": list(rows)})
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

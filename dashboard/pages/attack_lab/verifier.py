"""The Attack lab on verification items: one response or a master key before a verifier, RefSwap on or off."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.pages.attack_lab.one import pick_response
from dashboard.pages.reference_swap.results import GAMMAS
from dashboard.pages.reference_swap.setup import FORMS, variant
from dashboard.ui import show_verbatim
from engine import catalog
from engine.core.errors import EngineError
from engine.data.dataset import Dataset
from engine.jobs.manager import manager
from engine.plots.text import three_digits

TEXT, SWAP, K, GAMMA, FORM, OWN = "verify_text", "verify_swap", "verify_k", "verify_gamma", "verify_form", "verify_own"
ITSELF, OWN_KEY = "response", "own"


@st.fragment
def verify_one(dataset: Dataset) -> None:
    """Choices on top, the finding, then the text beside the references it was checked against."""
    judge, response_id = state.text(state.JUDGE), pick_response(dataset)
    left, right = st.columns(2, gap="medium")
    with left:
        text = _text()
    with right:
        defended, k, gamma = _defense()
        form = ui.pick("Form of the prompt", list(FORMS), key=FORM, default="reference last", title=lambda f: FORMS[f])
    key = _own() if text == OWN_KEY else None if text == ITSELF else text
    if key == "":
        ui.finding("Type the key you want to try, then leave the field.")
        return
    params = {"judge": judge, "data": dataset.dataset_id, "response_id": response_id, "key": key}
    params |= {"variant": variant(form), "defended": defended, "k": k, "gamma": gamma}
    try:
        with st.spinner("Asking the verifier. The first question loads it …", show_time=True):
            result = _ask(tuple(params.items()))
    except EngineError as error:
        ui.show_error(error, "The verifier could not be asked.")
        return
    ui.finding(sentence(result, key, gamma if defended else None))
    _show(dataset, response_id, result)


@st.cache_data(max_entries=256, show_spinner=False)
def _ask(params: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return manager().ask("verify_one", dict(params))


def _text() -> str:
    titles = {ITSELF: "The response itself"} | {t: f"Master key: {catalog.shown_key(t)}" for t in catalog.KEY_TEXTS}
    titles[OWN_KEY] = "A key of your own"
    return ui.pick("What is verified", list(titles), key=TEXT, default=ITSELF, title=lambda t: titles[t])


def _own() -> str:
    return str(st.text_input("Your key", key=OWN, max_chars=500, persist_state="session") or "")


def _defense() -> tuple[bool, int, float]:
    on = st.toggle(
        "RefSwap",
        key=SWAP,
        help="A YES is asked again under K other references, and stays only if max_p_cf reaches γ (RefSwap, eq. 4).",
        persist_state="session",
    )
    for key, default in ((K, 5), (GAMMA, 0.01)):
        if key not in st.session_state:
            state.put(key, default)
    k = int(st.slider("K", 1, 10, key=K, disabled=not on, persist_state="session"))
    gamma = float(
        st.select_slider("γ", GAMMAS, key=GAMMA, disabled=not on, format_func="{:g}".format, persist_state="session")
    )
    return on, k, gamma


def sentence(result: dict[str, Any], key: str | None, gamma: float | None) -> str:
    """The verifier's answers to this text before and behind RefSwap."""
    what = "this response" if key is None else f"the master key {catalog.shown_key(key)}"
    base, final = result["base"], result["final"]
    if base["unread_reason"]:
        return f"No usable verdict: {base['unread_reason']}."
    said = f"The verifier {_verb(base['outcome'])} {what} with p(YES) {three_digits(_number(base['p_yes']))}"
    if gamma is None:
        return f"{said}."
    if base["outcome"] != "yes":
        return f"{said}; RefSwap checks a YES only."
    if final["unread_reason"]:
        return f"{said}; the check is unread: {final['unread_reason']}."
    most = three_digits(_number(result["max_p_cf"]))
    keeps = "stays" if final["outcome"] == "yes" else "falls"
    sign = "at least" if final["outcome"] == "yes" else "below"
    return f"{said}. Behind RefSwap the YES {keeps}: max_p_cf is {most}, {sign} γ = {three_digits(gamma)}."


def _verb(outcome: str | None) -> str:
    return "accepts" if outcome == "yes" else "rejects"


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _show(dataset: Dataset, response_id: str, result: dict[str, Any]) -> None:
    row = dataset.responses.set_index("response_id").loc[response_id]
    left, right = st.columns(2, gap="medium")
    with left:
        ui.note("What the verifier reads as the response")
        show_verbatim(result["text"] if result["text"].strip() else catalog.shown_key(result["text"]), label="Response")
        context = dataset.items.set_index("item_id").loc[row["item_id"], "context"]
        if isinstance(context, str) and context:
            ui.note("The question")
            show_verbatim(context, label="The question")
    with right:
        ui.note("References and p(YES)")
        st.dataframe(reference_table(result), hide_index=True, key="verify_references")
        ui.facts(_cost(result))
        if result["remark"]:
            ui.note(result["remark"])
    if result["prompt"]:
        with st.expander(
            "Details: the prompt under the true reference", on_change="rerun", key="verify_prompt"
        ) as more:
            if more.open:
                st.code(result["prompt"], language=None, wrap_lines=True, height=360)


def reference_table(result: dict[str, Any]) -> pd.DataFrame:
    """The true reference first, then those swapped in."""
    rows = [{"Reference": result["reference"], "Kind": "true", **_row(result["base"])}]
    rows += [
        {"Reference": one["reference"], "Kind": one["answer_type"].replace("_", " "), **_row(one)}
        for one in result["references"]
    ]
    return pd.DataFrame(rows)


def _row(verdict: dict[str, Any]) -> dict[str, Any]:
    said = verdict["unread_reason"] or str(verdict["outcome"]).upper()
    return {"p(YES)": _number(verdict["p_yes"]), "Verdict": said}


def _cost(result: dict[str, Any]) -> dict[str, str]:
    every = [result["base"], *result["references"]]
    facts = {"Forward passes": str(len(every))}
    if any(v["prompt_tokens"] for v in every):
        facts["Prompt tokens"] = f"{sum(v['prompt_tokens'] for v in every):,}"
        facts["Time"] = "cached" if result["cached"] else f"{three_digits(sum(v['seconds'] for v in every))} s"
    return facts

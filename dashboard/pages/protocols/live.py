"""One comparison, live: choose two responses, rewrite one as strongly as you like, see both protocols' verdicts."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.pages.protocols.setup import pick_rewriter
from dashboard.ui import show_marked, show_verbatim
from engine import catalog
from engine.core.errors import EngineError
from engine.data.dataset import Dataset
from engine.jobs.manager import manager
from engine.plots.text import MISSING, three_digits
from engine.studies.protocols.figures import TITLES

ITEM, A, B, STYLE, STRENGTH, SIDE = (
    "live_item",
    "live_a",
    "live_b",
    "live_style",
    "live_strength",
    "live_side",
)


@st.fragment
def one_comparison(judge: str, dataset: Dataset, task: str = "") -> None:
    """The choices, then the texts with what changed marked and the verdicts before and after.

    Args:
        judge: its spec.
        dataset: whose responses are compared.
        task: as the responses are judged; empty takes the data's own.
    """
    chosen = _choose(dataset)
    if chosen is None:
        ui.note("A comparison needs an item with two responses.")
        return
    try:
        with st.spinner("Asking the judge. The first question loads it …", show_time=True):
            answer = _ask(judge, dataset.dataset_id, task=task, **chosen)
    except EngineError as error:
        ui.show_error(error, "The judge could not be asked.")
        return
    ui.finding(_sentence(answer, str(chosen["side"])))
    texts = dict(zip(dataset.responses["response_id"], dataset.responses["text"], strict=True))
    for column, name in zip(st.columns(2, gap="medium"), ("a", "b"), strict=True):
        with column:
            changed = name == chosen["side"]
            ui.note(f"Response {name.upper()}{', rewritten' if changed else ''}")
            if changed:
                show_marked([(kind, text) for kind, text in answer["text"]["diff"]], label=f"Response {name.upper()}")
            else:
                show_verbatim(str(texts[chosen[f"response_{name}"]]), label=f"Response {name.upper()}")
    ui.note(_kept(answer["text"]))
    st.dataframe(_table(answer), hide_index=True, key="live_table")
    for protocol, why in answer["missing"].items():
        ui.note(f"Not asked {protocol}: {why}")


def _choose(dataset: Dataset) -> dict[str, Any] | None:
    sizes = dataset.responses.groupby("item_id", sort=False).size()
    items = [str(i) for i in sizes[sizes > 1].index]
    if not items:
        return None
    contexts = dict(zip(dataset.items["item_id"], dataset.items["context"].fillna(""), strict=True))
    item = ui.pick("Item", items, key=ITEM, default=items[0], title=lambda i: f"{i} · {contexts.get(i, '')[:60]}")
    responses = dataset.responses[dataset.responses["item_id"] == item]
    names = dict(zip(responses["response_id"], responses["system"].fillna(""), strict=True))
    ids = list(names)
    columns = st.columns(4, gap="small")
    with columns[0]:
        a = _pick("A", A, ids, ids[0], names)
    with columns[1]:
        others = [i for i in ids if i != a]
        b = _pick("B", B, others, others[0], names)
    with columns[2]:
        styles = [*catalog.DISTRACTORS, catalog.PLACEBO]
        style = ui.pick("Manner", styles, key=STYLE, default=styles[0], title=lambda s: TITLES[s])
    with columns[3]:
        side = st.segmented_control("Rewritten", ["A", "B"], default="B", key=SIDE, required=True)
    left, right = st.columns(2, gap="medium")
    with left:
        strength = st.slider("Strength", 0.0, 1.0, 1.0, 0.05, key=STRENGTH, persist_state="session")
    with right:
        rewriter = pick_rewriter("live_rewriter")
    return {
        "response_a": a,
        "response_b": b,
        "side": str(side or "B").lower(),
        "distractor": style,
        "strength": float(strength),
        "rewriter": rewriter,
    }


def _pick(name: str, key: str, ids: list[str], default: str, names: dict[str, str]) -> str:
    return ui.pick(
        name, ids, key=key, default=default, title=lambda i: f"{names.get(i, '')} · {i}" if names.get(i) else i
    )


@st.cache_data(max_entries=256, show_spinner=False)
def _ask(judge: str, data: str, **choice: Any) -> dict[str, Any]:
    return manager().ask("distract_one", {"judge": judge, "data": data, **choice})


def _sentence(answer: dict[str, Any], side: str) -> str:
    parts = []
    if answer["pairwise"]:
        before, after = (_mean(answer["pairwise"][when], side) for when in ("before", "after"))
        parts.append(f"pairwise, P({side.upper()}) goes from {three_digits(before)} to {three_digits(after)}")
    if answer["pointwise"]:
        before, after = (_number(answer["pointwise"][when][side]["score"]) for when in ("before", "after"))
        parts.append(f"pointwise, its score goes from {three_digits(before)} to {three_digits(after)}")
    if not answer["text"]["changed"]:
        return "The rewriting leaves this text as it is; raise the strength or choose another manner."
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _mean(shown: list[dict[str, Any]], side: str) -> float:
    """Probability of the side, averaged over both orders."""
    values = []
    for one in shown:
        a, tie = _number(one["p_a"]), _number(one["p_tie"])
        values.append(a if side == "a" else 1 - a - (tie if tie == tie else 0.0))
    return sum(values) / len(values)


def _table(answer: dict[str, Any]) -> pd.DataFrame:
    rows = []
    for when in ("before", "after"):
        row: dict[str, str] = {"": when}
        for one in answer["pairwise"][when] if answer["pairwise"] else []:
            order = "A first" if one["order"] == "ab" else "B first"
            row[f"P(A), {order}"] = three_digits(_number(one["p_a"]))
            row[f"P(tie), {order}"] = three_digits(_number(one["p_tie"]))
        for side in ("a", "b") if answer["pointwise"] else ():
            row[f"Score {side.upper()}"] = three_digits(_number(answer["pointwise"][when][side]["score"]))
        rows.append(row)
    return pd.DataFrame(rows).fillna(MISSING)


def _kept(text: dict[str, Any]) -> str:
    if text["reasons"]:
        return f"The content checks object: {'; '.join(text['reasons'])}. A study would leave this rewriting out."
    return f"Numbers, names and list structure are kept; length ×{text['length_ratio'] or 1:.2f}."


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)

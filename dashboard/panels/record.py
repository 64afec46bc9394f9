"""One record of a run, in a drawer on the right."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.data import RunView
from dashboard.panels import findings
from dashboard.panels.effects import distribution
from dashboard.panels.marked import show_verbatim
from engine.data.dataset import Dataset
from engine.figures.text import three_digits
from engine.schema import NONE


def record(view: RunView, dataset: Dataset, response_id: str, attack: str, defense: str) -> None:
    """Open the drawer; closing it clears the table's selection."""
    title = ui.plain(f"Response {response_id}")
    drawer = st.dialog(title, width="medium", position="right", on_dismiss=state.close_record)
    drawer(_body)(view, dataset, response_id, attack, defense)


def _body(view: RunView, dataset: Dataset, response_id: str, attack: str, defense: str) -> None:
    clean = _verdict(view.verdicts, response_id, NONE, defense)
    attacked = _verdict(view.verdicts, response_id, attack, defense)
    result = {"labels": view.labels, "clean": clean, "attacked": attacked}
    ui.finding(findings.one_sentence(result, attack, defense))
    row = dataset.responses.set_index("response_id").loc[response_id]
    ui.facts(_facts(row, attacked))
    if clean["probabilities"] or attacked["probabilities"]:
        note = findings.origin(view.manifest, recorded=view.recorded)
        distribution(view.labels, clean, attacked, attack, key="record_distribution", note=note)
    ui.note("The response, without the attack")
    show_verbatim(str(row["text"]), label="The response")
    context = dataset.items.set_index("item_id").loc[row["item_id"], "context"]
    if isinstance(context, str) and context:
        ui.note("What it answers")
        show_verbatim(context, label="The context")
    if st.button("Open in the live view", icon=":material/bolt:", key="open_live"):
        own_text = str(view.manifest.get("config", {}).get("own_text") or "")
        state.after_rerun(
            {
                state.RESPONSE: response_id,
                state.ATTACK: attack,
                state.DEFENSE: defense,
                state.OWN_TEXT: own_text,
                state.TAB: state.TAB_ONE,
            }
        )
        state.close_record()
        st.rerun()


def _facts(row: pd.Series, attacked: dict[str, Any]) -> dict[str, str]:
    facts = {"Item": str(row["item_id"])}
    if isinstance(row["system"], str):
        facts["System"] = row["system"]
    if pd.notna(row["human_score"]):
        facts["Human score"] = three_digits(float(row["human_score"]))
    if attacked["prompt_tokens"]:
        facts["Prompt"] = f"{attacked['prompt_tokens']} tokens"
    return facts


def _verdict(verdicts: pd.DataFrame, response_id: str, attack: str, defense: str) -> dict[str, Any]:
    """A row of the `verdicts` table as the live view has it; an arm that was not run is unread."""
    found = verdicts[
        (verdicts["response_id"] == response_id) & (verdicts["attack"] == attack) & (verdicts["defense"] == defense)
    ]
    if not len(found):
        return {
            "score": None,
            "coverage": None,
            "probabilities": None,
            "unread_reason": "not judged yet",
            "prompt_tokens": 0,
            "seconds": 0.0,
        }
    row = found.iloc[0]
    tokens = row["prompt_tokens"]
    return {
        "score": float(row["score"]),
        "coverage": float(row["coverage"]),
        "probabilities": row["probabilities"],
        "unread_reason": row["unread_reason"] if isinstance(row["unread_reason"], str) else "",
        "prompt_tokens": 0 if pd.isna(tokens) else int(tokens),
        "seconds": float(row["seconds"]),
    }

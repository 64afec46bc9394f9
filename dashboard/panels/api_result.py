"""What a test of an API judge found: latency, how its answers are read, the answer, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import ui
from engine.figures.text import plural, three_digits

_READ = {
    "probabilities": "token probabilities are offered",
    "text": "no token probabilities, so the text is read",
    "auto": "not found out: the server gave no usable answer",
}
MOST_LISTED = 12


def show_result(result: Mapping[str, Any]) -> None:
    """The test's finding in one sentence, then the details."""
    if "error" in result:
        ui.show_error(result["error"], "The server cannot be used like this.")
        return
    with st.container(border=True, key="api_result"):
        ui.finding(_headline(result))
        ui.facts(
            {
                "Latency": f"{three_digits(result['seconds'])} s",
                "Answers": _READ[result["answers"]],
                "Answer": _answer(result),
                "Tokens": f"{result['prompt_tokens']:,} in, {result['answer_tokens']:,} out",
                "Cost": _cost(result),
            }
        )
        for line in _remarks(result):
            ui.warn(line)
        others = [name for name in result["models"] if name != result["model"]]
        if others:
            more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
            ui.note(f"The server also offers: {', '.join(others[:MOST_LISTED])}{more}.")


def _headline(result: Mapping[str, Any]) -> str:
    if result["unread_reason"]:
        return f"The server answered, but no verdict could be read: {result['unread_reason']}."
    coverage = result["coverage"]
    held = f", on {100 * coverage:.0f} % of the probability" if coverage is not None else ""
    return f"It works: a correct reply about bees scores {three_digits(result['score'])} of 5{held}."


def _answer(result: Mapping[str, Any]) -> str:
    shares = result["probabilities"]
    if shares and not result["unread_reason"]:
        parts = [f"p({label}) {three_digits(p)}" for label, p in zip(result["labels"], shares, strict=True)]
        return ", ".join(parts)
    return f"“{result['text']}”" if result["text"] else "none"


def _cost(result: Mapping[str, Any]) -> str:
    calls = plural(result["calls"], "call")
    if result["money"] is None:
        return f"{calls}; no prices are set"
    return f"{calls}, {three_digits(result['money'])} {result['currency']}"


def _remarks(result: Mapping[str, Any]) -> list[str]:
    """What a user should know before trusting numbers from this server."""
    found = []
    served, model = str(result["served"]), str(result["model"])
    if served and model.casefold() not in served.casefold():
        found.append(
            f"The server says that the model {served} answered, not {model}. Some servers take any name and answer "
            "with the model they have loaded."
        )
    if result["answers"] == "probabilities" and result["unread_reason"]:
        found.append(
            "A model that begins its answer with other words than the grade is better read as text; a judge card can "
            "also ask for the grade alone."
        )
    if result["answers"] == "text" and not result["unread_reason"]:
        found.append(
            "From text a score has no values between the grades. Several answers to each prompt give a mean, at as "
            "many calls."
        )
    return found

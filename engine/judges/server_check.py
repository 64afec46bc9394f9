"""What a server can do, asked with one small question of each kind; the ways it takes them are kept."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from engine.core.cache import call_cache
from engine.core.errors import ModelError
from engine.core.settings import Settings, api_key, api_settings
from engine.inference.abilities import noted_server
from engine.inference.completions import DecisionQuestion, Question
from engine.inference.served import ApiClient
from engine.inference.served_labels import label_forms
from engine.inference.served_perplexity import prompt_nlls
from engine.judges.api import ApiAsker, ApiCall
from engine.judges.api_spec import parse_api

_LABELS = ("Yes", "No")
_ASKS = "Is the sky blue on a clear day? Answer Yes or No."


def ask_server(spec: str, settings: Settings) -> dict[str, Any]:
    """Facts about the server and model behind `api:MODEL`; about ten calls, none where they are known.

    Raises:
        InputError: the spec or the settings are wrong.
        ModelError: the server takes no call at all.
        OutOfCalls: the cap on calls or cost is reached.
    """
    asked, found = parse_api(spec), api_settings(settings)
    client = ApiClient(found, api_key(settings))
    try:
        asker = ApiAsker(client, asked, call_cache(settings.calls))
        forms = label_forms(_LABELS)
        calls = (
            ApiCall(Question("", _ASKS, labels=True, max_tokens=1), forms),
            ApiCall(Question("", _ASKS, labels=False, max_tokens=24, choices=_LABELS)),
            ApiCall(Question("", _ASKS, labels=False, max_tokens=24, temperature=1.0)),
            ApiCall(DecisionQuestion("Is it true?", "The sky is blue.", True, 1, choices=_LABELS), (("Yes",), ("No",))),
        )
        for call in calls:
            if asker.way(call.question.group) is None:
                with suppress(*([ModelError] if call.question.group == "decision" else [])):
                    asker.find_way([call], lambda: None, must=False)
        with suppress(ModelError):
            prompt_nlls(client, asked.model, [_ASKS], lambda _, __: None)
        facts = noted_server(found.host, asked.model) | {"host": found.host, "model_asked": asked.model} | asker.found()
        return facts | {"batch_invariant": found.batch_invariant}
    finally:
        client.close()


def in_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts of a server for people; what is not known is left out."""
    shown: dict[str, str] = {}
    version = " ".join([str(facts.get("version", "")), *facts.get("system_fingerprint", [])]).strip()
    shown |= {"Server": version} if version else {}
    if "top_logprobs" in facts:
        top = facts["top_logprobs"]
        few = f"lower bound, from the {top} likeliest tokens" if top else "none: no token probabilities"
        shown["Label probabilities"] = "exact, asked for by token id" if facts.get("label_tokens_by_id") else few
    if "held_to_labels" in facts:
        shown["Text held to the labels"] = facts["held_to_labels"] or "no"
    shown["Prompt log-probabilities"] = "yes" if facts.get("prompt_logprobs") else "none seen"
    shown["Decision API"] = f"/v1/{facts['decisions']}" if facts.get("decisions") else "none seen"
    shown["Reasoning"] = str(facts.get("thinking", "not known"))
    if "seed" in facts:
        shown["Seed"] = "not refused" if facts["seed"] else "refused"
    shown["Batch invariance"] = str(facts.get("batch_invariant", "unknown"))
    return shown

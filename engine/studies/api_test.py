"""Test of a connection: one judgement through an API judge, and what the server is like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.base import Checkpoint, Request
from engine.judges.card_specs import split_spec
from engine.judges.cards import read_cards
from engine.judges.pointwise import PointwiseReader
from engine.models.api import ApiClient
from engine.schema import Task
from engine.settings import Settings
from engine.settings_api import api_key, api_settings

LONGEST_S = 30.0
"""A test waits no longer for one answer."""
MOST_MODELS = 100
ASKED = Request(
    item_id="test",
    response_id="test",
    task=Task.DIALOGUE,
    context="A: What do bees make?",
    response="They make honey, and the wax of their combs.",
)


class ApiTest(BaseModel):
    """Which judge to test."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str


def api_test(config: ApiTest, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Ask one question of the built-in dialogue card, without the cache and without a second try.

    Returns:
        JSON-ready: the server, how its answers are read, the verdict with its latency [s], and what it cost.

    Raises:
        InputError: the spec or the settings are wrong.
        ModelError: the server cannot be used; the text says what to do.
    """
    spec = split_spec(config.judge).model
    asked = parse_api(spec)
    found = api_settings(settings)
    found = replace(found, retries=0, timeout_seconds=min(LONGEST_S, found.timeout_seconds))
    client = ApiClient(found, api_key(settings))
    try:
        cards = [card for card in read_cards(settings.assets / "cards") if card.name == "dialogue"]
        judge = ApiJudge(spec, asked, client, cards, [PointwiseReader()])
        verdict = judge.judge([ASKED], checkpoint)[0]
        spent = client.purse.spent
        return {
            "base_url": found.base_url,
            "model": asked.model,
            "served": client.redacted(client.served),
            "answers": judge.answers,
            "labels": list(judge.labels(ASKED)),
            "score": verdict.score,
            "probabilities": verdict.probabilities,
            "coverage": verdict.coverage,
            "text": client.redacted(verdict.raw_text),
            "unread_reason": verdict.unread_reason,
            "seconds": verdict.seconds,
            "calls": spent.calls,
            "prompt_tokens": spent.prompt_tokens,
            "answer_tokens": spent.answer_tokens,
            "money": spent.money if found.priced else None,
            "currency": found.currency,
            "models": client.models()[:MOST_MODELS],
        }
    finally:
        client.close()

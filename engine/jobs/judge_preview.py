"""A judge card on a few rows of the data, before it is saved: the prompt as the model reads it, and what it answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engine.core.errors import InputError
from engine.core.schema import Order, Protocol, Task
from engine.core.settings import Settings, api_key, api_settings
from engine.data.dataset import Dataset
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.inference.served import ApiClient
from engine.judges.api import ApiJudge
from engine.judges.api_spec import parse_api
from engine.judges.base import Candidate, Checkpoint, Request, Verdict, device_of
from engine.judges.card_files import split_spec
from engine.judges.cards import Card, read_cards
from engine.judges.decision import DecisionJudge
from engine.judges.kinds import PointwiseReader
from engine.judges.registry import make_judge
from engine.judges.server_check import in_words
from engine.studies.running import build_requests

MOST_ROWS = 3
NEXT_TOKENS = 8
"""Likeliest next tokens that are shown, so that low coverage explains itself."""


class CardPreview(BaseModel):
    """Settings of a trial: the card, the model that is asked, and the rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    card: Card
    model: str
    data: str
    response_ids: tuple[str, ...] = Field(min_length=1, max_length=MOST_ROWS)


def card_preview(config: CardPreview, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Render and ask the card on each row.

    Returns:
        JSON-ready: `labels`, `device`, `fingerprint` and `rows`; a row has the prompt, the raw probability of each
        label, the likeliest next tokens, coverage, the verdict or why it is unread, and what stood in for a second
        response or an anchor.

    Raises:
        InputError: unknown model, data or response, or a row lacks what the card asks for.
    """
    dataset = load_dataset(config.data, settings.datasets)
    judge = make_judge(config.model, settings, card=config.card)
    asked = [_request(dataset, one, config.card) for one in config.response_ids]
    verdicts = judge.judge([request for request, _ in asked], checkpoint)
    rows = [
        {
            "response_id": request.response_id,
            "item_id": request.item_id,
            "stand_in": stand_in,
            "prompt": judge.prompt(request),
            "next": _next_tokens(judge, request, config.card, verdict),
            **_shown(verdict),
        }
        for (request, stand_in), verdict in zip(asked, verdicts, strict=True)
    ]
    first = asked[0][0]
    return {
        "labels": list(judge.labels(first)),
        "device": device_of(judge),
        "fingerprint": judge.fingerprint,
        "rows": rows,
    }


def _request(dataset: Dataset, response_id: str, card: Card) -> tuple[Request, str]:
    """The request of one row, and which other rows it borrows."""
    found = build_requests(dataset, response_ids=[response_id])
    if not found:
        raise InputError(f"The data {dataset.name} has no response {response_id!r}. Choose rows from the list.")
    request = replace(found[0], protocol=card.protocol, variant=card.variant)
    same = dataset.responses[dataset.responses["item_id"] == request.item_id]
    others = [
        Candidate(str(i), str(t))
        for i, t in zip(same["response_id"], same["text"], strict=True)
        if str(i) != response_id
    ]
    needs = 2 if card.anchored else int(card.protocol in (Protocol.PAIRWISE, Protocol.RANKING))
    if len(others) < needs:
        raise InputError(
            f"The item of response {response_id} has {len(others) + 1} responses; this card shows {needs + 1} of one. "
            "Choose another row, or load data with more responses for each item."
        )
    borrowed = []
    if card.protocol is Protocol.PAIRWISE:
        request = replace(request, response_b_id=others[0].response_id, response_b=others[0].text, order=Order.AB)
        borrowed.append(f"response B is {others[0].response_id}")
    if card.protocol is Protocol.RANKING:
        request = replace(request, others=tuple(others[: len(card.labels) - 1]))
        borrowed.append(f"with {len(request.others)} further responses")
    if card.anchored:
        request = replace(request, anchor_low=others[0].text, anchor_high=others[-1].text)
        borrowed.append(f"the anchors are {others[0].response_id} and {others[-1].response_id}, for the look only")
    return request, "; ".join(borrowed)


def _shown(verdict: Verdict) -> dict[str, Any]:
    shares = verdict.probabilities
    raw = [p * verdict.coverage for p in shares] if shares and verdict.coverage == verdict.coverage else None
    return {
        "score": verdict.score,
        "p_a": verdict.p_a,
        "p_yes": verdict.p_yes,
        "outcome": verdict.outcome.value if verdict.outcome else None,
        "raw": raw,
        "probabilities": shares,
        "coverage": verdict.coverage,
        "unread_reason": verdict.unread_reason,
        "raw_text": verdict.raw_text,
        "prompt_tokens": verdict.prompt_tokens,
        "seconds": verdict.seconds,
    }


def _next_tokens(judge: Any, request: Request, card: Card, verdict: Verdict) -> list[tuple[str, float]]:
    """The likeliest first tokens of the answer, where the model's own logits can be read.

    Empty for an API or an encoder-decoder, for a card that reads text, and for a prompt that was never asked.
    """
    loaded = getattr(judge, "loaded", None)
    asked = verdict.coverage == verdict.coverage
    if loaded is None or loaded.kind != "causal" or card.mode != "label probabilities" or not asked:
        return []
    import torch

    from engine.inference.batching import last_logits

    ids = torch.tensor([judge.token_ids(request)], device=loaded.device)  # (1, T)
    with torch.inference_mode():
        logits, _ = last_logits(loaded.model, ids, torch.tensor([ids.shape[1] - 1], device=ids.device), use_cache=False)
        top = logits[0].softmax(dim=-1).topk(NEXT_TOKENS)
    texts = [str(loaded.tokenizer.decode([i])) for i in top.indices.tolist()]
    return list(zip(texts, top.values.tolist(), strict=True))


# Test of a connection: one judgement through an API judge, and what the server is like.

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
    """The judge to test."""

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
        kind = DecisionJudge if asked.kind == "decision" else ApiJudge
        judge = kind(spec, asked, client, cards, [PointwiseReader()])
        verdict = judge.judge([ASKED], checkpoint)[0]
        spent = client.purse.spent
        return {
            "base_url": found.base_url,
            "model": asked.model,
            "served": client.redacted(client.served),
            "answers": judge.answers,
            "server": in_words(judge.server),
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


class WarmConfig(BaseModel):
    """The judge that is loaded before anybody asks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str


def warm(config: WarmConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Load a judge and ask it once, so that the first question of a visitor finds it ready; nothing is downloaded.

    Raises:
        InputError: no such judge.
        WeightsError: its weights are not on this machine.
    """
    first = build_requests(load_dataset(DEMO_DIALOGUE, settings.datasets), limit=1)
    make_judge(config.judge, settings).judge(first, checkpoint)
    return {}

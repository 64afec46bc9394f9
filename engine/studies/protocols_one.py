"""One comparison, one distractor: the judge calls behind the live view of the page Protocols and leaderboard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.base import word_diff
from engine.attacks.distractors import style_of
from engine.attacks.rewriting import Rewrite
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request, Verdict
from engine.judges.pairwise import both_orders
from engine.judges.registry import make_judge
from engine.schema import NONE, Order, Protocol
from engine.settings import Settings
from engine.studies.protocols_ask import able
from engine.studies.protocols_variants import make_rewriter
from engine.studies.requests import build_requests


class DistractOne(BaseModel):
    """Two responses to one item, and which of them is rewritten how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_a: str
    response_b: str
    side: Literal["a", "b"] = "b"
    distractor: str = "assertiveness"
    strength: float = Field(default=1.0, ge=0, le=1)
    rewriter: str = "rules"
    seed: int = 0


def distract_one(config: DistractOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Judge a pair before and after one side is rewritten, in both protocols where the judge can.

    Returns:
        JSON-ready: the rewritten text with its diff and content report; by protocol `before` and `after`; and why a
        protocol is missing.

    Raises:
        InputError: unknown data, response, distractor or judge, two responses to different items, or the judge answers
            neither protocol.
    """
    dataset = load_dataset(config.data, settings.datasets)
    a, b = (_request(dataset, name) for name in (config.response_a, config.response_b))
    if a.item_id != b.item_id or a.response_id == b.response_id:
        raise InputError("Two different responses to one item are compared. Choose another second response.")
    judge = make_judge(config.judge, settings)
    loser = a if config.side == "a" else b
    rewriter = make_rewriter(config.rewriter, settings)
    [made] = rewriter.rewrite([loser.response], style_of(config.distractor), strength=config.strength, seed=config.seed)
    after = replace(loser, response=made.text, attack=config.distractor)
    changed = (after, b) if config.side == "a" else (a, after)
    out: dict[str, Any] = {"text": _text(loser, made), "pairwise": None, "pointwise": None, "missing": {}}
    pairs = [*_pair(a, b), *_pair(*changed)]
    for protocol, requests, shown in (
        (Protocol.POINTWISE, [a, b, after], _scores),
        (Protocol.PAIRWISE, pairs, _pairs),
    ):
        if reason := able(judge.labels, requests):
            out["missing"][protocol.value] = reason
            continue
        out[protocol.value] = shown(judge, requests, judge.judge(requests, checkpoint), config.side)
    if len(out["missing"]) == 2:
        raise InputError(f"{config.judge} can be asked in neither protocol. {' '.join(out['missing'].values())}")
    return out


def _request(dataset: Dataset, response_id: str) -> Request:
    found = build_requests(dataset, response_ids=[response_id])
    if not found:
        raise InputError(f"The data {dataset.name} has no response {response_id!r}. Choose one from the list.")
    return found[0]


def _pair(a: Request, b: Request) -> list[Request]:
    attack = a.attack if a.attack != NONE else b.attack
    joined = replace(a, protocol=Protocol.PAIRWISE, response_b_id=b.response_id, response_b=b.response, attack=attack)
    return both_orders([joined])


def _text(original: Request, made: Rewrite) -> dict[str, Any]:
    return {
        "rewritten": made.text,
        "diff": [list(piece) for piece in word_diff(original.response, made.text)],
        "reasons": list(made.report.reasons),
        "length_ratio": made.report.length_ratio,
        "changed": made.text != original.response,
    }


def _scores(judge: Judge, requests: list[Request], verdicts: list[Verdict], side: str) -> dict[str, Any]:
    a, b, after = ({"score": v.score, "probabilities": v.probabilities, "unread": v.unread_reason} for v in verdicts)
    changed = {"a": after, "b": b} if side == "a" else {"a": a, "b": after}
    return {"labels": list(judge.labels(requests[0])), "before": {"a": a, "b": b}, "after": changed}


def _pairs(judge: Judge, requests: list[Request], verdicts: list[Verdict], side: str) -> dict[str, Any]:  # noqa: ARG001 - one signature
    shown = [
        {"order": (r.order or Order.AB).value, "p_a": v.p_a, "p_tie": v.p_tie, "unread": v.unread_reason}
        for r, v in zip(requests, verdicts, strict=True)
    ]
    return {"before": shown[:2], "after": shown[2:]}

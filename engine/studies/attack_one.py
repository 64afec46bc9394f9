"""One response, one attack, one defense: the two judge calls behind the Attack lab's live view."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from engine.attacks.base import word_diff
from engine.attacks.registry import make_attack
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.registry import defend
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request, Verdict
from engine.judges.registry import make_judge
from engine.schema import NONE
from engine.settings import Settings
from engine.studies.anchoring import sources_for
from engine.studies.requests import build_requests, with_attack


class AttackOne(BaseModel):
    """What to judge, before and after."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_id: str
    attack: str = NONE
    own_text: str = ""
    defense: str = NONE


def attack_one(config: AttackOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Judge a response without and with the attack, both under the defense.

    Returns:
        JSON-ready: labels, values of neither arm invented, both verdicts, the diff and both prompts.

    Raises:
        InputError: unknown judge, data, response, attack or defense.
    """
    dataset = load_dataset(config.data, settings.datasets)
    sources = sources_for([config.defense], dataset, settings)
    judge = defend(make_judge(config.judge, settings), config.defense, sources=sources)
    clean = _request(dataset, config.response_id)
    attack = make_attack(config.attack, config.own_text)
    attacked = with_attack(clean, attack)
    pair = [clean] if attacked.response == clean.response else [clean, attacked]
    verdicts = judge.judge(pair, checkpoint)
    return {
        "labels": list(judge.labels(clean)),
        "clean": _shown(verdicts[0]),
        "attacked": _shown(verdicts[-1]),
        "attacked_text": attacked.response,
        "diff": [list(piece) for piece in word_diff(clean.response, attacked.response)],
        "prompt_clean": judge.prompt(clean),
        "prompt_attacked": judge.prompt(attacked),
        "device": device_of(judge),
        "remark": remark_of(judge, clean),
        "cached": all(v.seconds == 0 for v in verdicts),
    }


def device_of(judge: Judge) -> str:
    """Where the judge's model runs; `no model` for a judge without one."""
    while hasattr(judge, "inner"):
        judge = judge.inner
    return str(getattr(judge, "device", "no model"))


def remark_of(judge: Judge, request: Request) -> str:
    """The card's remark on this task, if the judge has cards."""
    while hasattr(judge, "inner"):
        judge = judge.inner
    return str(judge.remark(request)) if hasattr(judge, "remark") else ""


def _request(dataset: Dataset, response_id: str) -> Request:
    found = build_requests(dataset, response_ids=[response_id])
    if not found:
        raise InputError(f"The data {dataset.name} has no response {response_id!r}. Choose one from the list.")
    return found[0]


def _shown(verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "coverage": verdict.coverage,
        "probabilities": verdict.probabilities,
        "unread_reason": verdict.unread_reason,
        "prompt_tokens": verdict.prompt_tokens,
        "seconds": verdict.seconds,
    }

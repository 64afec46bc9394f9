"""One response, or a master key in its place, before a verifier with and without RefSwap: the Attack lab's view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.master_keys import MasterKeyAttack
from engine.data.references import K_MAX, answer_type
from engine.data.store import load_dataset
from engine.defenses.refswap import GAMMA, Checked, K, RefSwapJudge
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request, Verdict
from engine.judges.registry import make_judge
from engine.schema import Protocol
from engine.settings import Settings
from engine.studies.attack_one import device_of, remark_of
from engine.studies.refswap import pool_of
from engine.studies.requests import build_requests, with_attack


class VerifyOne(BaseModel):
    """What to verify.

    Attributes:
        key: text that stands in place of the response; None asks about the response itself.
        defended: whether a YES is checked by RefSwap.
        pool: data set whose references are swapped in; `data` for the chosen one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    response_id: str
    key: str | None = None
    variant: str = ""
    defended: bool = False
    k: int = Field(default=K, ge=1, le=K_MAX)
    gamma: float = Field(default=GAMMA, ge=0, le=1)
    threshold: float = Field(default=0.5, gt=0, le=1)
    pool: str = "data"
    seed: int = 42


def verify_one(config: VerifyOne, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Both stages for one text.

    Returns:
        JSON-ready: the text judged, the base verdict, every counterfactual reference with its type and probability,
        max_p_cf (None where there was no check), the final outcome, the prompt.

    Raises:
        InputError: unknown judge, data or response, no such prompt, or a pool with too few references.
    """
    dataset = load_dataset(config.data, settings.datasets)
    found = build_requests(dataset, response_ids=[config.response_id])
    if not found:
        raise InputError(f"The data {dataset.name} has no response {config.response_id!r}. Choose one from the list.")
    request = replace(found[0], protocol=Protocol.VERIFIER, variant=config.variant)
    if config.key is not None:
        request = with_attack(request, MasterKeyAttack(config.key))
    judge = make_judge(config.judge, settings, threshold=config.threshold)
    if config.defended:
        pool = pool_of(config.pool, dataset, settings, files=False)

        def references(one: Request) -> tuple[str, ...]:
            return pool.draw(one.reference, config.k, key=one.item_id, seed=config.seed)

        checked = RefSwapJudge(judge, references, config.k, config.gamma).check([request], checkpoint)[0]
    else:
        base = judge.judge([request], checkpoint)[0]
        checked = Checked(base, (), (), base)
    return _shown(judge, request, checked)


def _shown(judge: Judge, request: Request, checked: Checked) -> dict[str, Any]:
    return {
        "text": request.response,
        "reference": request.reference,
        "labels": list(judge.labels(request)),
        "base": _verdict(checked.base),
        "final": _verdict(checked.verdict),
        "references": [
            {"reference": text, "answer_type": answer_type(text).value, **_verdict(verdict)}
            for text, verdict in zip(checked.references, checked.swapped, strict=True)
        ],
        "max_p_cf": checked.max_p_cf if checked.swapped else None,
        "prompt": judge.prompt(request),
        "device": device_of(judge),
        "remark": remark_of(judge, request),
        "cached": all(v.seconds == 0 for v in (checked.base, *checked.swapped)),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "p_yes": verdict.p_yes,
        "outcome": verdict.outcome.value if verdict.outcome else None,
        "coverage": verdict.coverage,
        "unread_reason": verdict.unread_reason,
        "prompt_tokens": verdict.prompt_tokens,
        "seconds": verdict.seconds,
    }

"""Comparative against absolute judging under the same attack (CAP, paper 001, figure 2).

Each response of an evaluation context is compared with the next one of its context, in both orders; the first is
attacked. A probability and a score have different units, so both shifts are also given in units of the standard
deviation of their clean values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from engine.attacks.registry import make_attack, parse_attack
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request
from engine.metrics.clusters import cluster_codes
from engine.metrics.intervals import cluster_mean
from engine.metrics.shifts import metric_row
from engine.schema import NONE, Order, Protocol, Task
from engine.studies.cap_config import CapConfig
from engine.studies.cap_tutor import plain_prompt
from engine.studies.requests import with_attack


def pairs_of(responses: Sequence[Request], judge: Judge) -> list[Request]:
    """Each response with the next of its context, as a pairwise request the judge has a prompt for; none without one.

    A judge without a pairwise prompt for the task is asked about an instruction: the one the tutor gets.
    """
    by_item: dict[str, list[Request]] = {}
    for request in responses:
        by_item.setdefault(request.item_id, []).append(request)
    made = []
    for own in by_item.values():
        for k, first in enumerate(own if len(own) > 1 else []):
            second = own[(k + 1) % len(own)]
            made.append(
                replace(
                    first,
                    protocol=Protocol.PAIRWISE,
                    response_b_id=second.response_id,
                    response_b=second.response,
                    order=Order.AB,
                )
            )
    if not made or Protocol.PAIRWISE not in judge.protocols:
        return []
    try:
        judge.labels(made[0])
    except InputError:
        made = [replace(r, task=Task.INSTRUCTION, context=plain_prompt(r)) for r in made]
        try:
            judge.labels(made[0])
        except InputError:
            return []
    return made


def pair_requests(config: CapConfig, pairs: Sequence[Request]) -> list[Request]:
    """Every pair under every attack, none first, in both orders."""
    return [with_attack(replace(r, order=o), make_attack(a)) for a in _attacks(config) for r in pairs for o in Order]


def _attacks(config: CapConfig) -> list[str]:
    return list(dict.fromkeys((NONE, *(parse_attack(name).name for name in config.attacks))))


def comparative_rows(
    config: CapConfig, pairs: Sequence[Request], judge: Judge, verdicts: pd.DataFrame, checkpoint: Checkpoint
) -> list[dict[str, object]]:
    """Rows of `metrics`: comparative_shift (of p), comparative_shift_sd and absolute_shift_sd of each attack.

    Args:
        config: attacks, level and seed.
        pairs: from `pairs_of`; empty gives no rows.
        judge: undefended.
        verdicts: pointwise ones, undefended.
        checkpoint: told after each batch.
    """
    if not pairs:
        return []
    attacks = _attacks(config)
    answers = judge.judge(pair_requests(config, pairs), checkpoint)
    p = np.array([v.p_a + v.p_tie / 2 for v in answers]).reshape(len(attacks), len(pairs), 2).mean(axis=2)
    scores = verdicts[verdicts["defense"] == NONE].pivot(index="response_id", columns="attack", values="score")
    ids = [r.response_id for r in pairs]
    absolute = {a: scores[a].reindex(ids).to_numpy(dtype=float) for a in attacks}
    clusters = cluster_codes(pd.DataFrame({"item_id": [r.item_id for r in pairs]}))
    rows: list[dict[str, object]] = []
    for k, attack in enumerate(attacks[1:], start=1):
        moved, lifted = p[k] - p[0], absolute[attack] - absolute[NONE]
        for name, values in (
            ("comparative_shift", moved),
            ("comparative_shift_sd", moved / _spread(p[0])),
            ("absolute_shift_sd", lifted / _spread(absolute[NONE])),
        ):
            interval = cluster_mean(values, clusters, level=config.level, seed=config.seed)
            rows.append(metric_row(name, attack, NONE, interval, len(values)))
    return rows


def _spread(clean: np.ndarray) -> float:
    """Standard deviation of clean values; NaN where they do not vary."""
    spread = float(np.nanstd(clean, ddof=1)) if np.isfinite(clean).sum() > 1 else 0.0
    return spread if spread > 0 else float("nan")

"""What recorded verdicts say by themselves: shifts, order bias, acceptance; no judge is asked."""

from __future__ import annotations

import pandas as pd

from engine.metrics.clusters import cluster_codes
from engine.metrics.intervals import Interval, cluster_rate
from engine.metrics.order import first_slot_rate, order_agreement
from engine.metrics.shifts import metric_row, shift_metrics
from engine.schema import METRICS, NONE, Outcome, Protocol


def recorded_metrics(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """What the verdicts of one judge say without asking it again, per arm, as a table `metrics`.

    pointwise: `shift_metrics`. pairwise: first_slot (share that prefers the response shown first, ties half)
    and order_agreement (pairs whose orders agree). verifier: yes_rate.
    """
    protocols = set(verdicts["protocol"])
    if protocols <= {Protocol.POINTWISE.value}:
        return shift_metrics(verdicts, level=level, seed=seed)
    out: list[dict[str, object]] = []
    for (attack, defense), arm in verdicts.groupby(["attack", "defense"], sort=False):
        for metric, interval, rows in _rates(arm, level, seed):
            out.append(metric_row(metric, str(attack), str(defense), interval, rows))
    return METRICS.conform(pd.DataFrame(out).sort_values("attack", key=lambda a: a != NONE, kind="stable"))


def _rates(arm: pd.DataFrame, level: float, seed: int) -> list[tuple[str, Interval, int]]:
    if (arm["protocol"] == Protocol.VERIFIER.value).all():
        yes = arm["outcome"].map({Outcome.YES.value: 1.0, Outcome.NO.value: 0.0})
        return [("yes_rate", cluster_rate(yes, cluster_codes(arm), level=level, seed=seed), len(arm))]
    both = arm.groupby(["item_id", "response_id", "response_b"])["order"].nunique()
    return [
        ("first_slot", first_slot_rate(arm, level=level, seed=seed), len(arm)),
        ("order_agreement", order_agreement(arm, level=level, seed=seed), int((both == 2).sum())),
    ]

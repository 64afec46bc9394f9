"""What a pairwise judge owes to the order in which it sees a pair."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.metrics.clusters import cluster_codes
from engine.metrics.intervals import Interval, cluster_rate
from engine.schema import Order, Outcome, Protocol

_PAIR = ["item_id", "response_id", "response_b", "attack", "defense"]


def first_slot_rate(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> Interval:
    """Share of read pairwise verdicts that prefer the response shown first; a tie counts half.

    0.5 where order does not matter, provided that both orders were asked. The interval is `cluster_rate`
    with items as clusters.

    Args:
        verdicts: table `verdicts`; rows that are not pairwise, or have no order or outcome, are left out.
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    rows = _pairwise(verdicts)
    return cluster_rate(_first_wins(rows), cluster_codes(rows), level=level, seed=seed)


def order_agreement(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> Interval:
    """Share of comparisons whose two orders give the same outcome (a, b or tie).

    A comparison enters once, and only when both orders were read; the arms (attack, defense) count apart.

    Args:
        verdicts: table `verdicts`; rows that are not pairwise, or have no order or outcome, are left out.
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    rows = _pairwise(verdicts).drop_duplicates([*_PAIR, "order"])
    both = rows[rows["order"] == Order.AB.value].merge(
        rows[rows["order"] == Order.BA.value], on=_PAIR, suffixes=("_ab", "_ba")
    )
    same = (both["outcome_ab"] == both["outcome_ba"]).to_numpy(dtype=float)
    return cluster_rate(same, cluster_codes(both), level=level, seed=seed)


def _pairwise(verdicts: pd.DataFrame) -> pd.DataFrame:
    read = verdicts["outcome"].notna() & verdicts["order"].notna()
    return verdicts[(verdicts["protocol"] == Protocol.PAIRWISE.value) & read]


def _first_wins(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    first = np.where(rows["order"] == Order.AB.value, Outcome.A.value, Outcome.B.value)
    outcome = rows["outcome"].to_numpy(dtype=object)
    return np.where(outcome == Outcome.TIE.value, 0.5, (outcome == first).astype(float))

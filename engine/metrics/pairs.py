"""From the two orders of a comparison to one verdict on the pair."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.errors import InputError
from engine.schema import PAIRS, Order, Outcome, Protocol

_KEY = ["judge", "attack", "defense", "item_id", "response_id", "response_b"]
_SIDES = (Outcome.A, Outcome.B, Outcome.TIE)
_EQUAL = 1e-9
"""Averages nearer than this are equal: float32 forward passes differ by more between machines."""


def combine_orders(verdicts: pd.DataFrame, *, average: Literal["probability", "logit"] = "probability") -> pd.DataFrame:
    """One row per comparison and arm: probabilities averaged over both orders, then the largest (paper 004).

    A comparison is unread where either order is unread or was not asked. Two sides with the same average are a
    tie, so a judge that names the first slot outright in both orders ties. How often the first slot wins is
    computed from the verdicts themselves (`engine.metrics.order`).

    Args:
        verdicts: table `verdicts`; rows that are not pairwise are left out. A row with an outcome and no p_a
            (a recorded verdict) counts as decided outright.
        average: of the probabilities, or of their logarithms, renormalised (the mean of the logits).

    Returns:
        Table `pairs`, in the order in which the comparisons first appear.

    Raises:
        InputError: an order of a comparison stands twice.
    """
    rows = verdicts[verdicts["protocol"] == Protocol.PAIRWISE.value]
    if (unordered := rows["order"].isna()).any():
        row = rows[unordered].iloc[0]
        raise InputError(f"The comparison of {row.response_id} with {row.response_b} has a verdict without an order.")
    if (twice := rows.duplicated([*_KEY, "order"])).any():
        row = rows[twice].iloc[0]
        raise InputError(
            f"The comparison of {row.response_id} with {row.response_b} stands twice in the order {row.order}; "
            "combine one run at a time."
        )
    made = [
        dict(zip(_KEY, key, strict=True)) | _combine({row["order"]: row for row in group.to_dict("records")}, average)
        for key, group in rows.groupby(_KEY, sort=False, dropna=False)
    ]
    return PAIRS.conform(pd.DataFrame(made)) if made else PAIRS.empty()


def _combine(rows: Mapping[str, Mapping[Hashable, Any]], average: str) -> dict[str, Any]:
    shares = {order: _shares(rows[order]) for order in Order if order in rows}
    outcomes = {f"outcome_{order}": rows[order]["outcome"] if order in rows else None for order in Order}
    unread = [f"order {order}: {_reason(rows.get(order))}" for order in Order if shares.get(order) is None]
    if unread:
        nan = float("nan")
        return outcomes | {"p_a": nan, "p_b": nan, "p_tie": nan, "unread_reason": "; ".join(unread)}
    both = np.array([shares[order] for order in Order])  # (2 orders, 3 sides)
    if average == "logit":
        logits = np.log(both.clip(min=1e-12)).mean(axis=0)
        mean = np.exp(logits - logits.max())
        mean = mean / mean.sum()
    else:
        mean = both.mean(axis=0)
    return outcomes | {
        "p_a": mean[0],
        "p_b": mean[1],
        "p_tie": mean[2],
        "outcome": _largest(mean).value,
        "disagree": int(outcomes["outcome_ab"] != outcomes["outcome_ba"]),
    }


def _shares(row: Mapping[Hashable, Any]) -> npt.NDArray[np.float64] | None:
    """Probabilities of a, b and a tie, order undone; None where the verdict is unread."""
    if pd.notna(row["unread_reason"]) or pd.isna(row["outcome"]):
        return None
    if pd.isna(row["p_a"]):
        return np.array([float(row["outcome"] == side.value) for side in _SIDES])
    a, tie = float(row["p_a"]), 0.0 if pd.isna(row["p_tie"]) else float(row["p_tie"])
    return np.array([a, max(0.0, 1 - a - tie), tie])


def _reason(row: Mapping[Hashable, Any] | None) -> str:
    if row is None:
        return "not asked"
    return str(row["unread_reason"]) if pd.notna(row["unread_reason"]) else "no outcome"


def _largest(mean: npt.NDArray[np.float64]) -> Outcome:
    best = [side for side, p in zip(_SIDES, mean, strict=True) if p >= mean.max() - _EQUAL]
    return best[0] if len(best) == 1 else Outcome.TIE

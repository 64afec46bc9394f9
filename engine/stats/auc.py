"""Area under the ROC curve as a Mann-Whitney statistic: exact, ties half, signed, also under resampling weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.stats.intervals import wilson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SEPARATED = "full separation: Wilson bound, n = items of the smaller group"
"""Method of `separation_bounds`."""


def auc(high: npt.ArrayLike, low: npt.ArrayLike) -> float:
    """Probability that a score of the first group exceeds one of the second, ties half; in [0, 1].

    NaN where a group is empty. NaN scores are left out.
    """
    first, second = (np.asarray(group, dtype=np.float64) for group in (high, low))
    return float(weighted_auc(np.concatenate([first, second]), np.repeat([1.0, 0.0], [len(first), len(second)]))[0])


def weighted_auc(score: Floats, positive: Floats, weights: Floats | None = None) -> Floats:
    """The AUC of two groups in each of B resamples.

    Args:
        score: (n,); NaN is left out.
        positive: 1 in the group that should score higher, else 0 (n,); NaN is left out.
        weights: times that each row is drawn in each resample (B, n); once by default.

    Returns:
        One value per resample (B,); NaN where a group is empty.
    """
    known = ~np.isnan(score) & ~np.isnan(positive)
    s, y = score[known], positive[known]
    w = np.ones((1, len(s))) if weights is None else np.atleast_2d(weights)[:, known]
    if not len(s):
        return np.full(len(w), np.nan)
    order = np.argsort(s, kind="stable")
    ranked = s[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])  # of each run of equal scores
    good = np.add.reduceat((w * y)[:, order], starts, axis=1)
    bad = np.add.reduceat((w * (1 - y))[:, order], starts, axis=1)
    below = np.cumsum(bad, axis=1) - bad / 2
    sides = good.sum(axis=1) * bad.sum(axis=1)
    values: Floats = np.divide((good * below).sum(axis=1), sides, out=np.full(len(w), np.nan), where=sides > 0)
    return values


def auc_by_item(high: Floats, high_item: Ints, low: Floats, low_item: Ints, n_items: int) -> tuple[Floats, Ints, Ints]:
    """Sums for a bootstrap of items: comparisons won W (G, G), and scores of each item in both groups, (G,) each.

    With weights w of the items, the AUC is w'Ww / (w'h w'l).
    """
    wins = np.zeros((n_items, n_items))
    order = np.argsort(low_item, kind="stable")
    low, low_item = low[order], low_item[order]
    if len(high) and len(low):
        more = (high[:, None] > low).astype(np.float64) + 0.5 * (high[:, None] == low)  # (H, L)
        starts = np.flatnonzero(np.r_[True, low_item[1:] != low_item[:-1]])
        sums = np.add.reduceat(more, starts, axis=1)  # (H, items that have a low score)
        np.add.at(wins, (high_item[:, None], low_item[starts][None, :]), sums)
    return wins, np.bincount(high_item, minlength=n_items), np.bincount(low_item, minlength=n_items)


def separation_bounds(value: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of an AUC of 0 or 1: Wilson's bound for no event among the items of the smaller group.

    Where two groups do not overlap every resample agrees, which is no certainty.

    Args:
        value: the AUC, about 0 or about 1.
        n: items of the smaller group.
        level: confidence level.
    """
    bound = wilson(0, n, level).upper
    return (0.0, bound) if value < 0.5 else (1 - bound, 1.0)

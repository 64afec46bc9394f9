"""Separation of two groups by a score, with intervals that keep items whole: AUC and Cohen's d.

The area under the ROC curve is a Mann-Whitney statistic: exact, ties half, signed. Both intervals rest on what each
item adds to the estimate (the infinitesimal jackknife; for the AUC that of Obuchowski, 1997), as t with G - 1 degrees
of freedom on a scale where the estimate is nearly normal: the logit of an AUC, the inverse hyperbolic sine of d.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, stdtrit

from engine.stats.intervals import wilson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LOGIT = "t on the logit scale, clustered by item"
SINH = "Hedges, t on the arsinh scale, clustered by item"
"""Methods of `auc_bounds` and of `d_bounds`."""
SEPARATED = "full separation: Wilson bound, n = items of the smaller group"
"""Method of `separation_bounds`."""


def auc(high: npt.ArrayLike, low: npt.ArrayLike) -> float:
    """Probability that a score of the first group exceeds one of the second, ties half; in [0, 1].

    NaN where a group is empty. NaN scores are left out.
    """
    first, second = (np.asarray(group, dtype=np.float64) for group in (high, low))
    first, second = first[~np.isnan(first)], second[~np.isnan(second)]
    return float(_share_below(second, first).mean()) if len(first) and len(second) else float("nan")


def auc_parts(high: Floats, high_item: Ints, low: Floats, low_item: Ints, n_items: int) -> tuple[float, Floats]:
    """The AUC, and what each item adds to it; NaN and zeros where a group is empty.

    Args:
        high: scores of the group that should score higher, (H,).
        high_item: the item of each, 0 to G - 1.
        low: scores of the other group, (L,).
        low_item: the item of each.
        n_items: G.

    Returns:
        The AUC in [0, 1], and parts that sum to zero, (G,).
    """
    if not len(high) or not len(low):
        return float("nan"), np.zeros(n_items)
    below, above = _share_below(low, high), 1 - _share_below(high, low)
    value = float(below.mean())
    parts = np.bincount(high_item, weights=below - value, minlength=n_items) / len(high)
    return value, parts + np.bincount(low_item, weights=above - value, minlength=n_items) / len(low)


def _share_below(scores: Floats, at: Floats) -> Floats:
    """Share of the scores below each value, ties half."""
    ranked = np.sort(scores)
    both = np.searchsorted(ranked, at, side="left") + np.searchsorted(ranked, at, side="right")
    return np.asarray(both / (2 * len(ranked)), dtype=np.float64)


def auc_bounds(value: float, parts: Floats, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of an AUC strictly between 0 and 1, on the logit scale.

    Args:
        value: the AUC.
        parts: what each item adds, (G,), G > 1.
        level: confidence level.
    """
    half = _half_width(parts, level) / (value * (1 - value))
    return float(expit(logit(value) - half)), float(expit(logit(value) + half))


def cohens_d(high: Floats, low: Floats) -> float:
    """Difference of means in units of the pooled standard deviation; NaN where it is zero or a group has one score."""
    high, low = high[~np.isnan(high)], low[~np.isnan(low)]
    if len(high) < 2 or len(low) < 2:
        return float("nan")
    pooled = _pooled(high, low)
    return float((high.mean() - low.mean()) / pooled) if pooled > 0 else float("nan")


def d_bounds(
    high: Floats, high_item: Ints, low: Floats, low_item: Ints, n_items: int, level: float = 0.95
) -> tuple[float, float]:
    """Ends of the interval of Cohen's d, around Hedges' estimate, which is less biased with few items.

    Arguments as `auc_parts`; `cohens_d` must have a value and G be above 1.
    """
    pooled, d, free = _pooled(high, low), cohens_d(high, low), len(high) + len(low) - 2
    parts = np.zeros(n_items)
    for sign, scores, item in ((1, high, high_item), (-1, low, low_item)):
        z = (scores - scores.mean()) / pooled
        one = sign * z / len(scores) - d / (2 * free) * (z**2 - 1)
        parts += np.bincount(item, weights=one, minlength=n_items)
    centre = d * (1 - 3 / (4 * free - 1))
    half = _half_width(parts, level) / np.sqrt(8 + d**2)
    scale = np.sqrt(8)
    ends = np.sinh(np.arcsinh(centre / scale) + np.array([-half, half])) * scale
    return float(ends[0]), float(ends[1])


def _pooled(high: Floats, low: Floats) -> float:
    free = len(high) + len(low) - 2
    return float(np.sqrt((((high - high.mean()) ** 2).sum() + ((low - low.mean()) ** 2).sum()) / free))


def _half_width(parts: Floats, level: float) -> float:
    g = len(parts)
    return float(stdtrit(g - 1, 0.5 + level / 2) * np.sqrt(g / (g - 1) * (parts**2).sum()))


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

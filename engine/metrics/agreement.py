"""How well a judge's scores order responses as people do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit
from scipy.stats import rankdata

from engine.errors import InputError
from engine.metrics.intervals import BOOTSTRAP, NO_DATA, NO_VARIATION, ONE_CLUSTER, RESAMPLES, Interval

Floats = npt.NDArray[np.float64]
_NAN = float("nan")


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where one side does not vary."""
    a, b = rankdata(x), rankdata(y)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else _NAN


def cluster_spearman(
    scores: npt.ArrayLike,
    truth: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Spearman's correlation over all rows with a cluster bootstrap interval.

    Whole clusters are resampled 2000 times and ranks are taken anew. The percentiles are widened for few clusters
    as in `engine.metrics.intervals` (Hesterberg 2015, section 5.3, G - 1 degrees of freedom).

    Args:
        scores: what the judge gave, shape [n]; rows where either number is NaN are left out.
        truth: what people gave, shape [n].
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the lengths differ.
    """
    x, y = np.asarray(scores, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    groups = np.asarray(clusters)
    if not x.shape == y.shape == groups.shape or x.ndim != 1:
        raise InputError(
            f"Scores, truth and clusters must be one a row; got shapes {x.shape}, {y.shape} and {groups.shape}."
        )
    keep = ~(np.isnan(x) | np.isnan(y))
    x, y, groups = x[keep], y[keep], groups[keep]
    codes = np.unique(groups, return_inverse=True)[1]
    g = int(codes.max()) + 1 if len(codes) else 0
    if len(x) < 2:
        return Interval(_NAN, _NAN, _NAN, level, NO_DATA, len(x), g)
    value = spearman(x, y)
    if g < 2:
        return Interval(value, _NAN, _NAN, level, ONE_CLUSTER, len(x), g)
    members = [np.flatnonzero(codes == c) for c in range(g)]
    rng = np.random.default_rng(seed)
    drawn = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        rows = np.concatenate([members[c] for c in rng.integers(g, size=g)])
        drawn[i] = spearman(x[rows], y[rows])
    if np.isnan(drawn).all():
        return Interval(value, _NAN, _NAN, level, NO_VARIATION, len(x), g)
    tail = float(ndtr(-np.sqrt(g / (g - 1)) * stdtrit(g - 1, 0.5 + level / 2)))
    lower, upper = np.nanquantile(drawn, [tail, 1 - tail])
    return Interval(value, float(lower), float(upper), level, BOOTSTRAP, len(x), g)

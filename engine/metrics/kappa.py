"""Agreement with human labels beyond chance: Cohen's kappa with its base rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

from engine.errors import InputError
from engine.metrics.intervals import BOOTSTRAP, NO_DATA, NO_VARIATION, ONE_CLUSTER, RESAMPLES, Interval

_NAN = float("nan")
Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kappa:
    """Cohen's kappa and what it is to be read beside.

    Attributes:
        interval: kappa, in [-1, 1]; NaN where both sides always say the same one thing.
        observed: share of rows where both agree.
        expected: the share that two raters with these marginal frequencies would agree on by chance.
        base_rate: share of the most frequent human label: what always saying it would agree on.
    """

    interval: Interval
    observed: float
    expected: float
    base_rate: float


def cluster_kappa(
    judged: Sequence[str],
    human: Sequence[str],
    clusters: Sequence[Any] | npt.NDArray[Any],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Kappa:
    """Cohen's kappa (1960) over all rows with a cluster bootstrap interval.

    kappa = (observed - expected) / (1 - expected). Whole clusters are resampled 2000 times; percentiles are widened
    for few clusters as in `engine.metrics.intervals`. Resamples without a kappa (one label on both sides) are left out.

    Args:
        judged: the judge's label of each row, shape [n].
        human: the human label of each row, shape [n].
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the lengths differ.
    """
    if not len(judged) == len(human) == len(clusters):
        raise InputError(f"Labels and clusters must be one a row; got {len(judged)}, {len(human)}, {len(clusters)}.")
    n = len(judged)
    if not n:
        return Kappa(Interval(_NAN, _NAN, _NAN, level, NO_DATA, 0, 0), _NAN, _NAN, _NAN)
    names = sorted({*judged, *human})
    place = {name: i for i, name in enumerate(names)}
    codes = np.unique(np.asarray(clusters), return_inverse=True)[1]
    g = int(codes.max()) + 1
    tables = np.zeros((g, len(names), len(names)))
    for code, said, wanted in zip(codes, judged, human, strict=True):
        tables[code, place[said], place[wanted]] += 1
    total = tables.sum(axis=0)
    [value], [observed], [expected] = _kappa(total[None])
    base_rate = float(total.sum(axis=0).max() / n)
    lower, upper, method = _bounds(tables, float(value), level, seed)
    interval = Interval(float(value), lower, upper, level, method, n, g)
    return Kappa(interval, float(observed), float(expected), base_rate)


def _kappa(tables: Counts) -> tuple[Counts, Counts, Counts]:
    """Kappa, observed and expected agreement of each contingency table (rows judge, columns human), shape [k]."""
    n = tables.sum(axis=(1, 2))
    observed = np.trace(tables, axis1=1, axis2=2) / n
    expected = (tables.sum(axis=2) * tables.sum(axis=1)).sum(axis=1) / n**2
    room = 1 - expected
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(room > 1e-12, (observed - expected) / room, np.nan), observed, expected


def _bounds(tables: Counts, value: float, level: float, seed: int) -> tuple[float, float, str]:
    g = len(tables)
    if g < 2:
        return _NAN, _NAN, ONE_CLUSTER
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(g, np.full(g, 1 / g), size=RESAMPLES).astype(np.float64)
    drawn = _kappa(np.tensordot(weights, tables, axes=1))[0]
    if np.isnan(value) or np.nanmax(drawn) - np.nanmin(drawn) < 1e-12:
        return _NAN, _NAN, NO_VARIATION
    tail = float(ndtr(-np.sqrt(g / (g - 1)) * stdtrit(g - 1, 0.5 + level / 2)))
    lower, upper = np.nanquantile(drawn, [tail, 1 - tail])
    return float(lower), float(upper), BOOTSTRAP

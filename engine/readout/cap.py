"""CAP read from a study's stored tables (paper 001): thresholds, retained texts and the nearest alpha; numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NAN = float("nan")


@dataclass(frozen=True)
class Standard:
    """What two percentiles make of the pools.

    Attributes:
        high, low: thresholds on the judge's scale; NaN where nothing was read.
        n_high, n_low: texts of the second pool at or beyond them.
        n: texts of the second pool that were read.
    """

    high: float
    low: float
    n_high: int
    n_low: int
    n: int


def standard_at(first: Floats, second: Floats, high_percentile: float, low_percentile: float) -> Standard:
    """Thresholds from the first pool's scores, counts from the second's; unread scores (NaN) count nowhere."""
    read = first[~np.isnan(first)]
    if not len(read):
        return Standard(NAN, NAN, 0, 0, int((~np.isnan(second)).sum()))
    high, low = (float(v) for v in np.percentile(read, [high_percentile, low_percentile]))
    return Standard(high, low, int((second >= high).sum()), int((second <= low).sum()), int((~np.isnan(second)).sum()))


def nearest(alphas: Floats, means: Floats, standard: float) -> float:
    """The alpha whose mean score lies nearest to a standard, of equally near ones the smallest; NaN without one."""
    known = ~np.isnan(means)
    if not known.any() or np.isnan(standard):
        return NAN
    distance = np.round(np.abs(means[known] - standard), 9)
    return float(alphas[known][distance == distance.min()].min())

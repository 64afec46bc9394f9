"""The bootstrap of clusters: how often each is drawn, and the ends of an interval from what the resamples gave."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtrit

Floats = npt.NDArray[np.float64]

RESAMPLES = 2000
BOOTSTRAP = "bootstrap of items"
"""Method of an interval, in words for a caption."""


@lru_cache(maxsize=8)
def draw_counts(clusters: int, seed: int, resamples: int = RESAMPLES) -> Floats:
    """Count of each of G clusters in each of B resamples, shape (B, G); shared, so read-only."""
    shares = np.full(clusters, 1 / clusters)
    counts = np.random.default_rng(seed).multinomial(clusters, shares, size=resamples).astype(np.float64)
    counts.flags.writeable = False
    return counts


def tails(df: float, level: float) -> tuple[float, float]:
    """The quantiles of a bootstrap that make an interval, widened as Hesterberg (2015, section 5.3) proposes.

    Plain percentiles use the variance with divisor G and normal tails, so they are too narrow by about
    z / t * sqrt((G - 1) / G); the tail taken here undoes that.

    Args:
        df: degrees of freedom, G - 1 for equal clusters.
        level: confidence level in (0, 1).
    """
    tail = float(ndtr(-np.sqrt((df + 1) / df) * stdtrit(df, 0.5 + level / 2)))
    return tail, 1 - tail


def percentiles(drawn: Floats, level: float, df: float | None = None) -> tuple[float, float]:
    """Ends of the interval from the resamples (B,) that have a finite value; NaN where none has.

    Args:
        drawn: the estimate in each resample.
        level: confidence level in (0, 1).
        df: of `tails`; without it the percentiles are plain.
    """
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return float("nan"), float("nan")
    ends = ((1 - level) / 2, (1 + level) / 2) if df is None else tails(df, level)
    lower, upper = np.quantile(known, ends)
    return float(lower), float(upper)

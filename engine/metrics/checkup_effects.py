"""Effects of a check-up with intervals that also hold where no response moves at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from engine.metrics.agreement import cluster_spearman
from engine.metrics.intervals import (
    NO_DATA,
    NO_VARIATION,
    WILSON,
    WILSON_CLUSTERS,
    Interval,
    cluster_mean,
    cluster_rate,
    wilson,
)
from engine.metrics.kappa import Kappa
from engine.metrics.power import detectable_effect, noncentrality

NO_ORDER = "no variation in the judge's scores"
ALL_ALIKE = "all alike: Wilson bound, n = items"
MANY = 1e6
"""Degrees of freedom that stand for the normal distribution."""

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Effect:
    """An interval and the true effect that the same data would find with 80 % power, in the same unit."""

    interval: Interval
    detectable: float
    base_rate: float = math.nan
    observed: float = math.nan


def mean_effect(values: Floats, clusters: Codes, *, level: float, seed: int) -> Effect:
    """The mean of values in [-1, 1], paired differences of verdicts on a scale from 0 to 1.

    Where all rows are alike (a judge that no attack moves) there is no spread to learn from. Then at most a share w
    of the items, Wilson's upper bound for none of G, can be different, by at most what is left of [-1, 1]: the bound
    is [(1 - w) v - w, (1 - w) v + w], and its longer half is what could be found.

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    interval = cluster_mean(values, clusters, level=level, seed=seed)
    if interval.method == NO_VARIATION:
        return _all_alike(interval, -1.0)
    lower, upper = np.clip([interval.lower, interval.upper], -1.0, 1.0)
    detectable = detectable_effect(values, clusters, level=level)
    return Effect(replace(interval, lower=float(lower), upper=float(upper)), detectable)


def rate_effect(values: Floats, clusters: Codes, *, level: float, seed: int) -> Effect:
    """The mean of values in [0, 1] (events, halves for ties, absolute changes), with an interval inside [0, 1].

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    interval = cluster_rate(values, clusters, level=level, seed=seed)
    if interval.method == NO_VARIATION:  # alike and neither 0 nor 1, for example all halves
        return _all_alike(interval, 0.0)
    detectable = detectable_effect(values, clusters, level=level)
    if math.isnan(detectable) and interval.method in (WILSON, WILSON_CLUSTERS):
        detectable = interval.upper - interval.lower  # none or all of them: what could have gone unseen
    return Effect(interval, detectable)


def spearman_effect(scores: Floats, truth: Floats, clusters: Codes, *, level: float, seed: int) -> Effect:
    """Spearman's correlation with human scores; method `NO_ORDER` where the judge's scores do not vary but theirs do.

    Args:
        scores: what the judge gave, shape [n]; rows where either number is NaN are left out.
        truth: what people gave, shape [n].
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    keep = ~(np.isnan(scores) | np.isnan(truth))
    interval = cluster_spearman(scores, truth, clusters, level=level, seed=seed)
    if interval.n > 1 and np.ptp(scores[keep]) < 1e-9 < np.ptp(truth[keep]):
        return Effect(replace(interval, lower=math.nan, upper=math.nan, method=NO_ORDER), math.nan)
    return Effect(interval, _from_width(interval))


def kappa_effect(found: Kappa) -> Effect:
    """Kappa with its base rate.

    Where the judge gives one label and people several the method is `NO_ORDER`. Where all rows agree, at most a share
    w of the items, Wilson's upper bound for none of G, can disagree: kappa is at least 1 - w / (1 - expected).
    """
    interval = found.interval
    if interval.method == NO_VARIATION and interval.value == 0:
        interval = replace(interval, method=NO_ORDER)
    if interval.method == NO_VARIATION and interval.value == 1:
        w = wilson(0, interval.n_clusters, interval.level).upper
        interval = replace(interval, lower=1 - w / (1 - found.expected), upper=1.0, method=ALL_ALIKE)
    return Effect(interval, _from_width(interval), found.base_rate, found.observed)


def shifted(effect: Effect, by: float) -> Effect:
    """The same effect counted from another origin."""
    i = effect.interval
    return replace(effect, interval=replace(i, value=i.value - by, lower=i.lower - by, upper=i.upper - by))


def _all_alike(interval: Interval, least: float) -> Effect:
    """The bound for rows that are all alike, of values from `least` to 1."""
    value, w = interval.value, wilson(0, interval.n_clusters, interval.level).upper
    lower, upper = (1 - w) * value + w * least, (1 - w) * value + w
    return Effect(replace(interval, lower=lower, upper=upper, method=ALL_ALIKE), max(upper - value, value - lower))


def _from_width(interval: Interval) -> float:
    """Detectable distance of an estimate that has an interval and no rows: its error read off the interval."""
    if interval.method == NO_DATA or math.isnan(interval.upper):
        return math.nan
    error = (interval.upper - interval.lower) / 2 / float(ndtri(0.5 + interval.level / 2))
    return error * noncentrality(MANY)

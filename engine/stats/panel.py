"""Several judges of the same subjects: rules that make one verdict of many, and how many votes the many are worth.

A vote is a number a subject: of a pair 1 for its first response, 0 for its second, 0.5 for a tie; of a verifier 1 for
YES, 0 for NO; of a single response its score. Votes of a panel stand in an array of shape (subjects, judges); NaN is a
verdict that could not be read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from engine.core.errors import InputError, listed
from engine.stats.intervals import (
    BOOTSTRAP,
    NO_DATA,
    NO_VARIATION,
    ONE_CLUSTER,
    RESAMPLES,
    Interval,
    draw_counts,
    percentiles,
)

Floats = npt.NDArray[np.float64]
_NAN = float("nan")
_EQUAL = 1e-9
RULES = ("majority", "mean", "median", "trimmed mean")
"""Ways to one verdict of a panel; the majority is for votes that take sides."""


def sides(votes: npt.ArrayLike) -> Floats:
    """Votes in [0, 1] as the side they take: 1, 0, or 0.5 for neither; NaN stays."""
    v = np.asarray(votes, dtype=np.float64)
    return np.where(np.isnan(v), np.nan, 0.5 + 0.5 * np.sign(np.where(np.abs(v - 0.5) < _EQUAL, 0.0, v - 0.5)))


def panel_vote(votes: npt.ArrayLike, rule: str) -> Floats:
    """The panel's vote on each subject, shape (subjects,); NaN where any judge's is missing.

    majority: the side that more judges take, ties counting for neither. mean, median: of the votes. trimmed mean: the
    mean without the highest and the lowest fifth of the votes, at least one of each from three judges on, so that one
    judge gone wrong moves it little.

    Raises:
        InputError: no such rule.
    """
    v = np.asarray(votes, dtype=np.float64)
    if rule == "majority":
        return sides(sides(v).mean(axis=1))
    if rule == "mean":
        return np.asarray(v.mean(axis=1))
    if rule == "median":
        return np.asarray(np.median(v, axis=1))
    if rule == "trimmed mean":
        judges = v.shape[1]
        cut = max(1, judges // 5) if judges > 2 else 0
        kept = np.sort(v, axis=1)[:, cut : judges - cut]
        return np.where(np.isnan(v).any(axis=1), np.nan, kept.mean(axis=1))
    raise InputError(f"{rule!r} is no rule of a panel; allowed: {listed(RULES)}.")


def standardised(votes: npt.ArrayLike) -> Floats:
    """Each judge's votes less their mean, over their standard deviation: scores of different scales in one unit."""
    v = np.asarray(votes, dtype=np.float64)
    spread = np.nanstd(v, axis=0)
    return np.asarray((v - np.nanmean(v, axis=0)) / np.where(spread > 0, spread, 1.0))


def errors_of(votes: npt.ArrayLike, people: npt.ArrayLike, *, scores: bool = False) -> Floats:
    """Error of each vote against people's, shape (subjects, judges).

    Of votes that take sides: the distance from people's side, in [0, 1]. Of scores: what a straight line through
    people's scores leaves of the judge's, so that scales do not matter. People's own noise is in these leftovers of
    every judge, so that their correlation is overstated where few people scored each response.

    Args:
        votes: shape (subjects, judges).
        people: shape (subjects,); NaN where nobody said.
        scores: the votes are scores.
    """
    v, h = np.asarray(votes, dtype=np.float64), np.asarray(people, dtype=np.float64)
    if not scores:
        return np.abs(sides(v) - sides(h)[:, None])
    out = np.full_like(v, np.nan)
    for j in range(v.shape[1]):
        known = ~np.isnan(v[:, j] + h)
        x, y = h[known], v[known, j]
        if len(x) < 2:
            continue
        centred = x - x.mean()
        scale = float(centred @ centred)
        slope = float(centred @ (y - y.mean())) / scale if scale > 0 else 0.0
        out[known, j] = y - y.mean() - slope * centred
    return out


@dataclass(frozen=True)
class Votes:
    """What a panel is worth.

    Attributes:
        effective: number of independent votes with the same variance of the mean, in [1, judges].
        correlation: mean correlation of two judges' readings, in [-1, 1].
    """

    effective: Interval
    correlation: Interval


def effective_votes(
    readings: npt.ArrayLike, clusters: Sequence[Any] | npt.NDArray[Any], *, level: float = 0.95, seed: int = 0
) -> Votes:
    """The effective number of votes of a panel: n / (1 + (n - 1) rho), rho the mean correlation of two judges.

    Kish's effective sample size (1965), which arXiv 2605.29800 takes for panels of judges with the correlation of
    their errors. Where no people's labels exist, the correlation of the verdicts themselves takes its place: judges
    that are right also agree, so that it gives too few votes. A judge whose readings do not vary is in no pair.
    Whole clusters are resampled 2000 times; values are kept in [1, n].

    Args:
        readings: errors or votes, shape (subjects, judges); subjects without all of them are left out.
        clusters: the cluster of each subject.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the lengths differ, or there is one judge.
    """
    x, groups = np.asarray(readings, dtype=np.float64), np.asarray(clusters)
    if x.ndim != 2 or x.shape[1] < 2 or len(x) != len(groups):
        raise InputError(
            f"A panel is a row a subject and a column a judge, two or more; got {x.shape}, {groups.shape}."
        )
    keep = ~np.isnan(x).any(axis=1)
    x, groups = x[keep], groups[keep]
    n, judges = x.shape
    codes = np.unique(groups, return_inverse=True)[1] if n else np.zeros(0, dtype=int)
    g = int(codes.max()) + 1 if n else 0
    if n < 2:
        nothing = Interval(_NAN, _NAN, _NAN, level, NO_DATA, n, g)
        return Votes(nothing, nothing)
    sums = _moments(x - x.mean(axis=0), codes, g)
    value = float(_mean_correlation(sums.sum(axis=0)[None], judges)[0])
    if np.isnan(value) or g < 2:
        method = ONE_CLUSTER if g < 2 else NO_VARIATION
        ends = (Interval(v, _NAN, _NAN, level, method, n, g) for v in (_worth(value, judges), value))
        return Votes(*ends)
    drawn = _mean_correlation(np.tensordot(draw_counts(g, seed, RESAMPLES), sums, axes=1), judges)
    lower, upper = percentiles(drawn, level, g - 1) if np.nanstd(drawn) > _EQUAL else (_NAN, _NAN)
    method = NO_VARIATION if np.isnan(lower) else BOOTSTRAP
    lower, upper = np.clip([lower, upper], -1.0, 1.0)
    return Votes(
        Interval(_worth(value, judges), _worth(upper, judges), _worth(lower, judges), level, method, n, g),
        Interval(value, float(lower), float(upper), level, method, n, g),
    )


def _worth(correlation: float, judges: int) -> float:
    """Effective votes at a mean correlation, in [1, judges]."""
    if np.isnan(correlation):
        return _NAN
    return float(judges / max(1.0, 1 + (judges - 1) * correlation))


def _moments(x: Floats, codes: npt.NDArray[np.intp], g: int) -> Floats:
    """Sums of 1, x and of the products of each cluster, shape (clusters, 1 + J + J * J)."""
    products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    rows = np.hstack([np.ones((len(x), 1)), x, products])
    out = np.zeros((g, rows.shape[1]))
    np.add.at(out, codes, rows)
    return out


def _mean_correlation(sums: Floats, judges: int) -> Floats:
    """Mean over the pairs of judges that both vary, of each draw; NaN where no pair does."""
    n = np.maximum(sums[:, 0], 1)
    mean = sums[:, 1 : 1 + judges] / n[:, None]
    second = (sums[:, 1 + judges :] / n[:, None]).reshape(-1, judges, judges)
    covariance = second - mean[:, :, None] * mean[:, None, :]
    spread = np.sqrt(np.clip(np.diagonal(covariance, axis1=1, axis2=2), 0, None))
    scale = spread[:, :, None] * spread[:, None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(scale > 1e-12, covariance / scale, np.nan)
    above = np.triu_indices(judges, 1)
    pairs = correlation[:, above[0], above[1]]
    counted = (~np.isnan(pairs)).sum(axis=1)
    return np.where(counted > 0, np.nansum(pairs, axis=1) / np.maximum(counted, 1), np.nan)


@dataclass(frozen=True)
class RankCorrelations:
    """Spearman's correlation of every two columns, with the draws of one bootstrap of whole clusters.

    Attributes:
        value: shape (columns, columns).
        drawn: shape (resamples, columns, columns); empty where there are fewer than two clusters.
        n: rows.
        n_clusters: clusters.
        level: of the intervals.
    """

    value: Floats
    drawn: Floats
    n: int
    n_clusters: int
    level: float

    def interval(self, i: int, j: int) -> Interval:
        """The correlation of two columns; as `engine.stats.agreement.cluster_spearman`."""
        return self._interval(float(self.value[i, j]), self.drawn[:, i, j])

    def change(self, before: int, after: int, truth: int) -> Interval:
        """The correlation of `after` with the truth less that of `before`, paired in each resample."""
        value = float(self.value[after, truth] - self.value[before, truth])
        return self._interval(value, self.drawn[:, after, truth] - self.drawn[:, before, truth])

    def _interval(self, value: float, drawn: Floats) -> Interval:
        n, g = self.n, self.n_clusters
        if n < 2 or g < 2:
            return Interval(value, _NAN, _NAN, self.level, NO_DATA if n < 2 else ONE_CLUSTER, n, g)
        if np.isnan(drawn).all():
            return Interval(value, _NAN, _NAN, self.level, NO_VARIATION, n, g)
        return Interval(value, *percentiles(drawn, self.level, g - 1), self.level, BOOTSTRAP, n, g)


def rank_correlations(
    columns: npt.ArrayLike, clusters: Sequence[Any] | npt.NDArray[Any], *, level: float = 0.95, seed: int = 0
) -> RankCorrelations:
    """Spearman's correlations of many columns at once: whole clusters are resampled 2000 times, ranks taken anew.

    Args:
        columns: shape (rows, columns), without NaN.
        clusters: the cluster of each row.
        level: of the intervals.
        seed: of the bootstrap, which is that of `engine.stats.agreement.cluster_spearman`.
    """
    x, groups = np.asarray(columns, dtype=np.float64), np.asarray(clusters)
    n, k = x.shape
    codes = np.unique(groups, return_inverse=True)[1] if n else np.zeros(0, dtype=int)
    g = int(codes.max()) + 1 if n else 0
    value = _ranked(x) if n > 1 else np.full((k, k), np.nan)
    drawn = np.zeros((RESAMPLES if g > 1 else 0, k, k))
    members = [np.flatnonzero(codes == c) for c in range(g)]
    rng = np.random.default_rng(seed)
    for i in range(len(drawn)):
        drawn[i] = _ranked(x[np.concatenate([members[c] for c in rng.integers(g, size=g)])])
    return RankCorrelations(value, drawn, n, g, level)


def _ranked(x: Floats) -> Floats:
    """Spearman's correlation matrix; NaN for a column that does not vary."""
    ranks = rankdata(x, axis=0)
    ranks = ranks - ranks.mean(axis=0)
    spread = np.sqrt((ranks**2).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(ranks.T @ ranks / np.where(spread > 0, spread[:, None] * spread, np.nan))


def panels_of(judges: int, size: int, most: int = 60) -> list[tuple[int, ...]]:
    """Every panel of so many of the judges; where there are more than `most`, so many at random, always the same."""
    if math.comb(judges, size) <= most:
        return list(combinations(range(judges), size))
    rng = np.random.default_rng(size)
    found: set[tuple[int, ...]] = set()
    while len(found) < most:
        found.add(tuple(sorted(rng.permutation(judges)[:size].tolist())))
    return sorted(found)

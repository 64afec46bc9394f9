"""Tests of paired differences: is the mean zero, do two arms win equally often?

Rows of one item depend on one another (`clusters.cluster_codes` says which), so each test has two forms. Where
one row is one cluster: the t test, or the exact McNemar test (binomial). Otherwise the same questions with
clusters kept whole: t with the CR2 error and its degrees of freedom, or signs flipped cluster by cluster.

Flipping signs is exact when a cluster's rows would be as likely with the two arms exchanged, which is what "the
arms do not differ" means for a paired design. With G clusters its smallest p value is 2^(1 - G).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, nctdtrinc, stdtr, stdtrit
from scipy.stats import false_discovery_control

from engine.core.errors import InputError
from engine.stats.intervals import (
    NO_DATA,
    NO_VARIATION,
    ONE_CLUSTER,
    Interval,
    cluster_mean,
    cluster_rate,
    standard_error,
)

T_TEST = "t, clustered by item"
MCNEMAR = "exact McNemar"
FLIPS = "signs flipped by item"
ZERO_BOUND = "no discordant pair: Wilson bound, n = items"
EXACT_CLUSTERS = 16
"""Up to this many clusters that differ, all 2^G sign patterns are taken; beyond, seeded random ones."""
RANDOM_FLIPS = 9999

Floats = npt.NDArray[np.float64]
Clusters = Sequence[Any] | npt.NDArray[Any]
_NAN = float("nan")
_CHUNK = 2_000_000


@dataclass(frozen=True)
class PairedTest:
    """A paired comparison: its estimate with interval, and the test that the true value is zero.

    Attributes:
        interval: the mean difference (for proportions: difference of the two shares).
        p_value: two-sided, in [0, 1]; NaN where there are no data or only one cluster.
        method: of the p value, in words for a caption.
        only_first, only_second: rows where only the first or only the second arm has the event; 0 for
            differences that are not events.
    """

    interval: Interval
    p_value: float
    method: str
    only_first: int = 0
    only_second: int = 0


def paired_test(differences: npt.ArrayLike, clusters: Clusters, *, level: float = 0.95, seed: int = 0) -> PairedTest:
    """Test that the mean of paired differences is zero.

    The p value is that of t = mean / CR2 error, the two-sided partner of the t interval; from 30 clusters on the
    interval is the bootstrap, so that close to `1 - level` the two can disagree. Where all clusters agree there
    is no error to divide by, and signs are flipped instead: p = 1 for differences that are all zero.

    Args:
        differences: second minus first, shape [n]; NaN rows are left out (the caller counts them).
        clusters: the cluster of each row, shape [n].
        level: confidence level of the interval, in (0, 1).
        seed: of the bootstrap and of random sign flips.

    Raises:
        InputError: the lengths differ, or the level is outside (0, 1).
    """
    d = np.asarray(differences, dtype=np.float64)
    interval = cluster_mean(d, clusters, level=level, seed=seed)
    if interval.method in (NO_DATA, ONE_CLUSTER):
        return PairedTest(interval, _NAN, interval.method)
    if interval.method == NO_VARIATION:
        return PairedTest(interval, sign_flip_p(d, clusters, seed=seed), FLIPS)
    spread = standard_error(d, clusters)
    p = 2 * float(stdtr(spread.df, -abs(spread.mean) / spread.error))
    return PairedTest(interval, p, T_TEST)


def mcnemar(
    first: npt.ArrayLike, second: npt.ArrayLike, clusters: Clusters, *, level: float = 0.95, seed: int = 0
) -> PairedTest:
    """Test that two arms have an event equally often on the same rows.

    One row a cluster: the exact McNemar test, which asks whether the discordant rows split evenly (binomial
    with 1/2). Otherwise signs of the clusters' net differences are flipped. Without any discordant row the
    difference is 0, p is 1, and the interval is plus or minus Wilson's upper bound on the discordant share with
    n = clusters.

    Args:
        first: 1 where the first arm has the event, else 0, shape [n]; a row where either is NaN is left out.
        second: the same for the second arm.
        clusters: the cluster of each row, shape [n].
        level: confidence level of the interval, in (0, 1).
        seed: of the bootstrap and of random sign flips.

    Returns:
        The interval is of share(second) - share(first), cut to [-1, 1].

    Raises:
        InputError: values other than 0 and 1 (a tie is no event of either side: leave it out or test the
            halves with `paired_test`), the lengths differ, or the level is outside (0, 1).
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    groups = np.asarray(clusters)
    if not a.shape == b.shape == groups.shape or a.ndim != 1:
        raise InputError(f"McNemar's test needs one pair a row; got shapes {a.shape}, {b.shape} and {groups.shape}.")
    keep = ~(np.isnan(a) | np.isnan(b))
    a, b, groups = a[keep], b[keep], groups[keep]
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise InputError("McNemar's test needs events: 0 or 1 in each arm. Test halves with paired_test.")
    only_first, only_second = int((a > b).sum()), int((b > a).sum())
    interval = difference_of_rates(b - a, groups, level=level, seed=seed)
    n, g = len(a), len(np.unique(groups))
    if n == 0 or (g == 1 and n > 1):
        return PairedTest(interval, _NAN, NO_DATA if n == 0 else ONE_CLUSTER, only_first, only_second)
    if g == n:
        return PairedTest(interval, exact_mcnemar_p(only_first, only_second), MCNEMAR, only_first, only_second)
    return PairedTest(interval, sign_flip_p(b - a, groups, seed=seed), FLIPS, only_first, only_second)


def exact_mcnemar_p(only_first: int, only_second: int) -> float:
    """Two-sided exact p of a split of discordant pairs: 2 P(X <= smaller) for X binomial(n, 1/2), at most 1.

    Raises:
        InputError: a negative count.
    """
    if min(only_first, only_second) < 0:
        raise InputError(f"{only_first} and {only_second} discordant pairs: counts cannot be negative.")
    n = only_first + only_second
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), n, 0.5))) if n else 1.0


def sign_flip_p(differences: npt.ArrayLike, clusters: Clusters, *, seed: int = 0) -> float:
    """Two-sided p of the summed difference when each cluster's sign may flip.

    All sign patterns up to 16 clusters with a difference, otherwise 9999 random ones counted with the observed
    one, (b + 1) / (m + 1), which keeps the test valid. Clusters without a difference change nothing.

    Args:
        differences: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        seed: of the random patterns.

    Returns:
        NaN without rows; 1 where all differences are zero.
    """
    d, groups = np.asarray(differences, dtype=np.float64), np.asarray(clusters)
    keep = ~np.isnan(d)
    if not keep.any():
        return _NAN
    codes = np.unique(groups[keep], return_inverse=True)[1]
    totals = np.bincount(codes, weights=d[keep])
    totals = totals[np.abs(totals) > 1e-9 * max(float(np.abs(d[keep]).max()), 1e-3)]
    g = len(totals)
    if g == 0:
        return 1.0
    observed = abs(float(totals.sum()))
    slack = 1e-9 * float(np.abs(totals).sum())  # sums in another order differ by rounding
    if g <= EXACT_CLUSTERS:
        patterns = (np.arange(2 ** (g - 1))[:, None] >> np.arange(g)) & 1  # the other half mirrors this one
        return float((np.abs((1 - 2.0 * patterns) @ totals) >= observed - slack).mean())
    rng = np.random.default_rng(seed)
    extreme, step = 0, max(1, _CHUNK // g)
    for start in range(0, RANDOM_FLIPS, step):
        rows = min(step, RANDOM_FLIPS - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes(-(-rows * g // 8)), dtype=np.uint8), count=rows * g)
        flipped = bits.reshape(rows, g).astype(np.float64) @ totals
        extreme += int((np.abs(float(totals.sum()) - 2 * flipped) >= observed - slack).sum())
    return (extreme + 1) / (RANDOM_FLIPS + 1)


def difference_of_rates(
    differences: npt.ArrayLike, clusters: Clusters, *, level: float = 0.95, seed: int = 0
) -> Interval:
    """The difference of two rates over the same rows, inside [-1, 1].

    Without any discordant row it is plus or minus Wilson's upper bound on the discordant share with n = clusters.

    Args:
        differences: event of one arm less that of the other, in [-1, 1], shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level, in (0, 1).
        seed: of the bootstrap.
    """
    d, groups = np.asarray(differences, dtype=np.float64), np.asarray(clusters)
    known = ~np.isnan(d)
    if known.any() and not d[known].any():
        none = cluster_rate(np.abs(d), groups, level=level)
        return replace(none, lower=-none.upper, method=ZERO_BOUND)
    mean = cluster_mean(d, groups, level=level, seed=seed)
    lower, upper = np.clip([mean.lower, mean.upper], -1.0, 1.0)
    return replace(mean, lower=float(lower), upper=float(upper))


# Power of a study of this size: detectable effects, and the word "underpowered".
#
# An interval that covers zero says nothing by itself: it may be narrow around zero or wide around anything. The
# detectable effect tells the two apart.

POWER = 0.8
"""Chance of a finding that a detectable effect has, the usual convention."""
EFFECT = 0.25
"""The effect asked about unless the user names another one [points of the judge's scale]."""
UNDERPOWERED = "underpowered"
ENOUGH = "enough"
UNKNOWN = "unknown"


def detectable_effect(
    differences: npt.ArrayLike, clusters: Clusters, *, level: float = 0.95, power: float = POWER
) -> float:
    """The smallest true mean that a two-sided test at 1 - level finds with this power, in the rows' unit.

    It is the CR2 standard error times the noncentrality at which the t test has the power wanted (the far tail,
    a finding with the wrong sign, is left out: it is below 1e-5 at 80 %). The error is the one seen, so this is
    a statement about the study as run, not about the effect it found.

    Args:
        differences: paired differences, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level of the test, in (0, 1).
        power: in (1 - level, 1).

    Returns:
        NaN with fewer than two clusters, or where all clusters agree (no spread to learn from).

    Raises:
        InputError: level or power out of range.
    """
    spread = standard_error(differences, clusters)
    if not spread.error > 0:
        _check(level, power)
        return math.nan
    return spread.error * noncentrality(spread.df, level=level, power=power)


def noncentrality(df: float, *, level: float = 0.95, power: float = POWER) -> float:
    """True mean over standard error at which the two-sided t test with df degrees of freedom has the power.

    Raises:
        InputError: level or power out of range.
    """
    _check(level, power)
    return float(nctdtrinc(df, 1 - power, float(stdtrit(df, 0.5 + level / 2))))


def power_verdict(detectable: float, effect: float = EFFECT) -> str:
    """`underpowered` where the detectable effect is larger than the one asked about, else `enough`.

    `unknown` where the detectable effect is NaN: one item, or no variation to learn from.

    Raises:
        InputError: the effect is not above zero.
    """
    if not effect > 0:
        raise InputError(f"The effect asked about is {effect}; give a size above zero, for example 0.25 points.")
    if math.isnan(detectable):
        return UNKNOWN
    return UNDERPOWERED if detectable > effect else ENOUGH


def _check(level: float, power: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"The confidence level is {level}; it must lie between 0 and 1, for example 0.95.")
    if not 1 - level < power < 1:
        raise InputError(f"The power is {power}; it must lie between {1 - level:g} and 1, for example 0.8.")


# Many tests at once: Benjamini-Hochberg over a grid of arms.


def benjamini_hochberg(p_values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The q value of each test: the smallest false discovery rate at which it would be called a finding.

    q of the i-th smallest of m p values is the minimum over j >= i of m p_(j) / j (Benjamini and Hochberg,
    1995). Valid for independent and for positively dependent tests; arms that share their clean scores are
    positively dependent.

    Args:
        p_values: shape [m], in [0, 1]. NaN (no test was possible) stays NaN and does not count towards m.

    Returns:
        Shape [m], in [0, 1].

    Raises:
        InputError: a value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(p))
    if ((p[tested] < 0) | (p[tested] > 1)).any():
        raise InputError("A p value must lie between 0 and 1.")
    q = np.full(p.shape, np.nan)
    if not len(tested):
        return q
    q[tested] = false_discovery_control(p[tested])
    return q

"""Point estimates with intervals that respect clusters.

All estimators here are ratios R = sum(Y) / sum(X) over clusters (a mean has X = number of rows), so one
linearisation serves them all: the residual total of cluster g is u_g = Y_g - R X_g, its leverage
h_g = X_g / sum(X), and Var(R) = sum(u_g^2 / (1 - h_g)) / sum(X)^2.

This is the bias-reduced estimator CR2 of Bell and McCaffrey (2002) for a model with one coefficient. With
clusters of one size it equals s^2 / G of the cluster means, so the interval is then the ordinary t interval
on cluster means. With unequal sizes the t quantile takes Bell and McCaffrey's degrees of freedom, which are
G - 1 for equal sizes and fewer when a few large clusters carry the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtrit

from engine.errors import InputError

FEW_CLUSTERS = 30
"""Below this many clusters a t interval, from here on a cluster bootstrap."""
RESAMPLES = 2000
NO_DATA = "no data"
ONE_CLUSTER = "no interval: one item"
NO_VARIATION = "no variation"
T_CLUSTERS = "t, clustered by item"
BOOTSTRAP = "bootstrap of items"
WILSON = "Wilson"
WILSON_CLUSTERS = "Wilson, n = items"

Floats = npt.NDArray[np.float64]
_CHUNK = 4_000_000
_NAN = float("nan")


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval.

    Attributes:
        value: point estimate; NaN where undefined.
        lower, upper: ends of the interval; NaN where none can be given (`method` says why).
        level: confidence level in (0, 1).
        method: how the interval was made, in words for a caption.
        n: rows that entered.
        n_clusters: clusters that entered.
    """

    value: float
    lower: float
    upper: float
    level: float
    method: str
    n: int
    n_clusters: int


def cluster_mean(
    values: npt.ArrayLike, clusters: Sequence[Any] | npt.NDArray[Any], *, level: float = 0.95, seed: int = 0
) -> Interval:
    """The mean over rows with an interval that lets rows of one cluster depend on one another.

    Below 30 clusters a t interval with the CR2 variance of this module; from 30 on the cluster bootstrap
    (percentiles of 2000 resamples, seeded).

    When all clusters agree to rounding there is no spread to learn from: an interval of zero width would
    draw as certainty, so the bounds are NaN and the method is "no variation". Figures then print the number
    of items.

    Args:
        values: rows, shape [n]; NaN rows are left out (the caller counts them).
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the lengths differ, or the level is outside (0, 1).
    """
    v = np.asarray(values, dtype=np.float64)
    return cluster_ratio(v, np.ones_like(v), clusters, level=level, seed=seed)


def cluster_ratio(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The ratio of two sums over rows, with the interval of `cluster_mean`.

    Below 30 clusters this is the delta method (linearised residuals, CR2, t), from 30 on the bootstrap
    resamples whole clusters and takes the ratio anew each time.

    Args:
        numerators: rows, shape [n]; a row where either number is NaN is left out.
        denominators: rows, shape [n]; those of each cluster must sum to zero or more.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Returns:
        NaN throughout where the denominators sum to zero.

    Raises:
        InputError: the lengths differ, the level is outside (0, 1), or a cluster's denominators sum below
            zero.
    """
    _check_level(level)
    y, x = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    groups = np.asarray(clusters)
    if not y.shape == x.shape == groups.shape or y.ndim != 1:
        raise InputError(
            f"Values and clusters must be one number and one cluster a row; got shapes {y.shape}, {x.shape} "
            f"and {groups.shape}."
        )
    keep = ~(np.isnan(y) | np.isnan(x))
    y, x, groups = y[keep], x[keep], groups[keep]
    codes = np.unique(groups, return_inverse=True)[1]
    y_totals, x_totals = _totals(codes, y), _totals(codes, x)
    n, g = len(y), len(y_totals)
    whole = float(x_totals.sum())
    if n == 0 or whole <= 1e-12:
        return Interval(_NAN, _NAN, _NAN, level, NO_DATA, n, g)
    if (x_totals < 0).any():
        raise InputError("A ratio needs denominators that sum to zero or more in each cluster.")
    ratio = float(y_totals.sum()) / whole
    leverage = x_totals / whole
    if leverage.max() >= 1 - 1e-12:  # also where the other clusters add nothing to the denominator
        return Interval(ratio, _NAN, _NAN, level, ONE_CLUSTER, n, g)
    residuals = y_totals - ratio * x_totals
    if _cancels(residuals, y):
        return Interval(ratio, _NAN, _NAN, level, NO_VARIATION, n, g)
    if g < FEW_CLUSTERS:
        half = _t_half_width(residuals, leverage, whole, level)
        return Interval(ratio, ratio - half, ratio + half, level, T_CLUSTERS, n, g)
    df = _degrees_of_freedom(leverage)
    lower, upper = _bootstrap(y_totals, x_totals, df, level, seed)
    return Interval(ratio, lower, upper, level, BOOTSTRAP, n, g)


@dataclass(frozen=True)
class StandardError:
    """How well a mean over clustered rows is known.

    Attributes:
        mean: of the rows; NaN where there are none.
        error: CR2 standard error; NaN with fewer than two clusters, 0 where all clusters agree.
        df: Bell and McCaffrey's degrees of freedom; NaN with fewer than two clusters.
        n, n_clusters: rows and clusters that entered.
    """

    mean: float
    error: float
    df: float
    n: int
    n_clusters: int


def standard_error(values: npt.ArrayLike, clusters: Sequence[Any] | npt.NDArray[Any]) -> StandardError:
    """The CR2 standard error of a mean over rows, which tests and detectable effects share with the intervals.

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].

    Raises:
        InputError: the lengths differ.
    """
    v, groups = np.asarray(values, dtype=np.float64), np.asarray(clusters)
    _check_rows(v, groups)
    keep = ~np.isnan(v)
    v, groups = v[keep], groups[keep]
    if not len(v):
        return StandardError(_NAN, _NAN, _NAN, 0, 0)
    codes = np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(codes).astype(np.float64)
    mean = float(v.mean())
    if len(sizes) < 2:
        return StandardError(mean, _NAN, _NAN, len(v), 1)
    leverage = sizes / len(v)
    residuals = _totals(codes, v) - mean * sizes
    if _cancels(residuals, v):
        residuals = np.zeros_like(residuals)
    error = _cr2_error(residuals, leverage, float(len(v)))
    return StandardError(mean, error, _degrees_of_freedom(leverage), len(v), len(sizes))


def wilson(k: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for k events in n independent trials.

    With k = 0 the interval is [0, z^2 / (n + z^2)] exactly, with k = n its mirror image.

    Args:
        k: events, in [0, n]; halves are allowed (a tie counts half).
        n: trials; 0 gives NaN.
        level: confidence level in (0, 1).

    Raises:
        InputError: k outside [0, n] or the level outside (0, 1).
    """
    _check_level(level)
    if not 0 <= k <= n:
        raise InputError(f"{k} events in {n} trials is impossible; k must be between 0 and n.")
    if n == 0:
        return Interval(_NAN, _NAN, _NAN, level, NO_DATA, 0, 0)
    z2 = float(ndtri(0.5 + level / 2)) ** 2
    p = k / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = float(np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n)))) / (1 + z2 / n)
    # At the ends the two terms are equal on paper and differ by rounding in floats.
    lower = 0.0 if k == 0 else centre - half
    upper = 1.0 if k == n else centre + half
    return Interval(p, lower, upper, level, WILSON, n, n)


def cluster_rate(
    values: npt.ArrayLike, clusters: Sequence[Any] | npt.NDArray[Any], *, level: float = 0.95, seed: int = 0
) -> Interval:
    """The mean of values in [0, 1] (events, halves for ties), with an interval inside [0, 1].

    Wilson where each row is its own cluster and each value an event or none; Wilson with n = clusters where
    no row or every row is an event (a cluster may be one event seen often); otherwise `cluster_mean`, cut to
    [0, 1].

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: a value outside [0, 1], or as for `cluster_mean`.
    """
    _check_level(level)
    v, groups = np.asarray(values, dtype=np.float64), np.asarray(clusters)
    _check_rows(v, groups)
    keep = ~np.isnan(v)
    v, groups = v[keep], groups[keep]
    if ((v < 0) | (v > 1)).any():
        raise InputError("A rate needs values between 0 and 1.")
    n, g = len(v), len(np.unique(groups))
    if n and (v == v[0]).all() and v[0] in (0.0, 1.0):
        w = wilson(g * v[0], g, level)
        return Interval(w.value, w.lower, w.upper, level, WILSON if g == n else WILSON_CLUSTERS, n, g)
    if n and g == n and np.isin(v, (0.0, 1.0)).all():
        return wilson(float(v.sum()), n, level)
    mean = cluster_mean(v, groups, level=level, seed=seed)
    # min() and max() would lose NaN bounds; np.clip keeps them.
    lower, upper = np.clip([mean.lower, mean.upper], 0.0, 1.0)
    return Interval(mean.value, float(lower), float(upper), level, mean.method, n, g)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"The confidence level is {level}; it must lie between 0 and 1, for example 0.95.")


def _check_rows(values: Floats, groups: npt.NDArray[Any]) -> None:
    if values.shape != groups.shape or values.ndim != 1:
        raise InputError(f"Values and clusters must be one a row; got shapes {values.shape} and {groups.shape}.")


def _cancels(residuals: Floats, rows: Floats) -> bool:
    """Whether residuals are rounding alone: sums of floats that should cancel leave 1e-15 behind."""
    return bool(np.abs(residuals).max() <= 1e-9 * max(float(np.abs(rows).max()), 1e-3))


def _totals(codes: npt.NDArray[np.intp], values: Floats) -> Floats:
    return np.bincount(codes, weights=values).astype(np.float64)


def _t_half_width(residuals: Floats, leverage: Floats, whole: float, level: float) -> float:
    df = _degrees_of_freedom(leverage)
    return float(stdtrit(df, 0.5 + level / 2)) * _cr2_error(residuals, leverage, whole)


def _cr2_error(residuals: Floats, leverage: Floats, whole: float) -> float:
    return float(np.sqrt((residuals**2 / (1 - leverage)).sum())) / whole


def _degrees_of_freedom(leverage: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom: G - 1 for equal leverages, fewer otherwise.

    The CR2 variance is the quadratic form e'Be of independent errors e with B = sum_g p_g p_g', where p_g is
    the residual-maker's column sum of cluster g over sqrt(1 - h_g). Then p_g'p_k is h_g for g = k and
    -h_g h_k / sqrt((1 - h_g)(1 - h_k)) otherwise, and matching two moments of a chi-square gives tr(B)^2 /
    tr(B^2).
    """
    scaled = leverage / np.sqrt(1 - leverage)
    off_diagonal = (scaled**2).sum() ** 2 - (scaled**4).sum()
    return float(leverage.sum() ** 2 / ((leverage**2).sum() + off_diagonal))


def _bootstrap(y_totals: Floats, x_totals: Floats, df: float, level: float, seed: int) -> tuple[float, float]:
    """Percentiles of the ratio over resampled clusters, widened as Hesterberg (2015, section 5.3) proposes.

    Plain percentiles use the variance with divisor G and normal tails, so they are too narrow by about
    z / t * sqrt((G - 1) / G); the tail taken here undoes that. His G - 1 is replaced by the degrees of
    freedom of the t interval, which are the same for equal clusters.
    """
    g = len(y_totals)
    rng = np.random.default_rng(seed)
    ratios = np.empty(RESAMPLES)
    step = max(1, _CHUNK // g)
    for start in range(0, RESAMPLES, step):
        picks = rng.integers(g, size=(min(step, RESAMPLES - start), g))
        below = x_totals[picks].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios[start : start + step] = np.where(below > 0, y_totals[picks].sum(axis=1) / below, np.nan)
    tail = float(ndtr(-np.sqrt((df + 1) / df) * stdtrit(df, 0.5 + level / 2)))
    lower, upper = np.nanquantile(ratios, [tail, 1 - tail])
    return float(lower), float(upper)

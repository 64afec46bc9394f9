"""Point estimates with intervals that respect clusters.

All estimators here are ratios R = sum(Y) / sum(X) over clusters (a mean has X = number of rows), so one
linearisation serves them all: the residual total of cluster g is u_g = Y_g - R X_g, its leverage
h_g = X_g / sum(X), and Var(R) = sum(u_g^2 / (1 - h_g)) / sum(X)^2.

This is the bias-reduced estimator CR2 of Bell and McCaffrey (2002) for a model with one coefficient. With
clusters of one size it equals s^2 / G of the cluster means, so the interval is then the ordinary t interval
on cluster means. With unequal sizes the t quantile takes Bell and McCaffrey's degrees of freedom, which are
G - 1 for equal sizes and fewer when a few large clusters carry the mean.

Shares have bounds of their own, which stay inside [0, 1] and do not shrink to nothing with few events (`rate_bounds`).

Simulated (`judgescope bench coverage`, `tests/engine/stats/test_coverage.py`), 95% intervals hold the mean in 0.93 to
0.97 of samples of 6, 12, 30 and 100 clusters, and a share in at least as many (nearly always where events are few);
where cluster effects are strongly skewed (exponential) in 0.90 at 6, 0.92 at 12 and 0.93 at 30.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import betaincinv, ndtr, ndtri, stdtrit

from engine.core.errors import InputError

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


FEW_CLUSTERS = 30
"""Below this many clusters a t interval, from here on a cluster bootstrap."""
NO_DATA = "no data"
ONE_CLUSTER = "no interval: one item"
NO_VARIATION = "no variation"
T_CLUSTERS = "t, clustered by item"
WILSON = "Wilson"
WILSON_CLUSTERS = "Wilson, n = items"
EFFECTIVE = "beta, effective n by item"

_CHUNK = 4_000_000
_PRIOR = 2.0
"""Weight of rows that say nothing new within an item, against the square of the items that have both outcomes."""
_NAN = float("nan")


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval.

    Attributes:
        value: point estimate; NaN where undefined.
        lower, upper: ends of the interval; NaN where none can be given (`method` says why).
        level: confidence level in (0, 1).
        method: of the interval, in words for a caption.
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


def with_ends(value: float, lower: float, upper: float, form: str = ".3f") -> str:
    """A number and its interval for a terminal, 0.512 [0.382, 0.661]; the number alone where it has no interval."""
    ends = f" [{lower:{form}}, {upper:{form}}]" if np.isfinite([lower, upper]).all() else ""
    return f"{value:{form}}{ends}"


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
    df = degrees_of_freedom(leverage)
    lower, upper = _bootstrap(y_totals, x_totals, df, level, seed)
    return Interval(ratio, lower, upper, level, BOOTSTRAP, n, g)


@dataclass(frozen=True)
class StandardError:
    """Precision of a mean over clustered rows.

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
    return StandardError(mean, error, degrees_of_freedom(leverage), len(v), len(sizes))


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
    values: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any],
    *,
    level: float = 0.95,
    seed: int = 0,  # noqa: ARG001 - what every interval takes; nothing is drawn here
) -> Interval:
    """The mean of values in [0, 1] (events, halves for ties), with an interval inside [0, 1].

    Wilson where each row is its own cluster and each value an event or none; Wilson with n = clusters where
    no row or every row is an event (a cluster may be one event seen often); otherwise `rate_bounds`. No bounds where
    there is one cluster, or where all clusters agree on a share between 0 and 1.

    Args:
        values: rows, shape [n]; NaN rows are left out.
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: nothing is drawn, so that it changes nothing.

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
    codes = np.unique(groups, return_inverse=True)[1]
    n, g = len(v), int(codes.max(initial=-1)) + 1
    if not n:
        return Interval(_NAN, _NAN, _NAN, level, NO_DATA, 0, 0)
    if (v == v[0]).all() and v[0] in (0.0, 1.0):
        w = wilson(g * v[0], g, level)
        return Interval(w.value, w.lower, w.upper, level, WILSON if g == n else WILSON_CLUSTERS, n, g)
    if g == n and np.isin(v, (0.0, 1.0)).all():
        return wilson(float(v.sum()), n, level)
    sums, sizes, value = _totals(codes, v), np.bincount(codes).astype(np.float64), float(v.mean())
    if g < 2:
        return Interval(value, _NAN, _NAN, level, ONE_CLUSTER, n, g)
    if _cancels(sums - value * sizes, v):
        return Interval(value, _NAN, _NAN, level, NO_VARIATION, n, g)
    lower, upper = rate_bounds(sums, sizes, float((v**2).sum()), level)
    return Interval(value, lower, upper, level, EFFECTIVE, n, g)


def rate_bounds(sums: Floats, sizes: Floats, squares: float, level: float = 0.95) -> tuple[float, float]:
    """Ends of the interval of a share over clustered rows, after Korn and Graubard (1998).

    Quantiles of a beta distribution at the effective number of rows: n over the design effect of the CR2 variance.
    Their parameters lie half way between Clopper and Pearson's, which are too wide, and Jeffreys'. The part of the
    variance that clusters add is estimated, so that part is widened by (t / z)^2 with Bell and McCaffrey's degrees of
    freedom. Few events say little of the design effect, and what they say is too low just where the rate is too low. So
    the correlation within clusters is drawn towards 1 with weight 2 / (2 + c^2), c being the clusters that have events
    or those that have others, whichever are fewer: with one such cluster the bound is near that of no event with n =
    clusters, from six on the correlation is nearly the one seen.

    Args:
        sums: total of each cluster's values in [0, 1], shape [G], G > 1; not all events or all none.
        sizes: rows of each cluster, shape [G].
        squares: sum of the squares of all values.
        level: confidence level in (0, 1).
    """
    known = sizes > 0
    sums, sizes = sums[known], sizes[known]
    n = float(sizes.sum())
    p = float(sums.sum()) / n
    leverage = sizes / n
    spread = max(squares / n - p * p, 1e-12)  # of single rows; p (1 - p) where all are events or none
    size = float((sizes**2).sum()) / n
    effect = _cr2_error(sums - p * sizes, leverage, n) ** 2 / (spread / n)
    within = float(np.clip((effect - 1) / (size - 1), 0.0, 1.0)) if size > 1 + 1e-9 else 0.0
    mixed = float(min((sums > 1e-12).sum(), (sums < sizes - 1e-12).sum())) ** 2
    within = (mixed * within + _PRIOR) / (mixed + _PRIOR)
    effect = 1 + (size - 1) * within
    tail = 0.5 + level / 2
    wider = 1 - float(ndtri(tail) / stdtrit(degrees_of_freedom(leverage), tail)) ** 2
    effective = n / effect * p * (1 - p) / spread * (1 - wider * (effect - 1) / effect)
    events, others = p * effective, (1 - p) * effective
    lower = float(betaincinv(events + 0.25, others + 0.75, 1 - tail))
    return min(lower, p), max(float(betaincinv(events + 0.75, others + 0.25, tail)), p)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"The confidence level is {level}; it must lie between 0 and 1, for example 0.95.")


def _check_rows(values: Floats, groups: npt.NDArray[Any]) -> None:
    if values.shape != groups.shape or values.ndim != 1:
        raise InputError(f"Values and clusters must be one a row; got shapes {values.shape} and {groups.shape}.")


def _cancels(residuals: Floats, rows: Floats) -> bool:
    """True where residuals are rounding alone: sums of floats that should cancel leave 1e-15 behind."""
    return bool(np.abs(residuals).max() <= 1e-9 * max(float(np.abs(rows).max()), 1e-3))


def _totals(codes: npt.NDArray[np.intp], values: Floats) -> Floats:
    return np.bincount(codes, weights=values).astype(np.float64)


def _t_half_width(residuals: Floats, leverage: Floats, whole: float, level: float) -> float:
    df = degrees_of_freedom(leverage)
    return float(stdtrit(df, 0.5 + level / 2)) * _cr2_error(residuals, leverage, whole)


def _cr2_error(residuals: Floats, leverage: Floats, whole: float) -> float:
    return float(np.sqrt((residuals**2 / (1 - leverage)).sum())) / whole


def degrees_of_freedom(leverage: Floats) -> float:
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
    """Widened percentiles of the ratio over resampled clusters, with the degrees of freedom of the t interval."""
    g = len(y_totals)
    rng = np.random.default_rng(seed)
    ratios = np.empty(RESAMPLES)
    step = max(1, _CHUNK // g)
    for start in range(0, RESAMPLES, step):
        picks = rng.integers(g, size=(min(step, RESAMPLES - start), g))
        below = x_totals[picks].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios[start : start + step] = np.where(below > 0, y_totals[picks].sum(axis=1) / below, np.nan)
    return percentiles(ratios, level, df)


# Clusters: the one place that decides which rows of a table may depend on one another.


def cluster_codes(frame: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The cluster of each row as a code 0..G-1, in order of first appearance.

    Rows of one item share its context, its difficulty and often its topic, so the item is the cluster, also
    where a number averages over attacks, keys or orders.

    Raises:
        InputError: the table has no `item_id`, or a row lacks one.
    """
    if "item_id" not in frame.columns:
        raise InputError("The table has no column item_id; intervals need it, since items are the clusters.")
    codes = pd.factorize(frame["item_id"])[0].astype(np.int64)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0]) + 1
        raise InputError(
            f"Row {row} has no item_id; intervals need it, since items are the clusters. Give each row "
            "the id of its item (its own id where it is alone)."
        )
    return codes


# Intervals of means over pairs, items resampled whole, all of one draw: fast enough for a slider.
#
# Shares have `rate_bounds`; all else has percentiles of 1000 ratios, spread by t / z * sqrt(G / (G - 1)) around the
# estimate for few items, as `engine.stats.intervals` does for its own (Hesterberg 2015, section 5.3). Where no item
# differs from another, every resample agrees, which is no certainty: a share of 0 or 1 then has Wilson's bound with n
# = items, all else no bounds.

Ints = npt.NDArray[np.int64]
ITEM_RESAMPLES = 1000
_ROUNDING = 1e-9


class Mean(NamedTuple):
    """A mean over pairs; where the bounds are NaN the method says why.

    Attributes:
        n: pairs that entered.
        n_items: items that entered.
        method: of the interval, in words for a caption.
    """

    value: float
    lower: float
    upper: float
    n: int
    n_items: int
    method: str


class ItemBootstrap:
    """Resamples of items.

    Args:
        items: the item of each pair (n,).
        seed: of the draw.
    """

    def __init__(self, items: Sequence[object] | npt.NDArray[np.object_], seed: int = 0) -> None:
        self.codes = np.unique(np.asarray(items, dtype=str), return_inverse=True)[1]
        self._g = int(self.codes.max()) + 1 if len(self.codes) else 0
        self.weights = draw_counts(self._g, seed, ITEM_RESAMPLES)

    def mean(self, values: Floats, level: float = 0.95, *, share: bool = True) -> Mean:
        """As `means`, of one."""
        return self.means([values], level, [share])[0]

    def means(self, columns: Sequence[Floats], level: float = 0.95, shares: Sequence[bool] | None = None) -> list[Mean]:
        """Mean over pairs of each column with its interval; one multiplication serves them all.

        Args:
            columns: each one number a pair (n,); NaN is left out.
            level: confidence level in (0, 1).
            shares: true where each column is a share, in [0, 1]; all are by default. A difference is none.
        """
        if not columns:
            return []
        known = [~np.isnan(column) for column in columns]
        pairs = zip(known, columns, strict=True)
        sums = [np.bincount(self.codes[k], v[k], self._g).astype(np.float64) for k, v in pairs]
        sizes = [np.bincount(self.codes[k], minlength=self._g).astype(np.float64) for k in known]
        drawn = self.weights @ np.stack([*sums, *sizes], axis=1)  # (RESAMPLES, 2 K)
        k = len(columns)
        found = []
        for c, share in enumerate(shares if shares is not None else [True] * k):
            top, below = drawn[:, c], drawn[:, k + c]
            value = float(sums[c].sum() / sizes[c].sum()) if sizes[c].any() else float("nan")
            n, g = int(sizes[c].sum()), int((sizes[c] > 0).sum())
            alike = bool(np.abs(sums[c] - value * sizes[c]).max() <= _ROUNDING) if n else True
            if share and not alike and g > 1:
                bounds = rate_bounds(sums[c], sizes[c], float(np.nansum(columns[c] ** 2)), level)
                found.append(Mean(value, *bounds, n, g, EFFECTIVE))
                continue
            found.append(_mean(value, top[below > 0] / below[below > 0], n, g, level, share=share, alike=alike))
        return found

    def mean_of_splits(self, splits: Sequence[tuple[Ints, Floats]], level: float = 0.95) -> Mean:
        """Mean over splits of the share in each, every resample of the items taken in all splits at once.

        Args:
            splits: pairs that are in it (k,), and the value of each in [0, 1] (k,), NaN being left out; a split in
                which nothing is known takes no part.
            level: confidence level in (0, 1).
        """
        known = [(pairs[~np.isnan(v)], v[~np.isnan(v)]) for pairs, v in splits]
        known = [(pairs, v) for pairs, v in known if len(v)]
        if not known:
            return _mean(float("nan"), np.zeros(0), 0, 0, level, share=True, alike=True)
        sums = np.stack([np.bincount(self.codes[pairs], v, self._g) for pairs, v in known], axis=1)  # (G, S)
        sizes = np.stack([np.bincount(self.codes[pairs], minlength=self._g) for pairs, _ in known], axis=1)
        top, below = self.weights @ sums, self.weights @ sizes  # (RESAMPLES, S)
        ratios = np.divide(top, below, out=np.full(top.shape, np.nan), where=below > 0)
        drawn = np.nanmean(ratios[~np.isnan(ratios).all(axis=1)], axis=1)
        pairs = np.unique(np.concatenate([pairs for pairs, _ in known]))
        value = float(np.mean([v.mean() for _, v in known]))
        g = len(np.unique(self.codes[pairs]))
        alike = bool(np.abs(drawn - value).max(initial=0.0) <= _ROUNDING)
        return _mean(value, drawn, len(pairs), g, level, share=True, alike=alike)


def _mean(value: float, drawn: Floats, n: int, g: int, level: float, *, share: bool, alike: bool) -> Mean:
    """The mean with what its resamples say of it; `alike` where no item differs from another."""
    nan = float("nan")
    if not n:
        return Mean(nan, nan, nan, 0, 0, NO_DATA)
    if alike and share and min(abs(value), abs(1 - value)) <= _ROUNDING:
        bound = wilson(g * round(value), g, level)
        return Mean(value, bound.lower, bound.upper, n, g, WILSON_CLUSTERS)
    if g < 2:
        return Mean(value, nan, nan, n, g, ONE_CLUSTER)
    if alike:
        return Mean(value, nan, nan, n, g, NO_VARIATION)
    ratios = np.sort(drawn)
    low, high = (float(ratios[round(q * (len(ratios) - 1))]) for q in ((1 - level) / 2, (1 + level) / 2))
    wider = _spread(g, level)
    return Mean(value, value - (value - low) * wider, value + (high - value) * wider, n, g, BOOTSTRAP)


def _spread(g: int, level: float) -> float:
    """Widening t / z * sqrt(g / (g - 1)), with t by the Cornish-Fisher expansion of its quantile."""
    z = float(ndtri(0.5 + level / 2))
    df = g - 1
    t = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    return float(t / z * np.sqrt(g / df))

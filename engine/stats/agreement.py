"""Agreement of a judge's scores with people's order of responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import rankdata

from engine.core.errors import InputError
from engine.core.schema import PAIRS, Order, Outcome, Protocol
from engine.stats.intervals import (
    BOOTSTRAP,
    NO_DATA,
    NO_VARIATION,
    ONE_CLUSTER,
    RESAMPLES,
    Interval,
    cluster_codes,
    cluster_rate,
    draw_counts,
    percentiles,
)

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
    as `engine.stats.intervals.tails` says, with G - 1 degrees of freedom.

    Args:
        scores: the judge's scores, shape [n]; rows where either number is NaN are left out.
        truth: people's scores, shape [n].
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the lengths differ.
    """
    return _resampled([scores, truth], spearman, clusters, level, seed)


def spearman_change(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    truth: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Spearman of `after` with the truth less that of `before`, on rows that have all three, paired in each resample.

    Args:
        before: one judge's scores, shape [n].
        after: another's of the same rows, shape [n].
        truth: people's scores, shape [n].
        clusters: the cluster of each row, shape [n].
        level: confidence level in (0, 1).
        seed: of the bootstrap, which is that of `cluster_spearman`.

    Raises:
        InputError: the lengths differ.
    """
    return _resampled([before, after, truth], lambda x, y, t: spearman(y, t) - spearman(x, t), clusters, level, seed)


def _resampled(
    columns: Sequence[npt.ArrayLike],
    measure: Callable[..., float],
    clusters: Sequence[Any] | npt.NDArray[Any],
    level: float,
    seed: int,
) -> Interval:
    """A measure of some columns over the rows that have them all, whole clusters being resampled."""
    values = [np.asarray(column, dtype=np.float64) for column in columns]
    groups = np.asarray(clusters)
    if any(v.shape != groups.shape for v in values) or groups.ndim != 1:
        shapes = ", ".join(str(v.shape) for v in values)
        raise InputError(f"Scores, truth and clusters must be one a row; got shapes {shapes} and {groups.shape}.")
    keep = ~np.isnan(np.sum(values, axis=0))
    values, groups = [v[keep] for v in values], groups[keep]
    codes = np.unique(groups, return_inverse=True)[1]
    n, g = len(groups), int(codes.max()) + 1 if len(codes) else 0
    if n < 2:
        return Interval(_NAN, _NAN, _NAN, level, NO_DATA, n, g)
    value = measure(*values)
    if g < 2:
        return Interval(value, _NAN, _NAN, level, ONE_CLUSTER, n, g)
    members = [np.flatnonzero(codes == c) for c in range(g)]
    rng = np.random.default_rng(seed)
    drawn = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        rows = np.concatenate([members[c] for c in rng.integers(g, size=g)])
        drawn[i] = measure(*(v[rows] for v in values))
    if np.isnan(drawn).all():
        return Interval(value, _NAN, _NAN, level, NO_VARIATION, n, g)
    return Interval(value, *percentiles(drawn, level, g - 1), level, BOOTSTRAP, n, g)


# Agreement with human labels beyond chance: Cohen's kappa with its base rate.

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
    weights: Sequence[float] | Counts | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Kappa:
    """Cohen's kappa (1960) over all rows with a cluster bootstrap interval.

    kappa = (observed - expected) / (1 - expected). Whole clusters are resampled 2000 times; percentiles are widened
    for few clusters as in `engine.stats.intervals`. Resamples without a kappa (one label on both sides) are left out.

    Args:
        judged: the judge's label of each row, shape [n].
        human: the human label of each row, shape [n].
        clusters: the cluster of each row, shape [n].
        weights: above 0, for rows that stand for more than themselves, shape [n]; None for one each.
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
    heavy = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    for code, said, wanted, weight in zip(codes, judged, human, heavy, strict=True):
        tables[code, place[said], place[wanted]] += weight
    total = tables.sum(axis=0)
    [value], [observed], [expected] = _kappa(total[None])
    base_rate = float(total.sum(axis=0).max() / total.sum())
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
    drawn = _kappa(np.tensordot(draw_counts(g, seed, RESAMPLES), tables, axes=1))[0]
    if np.isnan(value) or np.nanmax(drawn) - np.nanmin(drawn) < 1e-12:
        return _NAN, _NAN, NO_VARIATION
    return *percentiles(drawn, level, g - 1), BOOTSTRAP


# Agreement of any number of raters, where not each rates each unit.


def krippendorff_alpha(
    ratings: npt.ArrayLike,
    clusters: Sequence[Any] | npt.NDArray[Any],
    *,
    scale: Literal["nominal", "interval"] = "nominal",
    weights: Sequence[float] | Counts | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Krippendorff's alpha (2011, Computing Krippendorff's Alpha-Reliability) with a cluster bootstrap interval.

    1 - observed / expected disagreement: 1 where raters agree, 0 where they agree as chance would have it.

    Args:
        ratings: units by raters, shape [n, r], codes or numbers; NaN where a rater has none. Units with fewer than two
            ratings are left out.
        clusters: the cluster of each unit, shape [n].
        scale: nominal (two values differ or not) or interval (squared difference).
        weights: of units, above 0, shape [n]; None for one each.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the lengths differ.
    """
    table, groups = np.asarray(ratings, dtype=np.float64), np.asarray(clusters)
    heavy = np.ones(len(table)) if weights is None else np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or not len(table) == len(groups) == len(heavy):
        raise InputError(
            f"Ratings must be units by raters with a cluster each; got shapes {table.shape}, {groups.shape}."
        )
    keep = (~np.isnan(table)).sum(axis=1) > 1
    table, groups, heavy = table[keep], groups[keep], heavy[keep]
    n = len(table)
    if not n:
        return Interval(_NAN, _NAN, _NAN, level, NO_DATA, 0, 0)
    codes = np.unique(groups, return_inverse=True)[1]
    g = int(codes.max()) + 1
    parts = _nominal_parts(table) if scale == "nominal" else _interval_parts(table)
    sums = np.zeros((g, parts.shape[1]))
    np.add.at(sums, codes, parts * heavy[:, None])
    of = _alpha_nominal if scale == "nominal" else _alpha_interval
    value = float(of(sums.sum(axis=0)[None])[0])
    if g < 2:
        return Interval(value, _NAN, _NAN, level, ONE_CLUSTER, n, g)
    drawn = of(draw_counts(g, seed, RESAMPLES) @ sums)
    if np.isnan(value) or np.nanmax(drawn) - np.nanmin(drawn) < 1e-12:
        return Interval(value, _NAN, _NAN, level, NO_VARIATION, n, g)
    return Interval(value, *percentiles(drawn, level, g - 1), level, BOOTSTRAP, n, g)


def _nominal_parts(table: Floats) -> Floats:
    """Each unit's agreeing pairs and count of each value, shape (n, 1 + values)."""
    values = np.unique(table[~np.isnan(table)])
    counts = np.stack([(table == value).sum(axis=1) for value in values], axis=1).astype(np.float64)
    raters = counts.sum(axis=1)
    agreed = (counts * (counts - 1)).sum(axis=1) / (raters - 1)
    return np.column_stack([agreed, counts])


def _alpha_nominal(sums: Counts) -> Counts:
    agreed, counts = sums[:, 0], sums[:, 1:]
    n = counts.sum(axis=1)
    by_chance = (n**2 - (counts**2).sum(axis=1)) / (n - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(by_chance > 1e-12, 1 - (n - agreed) / by_chance, np.nan)


def _interval_parts(table: Floats) -> Floats:
    """Each unit's squared differences, and number, sum and sum of squares of its ratings, shape (n, 4)."""
    table = table - np.nanmean(table)
    raters = (~np.isnan(table)).sum(axis=1)
    total, square = np.nansum(table, axis=1), np.nansum(table**2, axis=1)
    apart = 2 * (raters * square - total**2) / (raters - 1)
    return np.column_stack([apart, raters, total, square])


def _alpha_interval(sums: Counts) -> Counts:
    apart, n, total, square = sums.T
    by_chance = 2 * (n * square - total**2) / (n - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(by_chance > 1e-12, 1 - apart / by_chance, np.nan)


# From the two orders of a comparison to one verdict on the pair.

_KEY = ["judge", "attack", "defense", "item_id", "response_id", "response_b"]
_SIDES = (Outcome.A, Outcome.B, Outcome.TIE)
_EQUAL = 1e-9
"""Averages nearer than this are equal: float32 forward passes differ by more between machines."""


def combine_orders(verdicts: pd.DataFrame, *, average: Literal["probability", "logit"] = "probability") -> pd.DataFrame:
    """One row per comparison and arm: probabilities averaged over both orders, then the largest (paper 004).

    A comparison is unread where either order is unread or was not asked. Two sides with the same average are a
    tie, so a judge that names the first slot outright in both orders ties. How often the first slot wins is
    computed from the verdicts themselves (`engine.stats.agreement`).

    Args:
        verdicts: table `verdicts`; rows that are not pairwise are left out. A row with an outcome and no p_a
            (a recorded verdict) counts as decided outright.
        average: of the probabilities, or of their logarithms, renormalised (the mean of the logits).

    Returns:
        Table `pairs`, in the order in which the comparisons first appear.

    Raises:
        InputError: an order of a comparison stands twice.
    """
    rows = verdicts[verdicts["protocol"] == Protocol.PAIRWISE.value]
    if (unordered := rows["order"].isna()).any():
        row = rows[unordered].iloc[0]
        raise InputError(f"The comparison of {row.response_id} with {row.response_b} has a verdict without an order.")
    if (twice := rows.duplicated([*_KEY, "order"])).any():
        row = rows[twice].iloc[0]
        raise InputError(
            f"The comparison of {row.response_id} with {row.response_b} stands twice in the order {row.order}; "
            "combine one run at a time."
        )
    if not len(rows):
        return PAIRS.empty()
    made = rows.drop_duplicates(_KEY)[_KEY].reset_index(drop=True)
    pair = rows.groupby(_KEY, sort=False, dropna=False).ngroup().to_numpy()
    at = {order: np.full(len(made), -1) for order in Order}  # row of each pair's order; -1 where it was not asked
    for order in Order:
        own = np.flatnonzero((rows["order"] == order.value).to_numpy())
        at[order][pair[own]] = own
    shares = np.vstack([_shares(rows), np.full((1, len(_SIDES)), np.nan)])
    both = np.stack([shares[at[order]] for order in Order], axis=1)  # (pairs, 2 orders, 3 sides)
    read = ~np.isnan(both).any(axis=(1, 2))
    mean = _average(both, average)
    outcome = [*rows["outcome"].astype(object), None]
    for order in Order:
        made[f"outcome_{order}"] = [outcome[row] for row in at[order]]
    for i, side in enumerate(_SIDES):
        made[f"p_{side.value}"] = mean[:, i]
    made["outcome"] = np.where(read, _largest(mean), np.array(None, dtype=object))
    made["disagree"] = np.where(read, (made["outcome_ab"] != made["outcome_ba"]).to_numpy(float), np.nan)
    made["unread_reason"] = _why_unread(rows, at, read)
    return PAIRS.conform(made)


def _average(both: npt.NDArray[np.float64], average: str) -> npt.NDArray[np.float64]:
    """Probabilities over both orders, shape (pairs, 3), from those of each order (pairs, 2, 3)."""
    if average != "logit":
        return np.asarray(both.mean(axis=1))
    logits = np.log(both.clip(min=1e-12)).mean(axis=1)
    mean = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(mean / mean.sum(axis=1, keepdims=True))


def _shares(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Probabilities of a, b and a tie in each row, order undone, shape (rows, 3); NaN where the verdict is unread."""
    outcome = rows["outcome"].to_numpy(dtype=object)
    outright = np.stack([(outcome == side.value).astype(float) for side in _SIDES], axis=1)
    a, tie = (rows[name].to_numpy(dtype=float) for name in ("p_a", "p_tie"))
    tie = np.nan_to_num(tie)
    stated = np.stack([a, np.maximum(0.0, 1 - a - tie), tie], axis=1)
    unread = (rows["unread_reason"].notna() | rows["outcome"].isna()).to_numpy()
    return np.where(unread[:, None], np.nan, np.where(np.isnan(a)[:, None], outright, stated))


def _why_unread(
    rows: pd.DataFrame, at: Mapping[Order, npt.NDArray[np.int_]], read: npt.NDArray[np.bool_]
) -> list[str | None]:
    """The reasons of each order for pairs without a verdict."""
    reasons_given = rows["unread_reason"].to_numpy(dtype=object)
    said = np.where(rows["unread_reason"].notna().to_numpy(), reasons_given, "no outcome")
    usable = (rows["unread_reason"].isna() & rows["outcome"].notna()).to_numpy()
    reasons: list[str | None] = [None] * len(read)
    for i in np.flatnonzero(~read):
        where = [(order, at[order][i]) for order in Order]
        parts = [(order, "not asked" if row < 0 else said[row]) for order, row in where if row < 0 or not usable[row]]
        reasons[i] = "; ".join(f"order {order}: {reason}" for order, reason in parts)
    return reasons


def _largest(mean: npt.NDArray[np.float64]) -> npt.NDArray[np.object_]:
    """The side with the most, a tie where several have; NaN rows give a tie too."""
    best = mean >= mean.max(axis=1, keepdims=True) - _EQUAL
    sides = np.array([side.value for side in _SIDES], dtype=object)
    return np.where(best.sum(axis=1) == 1, sides[best.argmax(axis=1)], Outcome.TIE.value)


# Effects of the order in which a pairwise judge sees a pair.

_PAIR = ["item_id", "response_id", "response_b", "attack", "defense"]


def first_slot_rate(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> Interval:
    """Share of read pairwise verdicts that prefer the response shown first; a tie counts half.

    0.5 where order does not matter, provided that both orders were asked. The interval is `cluster_rate`
    with items as clusters.

    Args:
        verdicts: table `verdicts`; rows that are not pairwise, or have no order or outcome, are left out.
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    rows = _pairwise(verdicts)
    return cluster_rate(_first_wins(rows), cluster_codes(rows), level=level, seed=seed)


def order_agreement(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> Interval:
    """Share of comparisons whose two orders give the same outcome (a, b or tie).

    A comparison enters once, and only when both orders were read; the arms (attack, defense) count apart.

    Args:
        verdicts: table `verdicts`; rows that are not pairwise, or have no order or outcome, are left out.
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    rows = _pairwise(verdicts).drop_duplicates([*_PAIR, "order"])
    both = rows[rows["order"] == Order.AB.value].merge(
        rows[rows["order"] == Order.BA.value], on=_PAIR, suffixes=("_ab", "_ba")
    )
    same = (both["outcome_ab"] == both["outcome_ba"]).to_numpy(dtype=float)
    return cluster_rate(same, cluster_codes(both), level=level, seed=seed)


def _pairwise(verdicts: pd.DataFrame) -> pd.DataFrame:
    read = verdicts["outcome"].notna() & verdicts["order"].notna()
    return verdicts[(verdicts["protocol"] == Protocol.PAIRWISE.value) & read]


def _first_wins(rows: pd.DataFrame) -> npt.NDArray[np.float64]:
    first = np.where(rows["order"] == Order.AB.value, Outcome.A.value, Outcome.B.value)
    outcome = rows["outcome"].to_numpy(dtype=object)
    return np.where(outcome == Outcome.TIE.value, 0.5, (outcome == first).astype(float))

"""Do a judge's numbers mean what they say: calibration curve, calibration error, recalibration, TPR and TNR.

A judge is calibrated where, of all rows to which it gives 0.8, people pass 80 %; for scores on a scale, where the mean
label of rows with score s is s. Labelled rows are weighed by one over their chance to be labelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from engine.core.errors import InputError
from engine.stats.corrected import Estimate, labels_only
from engine.stats.intervals import (
    BOOTSTRAP,
    NO_DATA,
    ONE_CLUSTER,
    RESAMPLES,
    Interval,
    draw_counts,
    percentiles,
)

Floats = npt.NDArray[np.float64]
BINS = 10
FEWEST = 8
"""Labelled rows of a bin at least; fewer bins are made where there are not so many."""
FOLDS = 5
_NAN = float("nan")
_EDGE = 1e-6


@dataclass(frozen=True)
class Bin:
    """Labelled rows of neighbouring predictions.

    Attributes:
        predicted: their mean prediction.
        observed: their mean label, with its interval.
    """

    predicted: float
    observed: Estimate


@dataclass(frozen=True)
class Calibration:
    """Calibration of predictions.

    Attributes:
        bins: of equal count, ascending.
        error: expected calibration error, the mean distance of prediction and label over the bins, in the labels'
            unit; the interval is the basic bootstrap of items, cut at 0.
        debiased: root of the mean squared distance, less what chance puts into it (Kumar, Liang and Ma 2019,
            arXiv 1909.10155); 0 where chance explains all of it.
        brier: mean squared distance of single predictions and labels.
    """

    bins: tuple[Bin, ...]
    error: Interval
    debiased: float
    brier: float


def calibrate(
    predicted: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    bins: int = BINS,
    level: float = 0.95,
    seed: int = 0,
) -> Calibration:
    """Calibration of predictions on the labelled rows.

    Args:
        predicted: probability that the label is 1, or the score in the labels' unit, shape [n]; NaN rows are left out.
        label: people's, shape [n]; NaN where nobody labelled.
        item: the item of each row, shape [n].
        weight: chance to be labelled, shape [n]; None where all had the same.
        bins: at most so many; equal predictions stay together.
        level: confidence level in (0, 1).
        seed: of the bootstrap.

    Raises:
        InputError: the shapes differ.
    """
    p, y, groups, heavy = _labelled(predicted, label, item, weight)
    if not len(p):
        return Calibration((), Interval(_NAN, _NAN, _NAN, level, NO_DATA, 0, 0), _NAN, _NAN)
    place = _places(p, max(1, min(bins, len(p) // FEWEST)))
    k = int(place.max()) + 1
    chance = None if weight is None else 1 / heavy
    made = []
    for b in range(k):
        own = place == b
        seen = labels_only(p[own], y[own], groups[own], None if chance is None else chance[own], level=level)
        made.append(Bin(float(np.average(p[own], weights=heavy[own])), seen))
    codes = np.unique(groups, return_inverse=True)[1]
    g = int(codes.max()) + 1
    apart, mass = np.zeros((g, k)), np.zeros((g, k))
    np.add.at(apart, (codes, place), heavy * (y - p))
    np.add.at(mass, (codes, place), heavy)
    value = float(_distance(apart.sum(axis=0)[None], mass.sum(axis=0)[None])[0])
    error = Interval(value, _NAN, _NAN, level, ONE_CLUSTER, len(p), g)
    if g > 1:
        counts = draw_counts(g, seed, RESAMPLES)
        low, high = percentiles(_distance(counts @ apart, counts @ mass), level, g - 1)
        ends = (max(2 * value - high, 0.0), max(2 * value - low, value))
        error = Interval(value, *ends, level, BOOTSTRAP, len(p), g)
    brier = float(np.average((p - y) ** 2, weights=heavy))
    return Calibration(tuple(made), error, _debiased(p, y, heavy, place, k), brier)


def _distance(apart: Floats, mass: Floats) -> Floats:
    """Mean absolute distance over bins: the sums in each are already weighted."""
    return np.asarray(np.abs(apart).sum(axis=1) / mass.sum(axis=1), dtype=np.float64)


def _debiased(p: Floats, y: Floats, heavy: Floats, place: npt.NDArray[np.intp], k: int) -> float:
    total = 0.0
    for b in range(k):
        own = place == b
        w = heavy[own] / heavy[own].sum()
        away = y[own] - p[own]
        mean = float(w @ away)
        size = 1 / float((w**2).sum())
        noise = float(w @ (away - mean) ** 2) / max(size - 1, 1.0)
        total += float(heavy[own].sum()) * (mean**2 - noise)
    return float(np.sqrt(max(total / float(heavy.sum()), 0.0)))


def _places(p: Floats, bins: int) -> npt.NDArray[np.intp]:
    """The bin of each prediction, of equal count as far as equal predictions allow, numbered without gaps."""
    ordered = np.sort(p)
    edges = np.unique(ordered[[round(i * len(p) / bins) for i in range(1, bins)]]) if bins > 1 else ordered[:0]
    return np.asarray(np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1], dtype=np.intp)


def _labelled(
    predicted: npt.ArrayLike, label: npt.ArrayLike, item: npt.ArrayLike, weight: npt.ArrayLike | None
) -> tuple[Floats, Floats, npt.NDArray[np.generic], Floats]:
    """Prediction, label, item and one over the chance of the labelled rows.

    Raises:
        InputError: the shapes differ.
    """
    p, y = np.asarray(predicted, dtype=np.float64), np.asarray(label, dtype=np.float64)
    groups = np.asarray(item)
    chance = np.ones_like(p) if weight is None else np.asarray(weight, dtype=np.float64)
    if not p.shape == y.shape == groups.shape == chance.shape or p.ndim != 1:
        raise InputError(f"Predictions, labels and items must be one a row; got {p.shape}, {y.shape}, {groups.shape}.")
    keep = ~(np.isnan(p) | np.isnan(y))
    return p[keep], y[keep], groups[keep], 1 / chance[keep]


# Recalibration: learned on some items, measured on others.


@dataclass(frozen=True)
class Recalibrated:
    """Predictions made anew, each by a fit on other items.

    Attributes:
        method: isotonic, platt (shares) or linear (scores).
        predicted: of every row, shape [n]; unlabelled rows by the fit on all labelled ones; NaN where none was.
        before, after: calibration on the labelled rows.
    """

    method: str
    predicted: Floats
    before: Calibration
    after: Calibration


def recalibrate(
    predicted: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    method: str = "isotonic",
    level: float = 0.95,
    seed: int = 0,
) -> Recalibrated:
    """Map predictions to what people's labels say, by cross-fitting over five groups of whole items.

    Args:
        predicted: as `calibrate`.
        label: as `calibrate`.
        item: as `calibrate`.
        weight: as `calibrate`.
        method: isotonic (any rising map; some hundred labels), platt (a logistic line of the log odds, Platt 1999) for
            shares, or linear for scores.
        level: of the intervals.
        seed: of the groups and of the bootstrap.

    Raises:
        InputError: the method is none of these, or as `calibrate`.
    """
    fits = {"isotonic": _isotonic, "platt": _platt, "linear": _linear}
    if method not in fits:
        raise InputError(f"Recalibration {method!r} is not known; allowed: {', '.join(fits)}.")
    p, y, groups, heavy = _labelled(predicted, label, item, weight)
    every, truth = np.asarray(predicted, dtype=np.float64), np.asarray(label, dtype=np.float64)
    made = np.full(len(every), _NAN)
    known = ~(np.isnan(every) | np.isnan(truth))
    if len(np.unique(groups)) > FOLDS and len(np.unique(p)) > 1:
        names, codes = np.unique(groups, return_inverse=True)
        fold = np.random.default_rng(seed).permutation(len(names))[codes] % FOLDS
        own = np.full(len(p), _NAN)
        for k in range(FOLDS):
            out = fold == k
            own[out] = fits[method](p[~out], y[~out], heavy[~out], p[out])
        made[known] = own
        rest = ~known & ~np.isnan(every)
        made[rest] = fits[method](p, y, heavy, every[rest])
    before = calibrate(predicted, label, item, weight, level=level, seed=seed)
    after = calibrate(made, label, item, weight, level=level, seed=seed)
    return Recalibrated(method, made, before, after)


def _isotonic(p: Floats, y: Floats, heavy: Floats, at: Floats) -> Floats:
    """A rising step function (pool adjacent violators), straight between its points, level beyond them."""
    points, place = np.unique(p, return_inverse=True)
    mass = np.bincount(place, weights=heavy)
    mean = np.bincount(place, weights=heavy * y) / mass
    fitted = isotonic_regression(mean, weights=mass).x
    return np.asarray(np.interp(at, points, fitted), dtype=np.float64)


def _platt(p: Floats, y: Floats, heavy: Floats, at: Floats) -> Floats:
    """expit(a + b logit(p)), labels drawn in by Platt's (n + 1) / (n + 2); Newton's method."""
    x = np.column_stack([np.ones(len(p)), logit(np.clip(p, _EDGE, 1 - _EDGE))])
    right, wrong = float(y.sum()), float((1 - y).sum())
    soft = y * (right + 1) / (right + 2) + (1 - y) / (wrong + 2)
    weights, held = heavy / heavy.mean(), np.zeros(2)
    for _ in range(50):
        mean = expit(x @ held)
        slope = x.T @ (weights * (soft - mean))
        curve = (x * (weights * mean * (1 - mean))[:, None]).T @ x + 1e-6 * np.eye(2)
        step = np.clip(np.linalg.solve(curve, slope), -2.0, 2.0)
        held = held + step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(expit(held[0] + held[1] * logit(np.clip(at, _EDGE, 1 - _EDGE))), dtype=np.float64)


def _linear(p: Floats, y: Floats, heavy: Floats, at: Floats) -> Floats:
    w = heavy / heavy.sum()
    x, m = float(w @ p), float(w @ y)
    spread = float(w @ (p - x) ** 2)
    slope = float(w @ ((p - x) * (y - m))) / spread if spread > 1e-12 else 0.0
    return m + slope * (at - x)


# The judge against labels of two kinds.


def true_rates(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """TPR, TNR and agreement of verdicts that are 0 or 1 on rows whose label is 0 or 1.

    Args:
        verdict: shape [n].
        label: shape [n]; NaN where nobody labelled.
        item: the item of each row, shape [n].
        weight: chance to be labelled, shape [n].
        level: confidence level in (0, 1).

    Returns:
        Keys `tpr` (share of right rows that the judge passes), `tnr` (share of wrong rows that it fails) and
        `agreement`.
    """
    v, y = np.asarray(verdict, dtype=np.float64), np.asarray(label, dtype=np.float64)
    same = np.where(np.isnan(y), np.nan, (v == y).astype(float))
    seen = {
        "tpr": np.where(y == 1, (v == 1).astype(float), np.nan),
        "tnr": np.where(y == 0, (v == 0).astype(float), np.nan),
        "agreement": same,
    }
    return {name: labels_only(v, values, item, weight, level=level) for name, values in seen.items()}

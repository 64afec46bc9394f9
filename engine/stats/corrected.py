"""A judge's number corrected by people's labels on part of the rows: rates, means and differences.

Every row has a verdict, some rows have a label. Three numbers stand side by side:

raw: the mean verdict. Precise, and off by the judge's bias.
labels_only: the mean label, rows weighed by one over their chance to be labelled (Hajek 1971). Right, and wide.
corrected: prediction-powered inference, PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453): the mean of
    lambda * verdict over all rows plus the mean of label - lambda * verdict over the labelled ones. It is right for
    any lambda; the one taken makes the variance smallest, so that a useless judge (lambda near 0) costs nothing.

For shares also the estimate of Rogan and Gladen (1978) from TPR and TNR, with the variance of both samples (Lee et al.
2025, arXiv 2511.21140).

All are linear in rows, so one sandwich serves them: the influence of each row is added up within its item, and the
squares over items are the variance, labelled rows by CR2 with Bell and McCaffrey's degrees of freedom as in
`engine.stats.intervals`. What it needs: which rows are labelled depends on nothing but what the given chances say, and
items are independent. Verdicts may be wrong in any way.

Shares have beta intervals at the effective number of labels, inside [0, 1]. A judge that was right on every label is
not perfect: half a row of each kind of agreement and error is added to the variance (not to the estimate).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri, stdtrit

from engine.core.errors import InputError
from engine.stats.intervals import (
    NO_DATA,
    NO_VARIATION,
    ONE_CLUSTER,
    cluster_mean,
    cluster_rate,
    degrees_of_freedom,
)

Floats = npt.NDArray[np.float64]
_NAN = float("nan")
_PSEUDO = 0.5
"""Rows of each of the four kinds (label and verdict high or low) that are added to a share's variance."""

PPI = "PPI++ by item"
HAJEK = "labels weighted by chance, by item"
PLAIN = "labels by item"
RAW_DIFFERENCE = "verdicts by item"
FIELLER = "Fieller by item"
NO_BETTER = "no estimate: on the labels the judge is no better than chance"
BACKWARDS = "no estimate: the verdicts run against the labels; is one of them turned round?"
ONE_KIND = "no estimate: the labels are all of one kind, so TPR or TNR is unknown"
FEW = "no interval: fewer than two labelled items"


@dataclass(frozen=True)
class Estimate:
    """One number with its interval.

    Attributes:
        value: in the unit of the labels; NaN where undefined.
        lower, upper: ends of the interval; NaN where `method` says why there is none.
        n: rows with a verdict (labels_only: labelled rows).
        n_labels: labelled rows.
        method: of the interval, in words for a caption, or why there is no number.
        level: confidence level in (0, 1).
        error: standard error; NaN where there is none.
        df: its degrees of freedom.
        n_items: items that entered.
        labels_saved: labels that would have to be added for labels alone to be as precise; NaN for the others.
    """

    value: float
    lower: float
    upper: float
    n: int
    n_labels: int
    method: str
    level: float = 0.95
    error: float = _NAN
    df: float = _NAN
    n_items: int = 0
    labels_saved: float = _NAN


@dataclass(frozen=True)
class _Rows:
    """Rows with a verdict, checked: NaN labels are missing; `share` of each labelled row in the weighted mean."""

    verdict: Floats
    label: Floats
    codes: npt.NDArray[np.intp]
    share: Floats

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.label)

    @property
    def items(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    def by_item(self, values: Floats) -> Floats:
        """Sums of rows within each item."""
        return np.bincount(self.codes, weights=values, minlength=self.items).astype(np.float64)


@dataclass(frozen=True)
class _Linear:
    """An estimate that is linear in rows: influence of each item, its label part alone, and the degrees of freedom."""

    value: float
    influence: Floats
    rectifier: Floats
    df: float
    extra: float

    @property
    def variance(self) -> float:
        return float((self.influence**2).sum()) + self.extra


def compare_estimates(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Estimate]:
    """The raw, the corrected and the labels-only number of one population of rows.

    Args:
        verdict: the judge's, shape [n]; a NaN row is left out of everything.
        label: people's, shape [n], in the verdict's unit; NaN where nobody labelled.
        item: the item of each row, shape [n].
        weight: the chance in (0, 1] with which each row was chosen for labelling, shape [n]; None where all had the
            same.
        level: confidence level in (0, 1).
        seed: of the raw mean's bootstrap.

    Returns:
        Keys `raw`, `corrected` and `labels_only`.

    Raises:
        InputError: the shapes differ, a chance outside (0, 1], or the level outside (0, 1).
    """
    rows = _rows(verdict, label, item, weight)
    return {
        "raw": raw_estimate(verdict, item, level=level, seed=seed, n_labels=int(rows.labelled.sum())),
        "corrected": prediction_powered(verdict, label, item, weight, level=level),
        "labels_only": labels_only(verdict, label, item, weight, level=level),
    }


def raw_estimate(
    verdict: npt.ArrayLike, item: npt.ArrayLike, *, level: float = 0.95, seed: int = 0, n_labels: int = 0
) -> Estimate:
    """The mean verdict with the interval of `cluster_rate` (shares) or `cluster_mean`; it knows nothing of labels."""
    v = np.asarray(verdict, dtype=np.float64)
    of = cluster_rate if _is_share(v) else cluster_mean
    held = of(v, np.asarray(item), level=level, seed=seed)
    return Estimate(
        held.value, held.lower, held.upper, held.n, n_labels, held.method, level, n_items=held.n_clusters
    )  # fmt: skip


def labels_only(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> Estimate:
    """The mean label, weighted by one over the chance to be labelled; verdicts only say which rows count as rows."""
    rows = _rows(verdict, label, item, weight)
    method = PLAIN if weight is None else HAJEK
    made = _finished(rows, _linear(rows, 0.0), level, method)
    return replace(made, n=made.n_labels)


def prediction_powered(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    lam: float | None = None,
    level: float = 0.95,
) -> Estimate:
    """The PPI++ estimate of the mean label; arguments as `compare_estimates`.

    Args:
        verdict: of every row.
        label: of some rows.
        item: the item of each row.
        weight: chance to be labelled.
        lam: weight of the verdicts in place of the best one; 0 leaves the judge out. Verdicts of labelled rows count
            in the mean over all rows, so this is the paper's lambda times (all rows) / (rows without a label).
        level: confidence level in (0, 1).
    """
    rows = _rows(verdict, label, item, weight)
    alone = _linear(rows, 0.0)
    best = _best(rows)
    line = _linear(rows, best if lam is None else lam, tuned=lam is None and best != 0)
    made = _finished(rows, line, level, PPI)
    if line.variance > 0 and np.isfinite(made.error):
        made = replace(made, labels_saved=made.n_labels * max(alone.variance / line.variance - 1, 0.0))
    return made


def judge_weight(
    verdict: npt.ArrayLike, label: npt.ArrayLike, item: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> float:
    """The lambda that `prediction_powered` takes: 0 where the verdicts say nothing of the labels."""
    return _best(_rows(verdict, label, item, weight))


# Between systems.


def compare_difference(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """First minus second group's number, raw, corrected and from labels only, paired through shared items.

    Args:
        verdict: of every row, shape [n].
        label: of some rows.
        item: the item of each row.
        first: true for rows of the first system, shape [n].
        second: true for rows of the second, shape [n].
        weight: chance to be labelled.
        level: confidence level in (0, 1).

    Raises:
        InputError: as `compare_estimates`, or a row is in both.
    """
    sides = [np.asarray(side, dtype=bool) for side in (first, second)]
    if (sides[0] & sides[1]).any():
        raise InputError("A difference needs two systems of different rows; a row belongs to both.")
    names, codes = np.unique(np.asarray(item), return_inverse=True)
    v, y = np.asarray(verdict, dtype=np.float64), np.asarray(label, dtype=np.float64)
    chance = None if weight is None else np.asarray(weight, dtype=np.float64)
    parts = [
        _rows(v[side], y[side], codes[side], None if chance is None else chance[side], len(names)) for side in sides
    ]
    labelled = sum(int(part.labelled.sum()) for part in parts)
    whole = [_Rows(p.verdict, p.verdict, p.codes, np.full(len(p.verdict), 1 / max(len(p.verdict), 1))) for p in parts]
    unit = all(_is_share(p.verdict) and _is_share(p.label) for p in parts)
    ways = {
        "raw": (whole, [0.0, 0.0], RAW_DIFFERENCE),
        "corrected": (parts, [_best(p) for p in parts], PPI),
        "labels_only": (parts, [0.0, 0.0], PLAIN if weight is None else HAJEK),
    }
    return {name: _difference(*way, len(names), level, unit, labelled) for name, way in ways.items()}


def _difference(
    parts: list[_Rows], lams: list[float], method: str, items: int, level: float, unit: bool, labelled: int
) -> Estimate:
    n = sum(len(p.verdict) for p in parts)
    if any(not p.labelled.any() for p in parts):
        return Estimate(_NAN, _NAN, _NAN, n, labelled, NO_DATA, level)
    lines = [_linear(p, lam, tuned=lam != 0) for p, lam in zip(parts, lams, strict=True)]
    totals = np.zeros(items)
    for sign, line in zip((1, -1), lines, strict=True):
        totals[: len(line.influence)] += sign * line.influence
    value = lines[0].value - lines[1].value
    df = min(line.df for line in lines)
    error = float(np.sqrt((totals**2).sum() + sum(line.extra for line in lines)))
    n_items = int((totals != 0).sum())
    if not (df > 0 and error > 1e-12):
        return Estimate(value, _NAN, _NAN, n, labelled, NO_VARIATION if df > 0 else FEW, level, n_items=n_items)
    half = float(stdtrit(df, 0.5 + level / 2)) * error
    ends = np.clip([value - half, value + half], -1.0, 1.0) if unit else np.array([value - half, value + half])
    return Estimate(value, float(ends[0]), float(ends[1]), n, labelled, method, level, error, df, n_items)


# Rogan and Gladen.


def rogan_gladen(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> Estimate:
    """The true share from the judge's share, TPR and TNR: (share + TNR - 1) / (TPR + TNR - 1).

    The interval is Fieller's (1954): all true shares t in [0, 1] with |share - t TPR - (1 - t)(1 - TNR)| no more than
    t errors of that difference, whose covariance by item holds both samples, TPR and TNR smoothed as Lee et al. (2025)
    do, by one row of each kind. Where TPR + TNR - 1 is not above zero at this level there is no number: the method says
    that the judge is no better than chance, or that the verdicts run against the labels.

    It stays right where labelled rows were chosen by their label (say, half good and half bad), which `corrected` needs
    `weight` for; where it may be used, `prediction_powered` is narrower.

    Raises:
        InputError: as `compare_estimates`, or a verdict or label is neither 0 nor 1.
    """
    rows = _rows(verdict, label, item, weight)
    known = rows.labelled
    if not (np.isin(rows.verdict, (0, 1)).all() and np.isin(rows.label[known], (0, 1)).all()):
        raise InputError("Rogan and Gladen's estimate needs verdicts and labels that are 0 or 1; ties have none.")
    n, m = len(rows.verdict), int(known.sum())
    truth = np.where(known, rows.label, 0.0)
    masses = [float((rows.share * truth).sum()), float((rows.share * (1 - truth))[known].sum())]
    if min(masses) <= 0:
        return Estimate(_NAN, _NAN, _NAN, n, m, ONE_KIND if m else NO_DATA, level, n_items=rows.items)
    p = float(rows.verdict.mean())
    tpr = float((rows.share * truth * rows.verdict).sum()) / masses[0]
    fpr = float((rows.share * (1 - truth) * rows.verdict)[known].sum()) / masses[1]
    totals = _rg_influence(rows, truth, known, masses, p, tpr, fpr)
    covariance = totals @ totals.T + np.diag([0.0, *_smoothing(rows, truth, known, tpr, fpr)])
    df = max(_df(rows), 1.0)
    t = float(stdtrit(df, 0.5 + level / 2))
    gap = tpr - fpr
    if abs(gap) <= t * np.sqrt(max(covariance[1, 1] + covariance[2, 2] - 2 * covariance[1, 2], 0.0)):
        return Estimate(_NAN, _NAN, _NAN, n, m, NO_BETTER, level, n_items=rows.items)
    if gap < 0:
        return Estimate(_NAN, _NAN, _NAN, n, m, BACKWARDS, level, n_items=rows.items)
    value = float(np.clip((p - fpr) / gap, 0.0, 1.0))
    lower, upper = _fieller(p, tpr, fpr, covariance, t)
    slope = np.array([1.0, -value, -(1 - value)]) / gap
    error = float(np.sqrt(slope @ covariance @ slope))
    return Estimate(value, min(lower, value), max(upper, value), n, m, FIELLER, level, error, df, rows.items)


def _rg_influence(
    rows: _Rows, truth: Floats, known: npt.NDArray[np.bool_], masses: list[float], p: float, tpr: float, fpr: float
) -> Floats:
    """Influence of each item on share, TPR and FPR, shape (3, G)."""
    wrong = np.where(known, 1 - truth, 0.0)
    return np.array(
        [
            rows.by_item((rows.verdict - p) / len(rows.verdict)),
            rows.by_item(rows.share * truth * (rows.verdict - tpr) / masses[0]),
            rows.by_item(rows.share * wrong * (rows.verdict - fpr) / masses[1]),
        ]
    )


def _smoothing(rows: _Rows, truth: Floats, known: npt.NDArray[np.bool_], tpr: float, fpr: float) -> list[float]:
    """Variance that one row of each kind adds to TPR and FPR."""
    out = []
    for side, rate in ((truth, tpr), (np.where(known, 1 - truth, 0.0), fpr)):
        weights = rows.share * side
        size = float(weights.sum()) ** 2 / float((weights**2).sum())
        smooth = (size * rate + 1) / (size + 2)
        out.append(max(smooth * (1 - smooth) / (size + 2) - rate * (1 - rate) / size, 0.0))
    return out


def _fieller(p: float, tpr: float, fpr: float, covariance: Floats, t: float) -> tuple[float, float]:
    """Ends of the true shares in [0, 1] that a test does not refuse; the quadratic opens upwards (gap is certain)."""
    centre, slope = np.array([1.0, 0.0, -1.0]), np.array([0.0, -1.0, 1.0])  # difference = centre + share * slope
    at, along = p - fpr, fpr - tpr
    a = along**2 - t * t * float(slope @ covariance @ slope)
    b = at * along - t * t * float(centre @ covariance @ slope)
    c = at**2 - t * t * float(centre @ covariance @ centre)
    root = float(np.sqrt(max(b * b - a * c, 0.0)))
    ends = np.clip([(-b - root) / a, (-b + root) / a], 0.0, 1.0)
    return float(ends[0]), float(ends[1])


def lee_interval(
    share: float, tnr: float, tpr: float, n: int, n_wrong: int, n_right: int, *, level: float = 0.95
) -> Estimate:
    """The closed form of Lee et al. (2025, arXiv 2511.21140) from counts alone, for two independent samples.

    Args:
        share: of the rows that the judge passes.
        tnr: share of wrong rows that it fails.
        tpr: share of right rows that it passes.
        n: rows judged.
        n_wrong: labelled rows that are wrong.
        n_right: labelled rows that are right.
        level: confidence level in (0, 1).

    Raises:
        InputError: a share outside [0, 1] or a count below 1.
    """
    if not all(0 <= one <= 1 for one in (share, tnr, tpr)) or min(n, n_wrong, n_right) < 1:
        raise InputError("Shares must lie in [0, 1] and counts be at least 1.")
    m = n_wrong + n_right
    if tpr + tnr - 1 <= 0:
        return Estimate(_NAN, _NAN, _NAN, n, m, NO_BETTER, level)
    z = float(ndtri(0.5 + level / 2))
    p = (n * share + z * z / 2) / (n + z * z)
    q0, q1 = (n_wrong * tnr + 1) / (n_wrong + 2), (n_right * tpr + 1) / (n_right + 2)
    if q0 + q1 - 1 <= 0:
        return Estimate(_NAN, _NAN, _NAN, n, m, NO_BETTER, level)
    value = (p + q0 - 1) / (q0 + q1 - 1)
    wrong, right = q0 * (1 - q0) / (n_wrong + 2), q1 * (1 - q1) / (n_right + 2)
    moved = value + 2 * z * z * (value * right - (1 - value) * wrong)
    spread = p * (1 - p) / (n + z * z) + (1 - value) ** 2 * wrong + value**2 * right
    error = float(np.sqrt(spread)) / (q0 + q1 - 1)
    ends = np.clip([moved - z * error, moved + z * error], 0.0, 1.0)
    plain = float(np.clip((share + tnr - 1) / (tpr + tnr - 1), 0.0, 1.0))
    return Estimate(plain, float(ends[0]), float(ends[1]), n, m, "Rogan-Gladen, Lee et al. 2025", level, error)


# Labels needed.


@dataclass(frozen=True)
class LabelsNeeded:
    """Labels for an interval of plus or minus `half`.

    Attributes:
        half: half width asked for, in the unit of the number.
        labels_only: labels without a judge; NaN where it cannot be said.
        with_judge: labels with it; NaN where no number of labels on these rows is enough.
        reachable: the half width with every row labelled.
        reason: why there is no number; empty where there is one.
    """

    half: float
    labels_only: float
    with_judge: float
    reachable: float
    reason: str = ""


def labels_needed_before(
    half: float, *, rows: int | None = None, agreement: float | None = None, share: float = 0.5, level: float = 0.95
) -> LabelsNeeded:
    """Labels for a share before any row is labelled: the worst case, or with an agreement assumed.

    Args:
        half: half width asked for, in (0, 0.5).
        rows: rows with a verdict; None for as many as one likes.
        agreement: share of rows on which judge and people agree, errors alike on both sides; None assumes a judge
            that says nothing.
        share: the true share expected; 0.5 is the worst.
        level: confidence level in (0, 1).

    Raises:
        InputError: a number outside its range.
    """
    if not (0 < half < 0.5 and 0 < share < 1) or (agreement is not None and not 0 <= agreement <= 1):
        raise InputError(
            f"Half width {half}, share {share}, agreement {agreement}: the half width must lie between 0 and 0.5, the "
            "share and the agreement between 0 and 1."
        )
    spread = share * (1 - share)
    left = spread
    if agreement is not None:
        said = share * agreement + (1 - share) * (1 - agreement)
        together = spread * (2 * agreement - 1)
        left = spread - together**2 / max(said * (1 - said), 1e-12)
    return _needed(half, spread, left, rows, float(ndtri(0.5 + level / 2)))


def labels_needed_after(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    half: float,
    weight: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> LabelsNeeded:
    """Labels for plus or minus `half` given what the labels so far say of the judge; further ones chosen like these.

    With m labels of n rows the variance is V(n) + E (1/m - 1/n): E that of label - lambda * verdict, V that of the
    label, each with the design effect of items and chances seen.

    Raises:
        InputError: as `compare_estimates`, or a half width that is not above 0.
    """
    if not half > 0:
        raise InputError(f"The half width is {half}; give one above 0.")
    rows = _rows(verdict, label, item, weight)
    m, n = int(rows.labelled.sum()), len(rows.verdict)
    best = _best(rows)
    alone, tuned = _linear(rows, 0.0), _linear(rows, best, tuned=best != 0)
    if not (alone.df > 0 and alone.variance > 0):
        return LabelsNeeded(half, _NAN, _NAN, _NAN, FEW)
    of_label = m * alone.variance
    of_rest = m * (float((tuned.rectifier**2).sum()) + tuned.extra)
    return _needed(half, of_label, min(of_rest, of_label), n, float(stdtrit(tuned.df, 0.5 + level / 2)))


def _needed(half: float, spread: float, left: float, rows: int | None, quantile: float) -> LabelsNeeded:
    """From the variance of one label, what the judge leaves of it, and the rows there are."""
    target = (half / quantile) ** 2
    alone = float(np.ceil(spread / target))
    if rows is None:
        return LabelsNeeded(half, alone, float(np.ceil(max(left, 0.0) / target)), 0.0)
    reachable = quantile * float(np.sqrt(spread / rows))
    if reachable > half:
        why = f"all {rows:,} rows labelled give ±{reachable:.3f}; ±{half:g} takes {alone:,.0f} rows"
        return LabelsNeeded(half, alone, _NAN, reachable, why)
    room = target - (spread - left) / rows
    return LabelsNeeded(half, min(alone, rows), float(np.ceil(min(max(left / room, 0.0), rows))), reachable)


# Rows, the linear estimate, and its interval.


def _rows(
    verdict: npt.ArrayLike,
    label: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    items: int | None = None,
) -> _Rows:
    """The rows that have a verdict.

    Raises:
        InputError: the shapes differ, a number is infinite, or a chance is outside (0, 1].
    """
    v, y = np.asarray(verdict, dtype=np.float64), np.asarray(label, dtype=np.float64)
    groups: npt.NDArray[Any] = np.asarray(item)
    chance = np.ones_like(v) if weight is None else np.asarray(weight, dtype=np.float64)
    if not v.shape == y.shape == groups.shape == chance.shape or v.ndim != 1:
        raise InputError(
            f"Verdicts, labels, items and chances must be one a row; got shapes {v.shape}, {y.shape}, {groups.shape} "
            f"and {chance.shape}."
        )
    if np.isinf(v).any() or np.isinf(y).any():
        raise InputError("A verdict or label is infinite; use numbers, and leave unlabelled rows empty.")
    keep = ~np.isnan(v)
    v, y, groups, chance = v[keep], y[keep], groups[keep], chance[keep]
    known = ~np.isnan(y)
    if known.any() and not ((chance[known] > 0) & (chance[known] <= 1)).all():
        raise InputError("The chance to be labelled must lie in (0, 1] for each labelled row.")
    share = np.zeros_like(v)
    share[known] = 1 / chance[known]
    if known.any():
        share /= share.sum()
    codes = groups.astype(np.intp) if items is not None else np.unique(groups, return_inverse=True)[1]
    return _Rows(v, y, codes, share)


def _best(rows: _Rows) -> float:
    """The lambda of the smallest variance: that of the label's item totals on the verdict's."""
    known = rows.labelled
    if known.sum() < 3 or known.all():
        return 0.0
    y = np.where(known, rows.label, 0.0)
    own = rows.by_item(rows.share * (y - float((rows.share * y).sum())))
    inside = float((rows.share * rows.verdict).sum())
    judged = rows.by_item(
        rows.share * (rows.verdict - inside) - (rows.verdict - rows.verdict.mean()) / len(rows.verdict)
    )
    below = float(judged @ judged)
    return float(own @ judged) / below if below > 1e-18 else 0.0


def _linear(rows: _Rows, lam: float, *, tuned: bool = False) -> _Linear:
    """The estimate at this lambda; a tuned one costs a degree of freedom."""
    known = rows.labelled
    if not known.any():
        return _Linear(_NAN, np.zeros(rows.items), np.zeros(rows.items), 0.0, 0.0)
    rest = np.where(known, rows.label, 0.0) - lam * rows.verdict
    centre = float((rows.share * rest).sum())
    leverage = rows.by_item(rows.share)
    if leverage.max() >= 1 - 1e-12:
        return _Linear(centre + lam * float(rows.verdict.mean()), leverage * 0, leverage * 0, 0.0, 0.0)
    rectifier = rows.by_item(rows.share * (rest - centre)) / np.sqrt(1 - leverage)
    judged = lam * rows.by_item((rows.verdict - rows.verdict.mean()) / len(rows.verdict))
    df = _df(rows)
    if tuned and df > 1:
        widen = np.sqrt(df / (df - 1))
        rectifier, df = rectifier * widen, df - 1
    extra = _pseudo_variance(rows, lam, rest, centre) if _is_share(rows.label) and _is_share(rows.verdict) else 0.0
    return _Linear(centre + lam * float(rows.verdict.mean()), rectifier + judged, rectifier, df, extra)


def _df(rows: _Rows) -> float:
    """Bell and McCaffrey's degrees of freedom of the labelled items; 0 for fewer than two."""
    leverage = rows.by_item(rows.share)
    leverage = leverage[leverage > 0]
    return degrees_of_freedom(leverage) if len(leverage) > 1 else 0.0


def _pseudo_variance(rows: _Rows, lam: float, rest: Floats, centre: float) -> float:
    """What half a row of each of four kinds (label 0 or 1, verdict low or high) adds to the label part's variance."""
    leverage = rows.by_item(rows.share)
    size = 1 / float((leverage**2).sum())
    now = float((rows.share * (rest - centre) ** 2).sum())
    ends = (float(rows.verdict.min()), float(rows.verdict.max()))
    added = np.array([y - lam * v for y in (0.0, 1.0) for v in ends])
    total = size + 4 * _PSEUDO
    mean = (size * centre + _PSEUDO * added.sum()) / total
    square = (size * (now + centre**2) + _PSEUDO * (added**2).sum()) / total
    return float(max((square - mean**2) / total - now / size, 0.0))


def _finished(rows: _Rows, line: _Linear, level: float, method: str) -> Estimate:
    """The interval of an estimate."""
    if not 0 < level < 1:
        raise InputError(f"The confidence level is {level}; it must lie between 0 and 1, for example 0.95.")
    n, m = len(rows.verdict), int(rows.labelled.sum())
    if not m:
        return Estimate(_NAN, _NAN, _NAN, n, 0, NO_DATA, level, n_items=rows.items)
    unit = _is_share(rows.label)
    value = float(np.clip(line.value, 0.0, 1.0)) if unit else line.value
    error = float(np.sqrt(line.variance))
    if not line.df > 0:
        return Estimate(value, _NAN, _NAN, n, m, ONE_CLUSTER if m > 1 else FEW, level, n_items=rows.items)
    t = float(stdtrit(line.df, 0.5 + level / 2))
    if not unit:
        if error <= 1e-12:
            return Estimate(value, _NAN, _NAN, n, m, NO_VARIATION, level, n_items=rows.items)
        ends = (value - t * error, value + t * error)
    else:
        ends = _beta_ends(value, line.variance, t, level, m)
    return Estimate(value, *ends, n, m, method, level, error, line.df, rows.items)


def _beta_ends(value: float, variance: float, t: float, level: float, labels: int) -> tuple[float, float]:
    """Ends of a share's interval, as `engine.stats.intervals.rate_bounds` has them, at the effective number of rows."""
    tail = 0.5 + level / 2
    inside = float(np.clip(value, 0.5 / labels, 1 - 0.5 / labels))
    effective = inside * (1 - inside) / max(variance, 1e-12) * (float(ndtri(tail)) / t) ** 2
    events, others = value * effective, (1 - value) * effective
    lower = float(betaincinv(events + 0.25, others + 0.75, 1 - tail))
    upper = float(betaincinv(events + 0.75, others + 0.25, tail))
    return min(lower, value), max(upper, value)


def _is_share(values: Floats) -> bool:
    """All known values lie in [0, 1]."""
    known = values[~np.isnan(values)]
    return bool(((known >= 0) & (known <= 1)).all())

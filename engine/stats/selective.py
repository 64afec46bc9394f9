"""Selective judging: keep the verdicts that the judge is sure of, send the others to people, with a bound on the error.

A verdict is kept where its confidence reaches a threshold. Thresholds are tried from the strictest on; each is tested
by the exact binomial (Clopper and Pearson 1934) bound on the error among kept labelled rows, and the first one that
fails ends the search (fixed-sequence testing, which needs no correction for many tests). So the last one that passed
has, with a chance of 1 - delta over the draw of the labelled rows, an error of at most the bound among kept verdicts
(Jung, Brahman and Choi 2024, Trust or Escalate, arXiv 2407.18370).

What the guarantee needs: labelled rows are a random sample of the rows that the threshold will be used on, rows are
independent, and the order of thresholds does not look at labels. Rows of one item are not independent, so that one
labelled row of each item is drawn at random; rows with unequal chances to be labelled are thinned to equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from engine.core.errors import InputError

Floats = npt.NDArray[np.float64]
STEPS = 40
"""Thresholds that are tried at most."""
ROOM = 2
"""Errors that the strictest threshold tested may have, where there are labels enough."""
_NAN = float("nan")


@dataclass(frozen=True)
class Step:
    """One threshold.

    Attributes:
        threshold: least confidence of a kept verdict.
        kept: share of all rows that are kept.
        n_kept: kept rows.
        n_labels: labelled rows among them that the test may use.
        errors: of these, on which judge and people differ.
        error: their share; NaN without labels.
        upper: Clopper and Pearson's upper bound on it at 1 - delta.
        passes: the bound holds here and at every stricter threshold that was tested.
        tested: it is in the fixed sequence; stricter ones have too few labels for any test to pass.
    """

    threshold: float
    kept: float
    n_kept: int
    n_labels: int
    errors: int
    error: float
    upper: float
    passes: bool
    tested: bool


@dataclass(frozen=True)
class Selection:
    """Thresholds from the strictest to none, and the one that is chosen.

    Attributes:
        steps: ascending in rows kept.
        chosen: place of the chosen one among them; None where no threshold has the guarantee.
        bound: largest error among kept verdicts.
        delta: chance that the guarantee fails.
        n_labels: labelled rows that the test used, one of each item.
        reason: why none is chosen; empty where one is.
    """

    steps: tuple[Step, ...]
    chosen: int | None
    bound: float
    delta: float
    n_labels: int
    reason: str = ""

    @property
    def threshold(self) -> float:
        """The chosen one; infinite where none is, which keeps nothing."""
        return float("inf") if self.chosen is None else self.steps[self.chosen].threshold


def order_confidence(p_ab: npt.ArrayLike, p_ba: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Mean probability of the first side over both orders, and the confidence of that verdict in [0.5, 1].

    Where the orders disagree the mean is near one half, so that the confidence is low.

    Args:
        p_ab: probability of side a, a shown first, shape [n]; NaN where unread.
        p_ba: the same with b shown first, order undone.
    """
    mean = (np.asarray(p_ab, dtype=np.float64) + np.asarray(p_ba, dtype=np.float64)) / 2
    return mean, np.maximum(mean, 1 - mean)


def fewest_labels(bound: float, delta: float, errors: int = 0) -> int:
    """Labels with so many errors from which on the bound can be shown; without any, (1 - bound)^n <= delta."""
    n = int(np.ceil(np.log(delta) / np.log1p(-bound)))
    while errors and upper_bound(errors, n, delta) > bound:
        n += 1
    return n


def upper_bound(errors: int, n: int, delta: float) -> float:
    """Clopper and Pearson's one-sided upper bound at 1 - delta; 1 without rows."""
    return float(betaincinv(errors + 1, n - errors, 1 - delta)) if n > errors else 1.0


def choose_threshold(
    confidence: npt.ArrayLike,
    wrong: npt.ArrayLike,
    item: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    *,
    bound: float = 0.1,
    delta: float = 0.05,
    seed: int = 0,
) -> Selection:
    """The lowest threshold whose error among kept verdicts is at most `bound` with a chance of 1 - delta.

    Args:
        confidence: of each verdict, larger is surer, shape [n]; NaN rows are never kept.
        wrong: 1 where the verdict differs from the label, else 0, shape [n]; NaN where nobody labelled.
        item: the item of each row, shape [n].
        weight: chance to be labelled, shape [n]; None where all had the same.
        bound: in (0, 1).
        delta: in (0, 1).
        seed: of the row drawn from each item, and of the thinning.

    Raises:
        InputError: a number outside its range, or the shapes differ.
    """
    sure, off, groups = np.asarray(confidence, float), np.asarray(wrong, float), np.asarray(item)
    if not (0 < bound < 1 and 0 < delta < 1):
        raise InputError(f"Bound {bound} and delta {delta} must lie between 0 and 1, for example 0.1 and 0.05.")
    if not sure.shape == off.shape == groups.shape or sure.ndim != 1:
        raise InputError(f"Confidences, errors and items must be one a row; got {sure.shape}, {off.shape}.")
    used = _independent(~(np.isnan(off) | np.isnan(sure)), groups, weight, seed)
    labelled, errors = sure[used], off[used]
    n0, m = fewest_labels(bound, delta), len(labelled)
    first = min(fewest_labels(bound, delta, ROOM), max(n0, m // 2))  # the start looks at no label
    steps: list[Step] = []
    chosen, going = None, True
    for threshold in _thresholds(sure, labelled):
        kept, own = int((sure >= threshold).sum()), labelled >= threshold
        k, n = int(errors[own].sum()), int(own.sum())
        upper, tested = upper_bound(k, n, delta), n >= first
        going = going and (not tested or upper <= bound)
        passes = tested and going
        chosen = len(steps) if passes else chosen
        error = k / n if n else _NAN
        steps.append(Step(float(threshold), kept / max(len(sure), 1), kept, n, k, error, upper, passes, tested))
    reason = "" if chosen is not None else _why(steps, m, n0, bound)
    return Selection(tuple(steps), chosen, bound, delta, m, reason)


def _why(steps: list[Step], m: int, n0: int, bound: float) -> str:
    if m < n0:
        return f"{m} labelled items; {n0} without an error are the fewest that can show an error of at most {bound:g}"
    failed = next((s for s in steps if s.tested), None)
    if failed is None:
        return "no threshold keeps enough labelled rows"
    return (
        f"of the {failed.n_labels} surest labelled verdicts {failed.errors} are wrong, which an error above {bound:g} "
        "could give"
    )


def _thresholds(sure: Floats, labelled: Floats) -> Floats:
    """Descending confidences at equal steps of labelled rows, or of all rows where none is labelled."""
    pool = np.sort(labelled if len(labelled) else sure[~np.isnan(sure)])[::-1]
    if not len(pool):
        return pool
    places = np.unique(np.linspace(0, len(pool) - 1, min(STEPS, len(pool))).round().astype(int))
    return np.unique(np.append(pool[places], np.nanmin(sure)))[::-1]


def _independent(
    known: npt.NDArray[np.bool_], groups: npt.NDArray[np.generic], weight: npt.ArrayLike | None, seed: int
) -> npt.NDArray[np.intp]:
    """Labelled rows of equal chance, one of each item drawn at random."""
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(known)
    if weight is not None and len(rows):
        chance = np.asarray(weight, dtype=np.float64)[rows]
        rows = rows[rng.random(len(rows)) < chance.min() / chance]
    mixed = rng.permutation(rows)
    return np.sort(mixed[np.unique(groups[mixed], return_index=True)[1]])

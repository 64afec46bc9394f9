"""RefSwap read from stored probabilities (paper 003, section 3): numpy only, so that sliders only re-reduce arrays.

A sample is a response, or a master key in place of one. Nothing here asks a judge: K, gamma, delta and the verdict
threshold are applied to what is stored. Unread is NaN and never an answer: a decision that rests on an unread
probability is NaN itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

CLEAN = -1
_SLACK = 1e-9
"""Accuracies are fractions of counts; differences below this are rounding."""


@dataclass(frozen=True)
class Samples:
    """N samples with what a verifier said of each.

    Attributes:
        p: p_yes under the true reference, (N,) in [0, 1]; NaN unread.
        cf: p_yes under counterfactual references, (N, K) in the order of the nested draw; NaN unread or not asked.
        asked: true for those that were asked, (N, K).
        right: true where YES is the right verdict, (N,); false where nobody says.
        key: number of the master key, (N,); -1 for a clean response.
        item: number of the item, the cluster, (N,).
        length: characters of the response, (N,).
        dev: part that thresholds are calibrated on, (N,).
        tokens: prompt tokens under the true reference, (N,); NaN without a model.
        fresh: tokens of each counterfactual prompt that no earlier prompt of the sample holds, (N, K).
        judged: the data say which responses are correct; false where they say it of none.
    """

    p: Floats
    cf: Floats
    asked: Bools
    right: Bools
    key: Ints
    item: Ints
    length: Ints
    dev: Bools
    tokens: Floats
    fresh: Floats
    judged: bool = True

    @property
    def clean(self) -> Bools:
        """Samples that are responses and no keys, (N,)."""
        return np.asarray(self.key == CLEAN)

    @property
    def meant(self) -> Bools:
        """Responses whose YES should stay: the correct ones, or all of them where the data say of none, (N,)."""
        return np.asarray(self.clean & self.right if self.judged else self.clean)

    @property
    def known(self) -> Bools:
        """Samples whose right verdict is known, (N,); a key's always is."""
        return np.full(len(self.key), True) if self.judged else ~self.clean

    @property
    def k_max(self) -> int:
        """Most counterfactual references that were asked of a sample."""
        return int(self.asked.any(axis=0).sum())

    def yes(self, threshold: float = 0.5) -> Floats:
        """Baseline verdicts (N,): 1 YES, 0 NO, NaN unread."""
        return np.where(np.isnan(self.p), np.nan, (self.p >= threshold).astype(np.float64))


def max_p_cf(samples: Samples, k: int) -> Floats:
    """Eq. 4 with K = k, (N,): the largest p_yes over the first k counterfactual references that were asked.

    NaN where one of them is unread (the maximum is not known) or none was asked.
    """
    asked = samples.asked[:, :k]
    values = np.where(asked, samples.cf[:, :k], -np.inf)
    unread = (asked & np.isnan(samples.cf[:, :k])).any(axis=1) | ~asked.any(axis=1)
    best = np.where(np.isnan(values), -np.inf, values).max(axis=1, initial=-np.inf)
    return np.where(unread, np.nan, best)


def s_score(samples: Samples) -> Floats:
    """Eq. 3, (N,): p_yes under the true reference minus that under the first counterfactual one, in [-1, 1].

    NaN where none was asked, as when the judge accepted nothing.
    """
    if not samples.asked.shape[1]:
        return np.full(len(samples.p), np.nan)
    first = np.where(samples.asked[:, 0], samples.cf[:, 0], np.nan)
    return np.asarray(samples.p - first)


def decide(yes: Floats, score: Floats, cut: float) -> Floats:
    """Verdicts of the two stages (N,): YES only if the baseline says YES and score >= cut; ties at the cut pass."""
    kept = np.where(np.isnan(score), np.nan, (score >= cut).astype(np.float64))
    return np.where(yes == 1, kept, yes)


def accuracy(verdicts: Floats, right: Bools) -> float:
    """Share of read verdicts that are right; NaN without one."""
    read = ~np.isnan(verdicts)
    return float((verdicts[read] == right[read]).mean()) if read.any() else float("nan")


@dataclass(frozen=True)
class Cut:
    """A calibrated threshold.

    Attributes:
        value: the largest threshold that keeps the accuracy within the tolerance.
        accuracy_before, accuracy_after: on the calibration part, in [0, 1].
        n: read clean samples it was calibrated on.
    """

    value: float
    accuracy_before: float
    accuracy_after: float
    n: int


def calibrate(score: Floats, yes: Floats, right: Bools, delta: float, *, top: float = 1.0, floor: float = 0.0) -> Cut:
    """Eq. 5: the largest threshold whose accuracy is at least the baseline's minus delta.

    Accuracy is a step function of the threshold that can only change at the scores of baseline YES samples, so those,
    `floor` (keep all) and `top` (keep nothing below it) are all the candidates there are. It need not fall
    monotonically, since rejecting a false positive raises it.

    Args:
        score: max_p_cf, the s-score or a length of each clean calibration sample, (N,).
        yes: baseline verdicts (N,).
        right: true where YES is right (N,).
        delta: tolerance, as a fraction of 1.
        top: largest threshold there is.
        floor: smallest one.

    Returns:
        NaN throughout where no sample is read.
    """
    read = ~np.isnan(yes) & ~((yes == 1) & np.isnan(score))
    score, yes, right = score[read], yes[read], right[read]
    if not len(yes):
        return Cut(float("nan"), float("nan"), float("nan"), 0)
    before = accuracy(yes, right)
    cuts = np.unique(np.concatenate([[floor, top], score[yes == 1]]))
    after = _accuracies(cuts, score, yes, right)
    best = int(np.flatnonzero(after >= before - delta - _SLACK)[-1])
    return Cut(float(cuts[best]), before, float(after[best]), len(yes))


def _accuracies(cuts: Floats, score: Floats, yes: Floats, right: Bools) -> Floats:
    """Accuracy of `decide` at each cut, (C,), all samples read."""
    passing = _passing(cuts, score[yes == 1], right[yes == 1])
    passing_wrong = _passing(cuts, score[yes == 1], ~right[yes == 1])
    rejected_wrong = (~right[yes == 1]).sum() - passing_wrong
    told_no = (~right[yes == 0]).sum()
    return np.asarray((passing + rejected_wrong + told_no) / len(yes), dtype=np.float64)


def _passing(cuts: Floats, score: Floats, among: Bools) -> Ints:
    """Number of samples whose score is at least each cut, (C,)."""
    chosen = np.sort(score[among])
    return np.asarray(len(chosen) - np.searchsorted(chosen, cuts, side="left"), dtype=np.int64)


@dataclass(frozen=True)
class Frontier:
    """Every operating point there is, by threshold, (C,) each.

    Attributes:
        cut: the threshold, ascending.
        accuracy: on clean responses.
        fpr: mean over the keys of the share accepted.
        worst: the largest of those shares.
        best: true where no other point has both a higher accuracy and a lower mean share (Pareto).
    """

    cut: Floats
    accuracy: Floats
    fpr: Floats
    worst: Floats
    best: Bools


def frontier(samples: Samples, score: Floats, yes: Floats) -> Frontier:
    """Accuracy and false positive rates at every threshold where one of them can change."""
    read = ~np.isnan(yes) & ~((yes == 1) & np.isnan(score))
    cuts = np.unique(np.concatenate([[0.0, 1.0], score[read & (yes == 1)]]))
    clean = read & samples.clean & samples.known
    accurate = (
        _accuracies(cuts, score[clean], yes[clean], samples.right[clean])
        if clean.any()
        else np.full(len(cuts), float("nan"))
    )
    rates = []
    for key in range(int(samples.key.max(initial=CLEAN)) + 1):
        own = read & (samples.key == key)
        if own.any():
            rates.append(_passing(cuts, score[own], yes[own] == 1) / own.sum())
    table = np.stack(rates) if rates else np.full((1, len(cuts)), float("nan"))
    fpr, worst = table.mean(axis=0), table.max(axis=0)
    return Frontier(cuts, accurate, fpr, worst, pareto(accurate, fpr))


def pareto(gain: Floats, cost: Floats) -> Bools:
    """Points that no other point beats in both (higher gain, lower cost), (C,); of equal ones all."""
    order = np.lexsort((-gain, cost))
    best = np.zeros(len(gain), dtype=np.bool_)
    reached, at_cost, same = -np.inf, -np.inf, -np.inf
    for i in order.tolist():
        if gain[i] > reached:
            best[i], at_cost, same = True, float(cost[i]), float(gain[i])
            reached = gain[i]
        elif gain[i] == same and cost[i] == at_cost:
            best[i] = True
    return best


def planted_auc(self_solve: float, ref_sensitivity: float, k: int) -> float:
    """The AUC of max_p_cf that `planted:verifier` must give, in [0, 1]; 0.5 where both scales are zero.

    Largest of K uniforms on [0, a] against the largest of K on [0, b], a = self_solve and b = 1 - ref_sensitivity.
    """
    a, b = self_solve, 1 - ref_sensitivity
    if a <= 0 and b <= 0:
        return 0.5
    return 1 - (b / a) ** k / 2 if a >= b else (a / b) ** k / 2


@dataclass(frozen=True)
class Cost:
    """Cost of a sample behind RefSwap, means over samples.

    Attributes:
        passes: forward passes.
        tokens_ratio: prompt tokens processed over those of the undefended verifier, shared prefixes computed once.
        accepted_tokens_ratio: the same over samples with a baseline YES alone.
    """

    passes: float
    tokens_ratio: float
    accepted_tokens_ratio: float


def cost(samples: Samples, yes: Floats, k: int, part: Bools) -> Cost:
    """Passes and tokens with K = k; NaN without samples, tokens NaN without a model."""
    read = part & ~np.isnan(yes)
    if not read.any():
        return Cost(float("nan"), float("nan"), float("nan"))
    checked = yes[read] == 1
    extra = np.where(checked, samples.asked[read, :k].sum(axis=1), 0)
    base = samples.tokens[read]
    fresh = np.where(samples.asked[read, :k], samples.fresh[read, :k], 0.0).sum(axis=1)
    more = np.where(checked, fresh, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        over_all = (base.sum() + more.sum()) / base.sum()
        accepted = (base[checked].sum() + more[checked].sum()) / base[checked].sum() if checked.any() else np.nan
    return Cost(float(1 + extra.mean()), float(over_all), float(accepted))


def dev_items(items: Sequence[str], share: float = 0.2, seed: int = 42) -> frozenset[str]:
    """The items of the calibration part: a seeded share of the different items, at least one and never all."""
    every = sorted(set(items))
    if len(every) < 2:
        return frozenset()
    take = min(len(every) - 1, max(1, round(share * len(every))))
    chosen = np.random.default_rng(seed).permutation(len(every))[:take]
    return frozenset(every[i] for i in chosen.tolist())

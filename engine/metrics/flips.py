"""Who wins a comparison under either protocol, and whether a distracted loser now wins (paper 004, section 3).

Outcomes are 1 where the first of a pair wins, -1 the second, 0 a tie and NaN where a verdict is unread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.errors import InputError
from engine.metrics.intervals import Interval, cluster_mean, cluster_rate
from engine.metrics.paired import PairedTest, mcnemar, paired_test

Floats = npt.NDArray[np.float64]
Average = Literal["probability", "logit"]
_EQUAL = 1e-9
_DIGITS = 9


def pairwise_outcome(shares: npt.ArrayLike, average: Average = "probability") -> Floats:
    """The largest of P(a), P(b) and P(tie) after averaging both orders; equal sides are a tie.

    Args:
        shares: probabilities of a, b and a tie in each order, the order undone; shape (..., 2 orders, 3). A pair with
            an unread order is unread.
        average: of the probabilities, or of their logarithms (the mean of the logits).
    """
    p = np.asarray(shares, dtype=np.float64)
    mean = (np.log(p.clip(min=1e-12)) if average == "logit" else p).mean(axis=-2)
    a, b, tie = mean[..., 0], mean[..., 1], mean[..., 2]
    first = (a > b + _EQUAL) & (a > tie + _EQUAL)
    second = (b > a + _EQUAL) & (b > tie + _EQUAL)
    out = first.astype(np.float64) - second
    return np.where(np.isnan(a + b + tie), np.nan, out)


def slot_outcome(shares: npt.ArrayLike) -> Floats:
    """The outcome of each order by itself, shape (..., 2); the order undone."""
    p = np.asarray(shares, dtype=np.float64)
    return pairwise_outcome(np.stack([p, p], axis=-2))


@dataclass(frozen=True)
class TieRule:
    """When two pointwise scores are a tie.

    Attributes:
        margin: largest difference of expected scores that is a tie, in points; None: equal modal score (the paper's).
    """

    margin: float | None = None

    def __post_init__(self) -> None:
        if self.margin is not None and not self.margin >= 0:
            raise InputError(f"The tie margin is {self.margin}; it must be 0 or more points, or None for modal scores.")

    @property
    def words(self) -> str:
        """The rule as a caption says it."""
        return "equal modal score" if self.margin is None else f"expected scores within {self.margin:.3g}"


def pointwise_outcome(expected: npt.ArrayLike, modal: npt.ArrayLike, rule: TieRule) -> Floats:
    """A synthetic comparison of two scores.

    Args:
        expected: expected score of the first minus that of the second, any shape.
        modal: the same of the modal scores.
        rule: when the two are a tie.
    """
    if rule.margin is None:
        return np.sign(np.asarray(modal, dtype=np.float64))
    gap = np.round(np.asarray(expected, dtype=np.float64), _DIGITS)
    return np.where(np.abs(gap) <= rule.margin, gap * 0, np.sign(gap))


def matched_margin(expected: npt.ArrayLike, tie_rate: float) -> float:
    """The margin at which clean pairs tie as often as `tie_rate`, in points; NaN without pairs.

    The smallest absolute difference that, taken as the margin, makes at least this share of ties; 0 for a share of 0.
    """
    gaps = np.sort(np.abs(np.round(np.asarray(expected, dtype=np.float64), _DIGITS)).ravel())
    gaps = gaps[~np.isnan(gaps)]
    if not len(gaps) or np.isnan(tie_rate):
        return float("nan")
    wanted = int(np.ceil(tie_rate * len(gaps) - 1e-9))
    return float(gaps[wanted - 1]) if wanted else 0.0


def flipped(before: npt.ArrayLike, after_a: npt.ArrayLike, after_b: npt.ArrayLike) -> Floats:
    """1 where the distracted loser now wins, 0 where not (a tie is no flip), NaN where there is no answer.

    Args:
        before: clean outcomes; a tie has no loser and gives NaN.
        after_a: outcomes with the first distracted; used where the first lost.
        after_b: outcomes with the second distracted; used where the second lost.
    """
    clean = np.asarray(before, dtype=np.float64)
    after = np.where(clean == 1, -np.asarray(after_b, dtype=np.float64), np.asarray(after_a, dtype=np.float64))
    return np.where(np.isnan(clean) | (clean == 0) | np.isnan(after), np.nan, (after == 1).astype(np.float64))


@dataclass(frozen=True)
class FlipComparison:
    """Flips of one distractor, or of several together, under both protocols.

    Attributes:
        pairwise, pointwise: flip rate over the pairs with a strict clean loser under that protocol.
        test: pairwise minus pointwise rate over the pairs whose strict clean loser is the same under both, with the
            paired test; its `interval.n` is the third n.
        pairwise_net, pointwise_net: flips minus those of the placebo on the same pairs.
        net_test: the paired difference of the two net rates over the pairs of `test` that have a placebo.
    """

    pairwise: Interval
    pointwise: Interval
    test: PairedTest
    pairwise_net: Interval
    pointwise_net: Interval
    net_test: PairedTest

    @property
    def placebo_judged(self) -> bool:
        """Whether any pair of the paired test has a placebo."""
        return self.net_test.interval.n > 0

    @property
    def headline(self) -> PairedTest:
        """The test that a conclusion rests on: less the placebo's flips where a placebo was judged."""
        return self.net_test if self.placebo_judged else self.test


def compare_flips(
    pairwise: Floats,
    pointwise: Floats,
    same_loser: npt.NDArray[np.bool_],
    pairwise_placebo: Floats,
    pointwise_placebo: Floats,
    clusters: npt.NDArray[np.int64],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> FlipComparison:
    """Flip rates of both protocols, less the placebo's, and whether the protocols differ.

    Args:
        pairwise: `flipped` of each pair, shape [n].
        pointwise: the same under the other protocol.
        same_loser: whether both protocols have the same strict clean loser, shape [n].
        pairwise_placebo: `flipped` of the same pairs under the placebo, shape [n].
        pointwise_placebo: the same under the other protocol.
        clusters: the item of each pair, shape [n].
        level: confidence level in (0, 1).
        seed: of bootstraps and sign flips.
    """
    both = same_loser & ~np.isnan(pairwise) & ~np.isnan(pointwise)
    net_pairwise, net_pointwise = pairwise - pairwise_placebo, pointwise - pointwise_placebo
    return FlipComparison(
        cluster_rate(pairwise, clusters, level=level, seed=seed),
        cluster_rate(pointwise, clusters, level=level, seed=seed),
        mcnemar(pointwise[both], pairwise[both], clusters[both], level=level, seed=seed),
        cluster_mean(net_pairwise, clusters, level=level, seed=seed),
        cluster_mean(net_pointwise, clusters, level=level, seed=seed),
        paired_test((net_pairwise - net_pointwise)[both], clusters[both], level=level, seed=seed),
    )


def tie_credit(outcome: npt.ArrayLike, tie: float) -> Floats:
    """1 where the first wins, 0 where the second does, `tie` for a tie (0: a tie is wrong; 0.5: it is half right)."""
    x = np.asarray(outcome, dtype=np.float64)
    return np.where(np.isnan(x), np.nan, np.where(x == 0, tie, (x == 1).astype(np.float64)))

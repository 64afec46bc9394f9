"""Numbers of both protocols under one tie rule: flips, ties, preferences for the distracted copy, severity.

Everything is reduced from an `Arena`; no judge is asked. Paper 004, section 3 and 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import NONE, Protocol
from engine.stats.arena import Arena, same_rules
from engine.stats.intervals import Interval, cluster_rate
from engine.stats.paired import PairedTest, difference_of_rates, mcnemar, paired_test

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Average = Literal["probability", "logit"]
PROTOCOLS = (Protocol.PAIRWISE, Protocol.POINTWISE)
SEVERITIES = (1, 2, 3)
_EQUAL = 1e-9
_DIGITS = 9

# Who wins a comparison under either protocol, and whether a distracted loser now wins (paper 004, section 3).
#
# Outcomes are 1 where the first of a pair wins, -1 the second, 0 a tie and NaN where a verdict is unread.


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
        """True where any pair of the paired test has a placebo."""
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
        same_loser: true where both protocols have the same strict clean loser, shape [n].
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
        difference_of_rates(net_pairwise, clusters, level=level, seed=seed),
        difference_of_rates(net_pointwise, clusters, level=level, seed=seed),
        paired_test((net_pairwise - net_pointwise)[both], clusters[both], level=level, seed=seed),
    )


def tie_credit(outcome: npt.ArrayLike, tie: float) -> Floats:
    """1 where the first wins, 0 where the second does, `tie` for a tie (0: a tie is wrong; 0.5: it is half right)."""
    x = np.asarray(outcome, dtype=np.float64)
    return np.where(np.isnan(x), np.nan, np.where(x == 0, tie, (x == 1).astype(np.float64)))


@dataclass(frozen=True)
class View:
    """Rules for reading verdicts.

    Attributes:
        rule: when two scores are a tie.
        average: of the two orders, of their probabilities or their logits.
        level: confidence level in (0, 1).
        seed: of bootstraps and random orders.
    """

    rule: TieRule = field(default_factory=TieRule)
    average: Average = "probability"
    level: float = 0.95
    seed: int = 0


def outcomes(arena: Arena, protocol: Protocol, view: View, arm: str = NONE, side: str = "") -> Floats:
    """Outcome of every comparison of two systems, shape (I, P); NaN unread or not asked.

    Args:
        arena: the verdicts.
        protocol: pairwise, or pointwise turned into synthetic comparisons.
        view: rules for reading them.
        arm: the rewriting, or `none`.
        side: the rewritten one of the pair: `a`, `b`, `ab`, or empty. A rewriting that is not `usable` gives NaN.
    """
    first, second = (arm if name in side else NONE for name in ("a", "b"))
    allowed = arena.usable(first)[:, arena.pairs[:, 0]] & arena.usable(second)[:, arena.pairs[:, 1]]
    if protocol is Protocol.PAIRWISE:
        shares = arena.shares.get((arm, side))
        outcome = np.full(allowed.shape, np.nan) if shares is None else pairwise_outcome(shares, view.average)
    else:
        expected = _score(arena.expected, arena, first, 0) - _score(arena.expected, arena, second, 1)
        modal = _score(arena.modal, arena, first, 0) - _score(arena.modal, arena, second, 1)
        outcome = pointwise_outcome(expected, modal, view.rule)
    return np.where(allowed, outcome, np.nan)


def clean_gaps(arena: Arena) -> Floats:
    """Expected score of the first minus that of the second of every clean pair, shape (I, P)."""
    return _score(arena.expected, arena, NONE, 0) - _score(arena.expected, arena, NONE, 1)


def margin_like_pairwise(arena: Arena, view: View) -> float:
    """The tie margin at which clean pairs tie as often pointwise as pairwise; NaN where either is missing."""
    pairwise = outcomes(arena, Protocol.PAIRWISE, view)
    both = ~np.isnan(pairwise) & ~np.isnan(clean_gaps(arena))
    return matched_margin(clean_gaps(arena)[both], float((pairwise[both] == 0).mean()) if both.any() else np.nan)


def pair_flips(arena: Arena, protocol: Protocol, arm: str, view: View) -> Floats:
    """1 where the distracted clean loser now wins, shape (I, P); see `flipped`."""
    before = outcomes(arena, protocol, view)
    after_a, after_b = (outcomes(arena, protocol, view, arm, side) for side in ("a", "b"))
    return flipped(before, after_a, after_b)


def losers_left_out(arena: Arena, protocol: Protocol, arms: Sequence[str], view: View) -> int:
    """Clean losers whose rewriting was not kept or breaks or mends a rule, so that they take no part in flips."""
    before = outcomes(arena, protocol, view)
    count = 0
    for arm in arms:
        first, second = (arena.usable(arm)[:, arena.pairs[:, place]] for place in (0, 1))
        count += int(((before == 1) & ~second).sum() + ((before == -1) & ~first).sum())
    return count


def same_strict_loser(arena: Arena, view: View) -> npt.NDArray[np.bool_]:
    """True where both protocols have the same strict clean loser, shape (I, P)."""
    product = outcomes(arena, Protocol.PAIRWISE, view) * outcomes(arena, Protocol.POINTWISE, view)
    return np.asarray(product == 1)


def flips(arena: Arena, arms: Sequence[str], placebo: str, view: View) -> FlipComparison:
    """Flips of the arms together, against the placebo's on the same pairs.

    Args:
        arena: the verdicts.
        arms: distractors whose pairs are pooled; items stay the clusters.
        placebo: the arm of the neutral paraphrase; one that was not asked leaves the net rates without data.
        view: rules for reading the verdicts.
    """
    n = len(arms)
    styled = {p: np.concatenate([pair_flips(arena, p, arm, view) for arm in arms]).ravel() for p in PROTOCOLS}
    sham = {p: np.tile(pair_flips(arena, p, placebo, view), (n, 1)).ravel() for p in PROTOCOLS}
    return compare_flips(
        styled[Protocol.PAIRWISE],
        styled[Protocol.POINTWISE],
        np.tile(same_strict_loser(arena, view), (n, 1)).ravel(),
        sham[Protocol.PAIRWISE],
        sham[Protocol.POINTWISE],
        np.tile(arena.item_of_pair, (n, 1)).ravel(),
        level=view.level,
        seed=view.seed,
    )


def clean_tie_rate(arena: Arena, protocol: Protocol, view: View) -> Interval:
    """Share of clean pairs of two systems that tie."""
    return _rate(outcomes(arena, protocol, view) == 0, outcomes(arena, protocol, view), arena.item_of_pair, view)


def copy_outcomes(arena: Arena, protocol: Protocol, arm: str, view: View) -> Floats:
    """Original (1) against rewriting (-1) of the same response, 0 a tie, shape (I, S); NaN unread or not `usable`.

    In the arm `none` both texts are the same, so that averaging the orders makes a tie of whatever the judge says;
    there the verdict of one order counts, which is a tie only where the judge calls it one.
    """
    allowed = arena.usable(arm)
    if protocol is Protocol.PAIRWISE:
        shares = arena.copies.get(arm)
        if shares is None:
            outcome = np.full(allowed.shape, np.nan)
        else:
            outcome = slot_outcome(shares)[..., 0] if arm == NONE else pairwise_outcome(shares, view.average)
    elif arm in arena.expected:
        gap = arena.expected[NONE] - arena.expected[arm]
        outcome = pointwise_outcome(gap, arena.modal[NONE] - arena.modal[arm], view.rule)
    else:
        outcome = np.full(allowed.shape, np.nan)
    return np.where(allowed, outcome, np.nan)


@dataclass(frozen=True)
class CopyRates:
    """Original against rewriting, which fails the same format rules as far as any are known.

    Attributes:
        preferred: share in which the rewriting wins outright.
        half: the same with ties counting half.
        tied: share of ties.
    """

    preferred: Interval
    half: Interval
    tied: Interval


def copy_rates(arena: Arena, protocol: Protocol, arms: Sequence[str], view: View) -> CopyRates:
    """Rate at which a rewriting beats its original, arms pooled; in the arm `none` both texts are the same."""
    outcome = np.concatenate([copy_outcomes(arena, protocol, arm, view) for arm in arms])
    items = np.tile(_item_of_response(arena), (len(arms), 1))
    return CopyRates(
        _rate(outcome == -1, outcome, items, view),
        _rate(1 - tie_credit(outcome, 0.5), outcome, items, view),
        _rate(outcome == 0, outcome, items, view),
    )


@dataclass(frozen=True)
class LadderRow:
    """Accuracy at one severity: how often the response that keeps all rules beats the one that fails some.

    Attributes:
        severity: rules that the lower response fails.
        arm: the rewriting of the lower response, or `none`.
        protocol: pairwise or pointwise.
        strict: accuracy where a tie is wrong (the paper's reading).
        half: accuracy where a tie is half right.
        change: with the rewriting minus without, on the same pairs, ties half; NaN in the arm `none`.
        excluded: pairs left out since the rewriting was not kept or fails other rules than its original.
    """

    severity: int
    arm: str
    protocol: Protocol
    strict: Interval
    half: Interval
    change: PairedTest
    excluded: int


def ladder(arena: Arena, arms: Sequence[str], view: View) -> list[LadderRow]:
    """Accuracy by severity, arm and protocol; empty where the data say of no response which rules it keeps."""
    rows: list[LadderRow] = []
    for severity in SEVERITIES:
        for arm in (NONE, *arms):
            for protocol in PROTOCOLS:
                before, after, allowed = _ladder_outcomes(arena, protocol, severity, arm, view)
                if not len(before):
                    continue
                item = _ladder_items(arena, severity)
                change = tie_credit(after, 0.5) - tie_credit(before, 0.5)
                rows.append(
                    LadderRow(
                        severity,
                        arm,
                        protocol,
                        cluster_rate(tie_credit(after, 0.0), item, level=view.level, seed=view.seed),
                        cluster_rate(tie_credit(after, 0.5), item, level=view.level, seed=view.seed),
                        paired_test(change if arm != NONE else change * np.nan, item, level=view.level, seed=view.seed),
                        int((~allowed).sum()),
                    )
                )
    return rows


def first_slot(arena: Arena, view: View) -> Interval:
    """Share of clean comparisons, order by order, that the response shown first wins; ties half."""
    by_order = slot_outcome(arena.shares[NONE, ""])
    return _rate((by_order * np.array([1.0, -1.0]) + 1) / 2, by_order, _in_both_orders(arena), view)


def order_disagreement(arena: Arena, view: View) -> Interval:
    """Share of clean comparisons whose two orders give different outcomes."""
    by_order = slot_outcome(arena.shares[NONE, ""])
    return _rate(by_order[..., 0] != by_order[..., 1], by_order.sum(axis=-1), arena.item_of_pair, view)


def preference_strength(arena: Arena, view: View) -> Interval:
    """Mean of |P(a) - P(b)| over clean comparisons, averaged over both orders: 0 no preference, 1 certainty."""
    mean = arena.shares[NONE, ""].mean(axis=-2)
    return _rate(np.abs(mean[..., 0] - mean[..., 1]), mean[..., 0], arena.item_of_pair, view)


def _ladder_pairs(arena: Arena, severity: int) -> npt.NDArray[np.bool_]:
    """True where one response keeps all rules and the other fails `severity`: high first, high second; (2, I, P)."""
    first, second = arena.severity[:, arena.pairs[:, 0]], arena.severity[:, arena.pairs[:, 1]]
    return np.stack([(first == 0) & (second == severity), (second == 0) & (first == severity)])


def _ladder_items(arena: Arena, severity: int) -> Ints:
    return np.concatenate([arena.item_of_pair[mask] for mask in _ladder_pairs(arena, severity)])


def _ladder_outcomes(
    arena: Arena, protocol: Protocol, severity: int, arm: str, view: View
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Outcome of high (1) against low before and after, and whether the rewriting of the low one may enter."""
    before, after, allowed = [], [], []
    for mask, sign, low in zip(_ladder_pairs(arena, severity), (1, -1), (1, 0), strict=True):
        side = "" if arm == NONE else "ab"[low]
        before.append(sign * outcomes(arena, protocol, view)[mask])
        after.append(sign * outcomes(arena, protocol, view, arm, side)[mask])
        allowed.append(arena.usable(arm)[:, arena.pairs[:, low]][mask])
    return np.concatenate(before), np.concatenate(after), np.concatenate(allowed)


def _score(scores: Mapping[str, Floats], arena: Arena, arm: str, place: int) -> Floats:
    cells = scores.get(arm, np.full(arena.severity.shape, np.nan))
    return np.asarray(cells[:, arena.pairs[:, place]])


def _item_of_response(arena: Arena) -> Ints:
    return np.repeat(np.arange(len(arena.items)), len(arena.systems)).reshape(arena.severity.shape)


def _in_both_orders(arena: Arena) -> Ints:
    return np.repeat(arena.item_of_pair[..., None], 2, axis=-1)


def _rate(events: npt.ArrayLike, read: Floats, items: Ints, view: View) -> Interval:
    """Share of events among what was read."""
    values = np.where(np.isnan(read), np.nan, np.asarray(events, dtype=np.float64))
    return cluster_rate(values.ravel(), items.ravel(), level=view.level, seed=view.seed)


# Judge calls of study `protocols` without a usable answer, arm by arm, and a test for a difference of arms.


@dataclass(frozen=True)
class Calls:
    """Judge calls of one kind in one arm.

    Attributes:
        kind: pairwise, pointwise or ranking; `copies` for comparisons of a response with itself or its rewriting.
        arm: the rewriting, or `none`.
        asked: all of them.
        unread: those without a usable answer.
    """

    kind: str
    arm: str
    asked: int
    unread: int

    @property
    def share(self) -> float:
        """Share without a usable answer, in [0, 1]."""
        return self.unread / self.asked


def calls_by_arm(arena: Arena) -> list[Calls]:
    """Every kind and arm that was asked, in the order of the run."""
    return [Calls(kind, arm, n, unread_in(arena, (kind,), (arm,))) for (kind, arm), n in arena.asked.items()]


def unread_in(arena: Arena, kinds: Collection[str], arms: Collection[str]) -> int:
    """Calls of these kinds and arms without a usable answer."""
    return sum(n for (kind, arm, _), n in arena.unread.items() if kind in kinds and arm in arms)


def unread_warning(calls: Collection[Calls]) -> str:
    """A warning where the arms of one kind lost different shares of their calls; empty where none does."""
    said = []
    for kind in dict.fromkeys(one.kind for one in calls):
        ranked = sorted((one for one in calls if one.kind == kind), key=lambda one: one.share)
        if ranked[0].share != ranked[-1].share:
            said.append(f"{kind} lost {_lost(ranked[-1])}, {_lost(ranked[0])}")
    return (
        f"Arms differ in unread verdicts: {'; '.join(said)}. Their numbers are of different responses." if said else ""
    )


def _lost(one: Calls) -> str:
    return f"{100 * one.share:.3g} % in the arm {one.arm} ({one.unread:,} of {one.asked:,})"


# Content checks of a run's rewritings: numbers kept, and reasons for the others.

COLUMNS = ("style", "rewriter", "n", "kept", "length_ratio", "left_out", "rules_changed")


def content_checks(variants: pd.DataFrame) -> pd.DataFrame:
    """One row for each style of the table `variants`, originals left out.

    Returns:
        style, rewriter, n (rewritings), kept (those whose text changed and lost nothing), length_ratio (median of new
        over old words), left_out ("numbers changed: 3; the text did not change: 1", most frequent first), rules_changed
        (kept ones that fail other format rules than their original, so that no number rests on them).
    """
    rows = []
    made = variants[variants["style"] != NONE]
    for (style, rewriter), group in made.groupby(["style", "rewriter"], sort=False):
        why: Counter[str] = Counter()
        for reasons in group.loc[group["kept"] == 0, "reasons"].fillna("no reason given"):
            why.update({part.split(":")[0].strip() for part in str(reasons).split(";")})
        rows.append(
            {
                "style": str(style),
                "rewriter": str(rewriter),
                "n": len(group),
                "kept": int(group["kept"].sum()),
                "length_ratio": float(group["length_ratio"].median()),
                "left_out": "; ".join(f"{reason}: {n}" for reason, n in why.most_common()),
                "rules_changed": sum(row.kept == 1 and not same_rules(row) for row in group.itertuples(index=False)),
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))

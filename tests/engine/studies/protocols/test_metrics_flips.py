"""Outcomes, ties and flips, from cases worked by hand and from identities; contradictions from counting."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.studies.protocols.leaderboard import RANDOM_CYCLES, choice_set_sensitivity, reversals, triads
from engine.studies.protocols.metrics import (
    TieRule,
    compare_flips,
    flipped,
    matched_margin,
    pairwise_outcome,
    pointwise_outcome,
    slot_outcome,
    tie_credit,
)

PAIRS3 = np.array([[0, 1], [0, 2], [1, 2]])


@pytest.mark.parametrize(
    ("ab", "ba", "expected"),
    [
        ((0.6, 0.3, 0.1), (0.5, 0.4, 0.1), 1),
        ((0.9, 0.1, 0.0), (0.1, 0.9, 0.0), 0),  # a judge that names the first slot outright
        ((0.3, 0.3, 0.4), (0.3, 0.3, 0.4), 0),
        ((0.2, 0.7, 0.1), (0.4, 0.5, 0.1), -1),
        ((0.2, 0.7, 0.1), (np.nan, np.nan, np.nan), np.nan),
    ],
)
def test_both_orders_are_averaged_and_the_largest_wins(ab, ba, expected):
    assert np.array_equal(pairwise_outcome([[ab, ba]])[0], expected, equal_nan=True)


def test_averaged_logits_can_decide_otherwise():
    shares = [[(0.98, 0.01, 0.01), (0.2, 0.7, 0.1)]]
    assert pairwise_outcome(shares)[0] == 1
    flat = [[(0.999, 0.0009, 0.0001), (0.0001, 0.6, 0.3999)]]
    assert pairwise_outcome(flat)[0] == 1
    assert pairwise_outcome(flat, "logit")[0] == -1
    assert slot_outcome(flat)[0].tolist() == [1, -1]


def test_tie_rules_of_scores():
    gaps, modal = [0.0, 0.3, -0.3, 1.2, np.nan], [0.0, 1.0, 0.0, 1.0, np.nan]
    assert pointwise_outcome(gaps, modal, TieRule()).tolist()[:4] == [0, 1, 0, 1]
    assert pointwise_outcome(gaps, modal, TieRule(0.3)).tolist()[:4] == [0, 0, 0, 1]
    assert pointwise_outcome(gaps, modal, TieRule(0.0)).tolist()[:4] == [0, 1, -1, 1]
    assert all(np.isnan(pointwise_outcome(gaps, modal, rule)[4]) for rule in (TieRule(), TieRule(0.3)))
    with pytest.raises(InputError, match="tie margin is -1"):
        TieRule(-1)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.34, 1.0])
def test_a_matched_margin_ties_as_often(rate):
    gaps = np.random.default_rng(0).normal(size=200)
    margin = matched_margin(gaps, rate)
    tied = (pointwise_outcome(gaps, gaps, TieRule(margin)) == 0).mean()
    assert tied == pytest.approx(rate, abs=0.5 / 200 + 1e-9)
    assert np.isnan(matched_margin([], 0.5))


@pytest.mark.parametrize(
    ("before", "after_a", "after_b", "expected"),
    [
        (1, 9, -1, 1),  # b lost, is distracted and wins
        (1, 9, 0, 0),  # a tie is no flip
        (1, -1, 1, 0),
        (-1, 1, 9, 1),
        (-1, -1, 9, 0),
        (0, 1, 1, np.nan),  # a tie has no loser
        (np.nan, 1, 1, np.nan),
        (1, 1, np.nan, np.nan),
    ],
)
def test_a_flip_is_a_distracted_loser_that_wins(before, after_a, after_b, expected):
    assert np.array_equal(flipped([before], [after_a], [after_b])[0], expected, equal_nan=True)


def test_the_paired_test_runs_where_the_loser_is_the_same():
    n = 40
    pairwise = np.array([1.0] * 20 + [0.0] * 20)
    pointwise = np.array([1.0] * 4 + [0.0] * 26 + [np.nan] * 10)
    same = np.array([True] * 30 + [False] * 10)
    placebo = np.array([1.0] * 5 + [0.0] * 35)
    found = compare_flips(pairwise, pointwise, same, placebo, np.zeros(n), np.arange(n))
    assert (found.pairwise.n, found.pointwise.n, found.test.interval.n) == (40, 30, 30)
    assert found.pairwise.value == 0.5
    assert (found.test.only_first, found.test.only_second) == (0, 16)
    assert found.test.p_value == pytest.approx(2 * 0.5**16)
    assert found.pairwise_net.value == pytest.approx(0.5 - 5 / 40)
    assert found.pointwise_net.value == pytest.approx(4 / 30)
    # in the common rows: (20 - 5) / 30 against 4 / 30
    assert found.net_test.interval.value == pytest.approx(11 / 30)


def test_ties_are_wrong_or_half_right():
    assert tie_credit([1, 0, -1], 0.0).tolist() == [1, 0, 0]
    assert tie_credit([1, 0, -1], 0.5).tolist() == [1, 0.5, 0]


def test_triads_counted_by_hand():
    rows = np.array(list(product((-1.0, 0.0, 1.0), repeat=3)))
    found = triads(rows, PAIRS3, 3)
    assert found.cyclic.value == pytest.approx(2 / 27)
    # of the 27 outcomes 6 orders are whole; a chain with its ends reversed: 2; a chain whose ends tie: 6
    assert found.intransitive.value == pytest.approx(8 / 27)
    assert len(found.cases) == 8
    assert sum(case[4] for case in found.cases) == 2


def test_coin_tosses_make_circles_in_a_quarter_of_triads():
    rows = np.array(list(product((-1.0, 1.0), repeat=3)))
    assert triads(rows, PAIRS3, 3).cyclic.value == RANDOM_CYCLES
    rows[0, 0] = np.nan
    assert triads(rows, PAIRS3, 3).cyclic.n == 7
    assert np.isnan(triads(rows[:0], PAIRS3, 3).cyclic.value)


def test_scores_make_no_circles():
    score = np.random.default_rng(1).normal(size=(50, 5))
    pairs = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)])
    found = triads(np.sign(score[:, pairs[:, 0]] - score[:, pairs[:, 1]]), pairs, 5)
    assert found.intransitive.value == 0
    assert found.intransitive.upper < 0.08
    assert found.cases == ()


def test_a_reversal_needs_two_decided_orders():
    assert np.array_equal(reversals([1, 1, -2, 0, np.nan], [1, -1, 1, 1, 1]), [0, 1, 1, np.nan, np.nan], equal_nan=True)
    assert choice_set_sensitivity([1, 1, -1], [1, -1, -1], [0, 1, 2]).value == pytest.approx(1 / 3)

"""Reductions against brute force, scipy and the paper's own arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stats.auc import auc, cohens_d
from engine.studies.refswap.scores import (
    Samples,
    accuracy,
    calibrate,
    cost,
    decide,
    dev_items,
    frontier,
    max_p_cf,
    pareto,
    planted_auc,
    s_score,
)

UNIT = st.floats(0, 1).map(lambda x: round(x, 2))


def samples(rng, n=40, k=4, keys=2):
    p = rng.random(n).round(2)
    asked = np.repeat((p >= 0.5)[:, None], k, axis=1)
    cf = np.where(asked, rng.random((n, k)).round(2), np.nan)
    key = rng.integers(-1, keys, n)
    return Samples(
        p=p,
        cf=cf,
        asked=asked,
        right=(rng.random(n) < 0.5) & (key < 0),
        key=key,
        item=rng.integers(0, 9, n),
        length=rng.integers(1, 60, n),
        dev=rng.random(n) < 0.3,
        tokens=np.full(n, 100.0),
        fresh=np.where(asked, 10.0, np.nan),
    )


def test_cohens_d_is_undefined_without_spread_or_a_second_score():
    assert np.isnan(cohens_d(np.array([0.8, 0.9]), np.array([0.5])))
    assert np.isnan(cohens_d(np.array([1.0, 1.0]), np.array([1.0, 1.0])))


def test_cohens_d_of_a_textbook_pair():
    # means 5 and 3, both variances 2.5, so the pooled deviation is sqrt(2.5)
    assert cohens_d(np.arange(3.0, 8), np.arange(1.0, 6)) == pytest.approx(2 / np.sqrt(2.5))


@pytest.mark.slow
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0]))
def test_calibration_is_the_largest_of_all_thresholds(seed, delta):
    s = samples(np.random.default_rng(seed))
    yes, score = s.yes(), max_p_cf(s, 3)
    found = calibrate(score, yes, s.right, delta)
    grid = np.unique(np.concatenate([np.linspace(0, 1, 1001), score[yes == 1]]))
    fits = [g for g in grid if accuracy(decide(yes, score, g), s.right) >= accuracy(yes, s.right) - delta - 1e-9]
    assert found.value == max(fits)
    assert found.accuracy_after == pytest.approx(accuracy(decide(yes, score, found.value), s.right))


def test_ties_at_gamma_pass_and_the_papers_grid_would_miss_the_breakpoint():
    yes, right = np.ones(4), np.array([True, True, True, False])
    score = np.array([0.005, 0.3, 0.3, 0.001])
    assert calibrate(score, yes, right, 0.0).value == 0.3  # rejecting the false positive pays for one right answer
    assert decide(yes, score, 0.005).tolist() == [1, 1, 1, 0]
    best = calibrate(score[:3], yes[:3], right[:3], 0.0)
    assert best.value == 0.005  # a grid of 0.01 steps could only say 0


def test_nothing_read_gives_no_threshold():
    nothing = calibrate(np.array([np.nan]), np.array([np.nan]), np.array([True]), 0.02)
    assert np.isnan(nothing.value)
    assert nothing.n == 0


@given(st.integers(0, 10_000))
def test_a_smaller_k_only_reduces_what_is_stored(seed):
    s = samples(np.random.default_rng(seed))
    for k in range(1, 5):
        expected = [max(row[:k]) if a.any() else np.nan for row, a in zip(s.cf, s.asked, strict=True)]
        np.testing.assert_array_equal(max_p_cf(s, k), expected)
        assert np.all((max_p_cf(s, k) <= max_p_cf(s, 4)) | np.isnan(max_p_cf(s, 4)))


def test_an_unread_check_is_no_answer():
    s = samples(np.random.default_rng(0), n=3)
    cf, asked = np.array([[0.9, np.nan], [0.1, 0.2], [np.nan, np.nan]]), np.array([[1, 1], [1, 1], [0, 0]], dtype=bool)
    s = Samples(**{**vars(s), "p": np.array([0.9, 0.9, 0.2]), "cf": cf, "asked": asked})
    assert np.isnan(max_p_cf(s, 2)).tolist() == [True, False, True]
    verdicts = decide(s.yes(), max_p_cf(s, 2), 0.15)
    assert np.isnan(verdicts[0])
    assert verdicts[1:].tolist() == [1, 0]
    assert s_score(s)[:2].tolist() == pytest.approx([0.0, 0.8])


@given(st.integers(0, 10_000))
def test_every_point_of_the_frontier_is_what_deciding_gives(seed):
    s = samples(np.random.default_rng(seed))
    yes, score = s.yes(), max_p_cf(s, 4)
    line = frontier(s, score, yes)
    for i in range(0, len(line.cut), 5):
        verdicts = decide(yes, score, line.cut[i])
        clean = s.clean
        if clean.any():
            assert line.accuracy[i] == pytest.approx(accuracy(verdicts[clean], s.right[clean]))
        rates = [verdicts[s.key == j].mean() for j in range(s.key.max() + 1) if (s.key == j).any()]
        if rates:
            assert line.fpr[i] == pytest.approx(np.mean(rates))
            assert line.worst[i] == pytest.approx(max(rates))


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=25))
def test_pareto_against_all_pairs(points):
    gain, loss = (np.array(x) for x in zip(*points, strict=True))
    beaten = [
        any((g >= gain[i] and c <= loss[i]) and (g > gain[i] or c < loss[i]) for g, c in points)
        for i in range(len(points))
    ]
    assert pareto(gain, loss).tolist() == [not b for b in beaten]


def test_the_papers_cost():
    n = 1000
    p = np.where(np.arange(n) < 292, 0.9, 0.1)
    asked = np.repeat((p > 0.5)[:, None], 5, axis=1)
    one = np.ones(n)
    s = Samples(
        p=p,
        cf=np.where(asked, 0.1, np.nan),
        asked=asked,
        right=p > 0.5,
        key=-one.astype(int),
        item=np.arange(n),
        length=one.astype(int),
        dev=p > 2,
        tokens=100 * one,
        fresh=np.where(asked, 8.0, np.nan),
    )
    found = cost(s, s.yes(), 5, s.clean)
    assert found.passes == pytest.approx(2.46)  # appendix A: 29.2 % of samples are YES
    assert found.accepted_tokens_ratio == pytest.approx(1.4)
    assert found.tokens_ratio == pytest.approx(1 + 0.292 * 0.4)


@pytest.mark.parametrize(
    ("a", "b", "k", "truth"), [(1, 1, 5, 0.5), (1, 0.5, 1, 0.75), (0.5, 1, 2, 0.125), (0, 0, 5, 0.5)]
)
def test_the_planted_auc_by_simulation(a, b, k, truth):
    rng = np.random.default_rng(0)
    x, y = (scale * rng.random((200_000, k)).max(axis=1) for scale in (a, b))
    assert planted_auc(a, 1 - b, k) == pytest.approx(truth)
    assert auc(x[:4000], y[:4000]) == pytest.approx(truth, abs=0.02)


def test_the_split_is_seeded_and_whole_items():
    items = [f"q{i // 3}" for i in range(90)]
    dev = dev_items(items)
    assert len(dev) == 6
    assert dev == dev_items(list(reversed(items)))
    assert dev != dev_items(items, seed=7)
    assert dev_items(["only"]) == frozenset()


def test_a_verifier_that_accepts_nothing_leaves_nothing_to_check():
    none = samples(np.random.default_rng(0), n=5, k=0)
    assert np.isnan(s_score(none)).all()
    assert np.isnan(max_p_cf(none, 5)).all()

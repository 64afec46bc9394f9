"""The AUC against scipy and scikit-learn, and intervals of AUC and Cohen's d against the jackknife."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

from engine.stats.auc import auc, auc_bounds, auc_parts, cohens_d, d_bounds, separation_bounds
from engine.stats.intervals import wilson

UNIT = st.floats(0, 1).map(lambda x: round(x, 2))


@given(st.lists(UNIT, min_size=1, max_size=30), st.lists(UNIT, min_size=1, max_size=30))
def test_auc_is_mann_whitney(high, low):
    u = mannwhitneyu(high, low, method="asymptotic").statistic
    assert auc(np.array(high), np.array(low)) == pytest.approx(u / (len(high) * len(low)))


def test_auc_is_signed_and_undefined_without_a_class():
    low, high = np.array([0.1, 0.2]), np.array([0.8, 0.9])
    assert auc(high, low) == 1
    assert auc(low, high) == 0
    assert np.isnan(auc(high, np.array([])))


def test_a_score_that_is_missing_is_left_out_and_infinite_ones_tie():
    assert auc(np.array([0.9, np.nan, 0.1]), np.array([0.5, np.nan])) == 0.5
    assert auc(np.array([np.inf, np.inf]), np.array([np.inf])) == 0.5


def test_auc_agrees_with_scikit_learn_also_with_ties():
    rng = np.random.default_rng(7)
    score, y = np.round(rng.random(80), 1), rng.integers(0, 2, 80).astype(bool)
    assert auc(score[y], score[~y]) == pytest.approx(roc_auc_score(y, score))


def groups(seed, items, each):
    """Scores of two groups with the item of each; items differ."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), each)
    own = rng.normal(size=items)[item]
    return own + rng.normal(size=len(item)) + 1, own + rng.normal(size=len(item)), item


def test_what_items_add_is_what_leaving_one_out_says():
    """The infinitesimal jackknife against the ordinary one, with which it agrees where no item weighs much."""
    high, low, item = groups(3, 120, 3)
    value, parts = auc_parts(high, item, low, item, 120)
    assert value == pytest.approx(auc(high, low))
    assert parts.sum() == pytest.approx(0, abs=1e-12)
    left_out = np.array([auc(high[item != i], low[item != i]) for i in range(120)])
    assert np.corrcoef(parts, value - left_out)[0, 1] > 0.99
    half = np.sqrt(119 / 120 * ((left_out - left_out.mean()) ** 2).sum()) * 1.98
    lower, upper = auc_bounds(value, parts)
    assert upper - lower == pytest.approx(2 * half, rel=0.05)
    ds = np.array([cohens_d(high[item != i], low[item != i]) for i in range(120)])
    lower, upper = d_bounds(high, item, low, item, 120)
    assert upper - lower == pytest.approx(2 * 1.98 * np.sqrt(119 / 120 * ((ds - ds.mean()) ** 2).sum()), rel=0.05)
    assert lower < cohens_d(high, low) < upper


def test_bounds_mirror_when_the_groups_change_places():
    high, low, item = groups(4, 9, 2)
    forth, back = (auc_bounds(*auc_parts(a, item, b, item, 9)) for a, b in ((high, low), (low, high)))
    assert forth == pytest.approx((1 - back[1], 1 - back[0]))
    forth, back = d_bounds(high, item, low, item, 9), d_bounds(low, item, high, item, 9)
    assert forth == pytest.approx((-back[1], -back[0]))


def test_full_separation_is_bounded_by_wilson():
    assert separation_bounds(0.0, 12) == (0.0, wilson(0, 12).upper)
    assert separation_bounds(1.0, 12) == (1 - wilson(0, 12).upper, 1.0)

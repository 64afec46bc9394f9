"""The AUC against scipy and scikit-learn, and its sums by item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from sklearn.metrics import roc_auc_score

from engine.stats.auc import auc, auc_by_item, separation_bounds, weighted_auc
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


def test_auc_agrees_with_scikit_learn_also_with_ties_and_weights():
    rng = np.random.default_rng(7)
    score, y, w = (
        np.round(rng.random(80), 1),
        rng.integers(0, 2, 80).astype(float),
        rng.integers(0, 4, 80).astype(float),
    )
    assert weighted_auc(score, y) == pytest.approx([roc_auc_score(y, score)])
    both = weighted_auc(score, y, np.stack([w, np.ones(80)]))
    assert both == pytest.approx([roc_auc_score(y, score, sample_weight=w), roc_auc_score(y, score)])
    some = np.where(rng.random(80) < 0.2, np.nan, y)
    assert weighted_auc(score, some) == pytest.approx(weighted_auc(score, y), abs=0.15)
    assert np.isnan(weighted_auc(score, np.ones(80)))


def test_item_sums_give_the_auc_back():
    rng = np.random.default_rng(3)
    high, low = rng.random(30).round(1), rng.random(50).round(1)
    wins, ups, downs = auc_by_item(high, rng.integers(0, 7, 30), low, rng.integers(0, 7, 50), 7)
    assert wins.sum() / (ups.sum() * downs.sum()) == pytest.approx(auc(high, low))


def test_full_separation_is_bounded_by_wilson():
    assert separation_bounds(0.0, 12) == (0.0, wilson(0, 12).upper)
    assert separation_bounds(1.0, 12) == (1 - wilson(0, 12).upper, 1.0)

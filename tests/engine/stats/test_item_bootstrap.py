from __future__ import annotations

import numpy as np
import pytest

from engine.stats.intervals import (
    NO_DATA,
    NO_VARIATION,
    ONE_CLUSTER,
    WILSON_CLUSTERS,
    ItemBootstrap,
    cluster_mean,
    wilson,
)


@pytest.mark.parametrize("g", [12, 40, 200])
def test_intervals_are_those_of_the_intervals_module(g):
    rng = np.random.default_rng(g)
    items = np.repeat(np.arange(g), 3)
    values = (rng.random(g)[items] + 0.3 * rng.random(3 * g) > 0.6).astype(float)
    ours = ItemBootstrap(items, 1).mean(values)
    theirs = cluster_mean(values, items, seed=1)
    assert ours.value == pytest.approx(theirs.value)
    width = theirs.upper - theirs.lower
    assert ours.lower == pytest.approx(theirs.lower, abs=0.15 * width)
    assert ours.upper == pytest.approx(theirs.upper, abs=0.15 * width)
    assert (ours.n, ours.n_items) == (3 * g, g)


@pytest.mark.parametrize("g", [12, 30, 100])
def test_intervals_cover_the_truth_as_often_as_they_say(g):
    rng = np.random.default_rng(100 + g)
    hits = 0
    boot = ItemBootstrap(np.repeat(np.arange(g), 2), 3)
    for _ in range(300):
        values = np.repeat(rng.normal(0, 1, g), 2) + rng.normal(0, 0.5, 2 * g)
        found = boot.mean(values, share=False)
        hits += found.lower <= 0 <= found.upper
    assert 0.91 <= hits / 300 <= 0.985


@pytest.mark.parametrize("g", [3, 5, 8, 12, 30])
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_intervals_of_right_and_wrong_cover_the_rate_also_where_few_items_agree(g, rate):
    """Agreement is binary: with few items all are often alike, and a width of zero would miss every time."""
    rng = np.random.default_rng(7 * g)
    boot, hits = ItemBootstrap(np.repeat(np.arange(g), 2), 3), 0
    for _ in range(400):
        found = boot.mean(np.repeat((rng.random(g) < rate).astype(float), 2))
        assert found.upper - found.lower > 0.01
        hits += found.lower - 1e-9 <= rate <= found.upper + 1e-9
    assert hits / 400 >= 0.91


@pytest.mark.parametrize("level", [0.8, 0.95, 0.995])
def test_every_level_widens_by_its_own_quantile(level):
    rng = np.random.default_rng(11)
    boot, hits = ItemBootstrap(np.arange(6), 5), 0
    for _ in range(600):
        found = boot.mean(rng.normal(0, 1, 6), level, share=False)
        hits += found.lower <= 0 <= found.upper
    assert hits / 600 == pytest.approx(level, abs=0.035)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_items_that_all_agree_have_wilsons_bound_and_no_width_of_zero(share):
    found = ItemBootstrap(np.repeat(np.arange(5), 2), 0).mean(np.full(10, share))
    bound = wilson(5 * share, 5)
    assert found == (share, pytest.approx(bound.lower), pytest.approx(bound.upper), 10, 5, WILSON_CLUSTERS)


def test_where_nothing_varies_and_no_event_bounds_it_there_are_no_bounds():
    boot = ItemBootstrap(np.repeat(np.arange(5), 2), 0)
    for values, share in ((np.zeros(10), False), (np.full(10, 0.5), True)):
        found = boot.mean(values, share=share)
        assert np.isnan([found.lower, found.upper]).all()
        assert found.method == NO_VARIATION


def test_means_of_nothing_and_of_one_item_have_no_bounds():
    boot = ItemBootstrap(["x", "x", "y"], 0)
    nothing = boot.mean(np.full(3, np.nan))
    assert np.isnan(nothing.value)
    assert nothing.method == NO_DATA
    value, low, high, n, g, method = boot.mean(np.array([1.0, 0.0, np.nan]))
    assert (value, n, g, method) == (0.5, 2, 1, ONE_CLUSTER)
    assert np.isnan([low, high]).all()


def test_a_mean_of_splits_is_their_mean_counts_each_pair_once_and_resamples_items():
    boot = ItemBootstrap([f"i{k // 2}" for k in range(40)], 0)
    rng = np.random.default_rng(2)
    truth = (rng.random(40) < 0.7).astype(float)
    splits = [np.sort(rng.choice(40, 25, replace=False)) for _ in range(4)]
    found = boot.mean_of_splits([(pairs, truth[pairs]) for pairs in splits])
    assert found.value == pytest.approx(np.mean([truth[pairs].mean() for pairs in splits]))
    assert found.n == len(set(np.concatenate(splits).tolist()))
    assert found.lower < found.value < found.upper
    whole = boot.mean_of_splits([(np.arange(40), truth)])
    assert whole[:5] == pytest.approx(boot.mean(truth, share=False)[:5])
    alike = boot.mean_of_splits([(pairs, np.ones(25)) for pairs in splits])
    assert alike.lower == pytest.approx(wilson(alike.n_items, alike.n_items).lower)
    unknown = boot.mean_of_splits([(np.arange(3), np.full(3, np.nan))])
    assert np.isnan(unknown.value)
    assert unknown.n == 0

"""Simulated coverage of the 95% intervals at 6 to 100 clusters: where they hold, and how much they reach elsewhere."""

import numpy as np
import pytest

from engine.bench.coverage import CORRELATIONS, measure
from engine.stats.intervals import ItemBootstrap, cluster_mean, cluster_rate

SIMULATIONS = 1000
LOOPED = {6: 1000, 12: 1000, 30: 300, 100: 300}
"""Simulations of `cluster_mean`, which takes one sample at a time, by number of clusters."""


def samples(kind: str, codes: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Samples (SIMULATIONS, n) of clustered rows, and the mean that they are drawn around."""
    rng = np.random.default_rng(seed)
    shape = (SIMULATIONS, int(codes.max()) + 1)
    noise = rng.normal(size=(SIMULATIONS, len(codes)))
    if kind == "skewed":
        return rng.exponential(size=shape)[:, codes] + 0.5 * noise, 1.0
    if kind == "binary":
        return (rng.random(noise.shape) < rng.beta(2, 2, size=shape)[:, codes]).astype(float), 0.5
    return rng.normal(size=shape)[:, codes] + noise, 0.0


def covered(kind: str, g: int, *, equal: bool = True) -> tuple[float, float]:
    """Share of the intervals of `cluster_mean` and of `ItemBootstrap` that hold the mean."""
    codes = np.repeat(np.arange(g), 3 if equal else 1 + np.arange(g) % 5)
    values, mean = samples(kind, codes, g)
    items = ItemBootstrap(codes, 1).means(list(values), shares=[kind == "binary"] * SIMULATIONS)
    looped = [cluster_mean(one, codes) for one in values[: LOOPED[g]]]
    one, other = (float(np.mean([i.lower <= mean <= i.upper for i in held])) for held in (looped, items))
    return one, other


@pytest.mark.parametrize("g", [6, 12, 30, 100])
def test_intervals_hold_for_clusters_of_one_size(g):
    assert all(0.93 <= share <= 0.98 for share in covered("normal", g))


@pytest.mark.parametrize("g", [6, 12])
def test_intervals_hold_for_events_in_few_clusters(g):
    mean, rate = covered("binary", g)
    assert 0.93 <= mean <= 0.98
    assert 0.93 <= rate <= 0.995  # three rows of an item give few shares to choose from


@pytest.mark.parametrize("g", [6, 12])
def test_intervals_hold_for_few_clusters_of_unequal_size(g):
    assert all(0.93 <= share <= 0.98 for share in covered("normal", g, equal=False))


def test_few_skewed_clusters_are_covered_less_often_than_said():
    """Exponential cluster effects: 0.90 at 6, 0.92 at 12 and 0.93 at 30 clusters in 8,000 simulations, for both."""
    for g, low, high in ((6, 0.88, 0.925), (12, 0.90, 0.945)):
        assert all(low <= share <= high for share in covered("skewed", g))


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("items", [6, 12, 30])
@pytest.mark.parametrize("name", ["rate 0.01", "rate 0.05", "rate 0.10", "AUC 0.96", "Cohen's d"])
def test_rare_events_and_separated_scores_are_covered(name, items, correlation):
    """300 samples; the standard error of a share of 0.95 is 0.013."""
    assert measure(name, items, correlation, repetitions=300).covered >= 0.92


def test_more_events_never_bring_the_bound_far_below_that_of_none():
    """12 items of 15 rows: one event must not make the rate look better known than no event does."""
    item = np.repeat(np.arange(12), 15)
    uppers = [cluster_rate((np.arange(180) < k).astype(float), item).upper for k in range(16)]
    assert min(uppers[1:]) > 0.75 * uppers[0]
    assert (np.diff(uppers[1:]) > -0.02).all()

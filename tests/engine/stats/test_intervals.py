"""Truth from outside: textbook formulas, scipy, a second method, and simulations with a known mean."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from engine.core.errors import InputError
from engine.stats.intervals import cluster_codes, cluster_mean, cluster_rate, cluster_ratio, wilson


def test_equal_clusters_give_the_t_interval_on_cluster_means():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(9, 4)) + rng.normal(size=(9, 1))
    got = cluster_mean(values.ravel(), np.repeat(np.arange(9), 4))
    low, high = stats.t.interval(0.95, 8, loc=values.mean(), scale=stats.sem(values.mean(axis=1)))
    assert (got.lower, got.upper) == pytest.approx((low, high), rel=1e-12)
    assert (got.value, got.n, got.n_clusters) == (pytest.approx(values.mean()), 36, 9)


def test_one_row_per_cluster_is_the_plain_t_interval():
    values = np.array([1.0, 2.5, 2.0, 4.0, 3.5])
    got = cluster_mean(values, list("abcde"), level=0.9)
    low, high = stats.t.interval(0.9, 4, loc=values.mean(), scale=stats.sem(values))
    assert (got.lower, got.upper) == pytest.approx((low, high), rel=1e-12)


def test_degrees_of_freedom_match_the_matrix_definition():
    """Bell and McCaffrey's B built from the full residual maker, for sizes 1..6."""
    sizes = np.arange(1, 7)
    n = sizes.sum()
    codes = np.repeat(np.arange(6), sizes)
    maker = np.eye(n) - 1 / n
    b = np.zeros((n, n))
    for g, size in enumerate(sizes):
        p = maker[:, codes == g].sum(axis=1) / math.sqrt(1 - size / n)
        b += np.outer(p, p)
    df = np.trace(b) ** 2 / np.trace(b @ b)
    values = np.random.default_rng(0).normal(size=n)
    got = cluster_mean(values, codes)
    totals = np.bincount(codes, weights=values - values.mean())
    se = math.sqrt((totals**2 / (1 - sizes / n)).sum()) / n
    assert got.upper - got.value == pytest.approx(stats.t.ppf(0.975, df) * se, rel=1e-10)
    assert df < 5


def _draw(rng, n_clusters, informative):
    """Sizes 1..8, within-cluster correlation 0.5; `informative`: larger clusters have larger means."""
    sizes = rng.integers(1, 9, n_clusters)
    codes = np.repeat(np.arange(n_clusters), sizes)
    effects = rng.normal(0, math.sqrt(0.5), n_clusters) + (0.2 * (sizes - 4.5) if informative else 0)
    return effects[codes] + rng.normal(0, math.sqrt(0.5), len(codes)), codes


@pytest.mark.parametrize("informative", [False, True], ids=["sizes-at-random", "size-tells-mean"])
@pytest.mark.parametrize("n_clusters", [12, 30, 100])
def test_intervals_cover_the_mean_over_rows(n_clusters, informative):
    k = np.arange(1, 9)
    truth = 0.2 * ((k - 4.5) * k).mean() / k.mean() if informative else 0.0
    n_draws = 1000 if n_clusters < 100 else 500
    hits = 0
    for seed in range(n_draws):
        got = cluster_mean(*_draw(np.random.default_rng(seed), n_clusters, informative), seed=seed)
        hits += got.lower <= truth <= got.upper
    assert 0.92 <= hits / n_draws <= 0.98


def test_ignoring_clusters_would_not_cover():
    """The simulation is able to fail: rows taken as independent cover far less."""
    hits = 0
    for seed in range(200):
        values, codes = _draw(np.random.default_rng(seed), 12, False)
        got = cluster_mean(values, np.arange(len(codes)), seed=seed)
        hits += got.lower <= 0 <= got.upper
    assert hits / 200 < 0.85


@pytest.mark.parametrize("n_clusters", [12, 40])
def test_ratio_covers_and_is_the_ratio_of_sums(n_clusters):
    hits = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shift, codes = _draw(rng, n_clusters, False)
        clean = rng.uniform(2, 4, len(shift))
        got = cluster_ratio(shift + 0.6, clean, codes, seed=seed)
        assert got.value == pytest.approx((shift + 0.6).sum() / clean.sum())
        hits += got.lower <= 0.2 <= got.upper
    assert 0.92 <= hits / 300 <= 0.98


def test_bootstrap_is_seeded_and_near_the_t_interval():
    values = np.random.default_rng(5).normal(size=200)
    one, same, other = (cluster_mean(values, np.arange(200), seed=s) for s in (1, 1, 2))
    assert one == same
    assert one != other
    t = stats.t.interval(0.95, 199, loc=values.mean(), scale=stats.sem(values))
    assert (one.lower, one.upper) == pytest.approx(t, abs=0.02)
    assert "bootstrap" in one.method


@pytest.mark.parametrize(
    ("values", "clusters", "method", "value"),
    [
        pytest.param([], [], "no data", math.nan, id="empty"),
        pytest.param([math.nan], ["a"], "no data", math.nan, id="all-nan"),
        pytest.param([1.0, 2.0], ["a", "a"], "no interval: one item", 1.5, id="one-cluster"),
        pytest.param([0.0] * 5, list("abcde"), "no variation", 0.0, id="all-zero"),
        pytest.param([0.1 + 0.2, 0.3] * 20, list(range(40)), "no variation", 0.3, id="rounding-only"),
        pytest.param([1, 3, 1, 3], list("aabb"), "no variation", 2.0, id="clusters-agree"),
    ],
)
def test_no_interval_where_nothing_can_be_learned(values, clusters, method, value):
    got = cluster_mean(values, clusters)
    assert got.method == method
    assert got.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(got.lower)
    assert math.isnan(got.upper)


def test_nan_rows_are_left_out():
    got = cluster_mean([1.0, math.nan, 2.0, 4.0], list("aabc"))
    assert got == cluster_mean([1.0, 2.0, 4.0], list("abc"))


@pytest.mark.parametrize(
    ("k", "n", "lower", "upper"),
    [
        # Newcombe (1998), Statistics in Medicine 17, table I, method 3
        pytest.param(81, 263, 0.2553, 0.3662, id="newcombe-81-263"),
        pytest.param(15, 148, 0.0624, 0.1605, id="newcombe-15-148"),
        pytest.param(0, 20, 0.0, 0.1611, id="newcombe-0-20"),
        pytest.param(1, 29, 0.0061, 0.1718, id="newcombe-1-29"),
    ],
)
def test_wilson_published(k, n, lower, upper):
    got = wilson(k, n)
    assert (got.lower, got.upper) == pytest.approx((lower, upper), abs=5e-5)


def test_wilson_ends_are_exact():
    assert wilson(0, 7).lower == 0.0
    assert wilson(7, 7).upper == 1.0
    assert wilson(0, 7).upper == pytest.approx(1 - wilson(7, 7).lower)
    assert math.isnan(wilson(0, 0).value)


def test_rate_without_events_counts_items_not_rows():
    got = cluster_rate([0.0] * 40, np.repeat(np.arange(10), 4))
    assert (got.value, got.lower, got.upper) == (0.0, 0.0, pytest.approx(wilson(0, 10).upper))
    assert (got.n, got.n_clusters) == (40, 10)


def test_rate_is_wilson_for_single_rows_and_stays_inside():
    assert cluster_rate([1, 0, 0, 1, 1], range(5)) == wilson(3, 5)
    cut = cluster_rate([1, 1, 1, 1, 1, 0.5], [0, 0, 1, 1, 2, 2])
    assert 0.99 < cut.upper <= 1
    assert math.isnan(cluster_rate([0.5] * 4, range(4)).lower)


@pytest.mark.parametrize("size", [1, 3], ids=["single-rows", "clusters-of-three"])
@pytest.mark.parametrize("n_clusters", [12, 30, 100])
def test_rates_cover_the_true_share(n_clusters, size):
    """Share 0.4; rows of an item share its ability (beta with correlation 1/4), so three rows are not three."""
    rng = np.random.default_rng(7 * n_clusters + size)
    draws = 600
    ability = rng.beta(1.2, 1.8, (draws, n_clusters)).repeat(size, axis=1)
    events = (rng.random(ability.shape) < ability).astype(float)
    codes = np.repeat(np.arange(n_clusters), size)
    got = [cluster_rate(row, codes, seed=i) for i, row in enumerate(events)]
    assert 0.92 <= np.mean([i.lower <= 0.4 <= i.upper for i in got]) <= 0.98


def test_rows_taken_as_items_would_not_cover():
    rng = np.random.default_rng(3)
    ability = rng.beta(0.4, 0.6, (300, 30)).repeat(4, axis=1)
    events = (rng.random(ability.shape) < ability).astype(float)
    hits = [i.lower <= 0.4 <= i.upper for i in (cluster_rate(row, range(120)) for row in events)]
    assert np.mean(hits) < 0.85


@pytest.mark.parametrize(
    ("call", "match"),
    [
        pytest.param(lambda: cluster_mean([1, 2], ["a"]), "one cluster a row", id="lengths"),
        pytest.param(lambda: cluster_mean([1, 2], ["a", "b"], level=95), "between 0 and 1", id="level"),
        pytest.param(lambda: wilson(3, 2), "between 0 and n", id="wilson"),
        pytest.param(lambda: cluster_rate([2.0], ["a"]), "between 0 and 1", id="rate"),
        pytest.param(lambda: cluster_codes(pd.DataFrame({"x": [1]})), "item_id", id="no-item"),
        pytest.param(lambda: cluster_codes(pd.DataFrame({"item_id": ["a", None]})), "Row 2", id="item-missing"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(InputError, match=match):
        call()

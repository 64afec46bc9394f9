"""Truth from outside: Fisher on Darwin's maize, Fagerland et al. on McNemar, scipy, and simulations of the null."""

import math

import numpy as np
import pytest
from scipy import stats

from engine.core.errors import InputError
from engine.stats.intervals import standard_error, wilson
from engine.stats.paired import (
    FLIPS,
    MCNEMAR,
    ZERO_BOUND,
    difference_of_rates,
    exact_mcnemar_p,
    mcnemar,
    paired_test,
    sign_flip_p,
)

# Crossed minus self-fertilised height of 15 pairs [1/8 inch], Fisher (1935), The Design of Experiments, section 17
MAIZE = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def test_darwins_maize():
    """Fisher finds t = 2.148, and 2 x 863 of the 32768 sign patterns at least as far from zero."""
    got = paired_test(MAIZE, range(15))
    spread = standard_error(MAIZE, range(15))
    assert spread.mean / spread.error == pytest.approx(2.148, abs=5e-4)
    assert got.p_value == pytest.approx(stats.ttest_1samp(MAIZE, 0).pvalue, rel=1e-10)
    assert sign_flip_p(MAIZE, range(15)) == 2 * 863 / 32768


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        # Fagerland, Lydersen and Laake (2013), BMC Med Res Methodol 13:91, exact conditional test
        pytest.param(1, 7, 0.0703, id="airway-reactivity"),
        pytest.param(6, 16, 0.0525, id="complete-response"),
        pytest.param(0, 0, 1.0, id="none"),
        pytest.param(5, 5, 1.0, id="even"),
    ],
)
def test_exact_mcnemar_published(b, c, p):
    assert exact_mcnemar_p(b, c) == pytest.approx(p, abs=5e-5)
    first = [1] * b + [0] * c + [1] * 4 + [0] * 3
    second = [0] * b + [1] * c + [1] * 4 + [0] * 3
    got = mcnemar(first, second, range(len(first)))
    assert (got.p_value, got.only_first, got.only_second) == (pytest.approx(p, abs=5e-5), b, c)
    assert got.method == MCNEMAR


def test_exact_mcnemar_is_the_binomial_test():
    for b in range(6):
        for c in range(b, 9):
            expected = stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
            assert exact_mcnemar_p(b, c) == pytest.approx(expected, rel=1e-10)


def test_sign_flips_of_single_events_are_mcnemar():
    d = [1] * 6 + [-1] * 16 + [0] * 9
    few = [1] * 2 + [-1] * 9 + [0] * 9
    assert sign_flip_p(few, range(20)) == pytest.approx(exact_mcnemar_p(2, 9), rel=1e-12)
    assert sign_flip_p(d, range(31), seed=3) == pytest.approx(exact_mcnemar_p(6, 16), abs=0.01)


def test_clusters_are_flipped_whole():
    """Ten rows of one item are one piece of evidence, not ten."""
    first, second = np.zeros(30), np.ones(30)
    got = mcnemar(first, second, np.repeat(range(3), 10))
    assert (got.p_value, got.method) == (2 / 8, FLIPS)
    assert mcnemar(first, second, range(30)).p_value < 1e-8


def test_no_discordant_pair_has_a_bound():
    got = mcnemar([1, 1, 0, 0] * 5, [1, 1, 0, 0] * 5, np.repeat(range(10), 2))
    assert (got.p_value, got.interval.value, got.interval.method) == (1.0, 0.0, ZERO_BOUND)
    assert got.interval.upper == -got.interval.lower == wilson(0, 10).upper


def test_agreeing_clusters_are_flipped_and_one_cluster_is_no_test():
    assert paired_test([0.0] * 6, range(6)).p_value == 1.0
    same = paired_test([0.8] * 6, range(6))
    assert (same.p_value, same.method) == (2 / 64, FLIPS)
    assert math.isnan(paired_test([1.0, 2.0], ["a", "a"]).p_value)
    assert math.isnan(mcnemar([1, 0], [0, 0], ["a", "a"]).p_value)
    assert math.isnan(paired_test([], []).p_value)
    assert math.isnan(sign_flip_p([math.nan], ["a"]))
    assert paired_test([1.0, math.nan, 2.0, 4.0], list("aabc")) == paired_test([1.0, 2.0, 4.0], list("abc"))


def _differences(rng, g, draws):
    """Sizes 1..6, within-cluster correlation 0.5, mean 0: rows [draws, n] and their clusters [n]."""
    codes = np.repeat(np.arange(g), rng.integers(1, 7, g))
    effects = rng.normal(0, math.sqrt(0.5), (draws, g))
    return effects[:, codes] + rng.normal(0, math.sqrt(0.5), (draws, len(codes))), codes


@pytest.mark.parametrize("g", [12, 30, 100])
def test_p_values_are_uniform_without_a_difference(g):
    rows, codes = _differences(np.random.default_rng(g), g, 1500)
    p = np.empty(len(rows))
    for i, row in enumerate(rows):
        s = standard_error(row, codes)
        p[i] = 2 * stats.t.sf(abs(s.mean) / s.error, s.df)
    assert paired_test(rows[0], codes).p_value == pytest.approx(p[0], rel=1e-9)
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert 0.035 <= (p < 0.05).mean() <= 0.065


def test_ignoring_clusters_would_reject_too_often():
    rows, codes = _differences(np.random.default_rng(0), 30, 400)
    p = stats.ttest_1samp(rows, 0, axis=1).pvalue
    assert len(codes) == rows.shape[1]
    assert (p < 0.05).mean() > 0.1


@pytest.mark.parametrize("g", [12, 30, 100])
def test_mcnemar_keeps_its_size(g):
    """Single rows (exact) and clusters of three (signs flipped): at most 5 % of true nulls rejected."""
    rng = np.random.default_rng(g)
    rejected = {1: 0, 3: 0}
    draws = 200
    for size in rejected:
        clusters = np.repeat(np.arange(g), size)
        ability = rng.beta(1, 1, (draws, g)).repeat(size, axis=1)
        first, second = (rng.random(ability.shape) < ability for _ in range(2))
        for a, b in zip(first, second, strict=True):
            rejected[size] += mcnemar(a, b, clusters).p_value <= 0.05
    assert all(count / draws <= 0.08 for count in rejected.values())  # 5 % plus two errors of the simulation
    assert rejected[3] > 0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        pytest.param(lambda: mcnemar([0.5], [1], ["a"]), "0 or 1", id="halves"),
        pytest.param(lambda: mcnemar([0], [1, 1], ["a"]), "one pair a row", id="lengths"),
        pytest.param(lambda: exact_mcnemar_p(-1, 2), "negative", id="negative"),
        pytest.param(lambda: paired_test([1, 2], ["a"]), "one cluster a row", id="paired-lengths"),
        pytest.param(lambda: standard_error([1, 2], ["a"]), "one a row", id="error-lengths"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(InputError, match=match):
        call()


def test_a_difference_of_rates_without_a_discordant_row_has_the_bound_of_no_event():
    found = difference_of_rates([0.0, 0.0, 0.0, np.nan, 0.0], [0, 0, 1, 1, 2])
    assert (found.value, found.lower, found.upper) == (0, -wilson(0, 3).upper, wilson(0, 3).upper)
    assert (found.n, found.n_clusters) == (4, 3)

"""Panels whose worth is known: independent errors, copies, a majority in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, spearmanr

from engine.core.errors import InputError
from engine.stats.agreement import cluster_spearman, spearman_change
from engine.stats.panel import (
    RULES,
    effective_votes,
    errors_of,
    panel_vote,
    panels_of,
    rank_correlations,
    sides,
    standardised,
)

N = 1200


def errors(n_judges: int, rate: float = 0.3, n: int = N, seed: int = 0):
    return (np.random.default_rng(seed).random((n, n_judges)) < rate).astype(float)


def test_independent_errors_are_worth_as_many_votes_as_judges_and_copies_one():
    for judges in (2, 3, 5):
        made = errors(judges)
        worth = effective_votes(made, np.arange(N)).effective
        assert worth.value == pytest.approx(judges, rel=0.1)
        assert worth.lower <= worth.value <= worth.upper <= judges
        same = np.repeat(made[:, :1], judges, axis=1)
        assert effective_votes(same, np.arange(N)).effective.value == pytest.approx(1.0)


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.5, 0.8])
def test_errors_of_known_correlation_give_kish_s_number(rho):
    rng = np.random.default_rng(1)
    shared = rng.normal(size=(N, 1))
    made = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=(N, 4))
    found = effective_votes(made, np.arange(N))
    assert found.correlation.lower <= rho <= found.correlation.upper
    wanted = 4 / (1 + 3 * rho)
    assert found.effective.lower - 1e-9 <= wanted <= found.effective.upper + 0.05
    # the same mean correlation from numpy's own matrix
    matrix = np.corrcoef(made.T)
    assert found.correlation.value == pytest.approx(matrix[np.triu_indices(4, 1)].mean())


def test_rows_of_one_item_are_resampled_together():
    made = errors(3, n=60)
    apart = effective_votes(made, np.arange(60)).correlation
    repeated = effective_votes(np.repeat(made, 5, axis=0), np.repeat(np.arange(60), 5)).correlation
    assert repeated.value == pytest.approx(apart.value)
    assert (repeated.lower, repeated.upper) == pytest.approx((apart.lower, apart.upper), abs=0.03)
    assert repeated.n_clusters == 60


def test_a_judge_that_never_errs_is_in_no_pair_and_missing_votes_leave_the_row_out():
    made = errors(3, n=500)
    with_saint = np.column_stack([made[:, :2], np.zeros(500)])
    two = effective_votes(made[:, :2], np.arange(500)).correlation.value
    assert effective_votes(with_saint, np.arange(500)).correlation.value == pytest.approx(two)
    holes = made.copy()
    holes[:100, 0] = np.nan
    assert effective_votes(holes, np.arange(500)).effective.n == 400
    assert np.isnan(effective_votes(np.full((5, 2), np.nan), np.arange(5)).effective.value)
    with pytest.raises(InputError, match="two or more"):
        effective_votes(made[:, :1], np.arange(500))


@pytest.mark.parametrize("p", [0.6, 0.75, 0.9])
@pytest.mark.parametrize("judges", [3, 5])
def test_the_majority_of_independent_judges_is_right_as_the_binomial_says(p, judges):
    right = 1 - errors(judges, 1 - p, n=20_000, seed=3)
    voted = panel_vote(right, "majority")
    wanted = binom.sf(judges // 2, judges, p)
    assert voted.mean() == pytest.approx(wanted, abs=4 * np.sqrt(wanted * (1 - wanted) / 20_000))


def test_rules_on_votes_that_can_be_counted_by_hand():
    votes = np.array([[0.9, 0.8, 0.0], [0.5, 0.5, 1.0], [1.0, 0.0, 0.5], [0.2, np.nan, 0.9]])
    assert panel_vote(votes, "majority")[:3].tolist() == [1.0, 1.0, 0.5]
    assert panel_vote(votes, "mean")[:3] == pytest.approx([1.7 / 3, 2 / 3, 0.5])
    assert panel_vote(votes, "median")[:3] == pytest.approx([0.8, 0.5, 0.5])
    assert panel_vote(votes, "trimmed mean")[:3] == pytest.approx([0.8, 0.5, 0.5])
    assert all(np.isnan(panel_vote(votes, rule)[3]) for rule in RULES)
    with pytest.raises(InputError, match="majority"):
        panel_vote(votes, "loudest")


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_does_not_know_the_judges_apart_and_takes_one_mind_as_it_is(rule):
    votes = np.random.default_rng(2).random((50, 5))
    assert panel_vote(votes[:, [3, 1, 4, 0, 2]], rule) == pytest.approx(panel_vote(votes, rule))
    one = votes[:, :1]
    wanted = sides(one[:, 0]) if rule == "majority" else one[:, 0]
    assert panel_vote(np.repeat(one, 5, axis=1), rule) == pytest.approx(wanted)


def test_one_judge_gone_wrong_moves_the_trimmed_mean_within_the_others():
    votes = np.random.default_rng(4).random((50, 5))
    wrong = votes.copy()
    wrong[:, 2] = 1e6
    rest = np.delete(votes, 2, axis=1)
    moved = panel_vote(wrong, "trimmed mean")
    assert (moved >= rest.min(axis=1)).all()
    assert (moved <= rest.max(axis=1)).all()


def test_leftovers_of_scores_do_not_know_the_scale_nor_people():
    rng = np.random.default_rng(5)
    people = rng.normal(size=300)
    votes = people[:, None] * [1.0, 2.0] + rng.normal(size=(300, 2))
    left = errors_of(votes, people, scores=True)
    assert [np.corrcoef(left[:, j], people)[0, 1] for j in (0, 1)] == pytest.approx([0, 0], abs=1e-9)
    other = errors_of(votes * [10, 0.1] + [3, -4], people, scores=True)
    assert np.corrcoef(left.T)[0, 1] == pytest.approx(np.corrcoef(other.T)[0, 1])
    assert abs(np.corrcoef(left.T)[0, 1]) < 0.2  # of their own noise alone
    assert standardised(votes).std(axis=0) == pytest.approx([1, 1])
    assert spearmanr(standardised(votes)[:, 0], votes[:, 0]).statistic == pytest.approx(1)


def test_panels_of_a_size_are_all_of_them_or_as_many_as_asked_without_repeats():
    assert panels_of(4, 2) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    many = panels_of(20, 10, most=60)
    assert len(many) == len(set(many)) == 60
    assert all(len(set(panel)) == 10 for panel in many)


def test_many_rank_correlations_are_those_of_two_at_a_time(monkeypatch):
    for module in ("agreement", "panel"):
        monkeypatch.setattr(f"engine.stats.{module}.RESAMPLES", 100)
    rng = np.random.default_rng(6)
    x = rng.normal(size=(30, 3)).round(1)
    items = np.repeat(np.arange(10), 3)
    many = rank_correlations(x, items)
    pairs = (
        (many.interval(0, 2), cluster_spearman(x[:, 0], x[:, 2], items)),
        (many.change(0, 1, 2), spearman_change(x[:, 0], x[:, 1], x[:, 2], items)),
    )
    for one, other in pairs:
        assert (one.value, one.lower, one.upper) == pytest.approx((other.value, other.lower, other.upper))
        assert (one.method, one.n, one.n_clusters) == (other.method, other.n, other.n_clusters)
    assert many.value[0, 1] == pytest.approx(spearmanr(x[:, 0], x[:, 1]).statistic)
    flat = rank_correlations(np.column_stack([x[:, 0], np.ones(30)]), items).interval(0, 1)
    assert np.isnan(flat.value)

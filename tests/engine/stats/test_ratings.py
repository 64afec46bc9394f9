"""Bradley-Terry against published worked examples and the likelihood equations; Elo against its own definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from engine.core.errors import InputError
from engine.stats.ratings import SCALE, bradley_terry, connections, elo, majority_cycles, outcome_wins, rate, win_shares

BASEBALL = np.array(
    [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ],
    dtype=float,
)
"""American League East 1987: Milwaukee, Detroit, Toronto, New York, Boston, Cleveland, Baltimore."""
PAIRS3 = np.array([[0, 1], [0, 2], [1, 2]])


def test_the_baseball_example():
    """Agresti, Categorical Data Analysis, and the R package BradleyTerry2: Baltimore is the reference."""
    b = bradley_terry(BASEBALL)
    expected = [1.5814, 1.4364, 1.2945, 1.2476, 1.1077, 0.6839, 0.0]
    assert np.allclose(b - b[-1], expected, atol=1e-4)


def test_the_example_with_four_teams():
    """The worked example of the encyclopedia article on the model, geometric mean one."""
    wins = np.array([[0, 2, 0, 1], [3, 0, 5, 0], [0, 3, 0, 1], [4, 0, 3, 0]], dtype=float)
    assert np.allclose(np.exp(bradley_terry(wins)), [0.640, 1.043, 0.660, 2.270], atol=1e-3)


def test_a_second_method_finds_the_same_maximum():
    rng = np.random.default_rng(4)
    wins = rng.integers(1, 9, size=(5, 5)).astype(float)
    np.fill_diagonal(wins, 0)

    def loss(b):
        return -(wins * np.log(expit(b[:, None] - b[None, :]))).sum()

    found = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-8}).x
    assert np.allclose(bradley_terry(wins), found - found.mean(), atol=1e-4)


@given(st.integers(0, 500), st.permutations(range(5)))
def test_names_and_row_order_change_nothing(seed, order):
    rng = np.random.default_rng(seed)
    wins = rng.integers(0, 4, size=(5, 5)).astype(float)
    np.fill_diagonal(wins, 0)
    moved = wins[np.ix_(order, order)]
    assert np.allclose(bradley_terry(moved), bradley_terry(wins)[list(order)], atol=1e-6)


def test_one_win_one_loss_and_98_ties_are_half():
    items = outcome_wins([[1.0], [-1.0]] + [[0.0]] * 98, np.array([[0, 1]]), 2)
    shares, n = win_shares(items)
    assert shares[0, 1] == shares[1, 0] == 0.5
    assert n[0, 1] == 100
    rated = rate(items)
    assert rated.rating.tolist() == [1000, 1000]
    assert rated.battles.tolist() == [100, 100]
    assert (rated.lower < 1000).all()
    assert (rated.upper > 1000).all()


def test_expected_scores_match_the_observed_ones():
    b = bradley_terry(BASEBALL)
    games = BASEBALL + BASEBALL.T
    expected = (games * expit(b[:, None] - b[None, :])).sum(axis=1)
    assert np.allclose(expected, BASEBALL.sum(axis=1), atol=1e-8)


def test_islands_and_systems_that_never_lost_are_named():
    wins = np.array([[0, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=float)
    found = connections(wins)
    assert found.islands == ((0, 1), (2, 3))
    assert found.degenerate == (0, 1)
    assert not found.finite
    rated = rate(np.stack([wins, wins]))
    assert np.isnan(rated.rank).all()
    assert np.isfinite(rated.rating).all()
    assert rated.rating[0] > rated.rating[1]
    assert rated.rating[2] == pytest.approx(rated.rating[3])


def test_one_battle_and_one_item_give_an_estimate_without_interval():
    rated = rate(outcome_wins([[1.0, np.nan, np.nan]], PAIRS3, 3))
    assert rated.battles.tolist() == [1, 1, 0]
    assert np.isnan(rated.rating[2])
    assert rated.rating[0] > rated.rating[1]
    assert np.isnan(rated.lower).all()
    assert rated.rank[:2].tolist() == [1, 2]
    assert np.isnan(rated.rank[2])  # a system without a battle has no place, and takes none from those that met


def test_an_absent_system_takes_no_rank_and_no_interval_from_the_others():
    three = outcome_wins([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, 1.0, 1.0], [1.0, -1.0, 1.0]], PAIRS3, 3)
    four = np.zeros((4, 4, 4))
    four[:, :3, :3] = three
    alone, beside = rate(three), rate(four)
    assert beside.rank[:3].tolist() == alone.rank.tolist() == [1, 2, 3]
    assert beside.rank_lower[:3].tolist() == alone.rank_lower.tolist()
    assert beside.rank_upper[:3].tolist() == alone.rank_upper.tolist()
    assert np.isnan([beside.rank[3], beside.rank_lower[3], beside.rating[3]]).all()


def test_a_sweep_is_held_finite_by_one_tie():
    sweep = bradley_terry(np.array([[0.0, 9.0], [0.0, 0.0]]))
    assert sweep[0] - sweep[1] == pytest.approx(np.log(9.5 / 0.5))


def test_intervals_cover_the_true_rating():
    true = np.array([0.8, 0.0, -0.8])
    hits = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = expit(true[PAIRS3[:, 0]] - true[PAIRS3[:, 1]])
        x = np.where(rng.random((60, 3)) < p, 1.0, -1.0)
        rated = rate(outcome_wins(x, PAIRS3, 3), seed=seed, resamples=200)
        hits.append((rated.lower <= 1000 + SCALE * true) & (1000 + SCALE * true <= rated.upper))
    assert 0.9 <= np.mean(hits) <= 0.99


def test_ranks_have_intervals_and_equal_systems_share_one():
    x = np.tile([1.0, 1.0, 0.0], (20, 1))
    rated = rate(outcome_wins(x, PAIRS3, 3))
    assert rated.rank.tolist() == [1, 2.5, 2.5]
    assert rated.rank_lower[0] == rated.rank_upper[0] == 1


def test_elo_of_one_battle_is_its_definition():
    found = elo([[1.0]], np.array([[0, 1]]), 2, k=32, orders=3)
    assert found.rating.tolist() == [1016, 984]
    assert found.spread.tolist() == [0, 0]
    assert found.rank.tolist() == [1, 2]


def test_elo_averages_over_orders_and_keeps_the_mean():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 0.0, 1.0, np.nan], size=(30, 3))
    found = elo(x, PAIRS3, 3, k=24, orders=40)
    assert found.rating.mean() == pytest.approx(1000)
    assert (found.spread > 0).all()
    # averaged over many orders, two halves of the orders agree far better than single orders do
    again = elo(x, PAIRS3, 3, k=24, orders=40, seed=1)
    assert np.abs(found.rating - again.rating).max() < found.spread.max()


def test_elo_refuses_a_k_of_zero():
    with pytest.raises(InputError, match="above 0"):
        elo([[1.0]], np.array([[0, 1]]), 2, k=0)


def test_cycles_by_majority():
    pairs = np.array([[0, 1], [1, 2], [0, 2], [0, 3]])  # a over b, b over c, c over a, a over d
    shares, _ = win_shares(outcome_wins([[1.0, 1.0, -1.0, 1.0]], pairs, 4))
    assert majority_cycles(shares) == [(0, 1, 2)]
    assert majority_cycles(1 - shares) == [(0, 2, 1)]


def chain(battles, systems):
    """Win matrices of one battle an item: winner, loser."""
    wins = np.zeros((len(battles), systems, systems))
    for i, (winner, loser) in enumerate(battles):
        wins[i, winner, loser] = 1
    return wins


THREE = [(0, 1)] * 3 + [(1, 0)] + [(1, 2)] * 3 + [(2, 1)] + [(0, 2)] * 3 + [(2, 0)]


def test_resamples_without_a_system_give_it_no_bound():
    rated = rate(chain([*THREE, (2, 3)], 4))
    lacking = np.isnan(rated.draws[:, 3])
    assert lacking.mean() == pytest.approx((12 / 13) ** 13, abs=0.08)
    assert rated.upper[3] < 1000  # it lost its only battle in every resample that has it
    assert rated.lower[3] < rated.rating[3] < rated.upper[3]
    assert np.isfinite(rated.draws[:, :3]).all()
    # a resample without d says of the others what it says where there is no d
    others = rated.draws[lacking][:, :3]
    assert np.allclose(others.mean(axis=1), rated.rating[:3].mean())


def test_a_resample_that_cuts_a_system_off_gives_it_no_bound():
    """Two pairs, joined by one battle alone: without it nothing ties one pair to the other."""
    rated = rate(chain([(0, 1), (1, 0)] * 6 + [(2, 3), (3, 2)] * 4 + [(0, 2), (2, 0)], 4))
    apart = np.isnan(rated.draws).any(axis=1)
    assert 0 < apart.mean() < 0.5
    assert np.allclose(rated.draws[~apart].mean(axis=1), 1000)


def test_the_bounds_of_a_rank_are_wide_until_differences_are_settled():
    few, many = rate(chain(THREE, 3)), rate(chain(THREE * 100, 3))
    assert few.rank.tolist() == many.rank.tolist() == [1, 2, 3]
    assert (few.rank_lower.tolist(), few.rank_upper.tolist()) == ([1, 1, 1], [3, 3, 3])
    assert (many.rank_lower.tolist(), many.rank_upper.tolist()) == ([1, 2, 3], [1, 2, 3])

"""The exact path against POT, against its own dual, and against the constraints of the problem."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.transport import kernel
from engine.transport.path import cosine_costs, lower_bound, solve, transport_path, weighted_plan, weighted_use
from engine.transport.readout import kept

MASSES = (1e-3, 0.05, 0.21, 0.5, 0.77, 0.99, 1.0)


def units(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def mixture(p: int, u: int, d: int, modes: int = 1, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = units(modes, d, rng)

    def around(n: int) -> np.ndarray:
        x = centres[rng.integers(modes, size=n)] * 3 + rng.normal(size=(n, d))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    columns = np.concatenate([around(u - 2 * u // 5), units(2 * u // 5, d, rng)])
    return cosine_costs(around(p), columns)


def duplicated(cost: np.ndarray, rows: bool, columns: bool) -> np.ndarray:
    cost = np.repeat(cost, 3, axis=0) if rows else cost
    return np.repeat(cost, 4, axis=1) if columns else cost


RNG = np.random.default_rng(7)
ORDINARY = {
    **{
        f"{p}x{u} d{d} {k} modes": mixture(p, u, d, k, seed)
        for seed, (p, u, d, k) in enumerate(
            [
                (10, 40, 8, 1), (20, 60, 64, 1), (30, 100, 16, 5), (25, 100, 256, 3), (33, 100, 32, 1), (17, 61, 8, 2),
                (7, 11, 3, 1), (13, 100, 64, 5), (50, 200, 64, 1), (49, 150, 16, 2), (41, 97, 512, 1), (60, 60, 16, 3),
                (61, 60, 16, 1), (100, 25, 32, 2), (97, 41, 8, 1), (160, 40, 64, 1),
            ]
        )
    },
}  # fmt: skip
SMALL = mixture(12, 30, 16, 2, 99)
DEGENERATE = {
    "duplicates among the unlabelled": duplicated(SMALL, False, True),
    "duplicates among the positives": duplicated(SMALL, True, False),
    "duplicates in both": duplicated(SMALL, True, True),
    "duplicates, coprime": duplicated(mixture(7, 11, 8, 1, 3), False, True)[:, :-1],
    "costs rounded to 0.05": np.round(SMALL / 0.05) * 0.05,
    "costs rounded to 0.1": np.round(mixture(25, 90, 8, 1, 4), 1),
    "all costs equal": np.full((9, 20), 0.7),
    "all costs zero": np.zeros((8, 21)),
    "whole costs 0 to 3": RNG.integers(0, 4, size=(15, 40)).astype(float),
    "one positive": mixture(1, 30, 8, 1, 5),
    "one unlabelled": mixture(30, 1, 8, 1, 6),
    "one of each": np.array([[0.4]]),
    "sums of two vectors": RNG.random(14)[:, None] + RNG.random(33)[None, :],
    "products of two vectors": RNG.random(14)[:, None] * RNG.random(33)[None, :],
    "positives among the unlabelled": cosine_costs(*(lambda z: (z[:10], z))(units(40, 16, RNG))),
    "over eleven decades": 10.0 ** RNG.uniform(-8, 3, size=(20, 50)),
    "one plus rounding noise": 1 + 1e-13 * RNG.random((12, 30)),
}
INSTANCES = {**ORDINARY, **DEGENERATE}


def uniform(n: int) -> np.ndarray:
    return np.full(n, 1 / n)


@pytest.mark.parametrize("name", INSTANCES)
def test_costs_equal_those_of_pot_at_the_mass_pot_moved(name):
    cost = INSTANCES[name]
    path = transport_path(cost)
    for mass in MASSES:
        plan = weighted_plan(cost, *map(uniform, cost.shape), mass)
        theirs = float((plan * cost).sum())
        ours = path.cost(min(plan.sum(), 1.0))
        scale = max(theirs, 1e-9 * cost.max())
        assert ours <= theirs + 1e-9 * scale
        if name != "over eleven decades":  # POT is up to 1e-5 above the dual bound there, so it is no reference
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9 * cost.max())


@pytest.mark.parametrize("name", INSTANCES)
def test_the_dual_bound_closes_and_the_plan_is_feasible(name):
    cost = INSTANCES[name]
    for mass in MASSES:
        found = solve(cost, mass)
        plan, (p, u) = found.plan(), cost.shape
        assert (plan >= 0).all()
        assert plan.sum(axis=1).max() <= 1 / p + 1e-12
        assert plan.sum(axis=0).max() <= 1 / u + 1e-12
        assert plan.sum() == pytest.approx(found.path.reach, abs=1e-12)
        assert mass <= found.path.reach + 1e-9 <= mass + 1 / found.path.units + 2e-9
        value = float((plan * cost).sum())
        assert value == pytest.approx(found.path.cost(found.path.reach), rel=1e-11, abs=1e-13)
        assert lower_bound(cost, found) == pytest.approx(value, rel=1e-9, abs=1e-12 * max(1.0, cost.max()))


@pytest.mark.parametrize("name", INSTANCES)
def test_numpy_gives_what_the_compiled_code_gives(name, monkeypatch):
    cost = INSTANCES[name]
    compiled = transport_path(cost)
    if kernel.HAS_NUMBA:
        for function in (
            "add_flow", "take_flow", "flow_of", "more_arcs", "measure", "exchange", "repair", "bottleneck", "push",
            "advance", "shortest_paths",
        ):  # fmt: skip
            monkeypatch.setattr(kernel, function, getattr(kernel, function).py_func)
        monkeypatch.setattr(kernel, "lowest", kernel.lowest_by_numpy)
        monkeypatch.setattr(kernel, "hanging", kernel.hanging_by_numpy)
        monkeypatch.setattr("engine.transport.path.shortest_paths", kernel.shortest_paths)
    plain = transport_path(cost)
    assert np.array_equal(plain.sent, compiled.sent)
    assert np.array_equal(plain.unlabelled, compiled.unlabelled)
    assert plain.price == pytest.approx(compiled.price, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", INSTANCES)
def test_nothing_falls_as_the_mass_grows(name):
    path = transport_path(INSTANCES[name])
    used = np.array([path.used(m) for m in np.linspace(0.01, 1, 60)])
    assert (np.diff(used, axis=0) >= -1e-12).all()  # nested: an item once used stays used
    assert (np.diff(path.price) >= -1e-9 * max(1.0, abs(path.price).max())).all()  # convex cost
    assert used[-1] == pytest.approx(1, abs=1e-12)
    assert path.positives_used(1.0) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("shape", [(20, 80), (20, 77), (80, 20)])
def test_the_kept_share_is_the_mass(shape):
    path = transport_path(mixture(*shape, 16, 2, 11))
    for mass in np.linspace(0.1, 1, 10):
        share = kept(path.scores(mass)).mean()
        assert abs(share - mass) <= path.fractional(mass) + 1 / shape[1]
    assert path.fractional(0.5) == 0 or shape[1] % shape[0]


def test_entry_mass_is_where_an_item_begins():
    path = transport_path(mixture(13, 40, 8, 1, 12))
    for item in (0, 7, 39):
        start = path.entry_mass[item]
        if start > 0:
            assert path.used(start)[item] == pytest.approx(0, abs=1e-12)
        assert path.used(min(start + 1e-3, 1.0))[item] > 0
        assert path.entry_price[item] == pytest.approx(path.price_at(start + 1e-9), rel=1e-9)


def test_cost_at_full_mass_is_balanced_transport():
    from scipy.optimize import linear_sum_assignment

    cost = mixture(40, 40, 16, 3, 13)
    rows, columns = linear_sum_assignment(cost)
    assert transport_path(cost).cost(1.0) == pytest.approx(cost[rows, columns].mean(), rel=1e-12)


@settings(max_examples=30)
@given(p=st.integers(1, 9), u=st.integers(1, 9), seed=st.integers(0, 10**6), ties=st.booleans())
def test_every_small_problem_closes_its_gap(p, u, seed, ties):
    cost = np.random.default_rng(seed).random((p, u))
    cost = np.round(cost, 1) if ties else cost
    for stop in range(1, math.lcm(p, u) + 1, 3):
        found = solve(cost, stop / math.lcm(p, u))
        value = float((found.plan() * cost).sum())
        assert lower_bound(cost, found) == pytest.approx(value, abs=1e-12)


def test_weights_that_are_not_uniform_are_solved_by_pot_and_agree_where_they_are():
    cost = mixture(10, 30, 8, 1, 14)
    path = transport_path(cost)
    use = weighted_use(cost, uniform(10), uniform(30), (0.2, 0.6))
    assert use == pytest.approx(np.array([path.used(0.2), path.used(0.6)]), abs=1e-9)
    weights = np.r_[np.full(15, 1 / 45), np.full(15, 2 / 45)]
    plan = weighted_plan(cost, uniform(10), weights, 0.5)
    assert plan.sum() == pytest.approx(0.5, abs=1e-9)
    assert (plan.sum(axis=0) <= weights + 1e-12).all()


@pytest.mark.parametrize(
    ("cost", "mass", "message"),
    [
        (np.zeros((0, 3)), 0.5, "at least one positive"),
        (np.zeros((3, 0)), 0.5, "at least one positive"),
        (np.array([[0.1, np.nan]]), 0.5, "positive 1 and unlabelled item 2"),
        (np.ones((2, 2)), 0.0, "above 0"),
        (np.ones((2, 2)), 1.2, "at most 1"),
        (np.ones((2, 2)), math.nan, "nan"),
    ],
)
def test_bad_input_is_named(cost, mass, message):
    with pytest.raises(InputError, match=message):
        solve(cost, mass)


def test_weighted_transport_refuses_what_it_cannot_solve():
    with pytest.raises(InputError, match="do not fit"):
        weighted_plan(np.ones((2, 2)), [1.0], [0.5, 0.5], 0.5)
    with pytest.raises(InputError, match="at most 1"):
        weighted_plan(np.ones((1, 2)), [1.0], [0.5, 0.5], 1.5)
    with pytest.raises(InputError, match="eta"):
        kept(np.ones(3), 0.0)

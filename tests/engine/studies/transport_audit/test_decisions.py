from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import hypergeom

from engine.core.errors import InputError
from engine.studies.transport_audit.metrics import (
    CONTROLS,
    Split,
    controls,
    decide,
    per_pair,
    random_band,
    stability,
)
from engine.transport.audit import baselines
from engine.transport.path import cosine_costs, transport_path
from engine.transport.planted import planted_cone


def cone_split(seed: int = 0, n_u: int = 200, alpha: float = 0.6, number: int = 0) -> Split:
    cone = planted_cone(50, n_u, alpha=alpha, seed=seed)
    path = transport_path(cosine_costs(cone.positives, cone.unlabelled))
    scores = baselines(cone.positives, cone.unlabelled)
    return Split(number, "", path, np.arange(n_u), cone.truth.astype(float), scores, alpha, 50)


def test_at_the_prior_of_a_clear_cone_every_verdict_is_put_right():
    split = cone_split()
    found = decide(split)
    assert found.mass == 0.6
    assert found.after.mean() == 1
    assert found.flips.sum() == 80
    assert split.oracle == pytest.approx(0.6)


def test_controls_flip_as_many_and_are_what_they_say():
    split = cone_split(1)
    found = decide(split, 0.45)
    k, n = int(found.flips.sum()), 200
    assert set(found.controls) == set(CONTROLS)
    assert found.controls["nothing"].mean() == pytest.approx(0.6)
    assert found.controls["all"].mean() == pytest.approx(0.4)
    assert found.controls["random"].mean() == pytest.approx(0.6 * (1 - k / n) + 0.4 * k / n)
    for name in ("centroid", "nearest", "top10"):
        lowest = np.argsort(split.scores[name], kind="stable")[:k]
        by_hand = split.agrees.copy()
        by_hand[lowest] = 1 - by_hand[lowest]
        assert np.array_equal(found.controls[name], by_hand)


def known(agrees, number: int = 0, pair=None) -> Split:
    """A split of which only the agreement is looked at."""
    n = len(agrees)
    return Split(number, "", cone_split(0, 3).path, np.arange(n) if pair is None else pair, agrees, {}, 0.5, 9)


@pytest.mark.parametrize("a", [0.21, 0.5, 0.8])
def test_random_flips_at_the_judges_own_consistency_fake_a_gain(a):
    """At mass a, a^2 + (1 - a)^2: 0.67 at a = 0.21 without any information."""
    agrees = (np.arange(1000) < a * 1000).astype(float)
    expected, low, high = random_band([known(agrees)], [round((1 - a) * 1000)])
    assert expected == pytest.approx(a**2 + (1 - a) ** 2)
    agreeing = hypergeom(1000, round(1000 * a), round((1 - a) * 1000))  # of the verdicts that are flipped
    x = np.arange(1001)
    after = a + (round((1 - a) * 1000) - 2 * x) / 1000
    assert agreeing.pmf(x) @ after == pytest.approx(expected)
    inside = (after >= low) & (after <= high)
    assert agreeing.pmf(x)[inside].sum() == pytest.approx(0.95, abs=0.015)


def test_random_band_is_exact_on_every_draw_of_a_small_case():
    agrees = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    values = []
    for chosen in itertools.combinations(range(5), 2):
        after = agrees.copy()
        after[list(chosen)] = 1 - after[list(chosen)]
        values.append(after.mean())
    expected, low, high = random_band([known(agrees)], [2], z=1.0)
    assert expected == pytest.approx(np.mean(values))
    assert high - expected == pytest.approx(np.std(values))
    assert low == pytest.approx(2 * expected - high)


def test_random_band_of_several_splits_is_exact_on_every_draw():
    """Pairs that two splits share count half in each, as in consistency; the draws of the splits are independent."""
    splits = [
        known(np.array([1.0, 1.0, 0.0]), 0, np.array([0, 1, 2])),
        known(np.array([0.0, 1.0]), 1, np.array([2, 3])),
    ]
    values = []
    for one, two in itertools.product(itertools.combinations(range(3), 2), range(2)):
        after = [split.agrees.copy() for split in splits]
        for place in one:
            after[0][place] = 1 - after[0][place]
        after[1][two] = 1 - after[1][two]
        values.append(np.nanmean(per_pair(splits, after, 4)))
    expected, low, high = random_band(splits, [2, 1], z=1.0)
    assert expected == pytest.approx(np.mean(values))
    assert high - expected == pytest.approx(np.std(values))
    assert low == pytest.approx(2 * expected - high)


def test_the_kept_share_differs_from_the_mass_by_no_more_than_the_pairs_used_in_part():
    """Why the page warns of nothing: with exact plans there is nothing to warn of."""
    for seed in range(12):
        split = cone_split(seed, n_u=37 + seed)
        for mass in np.linspace(0.02, 1, 50):
            flipped_share = decide(split, float(mass)).flips.mean()
            assert abs(flipped_share - (1 - mass)) <= split.path.fractional(float(mass)) + 1e-9


def test_a_mass_that_nobody_set_and_nothing_estimates_is_asked_for():
    nothing = Split(0, "", cone_split(3).path, np.arange(200), np.ones(200), {}, np.nan, 0)
    with pytest.raises(InputError, match=r"cannot be estimated.*--set mass=0\.8"):
        nothing.mass()
    assert nothing.mass(0.7) == 0.7


def test_unknown_truth_stays_unknown():
    split = cone_split(2)
    unknown = Split(-1, "", split.path, split.pair, np.full(200, np.nan), split.scores, 0.6, 50)
    found = decide(unknown, 0.5)
    assert np.isnan(found.after).all()
    assert found.flips.sum() == 100
    assert np.isnan(unknown.oracle)
    assert np.isnan(random_band([unknown], [10])).all()
    assert np.isnan(random_band([], [])).all()


@pytest.mark.parametrize(("mass", "eta"), [(0.0, 0.5), (1.01, 0.5), (float("nan"), 0.5), (0.5, 0.0), (0.5, 1.5)])
def test_dials_outside_their_range_are_refused(mass, eta):
    with pytest.raises(InputError, match="must lie"):
        decide(cone_split(3), mass, eta)


def test_a_judge_that_is_never_right_has_one_unit_of_mass_and_eta_hardly_acts():
    split = cone_split(4, alpha=0.0)
    never = Split(0, "", split.path, split.pair, np.zeros(200), split.scores, 0.0, 50)
    assert decide(never).after.mean() == pytest.approx(1, abs=0.01)
    assert [decide(split, 0.5, eta).flips.sum() for eta in (0.01, 0.5, 1.0)] == [100, 100, 100]


def test_per_pair_averages_over_the_splits_that_had_it():
    one, two = cone_split(5, n_u=3), cone_split(6, n_u=3)
    two = Split(1, "", two.path, np.array([2, 3, 0]), two.agrees, two.scores, 0.5, 50)
    got = per_pair([one, two], [np.array([1.0, 0.0, np.nan]), np.array([1.0, 1.0, 0.0])], 5)
    assert got[:4].tolist() == [0.5, 0.0, 1.0, 1.0]
    assert np.isnan(got[4])


def test_stability_counts_the_bootstraps_that_keep_a_pair():
    entries = np.array([[0.1, 0.2, 0.9, 0.95], [0.5, 0.5, 0.5, 0.5]])
    assert stability(entries, 0.5).tolist() == [0.5, 0.0]
    assert stability(entries, 0.51).tolist() == [0.5, 1.0]


def test_controls_never_look_at_the_path():
    split = cone_split(8)
    other = Split(0, "", cone_split(9).path, split.pair, split.agrees, split.scores, 0.6, 50)
    for name, value in controls(split, 30).items():
        assert np.array_equal(value, controls(other, 30)[name])

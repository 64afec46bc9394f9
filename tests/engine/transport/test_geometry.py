from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.stats.auc import auc
from engine.transport.audit import Denoising, audit, baselines, denoise, differences, resampled_entries
from engine.transport.encoders import Text, WordsEncoder
from engine.transport.path import cosine_costs, transport_path
from engine.transport.planted import planted_cone
from engine.transport.readout import kept


def quiet(done, total):
    pass


def test_differences_are_unit_and_antisymmetric_and_zero_ones_are_set_apart():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 5)), rng.normal(size=(6, 5))
    b[2] = a[2]
    b[4] = a[4] * (1 + 1e-9)
    found = differences(a, b)
    assert np.linalg.norm(found.z, axis=1) == pytest.approx(1)
    assert found.z == pytest.approx(-differences(b, a).z)
    assert found.rows.tolist() == [0, 1, 3, 5]
    assert found.same.tolist() == [2, 4]


def test_a_broken_embedding_is_named_by_its_row():
    a = np.ones((3, 2))
    a[1, 1] = np.nan
    with pytest.raises(InputError, match="comparison 2 of 3"):
        differences(a, np.zeros((3, 2)))


def test_denoising_keeps_the_floors_within_each_type():
    rng = np.random.default_rng(1)
    sizes = {"A": 10, "B": 3, "C": 1, "D": 7}
    types = [name for name, n in sizes.items() for _ in range(n)]
    e, z = rng.normal(size=(21, 4)), rng.normal(size=(21, 4))
    stays = denoise(e, z, types)
    counts = {name: int(stays[np.array(types) == name].sum()) for name in sizes}
    assert counts == {
        "A": 4,
        "B": 1,
        "C": 0,
        "D": 2,
    }  # floor(.7 floor(.7 n)): 10 -> 7 -> 4, 3 -> 2 -> 1, 1 -> 0, 7 -> 4
    pooled = denoise(e, z, types, pool_below=4)
    assert pooled[np.isin(types, ["B", "C"])].sum() == 1  # 4 together: 2 and 1
    assert denoise(e, z, types, alpha1=1, alpha2=1).all()


def test_denoising_drops_the_outlier_of_each_stage():
    axis = np.zeros(8)
    axis[0] = 1
    rng = np.random.default_rng(2)
    e = axis + 0.05 * rng.normal(size=(10, 8))
    z = axis + 0.05 * rng.normal(size=(10, 8))
    e[3] = -axis
    z[5] = -axis
    stays = denoise(e, z, ["A"] * 10, alpha1=0.9, alpha2=0.9)
    assert not stays[3]
    assert not stays[5]
    assert stays.sum() == 8


def test_baselines_agree_with_plain_loops():
    rng = np.random.default_rng(3)
    unit = lambda n: (lambda x: x / np.linalg.norm(x, axis=1, keepdims=True))(rng.normal(size=(n, 6)))  # noqa: E731
    p, u = unit(14), unit(5)
    found = baselines(p, u)
    for j in range(5):
        cosines = sorted((float(u[j] @ row) for row in p), reverse=True)
        mean = sum(p) / len(p)
        assert found["nearest"][j] == pytest.approx(cosines[0])
        assert found["top10"][j] == pytest.approx(sum(cosines[:10]) / 10)
        assert found["centroid"][j] == pytest.approx(float(u[j] @ mean) / np.linalg.norm(mean))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mass", [0.2, 0.4, 0.6])
def test_theorem_4_3_a_mass_up_to_the_prior_recovers_only_positives(seed, mass):
    cone = planted_cone(60, 200, alpha=0.6, seed=seed)
    scores = transport_path(cosine_costs(cone.positives, cone.unlabelled)).scores(mass)
    assert cone.truth[scores > 0].all()
    assert kept(scores).sum() == pytest.approx(mass * 200, abs=1)


def test_beyond_the_prior_negatives_must_be_reached():
    cone = planted_cone(60, 200, alpha=0.6, seed=9)
    scores = transport_path(cosine_costs(cone.positives, cone.unlabelled)).scores(0.8)
    assert (~cone.truth[scores > 0]).sum() >= 0.2 * 200 - 1


def test_theorem_4_5_costs_move_little_and_no_faster_than_the_bound():
    still = planted_cone(60, 200, d=2048, tau=0.95, seed=4)
    before = cosine_costs(still.positives, still.unlabelled)
    for nuisance in (0.05, 0.1, 0.2):
        moved = planted_cone(60, 200, d=2048, tau=0.95, nuisance=nuisance, seed=4)
        change = np.abs(cosine_costs(moved.positives, moved.unlabelled) - before)
        epsilon = np.sqrt(1 - 0.95**2)
        assert change[:, still.truth].max() <= nuisance * epsilon + nuisance**2
        path = transport_path(cosine_costs(moved.positives, moved.unlabelled))
        assert moved.truth[path.scores(0.6) > 0].all()


def test_with_no_geometry_at_all_entry_mass_says_nothing():
    rng = np.random.default_rng(5)
    values = []
    for _ in range(30):
        x = rng.normal(size=(120, 16))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        path = transport_path(cosine_costs(x[:40], x[40:]))
        good = rng.integers(0, 2, 80) == 1
        values.append(auc(-path.entry_mass[good], -path.entry_mass[~good]))
    assert np.mean(values) == pytest.approx(0.5, abs=3 * 0.065 / np.sqrt(30))


def test_audit_says_what_is_missing():
    z = np.eye(4)
    with pytest.raises(InputError, match="no positive"):
        audit(np.zeros((0, 4)), np.zeros((0, 4)), [], z)
    with pytest.raises(InputError, match="no unlabelled"):
        audit(z, z, ["A"] * 4, np.zeros((0, 4)))
    with pytest.raises(InputError, match="keeps none of 4 positives in 4 question types"):
        audit(z, z, ["A", "B", "C", "D"], z)
    with pytest.raises(InputError, match="alpha2 is 0"):
        audit(z, z, ["A"] * 4, z, Denoising(alpha2=0))


def test_bootstraps_of_the_positives_leave_a_clear_case_clear():
    cone = planted_cone(60, 150, alpha=0.6, seed=6)
    entries = resampled_entries(cone.positives, cone.unlabelled, 8, seed=0)
    assert entries.shape == (150, 8)
    assert (entries[cone.truth] < 0.6).all()
    assert (entries[~cone.truth] >= 0.6 - 1e-9).all()
    assert np.array_equal(entries, resampled_entries(cone.positives, cone.unlabelled, 8, seed=0))


def test_words_ignore_the_prompt_and_see_the_wording():
    texts = [Text("p", "a b"), Text("q", "b a"), Text("p", "a b b"), Text("p", "")]
    v = WordsEncoder().encode(texts, quiet).vectors
    assert np.array_equal(v[0], v[1])
    assert not np.array_equal(v[0], v[2])
    assert not v[3].any()

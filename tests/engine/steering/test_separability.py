"""Equation 3 against a published-form second computation, planted shifts, and its behaviour without any."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.stats.projection import pca
from engine.steering.separability import by_layer, halves, principal, separability


def plain(x, high):
    h, low = x[high], x[~high]
    hv, lv = h.mean(0), low.mean(0)
    within = np.mean([np.linalg.norm(v - hv) for v in h]) + np.mean([np.linalg.norm(v - lv) for v in low])
    return np.linalg.norm(hv - lv) / within


def texts(n=40, layers=3, d=24, planted=(0.0, 0.0, 4.0), seed=0):
    """Activations in which the sides lie `planted[l]` apart at layer l, in one direction."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(layers, n, d))
    high = np.arange(n) % 2 == 0
    for layer, gap in enumerate(planted):
        x[layer, high, 0] += gap
    return x, high, np.array([f"c{i // 4}" for i in range(n)])


def test_all_layers_at_once_are_the_layers_one_by_one():
    x, high, _ = texts()
    np.testing.assert_allclose(separability(x, high), [plain(layer, high) for layer in x])


def test_two_points_a_side_by_hand():
    x = np.array([[[0.0], [2.0], [10.0], [12.0]]])  # means 1 and 11, within 1 + 1
    assert separability(x, np.array([False, False, True, True]))[0] == 5


def test_components_are_those_of_the_projection_module():
    x, _, _ = texts()
    centre, directions = principal(x, 2)
    for layer in range(3):
        ours = (x[layer] - centre[layer]) @ directions[layer]
        theirs = pca(x[layer], 2).points
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)


def test_a_planted_shift_is_found_at_its_layer_and_outside_its_null():
    found = by_layer(*texts(n=80), draws=60)
    for space in ("raw", "pca"):
        assert found[space].value.argmax() == 2
        assert found[space].value[2] > found[space].null_high[2]
        assert found[space].lower[2] > found[space].null_mean[2]
    assert found["pca"].value[2] > 3 * found["raw"].value[2]  # why raw values cannot be held against the paper's 1.09


def test_without_any_shift_the_raw_value_is_its_floor_and_the_null_says_so():
    rng = np.random.default_rng(1)
    high = np.arange(200) % 2 == 0
    x = rng.normal(size=(2, 200, 300))
    found = by_layer(x, high, np.array([f"c{i // 4}" for i in range(200)]), draws=60)["raw"]
    np.testing.assert_allclose(found.value, np.sqrt(2 / 50) / 2, rtol=0.1)  # 50 texts a side in the other half
    assert (found.p_value > 0.02).all()


def test_the_null_is_reached_as_often_as_it_says():
    p = [by_layer(*texts(planted=(0.0,), layers=1, seed=s), draws=40)["pca"].p_value[0] for s in range(60)]
    assert 0.02 <= np.mean(np.array(p) <= 0.2) <= 0.4


def test_sides_that_differ_by_their_contexts_alone_are_not_called_separated():
    rng = np.random.default_rng(4)
    contexts = np.repeat([f"c{i}" for i in range(20)], 6)
    high = rng.random(120) < np.repeat(np.where(np.arange(20) % 2, 0.9, 0.1), 6)  # a judge that likes odd contexts
    x = rng.normal(size=(1, 120, 16))
    x[0, :, 0] += np.repeat(np.where(np.arange(20) % 2, 6.0, 0.0), 6)
    found = by_layer(x, high, contexts, draws=80)["pca"]
    assert found.value[0] > 0.8
    assert found.p_value[0] > 0.05


def test_halves_share_no_context():
    _, high, contexts = texts()
    fit = halves(contexts, high, seed=0)
    assert not set(contexts[fit]) & set(contexts[~fit])


def test_sides_that_cannot_be_halved_are_refused():
    with pytest.raises(InputError, match="Use more training contexts"):
        halves(np.array(["a"] * 6 + ["b"]), np.array([True] * 6 + [False]), 0)


def test_a_layer_where_all_texts_coincide_has_no_p_value():
    x, high, contexts = texts(planted=(0.0, 0.0, 4.0))
    x[0] = 1.0
    found = by_layer(x, high, contexts, draws=20)["pca"]
    assert np.isnan(found.value[0])
    assert np.isnan(found.p_value[0])
    assert found.p_value[2] == pytest.approx(1 / 21)

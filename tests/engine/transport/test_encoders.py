"""Encoders that hold a model, on tiny random ones."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.cache import CallCache
from engine.inference.encoders import encode
from engine.transport.encoders import ModelEncoder, Text


def quiet(done, total):
    pass


@pytest.mark.parametrize("shape", ["llama", "reward", "bert"])
def test_vectors_are_those_of_the_model_and_equal_texts_have_equal_ones(tiny, shape, tmp_path):
    loaded = tiny(shape)
    cache = CallCache(tmp_path / "calls.sqlite")
    texts = [Text("What?", "This."), Text("What?", "That, and much more of it."), Text("What?", "This.")]
    found = ModelEncoder(loaded, cache).encode(texts, quiet)
    assert found.left_out == {}
    assert np.array_equal(found.vectors[0], found.vectors[2])
    assert not np.allclose(found.vectors[0], found.vectors[1])
    again = ModelEncoder(loaded, cache).encode(texts[1:2], quiet)
    assert np.array_equal(again.vectors[0], found.vectors[1])
    if shape == "bert":
        alone = encode(loaded, ["What?\n\nThis."])
        assert found.vectors[0] == pytest.approx(alone[0], abs=1e-5)
    assert found.vectors.shape[1] == 32


def test_a_text_longer_than_the_window_is_left_out_and_not_cut(tiny):
    loaded = tiny("bert")
    found = ModelEncoder(loaded).encode([Text("q", "x" * 600), Text("q", "short")], quiet)
    assert list(found.left_out) == [0]
    assert "window" in found.left_out[0]
    assert np.isnan(found.vectors[0]).all()
    assert np.isfinite(found.vectors[1]).all()

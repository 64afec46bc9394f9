"""A model whose layers are on several devices: read through its own modules, padded, with the same numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.inference import llama, loading, prefix
from engine.inference.batching import is_split
from engine.inference.scoring import LabelTokens, label_probabilities, way_for

LABELS = LabelTokens(("a", "b"), ((5,), (7,)))
PROMPTS = [[*range(3, 30 + 3 * i), 5 + i] for i in range(6)]


def test_nothing_reaches_into_layers_that_are_apart(tiny, monkeypatch):
    loaded = tiny("llama")
    whole = label_probabilities(loaded, PROMPTS, LABELS)
    assert way_for(loaded, [tuple(p) for p in PROMPTS]) == "shared"
    monkeypatch.setattr(loaded.model, "hf_device_map", {"model.layers.0": 0, "model.layers.1": 1}, raising=False)
    assert is_split(loaded.model)
    assert "several devices" in prefix.unsupported_reason(loaded)
    assert "several devices" in llama.unsupported_reason(loaded)
    assert way_for(loaded, [tuple(p) for p in PROMPTS]) == "plain"
    np.testing.assert_allclose(label_probabilities(loaded, PROMPTS, LABELS), whole, atol=1e-5)


def test_weights_placed_as_they_are_read_are_the_same(tiny, tiny_folders):
    import torch

    pytest.importorskip("accelerate")
    placed = loading.load_named("path:x", tiny_folders("llama"), torch.float32, device_map="cpu").model
    for (name, one), (other, two) in zip(
        placed.named_parameters(), tiny("llama").model.named_parameters(), strict=True
    ):
        assert name == other
        assert torch.equal(one, two)


def test_the_package_that_splits_is_named(settings, monkeypatch):
    monkeypatch.setattr(loading, "lacking", list)
    with pytest.raises(InputError, match="pip install accelerate"):
        loading._device_map("path:x", dataclasses.replace(settings, device="split"))
    assert loading._device_map("bundled:judge", dataclasses.replace(settings, device="split")) is None
    assert loading._device_map("path:x", settings) is None

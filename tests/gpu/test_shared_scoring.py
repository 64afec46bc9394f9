"""Shared prefixes on an accelerator: the same numbers as the plain path there, in float32."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from engine.inference.scoring import LabelTokens, label_probabilities

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
LABELS = LabelTokens(("a", "b"), ((), ()), (((5,), (7, 5)), ((5, 6), (7, 5, 6))))


@pytest.mark.parametrize("shape", ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "gpt2"])
def test_shared_equals_plain(tiny, shape):
    on_cpu = tiny(shape)
    rng = np.random.default_rng(5)
    stem, *replies = (rng.integers(3, 60, size=n).tolist() for n in (40, 30, 5, 12))
    ends = [rng.integers(3, 60, size=n).tolist() for n in (0, 1, 9, 20, 20, 3)]
    prompts = [stem + reply + end for reply in replies for end in ends]
    expected = label_probabilities(on_cpu, prompts, LABELS, way="plain")
    moved = dataclasses.replace(on_cpu, model=on_cpu.model.to("cuda"), device="cuda:0")
    try:
        plain = label_probabilities(moved, prompts, LABELS, way="plain")
        for budget in (None, 64):
            shared = label_probabilities(moved, prompts, LABELS, batch_tokens=budget, way="shared")
            np.testing.assert_allclose(shared, plain, atol=1e-4)
    finally:
        on_cpu.model.to("cpu")
    np.testing.assert_allclose(plain, expected, atol=1e-3)

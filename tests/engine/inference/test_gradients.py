"""Gradients of the expected answer against finite differences, and with shared beginnings against without."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from engine.core.errors import ModelError
from engine.inference.gradients import require_white_box, slot_gradients, vocabulary_scores
from engine.inference.scoring import LabelTokens, label_tokens

LABELS = LabelTokens(("1", "2", "3"), ((60, 61), (70,), (80,)))
VALUES = np.array([1.0, 2.0, 5.0])
RNG = np.random.default_rng(0)
STEMS = RNG.integers(3, 250, size=(2, 21)).tolist()
PROMPTS = [[*stem, *RNG.integers(3, 250, size=n).tolist()] for stem in STEMS for n in (5, 5, 9)]
SLOTS = [21] * 6
WORTH = np.tile(VALUES, (6, 1))


def expected_answer(loaded, prompt, at, change):
    """The expectation with the embedding at one place changed, straight from the model."""
    with torch.no_grad():
        embedded = loaded.model.get_input_embeddings()(torch.tensor([prompt]))
        embedded[0, at] += torch.tensor(change, dtype=embedded.dtype)
        if loaded.kind == "encoder-decoder":
            start = torch.tensor([[loaded.model.config.decoder_start_token_id]])
            logits = loaded.model(inputs_embeds=embedded, decoder_input_ids=start).logits[0, -1]
        else:
            logits = loaded.model(inputs_embeds=embedded, use_cache=False).logits[0, -1]
    p = logits.softmax(-1)
    shares = np.array([float(p[list(own)].sum()) for own in LABELS.ids])
    return float(shares @ VALUES / shares.sum())


@pytest.mark.parametrize("shape", ["llama", "gpt2", "gemma3", "t5"])
def test_gradients_are_those_of_finite_differences(tiny, shape):
    exact = replace(tiny(shape), model=copy.deepcopy(tiny(shape).model).double())
    found = slot_gradients(exact, PROMPTS[:2], [21, 4], LABELS, WORTH[:2])
    h = 1e-3  # models keep some steps in float32 whatever their dtype, so smaller steps drown in rounding
    for prompt, at, gradient in zip(PROMPTS[:2], [21, 4], found, strict=True):
        for _ in range(3):
            direction = RNG.normal(size=gradient.shape)
            direction *= np.linalg.norm(gradient) / np.linalg.norm(direction) / 4
            direction += gradient  # mostly along the gradient, where there is something to measure
            direction /= np.linalg.norm(direction)
            f = {k: expected_answer(exact, prompt, at, k * h * direction) for k in (-2, -1, 1, 2)}
            slope = (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * h)  # fourth order
            assert gradient @ direction == pytest.approx(slope, rel=2e-2, abs=1e-4)


@pytest.mark.parametrize("shape", ["llama", "qwen2", "qwen3", "gpt2", "mistral", "gemma2", "t5"])
def test_shared_beginnings_change_nothing(tiny, shape):
    told = []
    shared = slot_gradients(tiny(shape), PROMPTS, SLOTS, LABELS, WORTH, told.append)
    whole = slot_gradients(tiny(shape), PROMPTS, SLOTS, LABELS, WORTH, share=False)
    np.testing.assert_allclose(shared, whole, atol=1e-5 * max(1.0, np.abs(whole).max()))
    assert told[-1] == len(PROMPTS)
    assert np.abs(whole).max() > 1e-6


def test_the_first_order_gain_of_a_token_is_its_embedding_along_the_gradient(tiny):
    loaded = tiny("llama")
    direction = RNG.normal(size=32)
    weight = loaded.model.get_input_embeddings().weight.detach().double().numpy()
    np.testing.assert_allclose(vocabulary_scores(loaded, direction, [9, 200]), weight[[9, 200]] @ direction, rtol=1e-4)


def test_a_score_without_a_single_token_is_named_with_the_remedy(tiny):
    loaded = tiny("llama")
    with pytest.raises(ModelError, match=r"no single token for the score '10'.*1 to 5"):
        require_white_box(loaded, label_tokens(loaded.tokenizer, ("9", "10")))


def test_a_model_that_answers_nothing_is_refused(tiny):
    with pytest.raises(ModelError, match="answers no prompts"):
        require_white_box(tiny("reward"), LABELS)


def test_nothing_is_left_on_the_model(tiny):
    loaded = tiny("llama")
    slot_gradients(loaded, PROMPTS[:1], SLOTS[:1], LABELS, WORTH[:1])
    assert all(p.grad is None and not p.requires_grad for p in loaded.model.parameters())

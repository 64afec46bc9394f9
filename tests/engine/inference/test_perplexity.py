"""Perplexity on a tiny random model equals the product of one-token-at-a-time probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from engine.core.errors import InputError, ModelError
from engine.inference.loading import LoadedModel
from engine.inference.perplexity import perplexities, reduced, text_ids, token_nlls


class Letters:
    """A tokenizer of letters; with `bos`, one that puts a BOS ahead by itself."""

    def __init__(self, bos=None):
        self.bos_token_id = bos

    def __call__(self, text, add_special_tokens=True, split_special_tokens=False):
        ids = [ord(c) % 90 + 5 for c in text]
        return {"input_ids": [self.bos_token_id, *ids] if add_special_tokens and self.bos_token_id else ids}


def tiny(bos=None, kind="causal"):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    return LoadedModel("path:tiny", model, Letters(bos), "cpu", "float32", "tiny", 128, kind)


def naive(loaded, ids):
    """Negative log-likelihood of each token from a pass of its own."""
    with torch.no_grad():
        return [
            -float(loaded.model(torch.tensor([ids[:i]])).logits[0, -1].log_softmax(-1)[ids[i]])
            for i in range(1, len(ids))
        ]


TEXTS = ["a text of some words", "short", "zz", "another text, a good deal longer than all of the others together"]


@pytest.mark.parametrize("bos", [None, 3])
def test_one_pass_equals_one_token_at_a_time(bos):
    loaded = tiny(bos)
    found = perplexities(loaded, TEXTS)
    product = [np.exp(np.mean(naive(loaded, text_ids(loaded, text)))) for text in TEXTS]
    np.testing.assert_allclose(found, product, rtol=1e-4)


def test_windows_are_read_from_the_same_likelihoods():
    loaded = tiny()
    for window in (1, 3, 200):
        for text, value in zip(TEXTS, perplexities(loaded, TEXTS, window), strict=True):
            nlls = naive(loaded, text_ids(loaded, text))
            w = min(window, len(nlls))
            assert value == pytest.approx(np.exp(max(np.mean(nlls[i : i + w]) for i in range(len(nlls) - w + 1))), 1e-4)


def test_batches_change_nothing_and_are_reported_once():
    loaded, seen = tiny(), []
    rows = [text_ids(loaded, text) for text in TEXTS]
    small = token_nlls(loaded, rows, lambda batch, _: seen.extend(batch), batch_tokens=16)
    for one, other in zip(small, token_nlls(loaded, rows), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert sorted(seen) == [0, 1, 2, 3]


def test_texts_without_anything_to_predict():
    assert np.isnan(perplexities(tiny(), ["", "x"])).all()
    empty, one = perplexities(tiny(bos=3), ["", "x"])
    assert math.isnan(empty)
    assert one == pytest.approx(np.exp(naive(tiny(bos=3), text_ids(tiny(bos=3), "x"))[0]), rel=1e-4)
    assert perplexities(tiny(), []).shape == (0,)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=30), st.integers(1, 40))
def test_a_window_is_never_below_the_whole_when_it_divides_it(nlls, window):
    row = np.array(nlls)
    whole = reduced(row, None)
    assert reduced(row, 1) == pytest.approx(np.exp(row.max()))
    assert reduced(row, len(row)) == pytest.approx(whole)
    if len(row) % window == 0:
        assert reduced(row, window) >= whole * (1 - 1e-9)


def test_refusals_name_the_limit():
    with pytest.raises(InputError, match=r"window of path:tiny, 128 tokens; text 2 has 129"):
        perplexities(tiny(), ["a", "a" * 129])
    with pytest.raises(InputError, match="at least 1"):
        perplexities(tiny(), ["abc"], 0)
    with pytest.raises(ModelError, match="no causal language model"):
        perplexities(tiny(kind="encoder"), ["abc"])


def test_nan_weights_are_refused():
    broken = tiny()
    with torch.no_grad():
        broken.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        perplexities(broken, ["abc"])

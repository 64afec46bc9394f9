"""Vectors of texts: batching changes nothing, the right token is read, nothing is cut."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from engine.core.errors import InputError, ModelError
from engine.inference.chat import Message, chat_ids
from engine.inference.encoders import encode

TEXTS = ["a", "a longer text than that", "", "short one", "a text </s> that writes an end token"]
ENCODERS = ["llama", "qwen3", "gemma3", "t5", "reward", "bert", "qwen3-embedding"]


@pytest.mark.parametrize("shape", ENCODERS)
def test_batch_equals_single(tiny, shape):
    loaded = tiny(shape)
    together = encode(loaded, TEXTS)
    assert together.shape == (5, 32)
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, np.concatenate([encode(loaded, [t]) for t in TEXTS]), atol=1e-5)
    assert np.linalg.norm(together[0] - together[1]) > 1e-3


@pytest.mark.parametrize(("shape", "trunk"), [("llama", "model"), ("reward", "model")])
def test_last_real_token_of_causal_and_reward_models(tiny, shape, trunk):
    loaded = tiny(shape)
    chats = [[Message("user", "Why?"), Message("assistant", reply)] for reply in ("Because.", "It is so, and more so.")]
    got = encode(loaded, chats)
    with torch.no_grad():
        for chat, row in zip(chats, got, strict=True):
            ids = torch.tensor([chat_ids(loaded.tokenizer, chat)])
            own = getattr(loaded.model, trunk)(input_ids=ids).last_hidden_state[0, -1]
            np.testing.assert_allclose(row, own.numpy(), atol=1e-5)


def test_mean_over_real_tokens_of_a_sentence_encoder(tiny):
    bert = tiny("bert")
    assert bert.pooling == "mean"
    ids = torch.tensor([bert.tokenizer(TEXTS[1])["input_ids"]])
    with torch.no_grad():
        states = bert.model(input_ids=ids).last_hidden_state[0]
    np.testing.assert_allclose(encode(bert, TEXTS)[1], states.mean(dim=0).numpy(), atol=1e-5)
    np.testing.assert_allclose(encode(bert, TEXTS, pooling="cls")[1], states[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(encode(bert, TEXTS, pooling="last")[1], states[-1].numpy(), atol=1e-5)


def test_no_texts_no_vectors(tiny):
    assert encode(tiny("bert"), []).shape == (0, 0)


def test_every_batch_is_reported(tiny):
    seen = []
    encode(tiny("llama"), TEXTS, after_batch=lambda batch, rows: seen.append((batch, rows.shape)), batch_tokens=30)
    assert sorted(i for batch, _ in seen for i in batch) == [0, 1, 2, 3, 4]
    assert all(shape == (len(batch), 32) for batch, shape in seen)


def test_too_long_is_refused_and_never_cut(tiny):
    with pytest.raises(InputError, match=r"1 of 2 texts are longer.*512 tokens; text 2 has 6.*Nothing was cut"):
        encode(tiny("llama"), ["a", "x" * 600])


def test_an_empty_text_without_any_token_is_refused(tiny):
    loaded = tiny("llama")

    class NoStart:
        eos_token_id = bos_token_id = None

        def __call__(self, texts, **_):
            return {"input_ids": [[5] * len(text) for text in texts]}

    with pytest.raises(InputError, match="Text 2 of 2 is empty"):
        encode(dataclasses.replace(loaded, tokenizer=NoStart()), ["a", ""])


def test_conversations_need_a_chat_template(tiny):
    bert = tiny("bert")

    class Bare:
        chat_template = None

    with pytest.raises(ModelError, match="no chat template, so conversations cannot be encoded"):
        encode(dataclasses.replace(bert, tokenizer=Bare()), [[Message("user", "x")]])

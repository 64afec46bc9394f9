"""Label probabilities on a tiny random model: batching changes nothing, variants merge, refusals are clear."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from engine.errors import ModelError
from engine.models.loader import LoadedModel
from engine.models.scoring import LabelTokens, _batches, label_probabilities, label_tokens


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    return LoadedModel("path:tiny", LlamaForCausalLM(config).eval(), None, "cpu", "float32", "tiny", 128)


LABELS = LabelTokens(("1", "2"), ((5, 6), (7,)))


def prompts(n: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 97, size=rng.integers(1, 60)).tolist() for _ in range(n)]


def test_batch_equals_single_and_plain_softmax(tiny):
    asked = prompts(17, seed=1)
    together = label_probabilities(tiny, asked, LABELS)
    alone = np.concatenate([label_probabilities(tiny, [p], LABELS) for p in asked])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    with torch.no_grad():
        for prompt, row in zip(asked, together, strict=True):
            p = tiny.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
            np.testing.assert_allclose(row, [float(p[5] + p[6]), float(p[7])], atol=1e-5)


def test_every_batch_is_reported_once_and_may_stop_the_run(tiny):
    asked, seen = prompts(9, seed=2), []

    def after(batch, rows):
        seen.extend(batch)
        assert rows.shape == (len(batch), 2)

    label_probabilities(tiny, asked, LABELS, after, batch_tokens=64)
    assert sorted(seen) == list(range(9))

    def stop(batch, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label_probabilities(tiny, asked, LABELS, stop)


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 500))
def test_batches_cover_all_and_keep_the_budget(lengths, budget):
    batches = _batches(lengths, budget)
    assert sorted(i for b in batches for i in b) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget


def test_nan_weights_are_refused():
    broken = LlamaForCausalLM(LlamaConfig(vocab_size=11, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                          num_attention_heads=2, num_key_value_heads=1))  # fmt: skip
    with torch.no_grad():
        broken.lm_head.weight.fill_(float("nan"))
    loaded = LoadedModel("path:x", broken.eval(), None, "cpu", "float32", "x", 64)
    with pytest.raises(ModelError, match="NaN"):
        label_probabilities(loaded, [[1, 2]], LabelTokens(("a", "b"), ((1,), (2,))))


class Words:
    """A tokenizer whose vocabulary is written down."""

    ids = {"1": [1], " 1": [11], "2": [2], " 2": [9, 2], "10": [1, 0], "Yes": [3], "YES": [8, 8], "NO": [4]}  # noqa: RUF012

    def encode(self, text, add_special_tokens):
        return self.ids.get(text, [99, 98])


def test_variants_of_one_answer_are_merged():
    assert label_tokens(Words(), ["1", "2"]).ids == ((1, 11), (2,))
    assert label_tokens(Words(), ["YES", "NO"], [["Yes"], []]).ids == ((3,), (4,))


def test_a_label_of_two_tokens_is_refused_by_name():
    with pytest.raises(ModelError, match="'10' is more than one token"):
        label_tokens(Words(), ["1", "10"])


def test_two_labels_on_one_token_are_refused():
    with pytest.raises(ModelError, match="share a token"):
        label_tokens(Words(), ["1", "2"], [["2"], []])

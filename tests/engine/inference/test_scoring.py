"""Label probabilities on a tiny random model: batching changes nothing, variants merge, refusals are clear."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from engine.core.errors import ModelError
from engine.inference.batching import batches
from engine.inference.loading import LoadedModel
from engine.inference.scoring import LabelTokens, label_probabilities, label_tokens


@pytest.fixture(scope="module")
def small() -> LoadedModel:
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


def test_batch_equals_single_and_plain_softmax(small):
    asked = prompts(17, seed=1)
    together = label_probabilities(small, asked, LABELS)
    alone = np.concatenate([label_probabilities(small, [p], LABELS) for p in asked])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    with torch.no_grad():
        for prompt, row in zip(asked, together, strict=True):
            p = small.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
            np.testing.assert_allclose(row, [float(p[5] + p[6]), float(p[7])], atol=1e-5)


def test_every_batch_is_reported_once_and_may_stop_the_run(small):
    asked, seen = prompts(9, seed=2), []

    def after(batch, rows):
        seen.extend(batch)
        assert rows.shape == (len(batch), 2)

    label_probabilities(small, asked, LABELS, after, batch_tokens=64)
    assert sorted(seen) == list(range(9))

    def stop(batch, rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label_probabilities(small, asked, LABELS, stop)


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(1, 500))
def test_batches_cover_all_and_keep_the_budget(lengths, budget):
    for equal in (False, True):
        made = batches(lengths, budget, equal=equal)
        assert sorted(i for b in made for i in b) == list(range(len(lengths)))
        for batch in made:
            assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget
            assert not equal or len({lengths[i] for i in batch}) == 1


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


def test_one_label_of_two_tokens_makes_every_spelling_count():
    got = label_tokens(Words(), ["1", "10"])
    assert got.ids == ((1, 11), ())
    assert got.sequences == (((1,), (11,)), ((1, 0), (99, 98)))
    assert got.beginnings == ((), (1,), (99,))
    assert got.reach == 1
    assert label_tokens(Words(), ["1", "2"]).sequences == ()


def test_two_labels_on_one_token_are_refused():
    with pytest.raises(ModelError, match="share a token"):
        label_tokens(Words(), ["1", "2"], [["2"], []])


def test_two_labels_written_alike_are_refused():
    with pytest.raises(ModelError, match="share a spelling"):
        label_tokens(Words(), ["10", "12"], [[], ["10"]])


def test_a_label_outside_the_vocabulary_is_refused():
    class Closed(Words):
        unk_token_id = 98

    with pytest.raises(ModelError, match="cannot write the label 'maybe'"):
        label_tokens(Closed(), ["1", "maybe"])


def test_a_tokenizer_that_prefixes_spaces_still_has_one_token_labels():
    class Prefixing:
        unk_token_id = 0
        pieces = {"▁": 5, "4": 6, "▁B": 7}  # noqa: RUF012

        def encode(self, text, add_special_tokens):
            return [5, 6] if text.strip() == "4" else [5, 9]

        def convert_tokens_to_ids(self, piece):
            return self.pieces.get(piece, 0)

        def convert_ids_to_tokens(self, i):
            return {v: k for k, v in self.pieces.items()}.get(i, "<unk>")

    assert label_tokens(Prefixing(), ["4", "B"]).ids == ((6,), (7,))


def brute_force(loaded, prompt, spellings, others):
    """P(what follows is one of the spellings, and not a longer one of any label), by walking the tree of tokens."""
    every = [*spellings, *others]
    total = 0.0
    with torch.no_grad():
        for spelling in spellings:
            ways = [(list(prompt), 1.0, spelling)]
            for ids, p, rest in ways:
                q = loaded.model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
                if len(rest) > 1:
                    ways.append(([*ids, rest[0]], p * float(q[rest[0]]), rest[1:]))
                else:
                    p_end = p * float(q[rest[0]])
                    nexts = {s[len(spelling)] for s in every if s[: len(spelling)] == spelling and s != spelling}
                    after = loaded.model(torch.tensor([[*ids, rest[0]]])).logits[0, -1].double().softmax(-1)
                    total += p_end * (1 - sum(float(after[t]) for t in nexts))
    return total


@pytest.mark.parametrize(
    "sequences",
    [
        pytest.param((((5, 6),), ((7, 8, 9), (10,))), id="apart"),
        pytest.param((((5,),), ((5, 6),)), id="one begins the other"),
        pytest.param((((5,), (7, 5)), ((5, 6), (7, 5, 6)), ((8, 9),)), id="ten grades"),
    ],
)
def test_labels_of_several_tokens_equal_brute_force(small, sequences):
    labels = LabelTokens(tuple("abc"[: len(sequences)]), ((),) * len(sequences), sequences)
    asked = prompts(6, seed=3)
    got = label_probabilities(small, asked, labels)
    for prompt, row in zip(asked, got, strict=True):
        for i, own in enumerate(sequences):
            others = [s for j, other in enumerate(sequences) if j != i for s in other]
            assert row[i] == pytest.approx(brute_force(small, prompt, own, others), rel=1e-4)
        assert 0 < row.sum() <= 1


def test_one_token_labels_score_alike_as_sequences(small):
    asked = prompts(5, seed=4)
    listed = LabelTokens(("1", "2"), ((), ()), (((5,), (6,)), ((7,),)))
    np.testing.assert_allclose(
        label_probabilities(small, asked, listed), label_probabilities(small, asked, LABELS), atol=1e-9
    )


def test_encoder_decoder_is_read_at_its_first_step(tiny):
    t5 = tiny("t5")
    asked = [t5.tokenizer(text)["input_ids"] for text in ("short", "a longer prompt than that", "x")]
    labels = label_tokens(t5.tokenizer, ["1", "2"])
    got = label_probabilities(t5, asked, labels)
    with torch.no_grad():
        for prompt, row in zip(asked, got, strict=True):
            out = t5.model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([[0]]))
            p = out.logits[0, -1].softmax(-1)
            np.testing.assert_allclose(row, [float(p[list(ids)].sum()) for ids in labels.ids], rtol=1e-4)


def test_encoder_decoder_scores_labels_of_several_tokens(tiny):
    t5 = tiny("t5")
    labels = label_tokens(t5.tokenizer, ["YES", "NO"])
    prompt = t5.tokenizer("does it match?")["input_ids"]
    row = label_probabilities(t5, [prompt], labels)[0]
    with torch.no_grad():
        for i, spellings in enumerate(labels.sequences):
            total = 0.0
            for spelling in spellings:
                out = t5.model(
                    input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([[0, *spelling[:-1]]])
                ).logits[0]
                p = out.softmax(-1)
                total += float(torch.stack([p[k, token] for k, token in enumerate(spelling)]).prod())
            assert row[i] == pytest.approx(total, rel=1e-4)

"""Shared beginnings change no number: every architecture, any trie, any cut; what cannot be shared says so."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.errors import ModelError
from engine.inference import batching as memory
from engine.inference import prefix, scoring
from engine.inference.llama import Llama
from engine.inference.scoring import LabelTokens, label_probabilities, way_for

CAUSAL = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "gpt2"]
ONE = LabelTokens(("1", "2"), ((5, 6), (7,)))
SEVERAL = LabelTokens(("a", "b"), ((), ()), (((5,), (7, 5)), ((5, 6), (7, 5, 6), (8, 9, 4))))
PIECE = st.lists(st.integers(3, 60), min_size=0, max_size=30)
ALMOST = 1e-5


@st.composite
def families(draw):
    """Prompts that grow from one another: duplicates, one inside another, empty branches, strangers."""
    made = [draw(st.lists(st.integers(3, 60), min_size=1, max_size=60))]
    for _ in range(draw(st.integers(0, 9))):
        parent = draw(st.sampled_from(made))
        keep = draw(st.integers(1, len(parent)))
        made.append(parent[:keep] + draw(PIECE))
    return made


def grid():
    """A stem, three replies, six endings; longer than the small models' attention windows."""
    rng = np.random.default_rng(5)
    stem, *replies = (rng.integers(3, 60, size=n).tolist() for n in (40, 30, 5, 12))
    ends = [rng.integers(3, 60, size=n).tolist() for n in (0, 1, 9, 20, 20, 3)]
    return [stem + reply + end for reply in replies for end in ends]


@pytest.mark.parametrize("shape", CAUSAL)
@pytest.mark.parametrize("labels", [ONE, SEVERAL], ids=["one token", "several"])
def test_shared_equals_plain_and_single_on_every_shape(tiny, shape, labels):
    loaded, prompts = tiny(shape), grid()
    plain = label_probabilities(loaded, prompts, labels, way="plain")
    alone = np.concatenate([label_probabilities(loaded, [p], labels, way="plain") for p in prompts])
    for batch_tokens in (None, 64):
        shared = label_probabilities(loaded, prompts, labels, batch_tokens=batch_tokens, way="shared")
        np.testing.assert_allclose(shared, plain, atol=ALMOST)
        np.testing.assert_allclose(shared, alone, atol=ALMOST)
    assert np.ptp(plain[:, 0]) > 1e-3  # the prompts do get different answers


@pytest.mark.parametrize("shape", ["llama", "gemma2"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(prompts=families(), row_tokens=st.sampled_from([1, 8, 40]), budget=st.sampled_from([16, 100, 4000]))
def test_any_trie_and_any_cut_give_the_same_logits(tiny, shape, prompts, row_tokens, budget):
    loaded = tiny(shape)
    got: dict[int, torch.Tensor] = {}

    def take(found, logits):
        assert len(found) == len(logits)
        assert not set(found) & set(got)
        got.update(zip(found, logits, strict=True))

    prefix.read_shared(loaded, [tuple(p) for p in prompts], take, budget, row_tokens)
    assert sorted(got) == list(range(len(prompts)))
    with torch.inference_mode():
        for i, prompt in enumerate(prompts):
            alone = loaded.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
            torch.testing.assert_close(got[i].softmax(-1), alone, atol=ALMOST, rtol=0)


def test_lengths_up_to_the_models_window(tiny):
    loaded = tiny("mistral")
    long = np.random.default_rng(0).integers(3, 60, size=loaded.max_tokens).tolist()
    prompts = [long, long[:-1], long[:1], long[:300] + long[:212]]
    shared = label_probabilities(loaded, prompts, ONE, way="shared")
    np.testing.assert_allclose(shared, label_probabilities(loaded, prompts, ONE, way="plain"), atol=ALMOST)


def test_equal_prompts_are_asked_once_and_all_reported(tiny):
    loaded, seen = tiny("t5"), []
    prompts = [[5, 6, 7], [8], [5, 6, 7], [5, 6, 7]]
    rows = label_probabilities(loaded, prompts, ONE, lambda batch, _: seen.append(batch))
    assert sorted(i for batch in seen for i in batch) == [0, 1, 2, 3]
    assert (rows[0] == rows[2]).all()
    assert (rows[0] == rows[3]).all()
    encoded = []
    handle = loaded.model.get_encoder().register_forward_hook(lambda m, a, out: encoded.append(len(out[0])))
    label_probabilities(loaded, prompts, ONE)
    handle.remove()
    assert sum(encoded) == 2


def watch(monkeypatch):
    """The padded tokens of every pass of shared prefixes from now on."""
    tokens, forward = [], Llama.forward

    def seen(self, ids, *rest, **options):
        tokens.append(ids.numel())
        return forward(self, ids, *rest, **options)

    monkeypatch.setattr(Llama, "forward", seen)
    return tokens


def test_a_call_may_stop_after_any_pass_also_before_the_first_answer(tiny):
    reported, loaded = [], tiny("llama")
    prompts = grid()
    label_probabilities(loaded, prompts, ONE, lambda batch, rows: reported.append((batch, rows)), 64, "shared")
    assert sorted(i for batch, _ in reported for i in batch) == list(range(len(prompts)))
    assert reported[0][0] == []
    assert all(rows.shape == (len(batch), 2) for batch, rows in reported)

    class StopError(Exception):
        pass

    def stop(batch, rows):
        raise StopError

    with pytest.raises(StopError):
        label_probabilities(loaded, prompts, ONE, stop, 64, "shared")


def test_sharing_is_chosen_where_it_saves_and_several_beginnings_cost_no_second_prompt(tiny, monkeypatch):
    loaded = tiny("llama")
    stem = tuple(range(3, 60))
    assert way_for(loaded, [stem]) == "plain"
    assert way_for(loaded, [(1, *stem), (2, *stem)]) == "plain"
    assert way_for(loaded, [(*stem, 1), (*stem, 2)]) == "shared"
    assert way_for(tiny("t5"), [stem, stem]) == "encoder-decoder"
    tokens = watch(monkeypatch)
    label_probabilities(loaded, [list(stem)], SEVERAL)
    assert sum(tokens) == len(stem) + len(SEVERAL.beginnings) - 1


def test_what_cannot_be_shared_is_scored_plainly_and_says_why_once(tiny, caplog):
    loaded = tiny("llama")
    config = type(loaded.model.config).from_dict(loaded.model.config.to_dict() | {"model_type": "llama"})
    config._attn_implementation = "sdpa"
    config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    assert "position encoding" in prefix.unsupported_reason(dataclasses.replace(loaded, model=Stand(config)))
    config = type(loaded.model.config)()
    config._attn_implementation = "flash_attention_2"
    odd = dataclasses.replace(loaded, model=Stand(config), fingerprint="odd")
    with caplog.at_level(logging.WARNING):
        assert not prefix.can_share(odd)
        assert not prefix.can_share(odd)
    assert len(caplog.records) == 1
    assert "flash_attention_2" in caplog.text
    assert "no causal" in prefix.unsupported_reason(tiny("t5"))
    assert prefix.unsupported_reason(tiny("gemma3")) == ""


class Stand:
    """Only a config."""

    def __init__(self, config):
        self.config = config


@pytest.mark.parametrize("way", ["plain", "shared"])
def test_out_of_memory_halves_the_batch_and_goes_on(tiny, way, monkeypatch):
    monkeypatch.setattr(prefix, "CPU_ROW_TOKENS", 32)
    loaded, prompts, sizes = tiny("llama"), grid(), []
    expected = label_probabilities(loaded, prompts, ONE, way="plain")

    def small(module, args, kwargs):
        sizes.append(len(kwargs["input_ids"]))
        if len(kwargs["input_ids"]) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")

    forward = Llama.forward

    def small_pass(self, ids, *rest, **options):
        small(None, (), {"input_ids": ids})
        return forward(self, ids, *rest, **options)

    monkeypatch.setattr(Llama, "forward", small_pass)
    handle = loaded.model.register_forward_pre_hook(small, with_kwargs=True)
    try:
        got = label_probabilities(loaded, prompts, ONE, way=way)
    finally:
        handle.remove()
    assert max(sizes) > 1
    np.testing.assert_allclose(got, expected, atol=ALMOST)


def test_one_prompt_that_does_not_fit_is_an_error_that_says_so(tiny):
    loaded = tiny("llama")

    def never(module, args):
        raise torch.OutOfMemoryError("CUDA out of memory")

    handle = loaded.model.register_forward_pre_hook(never)
    try:
        with pytest.raises(ModelError, match="needs more memory than cpu"):
            label_probabilities(loaded, [[3, 4]], ONE)
    finally:
        handle.remove()


def test_memory_is_computed_from_the_config_and_bounds_a_pass(tiny, monkeypatch):
    loaded = tiny("llama")  # 2 layers, 2 key-value heads of width 8, float32
    needs = memory.footprint(loaded.model)
    assert needs.kv == 2 * 2 * 2 * 8 * 4
    assert needs.of(2, 10, 5, 1) == 2 * needs.of(1, 10, 5, 1)
    room = needs.of(1, 70, 80, 6) * 2 / memory.SHARE
    monkeypatch.setattr(prefix, "free_bytes", lambda device: int(room))
    expected = label_probabilities(loaded, grid(), ONE, way="plain")
    tokens = watch(monkeypatch)
    got = label_probabilities(loaded, grid(), ONE, way="shared")
    np.testing.assert_allclose(got, expected, atol=ALMOST)
    assert max(tokens) < 300
    assert memory.free_bytes("cpu") > 2**20


def test_the_threshold_is_above_one():
    assert scoring.WORTH_SHARING > 1

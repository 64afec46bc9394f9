"""Our decode loop against the library's: same logits, same text, alone and in a batch, steered and not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from engine.core.errors import InputError, ModelError
from engine.inference.llama import Row, Session, fused_forward, unsupported_reason
from engine.steering.activations import blocks, last_activations, steered
from engine.steering.decode import decode
from engine.steering.vectors import Editor, edit_of

PROMPTS = [[5, 9, 30, 41, 7], [8, 8, 12], [17], [60, 3, 44, 45, 46, 47, 21, 90]]
ROWS = [Row(i) for i in range(4)]
LIMIT = 12
WRITTEN_OUT = ["llama", "qwen2", "qwen3"]
BY_MODULES = ["mistral", "gemma2", "gpt2"]


def generated(loaded, prompt, edit=None):
    """What the library's own generate writes, with the same hook."""
    config = GenerationConfig(max_new_tokens=LIMIT, do_sample=False, eos_token_id=2, pad_token_id=0)
    ids = torch.tensor([prompt])

    def go():
        return loaded.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)

    if edit is None:
        out = go()
    else:
        with steered(loaded, edit):
            out = go()
    tokens = out[0, len(prompt) :].tolist()
    return tokens[: tokens.index(2)] if 2 in tokens else tokens


@pytest.mark.parametrize("shape", [*WRITTEN_OUT, *BY_MODULES])
def test_unsteered_text_is_that_of_the_librarys_generate(tiny, shape):
    loaded = tiny(shape)
    assert bool(unsupported_reason(loaded)) == (shape in BY_MODULES)
    found = decode(loaded, PROMPTS, ROWS, LIMIT)
    assert [list(w.ids) for w in found] == [generated(loaded, p) for p in PROMPTS]


@pytest.mark.parametrize("shape", [*WRITTEN_OUT, *BY_MODULES])
def test_steered_text_is_that_of_generate_with_the_same_hook(tiny, standards, shape):
    loaded = tiny(shape)
    strengths = [("high", 0.0), ("low", 20.0), ("high", 40.0), ("high", 5.0)]
    edit = edit_of(standards, strengths)
    found = decode(loaded, PROMPTS, ROWS, LIMIT, edit)
    assert [list(w.ids) for w in found] == [generated(loaded, p, edit.rows([i])) for i, p in enumerate(PROMPTS)]
    assert len({w.relative_edit > 0 for w in found}) == 2


@pytest.mark.parametrize("shape", WRITTEN_OUT)
@pytest.mark.parametrize("way", ["fused", "products"])
def test_logits_after_a_prompt_are_the_models(tiny, shape, way):
    loaded = tiny(shape)
    with torch.inference_mode():
        session = Session(fused_forward(loaded), PROMPTS, ROWS, 2, way=way)
        session.step()
        for row, prompt in zip(session.logits, PROMPTS, strict=True):
            wanted = loaded.model(input_ids=torch.tensor([prompt])).logits[0, -1]
            torch.testing.assert_close(row, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", ["llama", "gpt2"])
def test_alpha_zero_is_unsteered_text_and_logits(tiny, standards, shape):
    loaded = tiny(shape)
    edit = edit_of(standards, [("high", 0.0)] * 4)
    assert [w.ids for w in decode(loaded, PROMPTS, ROWS, LIMIT, edit)] == [
        w.ids for w in decode(loaded, PROMPTS, ROWS, LIMIT)
    ]
    if not unsupported_reason(loaded):
        with torch.inference_mode():
            both = [Session(fused_forward(loaded), PROMPTS, ROWS, 2, e) for e in (Editor(edit, "cpu"), None)]
            for session in both:
                session.step()
        assert torch.equal(both[0].logits, both[1].logits)


def test_a_row_of_a_batch_is_the_row_alone(tiny, standards):
    loaded = tiny("llama")
    rows = [Row(i % 4, temperature=t, seed=i) for i, t in enumerate([0, 0.8, 1.5, 0, 0.8, 1.5, 0, 2.0])]
    strengths = [(side, a) for a in (0.0, 3.0, 10.0, 30.0) for side in ("high", "low")]
    together = decode(loaded, PROMPTS, rows, LIMIT, edit_of(standards, strengths))
    for k, row in enumerate(rows):
        alone = decode(loaded, PROMPTS, [row], LIMIT, edit_of(standards, [strengths[k]]))
        assert alone[0].ids == together[k].ids
        assert alone[0].relative_edit == pytest.approx(together[k].relative_edit, abs=1e-5)


def test_batches_of_two_rows_write_the_same(tiny):
    loaded = tiny("llama")
    rows = [Row(i % 4, 1.0, i) for i in range(7)]
    assert decode(loaded, PROMPTS, rows, LIMIT, batch_rows=2) == decode(loaded, PROMPTS, rows, LIMIT)


def test_a_draw_follows_the_probabilities_of_the_likeliest_tokens(tiny):
    loaded = tiny("llama")
    n = 1500
    found = decode(loaded, PROMPTS, [Row(0, 1.0, seed) for seed in range(n)], 1)
    first = [w.ids[0] if w.ids else 2 for w in found]
    logits = loaded.model(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1]
    values, ids = logits.topk(50)
    p = dict(zip(ids.tolist(), values.softmax(0).tolist(), strict=True))
    assert set(first) <= set(p)
    token, most = max(p.items(), key=lambda pair: pair[1])
    assert abs(first.count(token) / n - most) < 4 * np.sqrt(most * (1 - most) / n)


def test_the_edit_acts_from_the_last_prompt_token_on_and_not_before(tiny, standards):
    """What the second block is given: the first block's output, edited at the last position only."""
    loaded = tiny("llama")
    seen = []
    handle = blocks(loaded)[1].register_forward_pre_hook(lambda _m, given: seen.append(given[0].clone()))
    try:
        with torch.inference_mode():
            loaded.model(input_ids=torch.tensor([PROMPTS[0]]))
            with steered(loaded, edit_of(standards, [("high", 30.0)])):
                loaded.model(input_ids=torch.tensor([PROMPTS[0]]))
    finally:
        handle.remove()
    plain, edited = (one[0].numpy() for one in seen)
    assert np.array_equal(edited[:-1], plain[:-1])
    assert np.linalg.norm(edited[-1] - plain[-1]) > 0.1 * np.linalg.norm(plain[-1])


def test_hooks_are_gone_after_an_error(tiny, standards):
    loaded = tiny("llama")
    with pytest.raises(RuntimeError, match="stop"), steered(loaded, edit_of(standards, [("high", 1.0)])):
        raise RuntimeError("stop")
    assert all(not block._forward_hooks for block in blocks(loaded))


def test_joined_weights_leave_the_librarys_modules_as_they_were(tiny_folders, tiny):
    from engine.core.settings import get_settings
    from engine.inference.loading import load_model

    fresh = load_model(f"path:{tiny_folders('qwen2')}", get_settings())
    before = fresh.model(input_ids=torch.tensor([PROMPTS[0]])).logits
    fused_forward(fresh)
    assert torch.equal(fresh.model(input_ids=torch.tensor([PROMPTS[0]])).logits, before)


def test_activations_are_the_librarys_hidden_states(tiny):
    loaded = tiny("llama")
    found = last_activations(loaded, PROMPTS)
    for i, prompt in enumerate(PROMPTS):
        states = loaded.model(input_ids=torch.tensor([prompt]), output_hidden_states=True).hidden_states
        np.testing.assert_allclose(found[0, i], states[1][0, -1].numpy(), atol=1e-5)  # the last one is normed there
    assert found.shape == (2, 4, 32)


def test_a_context_longer_than_the_window_is_refused(tiny):
    with pytest.raises(InputError, match=r"do not fit the window .*512 tokens\. Nothing was cut"):
        decode(tiny("llama"), [[5] * 505], [Row(0)], LIMIT)


def test_an_encoder_decoder_is_no_tutor(tiny):
    with pytest.raises(ModelError, match="cannot be the tutor"):
        decode(tiny("t5"), PROMPTS, ROWS, LIMIT)

"""Greedy replies: a batch gives what each prompt gives alone, whatever the attention; replies end where they should."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine.core.errors import ModelError
from engine.inference.chat import plain_ids
from engine.inference.generation import _may_pad, end_tokens, generate

CAUSAL = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "mistral", "gpt2"]
TEXTS = [
    "a",
    "rate this response",
    "is it",
    "a much longer prompt than the others, past any window",
    "rate that response",
]


def asked(loaded):
    return [plain_ids(loaded.tokenizer, "", t, keep_end=loaded.kind == "encoder-decoder") for t in TEXTS]


@pytest.mark.parametrize("shape", [*CAUSAL, "t5"])
def test_batch_equals_single_and_generate(tiny, shape):
    loaded = tiny(shape)
    prompts = asked(loaded)
    together = generate(loaded, prompts, 5)
    alone = [generate(loaded, [p], 5)[0] for p in prompts]
    assert together == alone
    assert len({r.text for r in together}) > 1
    for prompt, reply in zip(prompts, together, strict=True):
        own = loaded.model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), max_new_tokens=5,
            do_sample=False, pad_token_id=0, eos_token_id=sorted(end_tokens(loaded)),
        )[0]  # fmt: skip
        new = own[1:] if shape == "t5" else own[len(prompt) :]
        assert loaded.tokenizer.decode(new, skip_special_tokens=True) == reply.text


def test_padding_is_used_where_it_is_safe_and_only_there(tiny):
    assert _may_pad(tiny("llama"), 10_000)
    assert _may_pad(tiny("t5"), 10_000)
    assert _may_pad(tiny("mistral"), 16)
    assert not _may_pad(tiny("mistral"), 17)
    assert not _may_pad(tiny("gemma3"), 17)
    assert not _may_pad(tiny("gpt2"), 4)  # not on the list of shapes that were checked
    seen = []
    generate(tiny("llama"), asked(tiny("llama")), 2, lambda batch, _: seen.append(len(batch)))
    assert max(seen) > 2
    seen.clear()
    generate(tiny("gemma2"), asked(tiny("gemma2")), 2, lambda batch, _: seen.append(len(batch)))
    assert max(seen) == 2  # the two prompts of one length


def test_a_reply_stops_at_an_end_token_and_the_others_go_on(tiny):
    loaded = tiny("llama")
    prompts = asked(loaded)
    free = generate(loaded, prompts, 8)
    with torch.no_grad():
        first = int(loaded.model(torch.tensor([prompts[0]])).logits[0, -1].argmax())

    class Ending:
        eos_token_id = first

        def __getattr__(self, name):
            return getattr(loaded.tokenizer, name)

    ended = generate(dataclasses.replace(loaded, tokenizer=Ending()), prompts, 8)
    assert ended[0].tokens == 1 < free[0].tokens
    assert max(r.tokens for r in ended) == 8


def test_every_batch_is_reported_once_and_may_stop_the_run(tiny):
    loaded, seen = tiny("llama"), []
    generate(loaded, asked(loaded), 2, lambda batch, replies: seen.extend(batch), batch_tokens=40)
    assert sorted(seen) == list(range(len(TEXTS)))

    def stop(batch, replies):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(loaded, asked(loaded), 2, stop)
    assert generate(loaded, [], 2) == []


def test_nan_is_refused(tiny):
    import copy

    loaded = tiny("llama")
    model = copy.deepcopy(loaded.model)
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        generate(dataclasses.replace(loaded, model=model), asked(loaded)[:1], 2)

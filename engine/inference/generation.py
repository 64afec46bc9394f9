"""Short replies by greedy decoding, in batches that give the same text as one prompt at a time.

Llama-shaped models write through `engine.inference.llama`, others through their own modules. There prompts are padded
on the right (left padding gave NaN under SDPA); each row's new tokens take up the positions after its own prompt, and
a mask hides the gap that the padding leaves in the cache. Models whose attention has a window, or a state in place of
a cache, would count that gap, so they decode prompts of equal length together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.cache import CallCache
from engine.core.errors import ModelError
from engine.inference.batching import batches, last_logits, pad_right, token_budget
from engine.inference.llama import Row, unsupported_reason, write
from engine.inference.loading import LoadedModel

_FULL_ATTENTION = frozenset({"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gemma3_text"})
_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>")
"""Tokens that end a turn in common chat formats; a folder's own end token may be only that of its pretraining."""


@dataclass(frozen=True)
class Reply:
    """A text that a judge wrote.

    Attributes:
        text: without special tokens.
        tokens: tokens decoded, the end token included: one forward pass each.
        cut: true where it broke off at the longest length.
    """

    text: str
    tokens: int
    cut: bool = False


def keep_replies(cache: CallCache, replies: Iterable[tuple[str, Reply]]) -> None:
    """Keep replies by key; of one that was cut off the cache holds the tokens below zero."""
    cache.put_replies(((key, (r.text, -r.tokens if r.cut else r.tokens)) for key, r in replies), replace=True)


def kept_replies(cache: CallCache, limits: Mapping[str, int]) -> dict[str, Reply]:
    """The replies in the cache.

    Older versions kept nothing of how a reply ended, so one of theirs that has all the tokens allowed is left out.

    Args:
        cache: where they are kept.
        limits: the longest length of each, by key [tokens].
    """
    kept = cache.get_replies(list(limits))
    return {key: Reply(text, abs(n), n < 0) for key, (text, n) in kept.items() if n < limits[key]}


def generate(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    after_batch: Callable[[list[int], list[Reply]], None] | None = None,
    batch_tokens: int | None = None,
) -> list[Reply]:
    """Greedy replies, in the order of the prompts.

    Args:
        loaded: a causal language model or an encoder-decoder.
        prompts: token ids, each non-empty; prompt and reply together within the model's window.
        max_new_tokens: longest reply, at least 1.
        after_batch: called with the indices and replies of each finished batch; may raise to stop.
        batch_tokens: most padded tokens in a batch, replies included; by default set by the device.

    Raises:
        ModelError: the model gave NaN.
    """
    import torch

    lengths = [len(p) + max_new_tokens for p in prompts]
    ends = end_tokens(loaded)
    budget = batch_tokens or token_budget(loaded.device)
    out = [Reply("", 0)] * len(prompts)
    seq2seq, own = loaded.kind == "encoder-decoder", not unsupported_reason(loaded)
    decode = _decode_seq2seq if seq2seq else _decode_by_session if own else _decode_causal
    may_pad = own or _may_pad(loaded, max(lengths, default=0))
    for batch in batches(lengths, budget, equal=not may_pad):
        chosen = [prompts[i] for i in batch]
        with torch.inference_mode():
            rows = decode(loaded, chosen, max_new_tokens)
        replies = [
            Reply(
                loaded.tokenizer.decode(row, skip_special_tokens=True),
                len(row),
                cut=len(row) >= max_new_tokens and row[-1] not in ends,
            )
            for row in rows
        ]
        for i, reply in zip(batch, replies, strict=True):
            out[i] = reply
        if after_batch:
            after_batch(batch, replies)
    return out


def _may_pad(loaded: LoadedModel, longest: int) -> bool:
    """True where a gap in the cache is invisible: masked attention over all that was read."""
    if loaded.kind == "encoder-decoder":
        return True  # only the encoder's input differs in length, and its mask hides the padding
    config = loaded.model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    if not getattr(config, "use_sliding_window", True):
        window = None
    return config.model_type in _FULL_ATTENTION and (not window or longest <= window)


def _decode_by_session(loaded: LoadedModel, prompts: Sequence[Sequence[int]], limit: int) -> list[list[int]]:
    return write(loaded, prompts, [Row(k) for k in range(len(prompts))], limit, end_tokens(loaded))[0]


def _decode_causal(loaded: LoadedModel, prompts: Sequence[Sequence[int]], limit: int) -> list[list[int]]:
    import torch

    ids, mask = pad_right(prompts, prompts[0][0], loaded.device)
    lengths = mask.sum(dim=1)  # (B,)
    padded = bool((mask == 0).any())
    logits, out = last_logits(loaded.model, ids, lengths - 1, use_cache=True)
    state = {"cache": out.cache, "mask": mask}

    def step(tokens: Any, k: int) -> Any:
        state["mask"] = torch.cat([state["mask"], torch.ones_like(state["mask"][:, :1])], dim=1)
        gap = {"attention_mask": state["mask"], "position_ids": (lengths + k)[:, None]} if padded else {}
        out = loaded.model(input_ids=tokens[:, None], cache=state["cache"], use_cache=True, **gap)
        state["cache"] = out.cache
        return out.logits[:, -1].float()

    return _greedy(loaded, logits, step, limit)


def _decode_seq2seq(loaded: LoadedModel, prompts: Sequence[Sequence[int]], limit: int) -> list[list[int]]:
    import torch

    ids, mask = pad_right(prompts, prompts[0][0], loaded.device)
    states = loaded.model.get_encoder()(input_ids=ids, attention_mask=mask)
    state: dict[str, Any] = {"cache": None}

    def step(tokens: Any, _: int) -> Any:
        out = loaded.model(
            encoder_outputs=states,
            attention_mask=mask,
            decoder_input_ids=tokens[:, None],
            cache=state["cache"],
            use_cache=True,
        )
        state["cache"] = out.cache
        return out.logits[:, -1].float()

    start = torch.full((len(prompts),), loaded.model.config.decoder_start_token_id, device=loaded.device)
    return _greedy(loaded, step(start, 0), step, limit)


def _greedy(loaded: LoadedModel, logits: Any, step: Callable[[Any, int], Any], limit: int) -> list[list[int]]:
    """Take the likeliest token until every row has ended; `step(tokens (B,), k)` gives the next logits (B, V)."""
    ends = end_tokens(loaded)
    rows: list[list[int]] = [[] for _ in range(len(logits))]
    for k in range(limit):
        if not bool(logits.isfinite().any(dim=-1).all()) or bool(logits.isnan().any()):
            raise ModelError(f"{loaded.spec} gave NaN while writing its reply; its weights or precision are broken.")
        tokens = logits.argmax(dim=-1)  # (B,)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            if not row or row[-1] not in ends:
                row.append(token)
        if k + 1 == limit or all(row[-1] in ends for row in rows):
            break
        logits = step(tokens, k)
    return rows


def end_tokens(loaded: LoadedModel) -> frozenset[int]:
    """Ids that end a reply: the model's own, the tokenizer's, and the usual ends of a chat turn it knows."""
    own = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    found = set(own if isinstance(own, list) else [own]) | {loaded.tokenizer.eos_token_id}
    special = getattr(loaded.tokenizer, "added_tokens_decoder", {})
    found |= {i for i, token in special.items() if str(token) in _ENDS}
    return frozenset(i for i in found if i is not None)

"""White box: how the expected answer after a prompt changes with the embedding of one of its tokens.

The expectation is sum(v p) / sum(p) over the answer tokens, the quantity that scoring reads (CAP, paper 001, section
2.1), so its gradient is that of the score itself. To first order, replacing the token at the slot by w changes the
score by gradient . (e(w) - e(now)); this ranks a whole vocabulary from one backward pass (HotFlip, Ebrahimi et al.
2018).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError
from engine.inference.batching import batches, halving, pad_right, token_budget
from engine.inference.loading import LoadedModel
from engine.inference.scoring import LabelTokens

BACKWARD_SHARE = 4
"""A backward pass keeps every layer's activations, so its batches are that many times smaller."""

_CACHES_KEYS = frozenset({"llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2"})
"""Architectures whose cache holds every position; those with a window or a state are differentiated whole."""


def require_white_box(loaded: LoadedModel, labels: LabelTokens) -> None:
    """Refuse a model or an answer menu whose score has no gradient of the kind used here.

    Raises:
        ModelError: the model answers no prompts, or an answer has no one-token spelling.
    """
    if loaded.kind not in {"causal", "encoder-decoder"}:
        raise ModelError(f"{loaded.spec} answers no prompts, so no phrase can be learned on it. Name a language model.")
    if labels.sequences:
        long = next(
            label for label, found in zip(labels.labels, labels.spellings, strict=True) if min(map(len, found)) > 1
        )
        raise ModelError(
            f"The tokenizer of {loaded.spec} has no single token for the score {long!r}, and a phrase is learned "
            "from the probability of single tokens. Pass a judge card whose labels are one token each, for example "
            "1 to 5."
        )


def slot_gradients(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    slots: Sequence[int],
    labels: LabelTokens,
    values: NDArray[np.float64],
    after_batch: Callable[[int], None] | None = None,
    *,
    share: bool = True,
) -> NDArray[np.float64]:
    """Gradient of each prompt's expected answer with respect to the embedding at its slot.

    What stands before a slot does not depend on it. So prompts with the same beginning up to their slots share it,
    computed once without a graph, and only what follows is differentiated.

    Args:
        loaded: a causal language model or an encoder-decoder.
        prompts: N prompts as token ids, within the model's window.
        slots: position of the token in question in each prompt.
        labels: L labels, all of one token.
        values: value of each label, prompt by prompt, (N, L).
        after_batch: called with the number of prompts done; may raise to stop.
        share: true where beginnings may be shared; where the model cannot, they are not.

    Returns:
        Array (N, d), float64.

    Raises:
        ModelError: as `require_white_box`, or the model gave NaN.
    """
    require_white_box(loaded, labels)
    width = loaded.model.get_input_embeddings().weight.shape[1]
    out = np.full((len(prompts), width), np.nan)
    done = 0
    budget = max(1, token_budget(loaded.device) // BACKWARD_SHARE)
    for head, own in _groups(loaded, prompts, slots, share=share):

        def run(batch: Sequence[int], head: tuple[int, ...] = head) -> None:
            rows = [prompts[i][len(head) :] for i in batch]
            at = [slots[i] - len(head) for i in batch]
            out[list(batch)] = _batch(loaded, head, rows, at, labels, values[list(batch)])

        for part in batches([len(prompts[i]) - len(head) for i in own], budget):
            halving(run, [own[k] for k in part], loaded.device)
            done += len(part)
            if after_batch:
                after_batch(done)
    if not np.isfinite(out).all():
        raise ModelError(f"{loaded.spec} gave NaN gradients; its weights or precision are broken.")
    return out


def _groups(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], slots: Sequence[int], *, share: bool
) -> list[tuple[tuple[int, ...], list[int]]]:
    """Beginnings and the prompts that have them; one group without a beginning where nothing can be shared."""
    config = loaded.model.config.get_text_config()
    window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if not share or loaded.kind != "causal" or config.model_type not in _CACHES_KEYS or window:
        return [((), list(range(len(prompts))))]
    found: dict[tuple[int, ...], list[int]] = {}
    for i, (prompt, slot) in enumerate(zip(prompts, slots, strict=True)):
        found.setdefault(tuple(prompt[:slot]), []).append(i)
    return list(found.items())


def vocabulary_scores(
    loaded: LoadedModel, direction: NDArray[np.float64], tokens: Sequence[int]
) -> NDArray[np.float64]:
    """First-order gain of each token: its embedding times the direction (d,).

    Returns:
        Array (len(tokens),); only differences between tokens mean something.
    """
    import torch

    weight = loaded.model.get_input_embeddings().weight  # (V, d)
    with torch.inference_mode():
        chosen = weight[torch.tensor(list(tokens), device=weight.device)].float()
        found = chosen @ torch.tensor(direction, dtype=torch.float32, device=weight.device)
    return np.asarray(found.double().cpu().numpy())


def _batch(
    loaded: LoadedModel,
    head: Sequence[int],
    rows: Sequence[Sequence[int]],
    slots: Sequence[int],
    labels: LabelTokens,
    values: NDArray[np.float64],
) -> NDArray[np.float64]:
    import torch

    ids, mask = pad_right(rows, rows[0][0], loaded.device)
    at = torch.arange(len(rows), device=loaded.device)
    place = torch.tensor(list(slots), device=loaded.device)
    before = _keys_and_values(loaded, head, len(rows)) if head else {}
    with torch.enable_grad():
        embedded = loaded.model.get_input_embeddings()(ids).detach().requires_grad_(True)  # (B, T, d)
        p = _logits(loaded, embedded, mask, before).float().softmax(dim=-1)  # (B, V)
        shares = torch.stack([p[:, list(own)].sum(dim=1) for own in labels.ids], dim=1)  # (B, L)
        worth = torch.tensor(np.asarray(values), dtype=torch.float32, device=loaded.device)
        expected = (shares * worth).sum(dim=1) / shares.sum(dim=1)
        expected.sum().backward()  # rows do not meet, so each row's gradient is its own
    return np.asarray(embedded.grad[at, place].double().cpu().numpy())


def _keys_and_values(loaded: LoadedModel, head: Sequence[int], rows: int) -> dict[str, Any]:
    """The beginning's keys and values for so many rows, as the argument the model takes; no graph leads into them."""
    import torch
    from transformers.cache_utils import DynamicCache

    named = inspect.signature(type(loaded.model).forward).parameters
    argument = "cache" if "cache" in named else "past_key_values"
    with torch.no_grad():  # not inference mode: its tensors may not enter a graph
        ids = torch.tensor([list(head)], device=loaded.device)
        first = DynamicCache()
        loaded.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{argument: first})
    cache = DynamicCache()
    for k, layer in enumerate(first.layers):
        cache.update(layer.keys.expand(rows, -1, -1, -1), layer.values.expand(rows, -1, -1, -1), k)
    return {argument: cache, "use_cache": True}


def _logits(loaded: LoadedModel, embedded: Any, mask: Any, before: dict[str, Any]) -> Any:
    """Next-token logits (B, V) at the end of each row."""
    import torch

    if loaded.kind == "encoder-decoder":
        start = torch.full((len(embedded), 1), loaded.model.config.decoder_start_token_id, device=embedded.device)
        out = loaded.model(inputs_embeds=embedded, attention_mask=mask, decoder_input_ids=start, use_cache=False)
        return out.logits[:, -1]
    last = mask.sum(dim=1) - 1  # padding stands on the right, so no mask is needed under causal attention
    kept, row_of = torch.unique(last, return_inverse=True)
    out = loaded.model(inputs_embeds=embedded, logits_to_keep=kept, **({"use_cache": False} | before))
    return out.logits[torch.arange(len(last), device=last.device), row_of]

"""Label probabilities: one forward pass per batch of prompts, read at each prompt's last token.

Prompts are padded on the right and no attention mask is passed: under causal attention a real token never sees
what follows it, so the padding cannot matter and the fast causal kernel applies. (Left padding gave NaN under
SDPA.) Positions count from 0 in every row for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.models.loader import LoadedModel

CPU_BATCH_TOKENS = 768
"""Padded tokens of a batch on a CPU: about a second of work, so that an interactive call waits no longer."""
GPU_BATCH_TOKENS = 32_768


@dataclass(frozen=True)
class LabelTokens:
    """The answers offered and, for each, the ids of its one-token spellings."""

    labels: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]


def label_tokens(tokenizer: object, labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> LabelTokens:
    """Collect every one-token spelling of each label: as given, with a leading space, and the card's own.

    Args:
        tokenizer: anything with a Hugging Face `encode`.
        labels: the answers, for example 1 to 5.
        spellings: further spellings per label (`Yes` for `YES`), aligned with `labels`; empty for none.

    Raises:
        ModelError: a label has no one-token spelling, or two labels share a token.
    """
    encode = tokenizer.encode  # type: ignore[attr-defined]
    found: list[tuple[int, ...]] = []
    for i, label in enumerate(labels):
        forms = [label, f" {label}", *(spellings[i] if spellings else ())]
        ids = [encode(form, add_special_tokens=False) for form in forms]
        single = tuple(dict.fromkeys(one[0] for one in ids if len(one) == 1))
        if not single:
            raise ModelError(
                f"The label {label!r} is more than one token for this judge ({len(ids[0])} tokens). Choose labels "
                "that are single tokens, such as digits or capital letters."
            )
        found.append(single)
    flat = [i for ids in found for i in ids]
    if len(flat) != len(set(flat)):
        raise ModelError(f"Two of the labels {', '.join(labels)} share a token; they cannot be told apart.")
    return LabelTokens(tuple(labels), tuple(found))


def label_probabilities(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    labels: LabelTokens,
    after_batch: Callable[[list[int], NDArray[np.float64]], None] | None = None,
    batch_tokens: int | None = None,
) -> NDArray[np.float64]:
    """Probability that the next token spells each label.

    Args:
        loaded: the model.
        prompts: token ids, each non-empty and within the model's window.
        labels: L labels with their spellings.
        after_batch: called with the indices and rows (batch, L) of each finished batch; may raise to stop.
        batch_tokens: most padded tokens in a batch; by default set by the device.

    Returns:
        Array (N, L) of raw probabilities; a row sums to the coverage, at most 1.
    """
    import torch

    budget = batch_tokens or (CPU_BATCH_TOKENS if loaded.device == "cpu" else GPU_BATCH_TOKENS)
    out = np.full((len(prompts), len(labels.labels)), np.nan)
    for batch in _batches([len(p) for p in prompts], budget):
        with torch.inference_mode():
            rows = _score_batch(loaded, [prompts[i] for i in batch], labels)
        out[batch] = rows
        if after_batch:
            after_batch(batch, rows)
    return out


def _batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices in batches of similar length, each at most `budget` padded tokens (or one prompt)."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    batches: list[list[int]] = []
    for i in order:
        # lengths ascend, so the newest member is the longest of its batch
        if batches and lengths[i] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _score_batch(loaded: LoadedModel, prompts: Sequence[Sequence[int]], labels: LabelTokens) -> NDArray[np.float64]:
    import torch

    longest = max(len(p) for p in prompts)
    # Any id but the pad token serves as filler: transformers warns about a pad token without a mask.
    filler = labels.ids[0][0]
    ids = torch.tensor([[*p, *[filler] * (longest - len(p))] for p in prompts], device=loaded.device)  # (B, T)
    last = torch.tensor([len(p) - 1 for p in prompts], device=loaded.device)  # (B,)
    kept, row_of = torch.unique(last, return_inverse=True)  # only these positions reach the vocabulary matrix
    logits = loaded.model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits  # (B, U, V)
    at_last = logits[torch.arange(len(prompts), device=loaded.device), row_of].float()  # (B, V)
    probabilities = at_last.softmax(dim=-1)
    columns = [probabilities[:, list(one)].sum(dim=-1) for one in labels.ids]
    rows: NDArray[np.float64] = torch.stack(columns, dim=1).double().cpu().numpy()  # (B, L)
    if not np.isfinite(rows).all():
        raise ModelError(f"{loaded.spec} gave NaN probabilities; its weights or precision are broken.")
    return rows

"""Prompts into batches and tensors; padding always stands on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CPU_BATCH_TOKENS = 768
"""Padded tokens of a batch on a CPU: about a second of work, so that an interactive call waits no longer."""
GPU_BATCH_TOKENS = 32_768


def token_budget(device: str) -> int:
    """Most padded tokens in a batch on this device."""
    return CPU_BATCH_TOKENS if device == "cpu" else GPU_BATCH_TOKENS


def batches(lengths: Sequence[int], budget: int, *, equal: bool = False) -> list[list[int]]:
    """Indices in batches of similar length, each at most `budget` padded tokens (or one prompt).

    Args:
        lengths: tokens of each prompt.
        budget: most padded tokens in a batch.
        equal: whether a batch may hold prompts of one length only, so that nothing is padded.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    made: list[list[int]] = []
    for i in order:
        # lengths ascend, so the newest member is the longest of its batch
        fits = bool(made) and lengths[i] * (len(made[-1]) + 1) <= budget
        if fits and not (equal and lengths[made[-1][0]] != lengths[i]):
            made[-1].append(i)
        else:
            made.append([i])
    return made


def pad_right(rows: Sequence[Sequence[int]], filler: int, device: str) -> tuple[Any, Any]:
    """Token ids (B, T) with `filler` after each row's end, and the mask (B, T), 1 where a token is real."""
    import torch

    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
    return ids, mask


def last_logits(model: Any, ids: Any, last: Any, **options: Any) -> tuple[Any, Any]:
    """Next-token logits after position `last[b]` of each row, as float32 (B, V), and the model's whole output.

    Only the positions asked for reach the vocabulary matrix.
    """
    import torch

    kept, row_of = torch.unique(last, return_inverse=True)
    out = model(input_ids=ids, logits_to_keep=kept, **options)  # logits (B, U, V)
    return out.logits[torch.arange(len(last), device=ids.device), row_of].float(), out

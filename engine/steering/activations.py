"""Activations of the last token of texts, at every layer, in one pass; nothing else of the pass is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from engine.models.batching import batches, pad_right, token_budget
from engine.models.loader import LoadedModel
from engine.models.memory import halving
from engine.steering.hooks import watched
from engine.steering.layers import blocks


def last_activations(
    loaded: LoadedModel,
    rows: Sequence[Sequence[int]],
    after_batch: Callable[[int], None] | None = None,
    batch_tokens: int | None = None,
) -> NDArray[np.float32]:
    """Activation of each row's last token at the output of every block.

    Args:
        loaded: a causal language model.
        rows: token ids, each non-empty and within the window.
        after_batch: called with the number of rows done; may raise to stop.
        batch_tokens: most padded tokens of a pass; by default set by the device.

    Returns:
        Array (L, n, d); layer l of the model is index l - 1.

    Raises:
        ModelError: no causal model, a row longer than the window, or NaN.
    """
    import torch

    count = len(blocks(loaded))
    if long := [len(row) for row in rows if len(row) > loaded.max_tokens]:
        raise ModelError(
            f"A prompt with its text has {long[0]:,} tokens, the window of {loaded.spec} {loaded.max_tokens:,}. "
            "Nothing was cut: leave that context out, or take a tutor with a longer window."
        )
    width = int(loaded.model.config.get_text_config().hidden_size)
    out = np.empty((count, len(rows), width), dtype=np.float32)
    done = 0

    def run(batch: Sequence[int]) -> None:
        nonlocal done
        chosen = [rows[i] for i in batch]
        with torch.inference_mode():
            ids, _ = pad_right(chosen, chosen[0][0], loaded.device)
            at = torch.arange(len(chosen), device=loaded.device)
            last = torch.tensor([len(row) - 1 for row in chosen], device=loaded.device)
            with watched(loaded, at, last) as kept:
                loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
            out[:, list(batch)] = torch.stack(kept).cpu().numpy()
        done += len(batch)

    for batch in batches([len(row) for row in rows], batch_tokens or token_budget(loaded.device)):
        halving(run, batch, loaded.device)
        if after_batch:
            after_batch(done)
    if not np.isfinite(out).all():
        raise ModelError(f"{loaded.spec} gave NaN activations; its weights or precision are broken.")
    return out

"""Activations of the last token of texts, at every layer, in one pass; nothing else of the pass is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InputError, ModelError
from engine.inference.batching import batches, halving, pad_right, token_budget
from engine.inference.loading import LoadedModel
from engine.steering.vectors import Edit, Editor

# Where the layers of a causal language model are; layer l is the output of block l, counted from 1.

_PLACES = ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers", "model.language_model.layers")


def blocks(loaded: LoadedModel) -> list[Any]:
    """The decoder blocks, in order.

    Raises:
        ModelError: not a causal language model, or an architecture whose blocks are in no known place.
    """
    if loaded.kind != "causal":
        raise ModelError(
            f"{loaded.spec} is no causal language model, so it cannot be steered. Name one that is as the tutor."
        )
    for place in _PLACES:
        module: Any = loaded.model
        for name in place.split("."):
            module = getattr(module, name, None)
        if module is not None:
            return list(module)
    raise ModelError(
        f"The layers of {loaded.spec} ({type(loaded.model).__name__}) were not found. Known places: "
        f"{', '.join(_PLACES)}. Name another tutor, or use W-CAP, which needs no layers."
    )


def block_at(loaded: LoadedModel, layer: int) -> Any:
    """The block whose output is that layer.

    Raises:
        InputError: there is no such layer.
    """
    every = blocks(loaded)
    if not 1 <= layer <= len(every):
        raise InputError(f"{loaded.spec} has no layer {layer}; its layers are 1 to {len(every)}.")
    return every[layer - 1]


def hidden_of(output: Any) -> Any:
    """The hidden states among a block's outputs (B, T, d): some versions return a tuple, some the tensor."""
    return output[0] if isinstance(output, tuple) else output


def with_hidden(output: Any, hidden: Any) -> Any:
    """A block's output with other hidden states."""
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


# Hooks that read or edit a model's layers: they exist only inside a `with`, and are gone after errors too.


@contextmanager
def steered(loaded: LoadedModel, edit: Edit) -> Iterator[list[Any]]:
    """Edit the last position of every row at one layer, in each forward pass inside the `with`.

    In the pass over a prompt that is the last prompt token, afterwards the newest one, so the prompt before it is
    left alone. The batch must have the edit's rows, without padding on the right.

    Yields:
        The relative edit (B,) of each pass so far.
    """
    editor = Editor(edit, loaded.device)
    sizes: list[Any] = []

    def change(_module: Any, _inputs: Any, output: Any) -> Any:
        hidden = hidden_of(output)
        last, size = editor.apply(hidden[:, -1])
        sizes.append(size)
        changed = hidden.clone()
        changed[:, -1] = last
        return with_hidden(output, changed)

    handle = block_at(loaded, edit.layer).register_forward_hook(change)
    try:
        yield sizes
    finally:
        handle.remove()


@contextmanager
def watched(loaded: LoadedModel, rows: Any, columns: Any) -> Iterator[list[Any]]:
    """Keep the activations of chosen positions at every layer.

    Args:
        loaded: the model.
        rows: row of each position to keep, an index tensor (n,).
        columns: place of each in its row (n,).

    Yields:
        A list that holds, after a forward pass, one float32 tensor (n, d) per layer.
    """
    kept: list[Any] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        kept.append(hidden_of(output)[rows, columns].float())

    handles = [block.register_forward_hook(keep) for block in blocks(loaded)]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def last_activations(loaded: LoadedModel, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
    """Activation of each row's last token at the output of every block.

    Args:
        loaded: a causal language model.
        rows: token ids, each non-empty and within the window.

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

    def run(batch: Sequence[int]) -> None:
        chosen = [rows[i] for i in batch]
        with torch.inference_mode():
            ids, _ = pad_right(chosen, chosen[0][0], loaded.device)
            at = torch.arange(len(chosen), device=loaded.device)
            last = torch.tensor([len(row) - 1 for row in chosen], device=loaded.device)
            with watched(loaded, at, last) as kept:
                loaded.model(input_ids=ids, use_cache=False, logits_to_keep=1)
            out[:, list(batch)] = torch.stack(kept).cpu().numpy()

    for batch in batches([len(row) for row in rows], token_budget(loaded.device)):
        halving(run, batch, loaded.device)
    if not np.isfinite(out).all():
        raise ModelError(f"{loaded.spec} gave NaN activations; its weights or precision are broken.")
    return out

"""Hooks that read or edit a model's layers: they exist only inside a `with`, and are gone after errors too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.models.loader import LoadedModel
from engine.steering.layers import block_at, blocks, hidden_of, with_hidden
from engine.steering.vectors import Edit, Editor


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

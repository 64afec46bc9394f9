"""Where the layers of a causal language model are; layer l is the output of block l, counted from 1."""

from __future__ import annotations

from typing import Any

from engine.errors import InputError, ModelError
from engine.models.loader import LoadedModel

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
        found = loaded.model
        for name in place.split("."):
            found = getattr(found, name, None)
        if found is not None:
            return list(found)
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

"""Texts and conversations as vectors (PUAudit, paper 002): the hidden state of the last token, or the mean.

Causal language models and reward models give the last real token's state after the final norm; sentence
encoders are pooled as their own folder says, by the mean over real tokens where it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError, ModelError
from engine.models.batching import batches, pad_right, token_budget
from engine.models.chat import Message, chat_ids, plain_ids
from engine.models.kinds import Pooling
from engine.models.loader import LoadedModel

Chat = Sequence[Message]
"""A finished conversation, for example the user's prompt and the assistant's response."""


def encode(
    loaded: LoadedModel,
    texts: Sequence[str] | Sequence[Chat],
    *,
    pooling: Pooling | None = None,
    after_batch: Callable[[list[int], NDArray[np.float32]], None] | None = None,
    batch_tokens: int | None = None,
) -> NDArray[np.float32]:
    """One vector per text or conversation.

    Args:
        loaded: any loaded model; of an encoder-decoder, the encoder.
        texts: plain texts, or conversations for the model's own chat template.
        pooling: in place of the model's own: the last real token, the mean over real tokens, or the first.
        after_batch: called with the indices and rows of each finished batch; may raise to stop.
        batch_tokens: most padded tokens in a batch; by default set by the device.

    Returns:
        Array (N, D), float32, not normalised; (0, 0) for no texts.

    Raises:
        InputError: a text is empty or longer than the model's window; nothing is cut.
        ModelError: conversations for a model without chat template, or NaN.
    """
    import torch

    rows = [_ids(loaded, text) for text in texts]
    _require_fit(loaded, rows)
    how = pooling or loaded.pooling
    out: NDArray[np.float32] | None = None
    for batch in batches([len(row) for row in rows], batch_tokens or token_budget(loaded.device)):
        with torch.inference_mode():
            vectors = _pool(loaded, [rows[i] for i in batch], how)
        if not np.isfinite(vectors).all():
            raise ModelError(f"{loaded.spec} gave NaN or infinite states; its weights or precision are broken.")
        out = np.zeros((len(rows), vectors.shape[1]), dtype=np.float32) if out is None else out
        out[batch] = vectors
        if after_batch:
            after_batch(batch, vectors)
    return np.zeros((0, 0), dtype=np.float32) if out is None else out


def token_counts(loaded: LoadedModel, texts: Sequence[str] | Sequence[Chat]) -> list[int]:
    """Tokens of each text as `encode` would show it to the model, to be held against `loaded.max_tokens`.

    Raises:
        ModelError: conversations for a model without chat template.
    """
    return [len(_ids(loaded, text)) for text in texts]


def _ids(loaded: LoadedModel, text: str | Chat) -> list[int]:
    if isinstance(text, str):
        return plain_ids(loaded.tokenizer, "", text, keep_end=True)
    if not getattr(loaded.tokenizer, "chat_template", None):
        raise ModelError(
            f"{loaded.spec} has no chat template, so conversations cannot be encoded. Pass plain texts, for example "
            "prompt and response with a blank line between them."
        )
    return chat_ids(loaded.tokenizer, text)


def _require_fit(loaded: LoadedModel, rows: Sequence[Sequence[int]]) -> None:
    if empty := [i for i, row in enumerate(rows) if not row]:
        raise InputError(f"Text {empty[0] + 1} of {len(rows)} is empty and has no vector. Leave it out.")
    long = [i for i, row in enumerate(rows) if len(row) > loaded.max_tokens]
    if long:
        raise InputError(
            f"{len(long)} of {len(rows)} texts are longer than the window of {loaded.spec}, {loaded.max_tokens:,} "
            f"tokens; text {long[0] + 1} has {len(rows[long[0]]):,}. Nothing was cut: leave them out or shorten them."
        )


def _pool(loaded: LoadedModel, rows: Sequence[Sequence[int]], how: Pooling) -> NDArray[np.float32]:
    import torch

    ids, mask = pad_right(rows, rows[0][0], loaded.device)
    states = _trunk(loaded)(input_ids=ids, attention_mask=mask).last_hidden_state.float()  # (B, T, D)
    if how == "mean":
        weights = mask[:, :, None].float()
        pooled = (states * weights).sum(dim=1) / weights.sum(dim=1)
    else:
        at = mask.sum(dim=1) - 1 if how == "last" else torch.zeros_like(mask[:, 0])
        pooled = states[torch.arange(len(rows), device=ids.device), at]
    vectors: NDArray[np.float32] = pooled.cpu().numpy()
    return vectors


def _trunk(loaded: LoadedModel) -> Any:
    """The part of the model that ends in hidden states, without its head."""
    if loaded.kind == "encoder-decoder":
        return loaded.model.get_encoder()
    return getattr(loaded.model, loaded.model.base_model_prefix, loaded.model)

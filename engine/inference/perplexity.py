"""Perplexity of a text alone, from one forward pass: the exponential of the mean negative log-likelihood per token.

Every token but the first is predicted from those before it. Where the tokenizer puts a BOS of its own ahead of a
text, the first token is predicted from it and counts too; elsewhere it only serves as context, so that a text of
one token has nothing to predict and its perplexity is undefined (NaN), as is that of an empty text.

The windowed variant is the exponential of the largest mean over any `window` consecutive predicted tokens, read from
the same pass: each token is still predicted from the whole text before it. A text shorter than the window counts as
one window. (RobustJudge runs one pass per prefix; Raina et al. use the reciprocal of the mean log-probability.)

Texts are padded on the right and no mask is passed: under causal attention a real token never sees what follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import InputError, ModelError
from engine.inference.batching import batches, pad_right, token_budget
from engine.inference.chat import adds_bos, encode_text
from engine.inference.loading import LoadedModel

MOST_PADDED_TOKENS = 4096
"""Every position reaches the vocabulary matrix here, so batches are smaller than a judge's on a GPU."""

AfterBatch = Callable[[list[int], list[NDArray[np.float64]]], None]


def perplexities(loaded: LoadedModel, texts: Sequence[str], window: int | None = None) -> NDArray[np.float64]:
    """Perplexity of each text under a causal language model.

    Args:
        loaded: a causal language model.
        texts: any texts; no special token can come out of them.
        window: predicted tokens of a window; None takes the mean over the whole text.

    Returns:
        Array (N,), at least 1; NaN where nothing is predicted (no token, or one without BOS).

    Raises:
        InputError: a text is longer than the model's window (nothing is cut), or `window` is below 1.
        ModelError: the model is not causal, or gave NaN.
    """
    rows = token_nlls(loaded, [text_ids(loaded, text) for text in texts])
    return np.array([reduced(row, window) for row in rows])


def text_ids(loaded: LoadedModel, text: str) -> list[int]:
    """Token ids of a text, behind the BOS where the tokenizer adds one by itself; empty for an empty text."""
    ids = encode_text(loaded.tokenizer, text) if text else []
    return [loaded.tokenizer.bos_token_id, *ids] if ids and adds_bos(loaded.tokenizer) else ids


def token_nlls(
    loaded: LoadedModel,
    rows: Sequence[Sequence[int]],
    after_batch: AfterBatch | None = None,
    batch_tokens: int | None = None,
) -> list[NDArray[np.float64]]:
    """Negative log-likelihood of every token but the first, in nats.

    Args:
        loaded: a causal language model.
        rows: token ids of each text.
        after_batch: called with the indices and arrays of each finished batch; may raise to stop.
        batch_tokens: most padded tokens in a batch; by default set by the device.

    Returns:
        One array (T - 1,) per row of T tokens; (0,) for no token or one.

    Raises:
        InputError: a row is longer than the model's window.
        ModelError: the model is not causal, or gave NaN.
    """
    if loaded.kind != "causal":
        raise ModelError(f"{loaded.spec} is no causal language model, so it has no perplexity. Name one that is.")
    if long := [i for i, row in enumerate(rows) if len(row) > loaded.max_tokens]:
        raise InputError(
            f"{len(long)} of {len(rows)} texts are longer than the window of {loaded.spec}, {loaded.max_tokens:,} "
            f"tokens; text {long[0] + 1} has {len(rows[long[0]]):,}. Nothing was cut: leave them out or shorten them."
        )
    out: list[NDArray[np.float64]] = [np.zeros(0)] * len(rows)
    asked = [i for i, row in enumerate(rows) if len(row) > 1]
    budget = batch_tokens or min(MOST_PADDED_TOKENS, token_budget(loaded.device))
    for batch in batches([len(rows[i]) for i in asked], budget):
        chosen = [asked[i] for i in batch]
        found = _batch_nlls(loaded, [rows[i] for i in chosen])
        for i, row in zip(chosen, found, strict=True):
            out[i] = row
        if after_batch:
            after_batch(chosen, found)
    return out


def reduced(nlls: NDArray[np.float64], window: int | None) -> float:
    """Perplexity of one text from its tokens' negative log-likelihoods; NaN where there are none.

    Raises:
        InputError: `window` is below 1.
    """
    if window is not None and window < 1:
        raise InputError(f"The window has {window} tokens; give at least 1, or none for the whole text.")
    if not len(nlls):
        return float("nan")
    if window is None or window >= len(nlls):
        return float(np.exp(nlls.mean()))
    sums = np.cumsum(np.concatenate([[0.0], nlls]))
    return float(np.exp((sums[window:] - sums[:-window]).max() / window))


def _batch_nlls(loaded: LoadedModel, rows: Sequence[Sequence[int]]) -> list[NDArray[np.float64]]:
    import torch

    # Any id but the pad token serves as filler: transformers warns about a pad token without a mask.
    ids, _ = pad_right(rows, rows[0][0], loaded.device)
    with torch.inference_mode():
        logits = loaded.model(input_ids=ids, use_cache=False).logits  # (B, T, V)
        found = []
        for b, row in enumerate(rows):
            own = logits[b, : len(row) - 1].float()  # (T - 1, V); row by row, so that float32 stays small
            nll = own.logsumexp(dim=-1) - own.gather(1, ids[b, 1 : len(row), None])[:, 0]
            found.append(nll.double().cpu().numpy())
    if not all(np.isfinite(row).all() for row in found):
        raise ModelError(f"{loaded.spec} gave NaN or infinite likelihoods; its weights or precision are broken.")
    return found

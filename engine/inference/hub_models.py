"""Models of the Hugging Face Hub by name: looked up, shown, fetched, checked, and from then on pinned to a commit.

Fetched models lie in `JUDGESCOPE_CACHE/models/OWNER--NAME/COMMIT`: huggingface_hub's own cache throws a
half-fetched file away, and here a break is resumed. A model that other tools have put into that cache is used from
there. Nothing is contacted unless a model was asked for that is not here. No torch.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ConfigDict

from engine.core.errors import Cancelled, EngineError, InputError, NamedModelError, listed, shown
from engine.core.files import make_folder, write_atomically
from engine.core.settings import Settings

FETCH = "judgescope doctor --fetch hf:"
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?")
_FILES = re.compile(
    r"[\w.-]+\.(safetensors|jinja|tiktoken|spm)|[\w.-]+\.safetensors\.index\.json|merges\.txt|vocab\.(txt|json|bpe)"
    r"|(spiece|tokenizer|[\w-]+\.bpe)\.model|(config|generation_config|chat_template|modules|added_tokens"
    r"|special_tokens_map|tokenizer\w*|sentence_\w+)\.json|1_Pooling/config\.json"
)
"""What a model folder needs; never code, pickles or other formats' weights."""
_SPARE = 200_000_000
"""Free space that a download leaves on the disk [bytes]."""
_COMMIT = re.compile(r"[0-9a-f]{40}")

Progress = Callable[[int, int], None]
"""Called with (bytes here, bytes in all); what it raises ends the download, and what is here is kept."""


def no_progress(done: int, total: int) -> None:
    """The progress of a caller that does not watch."""


def show_bytes(done: int, total: int) -> None:
    """One line that counts up, on a terminal only."""
    if sys.stderr.isatty():
        end = "\n" if done >= total else ""
        print(f"\r{done / 1e6:,.0f} of {total / 1e6:,.0f} MB", end=end, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class HubFile:
    """One file of a model: path, size [bytes], and sha256 of a large or git's blob id of a small one."""

    path: str
    size: int
    sha256: str = ""
    blob: str = ""


@dataclass(frozen=True)
class HubModel:
    """A model as the Hub describes it, before anything of it is fetched.

    Attributes:
        name: owner and name.
        revision: the commit that is meant from here on.
        licence: as its page says, such as `apache-2.0`; empty where it says none.
        files: what would be fetched, weights last.
    """

    name: str
    revision: str
    licence: str
    files: tuple[HubFile, ...]

    @property
    def size(self) -> int:
        """All files together [bytes]."""
        return sum(file.size for file in self.files)

    def sentence(self) -> str:
        """Name, commit, size and licence in words, for a user before the download."""
        licence = f"licence {self.licence}" if self.licence else "its page names no licence"
        return f"{self.name} at revision {self.revision[:12]}: {megabytes(self.size)}, {licence}."


def megabytes(size: int) -> str:
    """A size in words."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size:,} bytes"


def look_up(name: str, *, endpoint: str | None = None) -> HubModel:
    """Ask the Hub for commit, licence, files and sizes; nothing is fetched.

    Args:
        name: `OWNER/NAME[@REVISION]`.
        endpoint: another Hub; None takes huggingface_hub's own.

    Raises:
        InputError: the name is none.
        ModelError: there is no such model, it is not open, has no safetensors weights, or the Hub cannot be reached.
    """
    owner_name, revision = split_name(name)
    library = _library()
    with _explained(name):
        info = library.HfApi(endpoint=endpoint).model_info(owner_name, revision=revision or None, files_metadata=True)
    found = [
        HubFile(str(s.rfilename), int(s.size or 0), str(s.lfs.sha256 or "") if s.lfs else "", str(s.blob_id or ""))
        for s in info.siblings or []
    ]
    files = [file for file in found if _FILES.fullmatch(file.path)]
    if not any(file.path == "config.json" for file in files) and any(_is_weights(file.path) for file in files):
        raise NamedModelError(f"hf:{name} has no config.json, so it is no whole model; an adapter needs its base.")
    if any(not file.path.startswith("consolidated") for file in files if _is_weights(file.path)):
        files = [file for file in files if not file.path.startswith("consolidated")]  # Mistral ships both
    if not any(_is_weights(file.path) for file in files):
        ggufs = [file.path for file in found if file.path.casefold().endswith(".gguf")]
        other = f" It holds {listed(ggufs, 3)}: download one and name it as path:FILE.gguf." if ggufs else ""
        raise NamedModelError(f"hf:{name} has no safetensors weights, so it is not fetched.{other}")
    licence = str(getattr(info.card_data, "license", "") or "") if info.card_data else ""
    tagged = next((t.partition(":")[2] for t in info.tags or [] if t.startswith("license:")), "")
    ordered = sorted(files, key=lambda file: (_is_weights(file.path), file.path))
    return HubModel(owner_name, str(info.sha), licence or tagged, tuple(ordered))


def fetch_model(
    model: HubModel, settings: Settings, progress: Progress = no_progress, *, endpoint: str | None = None
) -> Path:
    """Fetch what is not here yet, check every file, and pin the name to this commit.

    Returns:
        The model folder.

    Raises:
        ModelError: the download broke off (what is here is kept, and the next call goes on there), or a file's
            checksum is not the Hub's.
    """
    folder = _place(model.name, settings) / model.revision
    make_folder(folder)
    with FileLock(folder.with_suffix(".lock")):
        have = {file.path: _bytes_here(folder, file) for file in model.files}
        free = shutil.disk_usage(folder).free
        if (lacking := model.size - sum(have.values())) and free < lacking + _SPARE:
            raise NamedModelError(
                f"hf:{model.name} needs {megabytes(lacking)} more, and {folder} has {megabytes(free)} free. Free some "
                "space, or name another folder with JUDGESCOPE_CACHE."
            )
        for file in model.files:
            others = sum(size for path, size in have.items() if path != file.path)
            _fetch_file(model, file, folder, _beside(progress, others, model.size), endpoint)
            have[file.path] = file.size
        progress(model.size, model.size)
        _pin(model, settings)
    return folder


def _beside(progress: Progress, others: int, total: int) -> Callable[[int], None]:
    """Progress of one file as that of all."""
    return lambda n: progress(others + n, total)


def _fetch_file(
    model: HubModel, file: HubFile, folder: Path, progress: Callable[[int], None], endpoint: str | None
) -> None:
    """One file, from where its part ends."""
    target, part = folder / file.path, folder / f"{file.path}.part"
    if target.is_file() and target.stat().st_size == file.size:
        return
    make_folder(target.parent)
    from huggingface_hub.file_download import http_get

    library = _library()
    here = _bytes_here(folder, file)

    class Bar:
        """What huggingface_hub calls while it writes, in place of a bar on the terminal."""

        def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
            self.n = initial

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, n: int) -> None:
            self.n += n
            progress(self.n)

    url = library.hf_hub_url(model.name, file.path, revision=model.revision, endpoint=endpoint)
    explained = _explained(f"{model.name}@{model.revision[:12]}", fetching=file.path)
    with explained, part.open("ab" if here else "wb") as out:
        http_get(
            url, out, resume_size=here, headers=library.utils.build_hf_headers(), expected_size=file.size,
            displayed_filename=file.path, tqdm_class=Bar,
        )  # fmt: skip
    if not _is_whole(part, file):
        part.unlink()
        raise NamedModelError(
            f"{file.path} of hf:{model.name} does not have the checksum that the Hub gives, and is not kept. Fetch it "
            f"again: {FETCH}{model.name}"
        )
    part.replace(target)


def _bytes_here(folder: Path, file: HubFile) -> int:
    """Bytes of a file that are here, whole or in part."""
    for path in (folder / file.path, folder / f"{file.path}.part"):
        if path.is_file():
            size = path.stat().st_size
            return size if size <= file.size else 0
    return 0


def _is_whole(path: Path, file: HubFile) -> bool:
    """Size and checksum agree; a large file's is sha256, a small one's git's sha1 of `blob SIZE`, NUL and content."""
    if path.stat().st_size != file.size:
        return False
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    wanted = file.sha256 or file.blob
    return not wanted or digest.hexdigest() == wanted


def local_model(name: str, settings: Settings) -> tuple[Path, str] | None:
    """Folder and commit of a model that is on this machine; None where it is not. Nothing is contacted."""
    owner_name, revision = split_name(name)
    place = _place(owner_name, settings)
    commit = revision if _COMMIT.fullmatch(revision) else _pins(place).get(revision, "")
    if commit and is_complete(place / commit):
        return place / commit, commit
    shared = Path(_library().constants.HF_HUB_CACHE) / f"models--{owner_name.replace('/', '--')}"
    try:
        commit = (
            revision if _COMMIT.fullmatch(revision) else (shared / "refs" / (revision or "main")).read_text().strip()
        )
    except (OSError, UnicodeDecodeError):
        return None
    folder = shared / "snapshots" / commit
    return (folder, commit) if _COMMIT.fullmatch(commit) and is_complete(folder) else None


def is_here(name: str, settings: Settings) -> bool:
    """True where the model's files are all on this machine."""
    return local_model(name, settings) is not None


def is_complete(folder: Path) -> bool:
    """True where config and all weights are there; weights are fetched last."""
    if not (folder / "config.json").is_file():
        return False
    try:
        named = [json.loads(i.read_bytes())["weight_map"].values() for i in folder.glob("*.safetensors.index.json")]
        parts = {str(part) for one in named for part in one}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    whole = [path for path in folder.glob("*.safetensors") if path.is_file()]
    return bool(whole) and all((folder / part).is_file() for part in parts)


def model_folder(name: str, settings: Settings, say: Callable[[str], None], progress: Progress) -> tuple[Path, str]:
    """Folder and commit of a model, fetched where it is not on this machine.

    Args:
        name: `OWNER/NAME[@REVISION]`.
        settings: where models are kept.
        say: takes name, commit, size and licence before the download begins.
        progress: of the download.

    Raises:
        ModelError: it is not here and cannot be fetched; the text says the next step.
    """
    if found := local_model(name, settings):
        return found
    if not settings.fetch_models:
        owner_name = split_name(name)[0]
        raise NamedModelError(
            f"hf:{name} is not on this machine. Fetch it on the page Judge, or with `{FETCH}{owner_name}`: size and "
            "licence are shown first. Its recorded runs can be looked at without it."
        )
    model = look_up(name)
    say(f"Fetching {model.sentence()}")
    return fetch_model(model, settings, progress), model.revision


def split_name(name: str) -> tuple[str, str]:
    """Owner and name, and the revision, which may be empty.

    Raises:
        InputError: it names no model of the Hub.
    """
    if not HUB_NAME.fullmatch(name):
        raise InputError(
            f"{shown('hf:' + name)} names no model of the Hub. Write hf:OWNER/NAME, or hf:OWNER/NAME@REVISION."
        )
    owner_name, _, revision = name.partition("@")
    return owner_name, revision


class HubFetch(BaseModel):
    """Settings of a download: a model at the commit that its user was shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    revision: str = ""
    run_id: str = ""


def fetch_job(config: HubFetch, settings: Settings, checkpoint: Progress) -> dict[str, Any]:
    """Fetch a model in the worker; it can be stopped, and goes on where it was.

    Raises:
        ModelError: as `look_up` and `fetch_model`.
    """
    model = look_up(f"{config.name}@{config.revision}" if config.revision else config.name)
    folder = fetch_model(model, settings, checkpoint)
    return {"folder": str(folder), "revision": model.revision, "size": model.size, "licence": model.licence}


# Pins: which commit a name or a branch meant when it was fetched.


def _place(owner_name: str, settings: Settings) -> Path:
    return settings.models / owner_name.replace("/", "--")


def _pins(place: Path) -> dict[str, str]:
    try:
        held = json.loads((place / "pins.json").read_text(encoding="utf-8"))
        return {str(k): str(v) for k, v in held.items()} if isinstance(held, dict) else {}
    except (OSError, ValueError):
        return {}


def _pin(model: HubModel, settings: Settings) -> None:
    place = _place(model.name, settings)
    write_atomically(place / "pins.json", json.dumps(_pins(place) | {"": model.revision}, indent=1).encode())


# What the client's errors mean for a user.


def _library() -> Any:
    import huggingface_hub
    import huggingface_hub.constants

    return huggingface_hub


@contextmanager
def _explained(name: str, fetching: str = "") -> Iterator[None]:
    """The client raises errors of several libraries: said in our words, with the next step."""
    try:
        yield
    except (EngineError, Cancelled):
        raise
    except Exception as error:  # noqa: BLE001
        raise _said(name, error, fetching) from None


def _said(name: str, error: Exception, fetching: str) -> NamedModelError:
    kind, status = type(error).__name__, getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403) or kind == "GatedRepoError":
        return NamedModelError(
            f"hf:{name}: the Hub gives this model only to those who accepted its terms, or there is none of this name. "
            "Accept them on its page and log in (hf auth login), or name a folder that holds it: path:FOLDER."
        )
    if status == 404:
        return NamedModelError(f"hf:{name}: the Hub has no such model or revision. Check the name.")
    if fetching:
        return NamedModelError(
            f"hf:{name}: the download of {fetching} broke off ({kind}). What is here is kept; fetch again to go on."
        )
    model = name.partition("@")[0]
    return NamedModelError(
        f"hf:{name} is not on this machine, and the Hub cannot be reached ({kind}). Where there is a network, run "
        f"`{FETCH}{model}` (size and licence are shown first), or copy the model here and name its folder: path:FOLDER."
    )


def _is_weights(path: str) -> bool:
    return path.endswith(".safetensors")

"""Data sets of the Hugging Face Hub, by id: `hub:OWNER/NAME?split=...`; their data files only, never their code.

Files are fetched with huggingface_hub, which honours its own cache and token; nothing is fetched unless such a name
was given. Where a set keeps its rows in a script, the parquet files that the Hub makes of every public set are taken.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from engine.core.errors import InputError, shown
from engine.data.formats.base import HubSet
from engine.data.formats.registry import FORMATS

HUB = "hub:"
MADE_BY_HUB = "refs/convert/parquet"
"""The branch with the parquet files that the Hub makes."""
MAX_FILE = 500_000_000
"""Largest file that is fetched [bytes]."""
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_ENDINGS = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
_KEYS = ("split", "config", "file", "revision")


@dataclass(frozen=True)
class HubName:
    """The parts of a `hub:` name.

    Attributes:
        dataset_id: owner and name.
        split: wanted split; empty for the usual one.
        config: wanted subset; empty for the usual one.
        file: path of one file in the set; empty lets the split decide.
        revision: branch, tag or commit; empty for the main one.
    """

    dataset_id: str
    split: str = ""
    config: str = ""
    file: str = ""
    revision: str = ""


@dataclass(frozen=True)
class Fetched:
    """A file of a set.

    Attributes:
        filename: what it is called from here on, with the ending that says how it is read.
        content: its bytes.
        format: the known format this set is in; empty where it is not listed.
        revision: the commit it was taken from.
    """

    filename: str
    content: bytes
    format: str
    revision: str


def known_sets() -> dict[str, tuple[str, HubSet]]:
    """Data set id -> the format it is in and what is known of it."""
    return {hub.dataset_id: (form.name, hub) for form in FORMATS.values() for hub in form.hub}


def read_hub_name(name: str) -> HubName:
    """Take a `hub:` name apart.

    Raises:
        InputError: the id or a key is wrong.
    """
    path, _, query = name.removeprefix(HUB).partition("?")
    path, _, revision = path.partition("@")
    if not _ID.fullmatch(path) or ".." in path:
        raise InputError(
            f"{shown(path, 80)} is no data set id. Write {HUB}OWNER/NAME, such as hub:allenai/reward-bench."
        )
    parts = {"revision": revision} if revision else {}
    for piece in filter(None, query.split("&")):
        key, equals, value = piece.partition("=")
        if key not in _KEYS or not equals:
            raise InputError(f"{piece!r} in {shown(name, 120)}: write key=value with one of {', '.join(_KEYS)}.")
        parts[key] = unquote(value)
    return HubName(path, **parts)


def fetch(name: str, *, endpoint: str | None = None, cache: Path | None = None) -> Fetched:
    """Fetch the file that a `hub:` name stands for.

    Args:
        name: see the module.
        endpoint: another Hub; None takes huggingface_hub's own.
        cache: where files are kept; None takes huggingface_hub's own.

    Raises:
        InputError: the name is wrong, there is no such set, file or split, it needs a token, or the Hub cannot be
            reached.
    """
    wanted = read_hub_name(name)
    try:
        library = importlib.import_module("huggingface_hub")
    except ImportError:
        raise InputError(
            f"{name}: huggingface_hub is not installed. Install it with: pip install huggingface_hub"
        ) from None
    form, known = known_sets().get(wanted.dataset_id, ("", HubSet(wanted.dataset_id, ())))
    api = library.HfApi(endpoint=endpoint)
    try:
        path, revision = _choose(api, wanted, known)
        local = library.hf_hub_download(
            wanted.dataset_id, path, repo_type="dataset", revision=revision, endpoint=endpoint,
            cache_dir=str(cache) if cache else None,
        )  # fmt: skip
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - the client raises errors of several libraries
        raise _explained(name, error) from None
    content = Path(local).read_bytes()
    title = wanted.dataset_id.replace("/", "-") + "-" + PurePosixPath(path).name
    return Fetched(title, content, form, str(revision))


def _choose(api: Any, wanted: HubName, known: HubSet) -> tuple[str, str]:
    """The file of the set and the commit or branch it lies in.

    Raises:
        InputError: none fits, several do, or it is too large.
    """
    for revision in [wanted.revision] if wanted.revision else ["", MADE_BY_HUB]:
        try:
            info = api.dataset_info(wanted.dataset_id, revision=revision or None, files_metadata=True)
        except Exception as error:
            if revision == MADE_BY_HUB and _status(error) == 404:
                break
            raise
        sizes = {str(f.rfilename): int(f.size or 0) for f in info.siblings or []}
        paths = _fitting(list(sizes), wanted, known)
        if len(paths) == 1:
            if sizes[paths[0]] > MAX_FILE:
                raise InputError(
                    f"{paths[0]} has {sizes[paths[0]] / 1e6:,.0f} MB; at most {MAX_FILE / 1e6:,.0f} are fetched."
                )
            return paths[0], str(info.sha or revision)
        if len(paths) > 1:
            raise InputError(
                f"{HUB}{wanted.dataset_id} has several files that could be meant: {', '.join(paths[:12])}. Choose one "
                "with ?file=PATH, or ?split=NAME."
            )
    splits = f" Known splits: {', '.join(known.splits)}." if known.splits else ""
    raise InputError(f"{HUB}{wanted.dataset_id} has no data file for this choice.{splits} Choose with ?file=PATH.")


def _fitting(paths: Sequence[str], wanted: HubName, known: HubSet) -> list[str]:
    data = [p for p in paths if p.lower().endswith(_ENDINGS) and not p.startswith(".")]
    named = wanted.file or ("" if wanted.split or wanted.config else known.file)
    if named:
        return [p for p in data if p == named]
    split = wanted.split or (known.splits[0] if known.splits else "")
    config = wanted.config or (known.config if known.config != "default" else "")
    fits = [p for p in data if _mentions(p, split)] if split else data
    if config:
        fits = [p for p in fits if _mentions(p, config)] or fits
    return fits


def _mentions(path: str, word: str) -> bool:
    """True where a folder or the beginning of the file's name is the word."""
    return re.search(rf"(^|[/_.-]){re.escape(word)}([/_.-]|$)", path) is not None


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _explained(name: str, error: Exception) -> InputError:
    kind, status = type(error).__name__, _status(error)
    if status == 404 or kind in ("RepositoryNotFoundError", "EntryNotFoundError", "RevisionNotFoundError"):
        return InputError(f"{name}: the Hub has no such data set, file or revision, or it is private. Check the name.")
    if status in (401, 403) or kind == "GatedRepoError":
        return InputError(
            f"{name}: the Hub gives this set only to those who accepted its terms. Accept them on its page and log in "
            "(hf auth login), or download the file and give its path."
        )
    return InputError(
        f"{name}: the Hub cannot be reached from here ({kind}), so nothing was read. Without a network, download the "
        "file elsewhere and give its path: it is recognised by its columns."
    )

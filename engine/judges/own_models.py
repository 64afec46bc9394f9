"""Models of the user's own as judges: from the Hub by name, a folder, a `.gguf` file; the list of those chosen here."""

from __future__ import annotations

import json
from pathlib import Path

from engine.core.errors import InputError, shown
from engine.core.files import is_file, make_folder, require_inside, user_path, write_atomically
from engine.core.settings import Settings, get_settings
from engine.inference.gguf_file import is_gguf
from engine.inference.hub_models import is_here, split_name

MOST = 50
EVERYDAY = "hf:Qwen/Qwen2.5-Coder-0.5B-Instruct"
"""A small everyday model that nobody trained as a judge; recordings of it ship with the project."""


def check_own(spec: str) -> str:
    """The spec without surrounding blanks.

    Raises:
        InputError: it is neither `hf:OWNER/NAME` nor `path:…`.
    """
    kind, _, name = spec.strip().partition(":")
    if kind == "hf":
        split_name(name)
    elif kind != "path" or not name.strip() or len(name) > 1_000 or any(ord(c) < 32 for c in name):
        raise InputError(
            f"{spec[:80]!r} names no model of your own. Write hf:OWNER/NAME, path:FOLDER or path:FILE.gguf."
        )
    return f"{kind}:{name.strip()}"


def own_models(settings: Settings | None = None) -> tuple[str, ...]:
    """Specs that were chosen on this machine, oldest first."""
    try:
        found = json.loads((settings or get_settings()).own_models.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ()
    return tuple(str(one) for one in found if _valid(str(one))) if isinstance(found, list) else ()


def _valid(spec: str) -> bool:
    try:
        return check_own(spec) == spec
    except InputError:
        return False


def remember_own(spec: str, settings: Settings | None = None) -> str:
    """List a model from now on; its spec as it is listed.

    Raises:
        InputError: the spec is none, no such file or folder is there or allowed, or there are too many.
    """
    spec, settings = check_own(spec), settings or get_settings()
    kind, _, name = spec.partition(":")
    if kind == "path":
        path = user_path(name)
        if settings.model_roots:
            require_inside(path, settings.model_roots, name)
        if not is_file(path if is_gguf(name) else path / "config.json"):
            raise InputError(f"{shown(name)} is no .gguf file and no model folder (config.json). Check the path.")
    listed = own_models(settings)
    if spec not in listed and spec != EVERYDAY:
        if len(listed) >= MOST:
            raise InputError(f"{MOST} models of your own are listed already. Remove one that is not needed.")
        _write(settings.own_models, (*listed, spec))
    return spec


def forget_own(spec: str, settings: Settings | None = None) -> None:
    """List a model no longer; its files stay."""
    settings = settings or get_settings()
    _write(settings.own_models, tuple(one for one in own_models(settings) if one != spec))


def _write(path: Path, specs: tuple[str, ...]) -> None:
    make_folder(path.parent)
    write_atomically(path, json.dumps(specs, indent=1, ensure_ascii=False).encode())


def own_title(spec: str) -> str:
    """Title of such a model in a list."""
    kind, _, name = spec.partition(":")
    if kind == "hf":
        return f"{name.partition('@')[0].rpartition('/')[2]} (Hub)"
    return f"{Path(name).name or name} ({'GGUF file' if is_gguf(name) else 'folder'})"


def own_about(spec: str, settings: Settings | None = None) -> str:
    """What it is and whether it can answer, in a sentence."""
    kind, _, name = spec.partition(":")
    if kind == "path":
        return "A model on this machine, asked through the built-in prompts or your card."
    here = "it is on this machine" if is_here(name, settings or get_settings()) else "not on this machine yet"
    return f"A model of the Hugging Face Hub; {here}."

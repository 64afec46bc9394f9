"""Phrases found by search on this machine: one JSON file each, under the home folder, usable as the attack `suffix`."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.settings import get_settings
from engine.strict_json import dumps

_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
MAX_NAME = 40
MOST_WORDS = 5


@dataclass(frozen=True)
class SavedPhrase:
    """A universal phrase and where it comes from.

    Attributes:
        name: what stands after `suffix:`.
        words: the phrase, in order; its first k words are the phrase of length k.
        values: objective on the training prompts without the phrase and after each word: the expected score, or the
            probability of being preferred.
        judge, fingerprint: what it was learned on.
        protocol, defense: how that judge was asked.
        data: the data set.
        created: UTC.
        run_id: the search.
    """

    name: str
    words: tuple[str, ...]
    values: tuple[float, ...]
    judge: str
    fingerprint: str
    protocol: str
    defense: str
    data: str
    created: str
    run_id: str


def check_name(name: str) -> str:
    """The name of a phrase, if it may be one.

    Raises:
        InputError: it may not.
    """
    if len(name) > MAX_NAME or not _NAME.fullmatch(name) or name.endswith("-deflate"):
        raise InputError(
            f"{name!r} cannot name a phrase: small letters, digits and single dashes, at most {MAX_NAME} characters, "
            "with a letter among them, for example found-on-dialogues."
        )
    return name


def save_phrase(phrase: SavedPhrase, folder: Path | None = None) -> Path:
    """Write a phrase, whole or not at all; one of the same name is replaced.

    Raises:
        InputError: the name cannot be one, or the phrase has no words or too many.
    """
    check_name(phrase.name)
    if not 1 <= len(phrase.words) <= MOST_WORDS or any(not w or " " in w for w in phrase.words):
        raise InputError(f"A phrase has 1 to {MOST_WORDS} words; {phrase.name} has {len(phrase.words)}.")
    folder = folder or _folder()
    folder.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=folder, suffix=".part")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(dumps(asdict(phrase), indent=1))
    path = folder / f"{phrase.name}.json"
    Path(scratch).replace(path)
    return path


def saved_phrases(folder: Path | None = None) -> dict[str, SavedPhrase]:
    """All readable phrases by name, sorted; a file that is none is left out."""
    found = {}
    for path in sorted((folder or _folder()).glob("*.json")):
        try:
            phrase = _read(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if phrase.name == path.stem and _NAME.fullmatch(phrase.name) and 1 <= len(phrase.words) <= MOST_WORDS:
            found[phrase.name] = phrase
    return found


def _read(raw: dict[str, Any]) -> SavedPhrase:
    values = tuple(float("nan") if v is None else float(v) for v in raw["values"])
    texts = {name: str(raw[name]) for name in SavedPhrase.__dataclass_fields__ if name not in {"words", "values"}}
    return SavedPhrase(words=tuple(str(w) for w in raw["words"]), values=values, **texts)


def _folder() -> Path:
    return get_settings().data_dir / "phrases"

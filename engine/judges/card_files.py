"""Saved judge cards: one TOML file each under the user's data folder, by a checked name; no model is touched here."""

from __future__ import annotations

import json
import os
import re
import tempfile
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from engine.errors import InputError
from engine.judges.cards import Card, parse_card, read_card

MAX_NAME = 60
MAX_CARDS = 200
MAX_FILE_BYTES = 400_000
"""Largest file taken for a card: its prompt at four bytes a character, and the rest."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 _-]*[A-Za-z0-9])?")
_LONG = ("user", "system")


def check_card_name(name: str) -> str:
    """The name, if a card may have it: it is a file's name too, on every system, and stands in a judge's spec.

    Raises:
        InputError: it may not.
    """
    if len(name) > MAX_NAME or not _NAME.fullmatch(name) or "  " in name:
        raise InputError(
            f"{name[:80]!r} cannot name a judge card: letters, digits, single spaces, dashes and underscores, "
            f"beginning and ending with a letter or digit, at most {MAX_NAME} characters, for example support-replies."
        )
    return name


def saved_cards(folder: Path) -> dict[str, Card]:
    """All readable cards by name, sorted; the name is the file's, whatever the file says."""
    return {path.stem: card for path in _files(folder) if (card := _read_or_none(path))}


def broken_cards(folder: Path) -> dict[str, str]:
    """Files that are no cards, by name, with the reason."""
    found: dict[str, str] = {}
    for path in _files(folder):
        try:
            read_card(path)
        except InputError as error:
            found[path.stem] = str(error)
    return found


def save_card(folder: Path, card: Card, *, replace: bool = False) -> Path:
    """Write a card, whole or not at all.

    Args:
        folder: `Settings.cards`.
        card: named by its `name`.
        replace: whether a card of the same name gives way.

    Raises:
        InputError: the name cannot be one or is taken, or there are too many cards.
    """
    check_card_name(card.name)
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder):
        taken = {path.stem.casefold(): path.stem for path in _files(folder)}
        other = taken.get(card.name.casefold())
        if other is not None and not (replace and other == card.name):
            raise InputError(f"There is a judge card {other!r} already. Choose another name, or replace that one.")
        if other is None and len(taken) >= MAX_CARDS:
            raise InputError(f"There are {MAX_CARDS} judge cards already. Delete one that is not needed.")
        return _write(folder, card)


def rename_card(folder: Path, name: str, new: str) -> Card:
    """Give a card another name.

    Raises:
        InputError: there is none of that name, or the new one cannot be one or is taken.
    """
    check_card_name(new)
    with _lock(folder):
        card = find_saved(folder, name)
        if any(p.stem.casefold() == new.casefold() and p.stem != name for p in _files(folder)):
            raise InputError(f"There is a judge card {new!r} already. Choose another name.")
        renamed = card.model_copy(update={"name": new})
        if new != name:
            (folder / f"{name}.toml").unlink()
            _write(folder, renamed)
        return renamed


def delete_card(folder: Path, name: str) -> Card:
    """Remove a card; `save_card` of what is returned undoes it.

    Raises:
        InputError: there is none of that name.
    """
    with _lock(folder):
        card = find_saved(folder, name)
        (folder / f"{name}.toml").unlink()
        return card


def find_saved(folder: Path, name: str) -> Card:
    """A saved card by its name.

    Raises:
        InputError: there is none, or its file is damaged; the message names what there is.
    """
    path = folder / f"{name}.toml"
    if not _NAME.fullmatch(name) or not path.is_file():
        known = ", ".join(saved_cards(folder)) or "none"
        raise InputError(f"There is no saved judge card {name[:80]!r}. Saved are: {known}.")
    return read_card(path).model_copy(update={"name": name})


def upload_card(content: bytes, where: str) -> Card:
    """A card from a file somebody gives.

    Raises:
        InputError: too large, or no card; the message names the field.
    """
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{where} has {len(content):,} bytes; a judge card has at most {MAX_FILE_BYTES:,}.")
    return parse_card(content, where)


def card_toml(card: Card) -> str:
    """The card as the text of a TOML file; reading it gives the same card."""
    fields = card.model_dump(mode="json", exclude_defaults=True)
    prompts = [key for key in _LONG if key in fields]  # last, so that the short settings are seen first
    rest = [key for key in fields if key not in prompts]
    return "".join(f"{key} = {_toml(fields[key])}\n" for key in rest) + "".join(
        f"{key} = {_prompt(fields[key])}\n" for key in prompts
    )


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return _quoted(str(value))


def _quoted(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for DEL, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _prompt(text: str) -> str:
    """A prompt over several lines, as people write it, where that can hold it; else on one."""
    plain = "\n" in text and "'''" not in text and not text.endswith("'")
    if plain and all(c in "\n\t" or (c.isprintable() and c != "\x7f") or c == "\N{NO-BREAK SPACE}" for c in text):
        return f"'''\n{text}'''"  # the line break after the opening quotes is not part of the text
    return _quoted(text)


def _write(folder: Path, card: Card) -> Path:
    try:
        content = card_toml(card).encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"The judge card {card.name!r} holds half a character, which no file can keep.") from None
    handle, scratch = tempfile.mkstemp(dir=folder, prefix=".card-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        path = folder / f"{card.name}.toml"
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)
    return path


def _read_or_none(path: Path) -> Card | None:
    try:
        seen = path.stat()
        return _read_at(path, seen.st_mtime_ns, seen.st_size)
    except (InputError, OSError):
        return None


@lru_cache(maxsize=MAX_CARDS)
def _read_at(path: Path, changed: int, size: int) -> Card:
    """A card as its file is now: every page lists the cards, and most have not changed."""
    del changed, size
    return read_card(path).model_copy(update={"name": path.stem})


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.toml")) if _NAME.fullmatch(path.stem)]


def _lock(folder: Path) -> FileLock:
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / ".cards.lock", timeout=10)

"""Saved judge cards: one TOML file each under the user's data folder, by a checked name; no model is touched here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from engine.core.errors import InputError, shown
from engine.core.files import is_file, write_atomically
from engine.core.schema import Protocol
from engine.judges.cards import MAX_FILE_BYTES, PLACEHOLDERS, Card, parse_card, read_card

MAX_NAME = 60
MAX_CARDS = 200
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 _-]*[A-Za-z0-9])?")
_LONG = ("user", "system")


def check_card_name(name: str) -> str:
    """The name, if a card may have it: it is a file's name too, on every system, and stands in a judge's spec.

    Raises:
        InputError: it may not.
    """
    if len(name) > MAX_NAME or not _NAME.fullmatch(name) or "  " in name:
        raise InputError(
            f"{shown(name, 80)} cannot name a judge card: letters, digits, single spaces, dashes and underscores, "
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
        replace: true where a card of the same name gives way.

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
    if not _NAME.fullmatch(name) or not is_file(path):
        known = ", ".join(saved_cards(folder)) or "none"
        raise InputError(f"There is no saved judge card {shown(name, 80)}. Saved are: {known}.")
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
    path = folder / f"{card.name}.toml"
    write_atomically(path, content)
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


# Cautions about a judge card: mistakes a valid card can still hold, each with its remedy.

_BRACED = re.compile(r"\{\{\s*([^{}\n]{1,40}?)\s*\}\}|\{([^{}\n]{1,40})\}")
_PLAIN_SLOT = re.compile(r"[a-z_]+")
_MOST = 6


class Notice(NamedTuple):
    """One remark on a card.

    Attributes:
        where: the field.
        what: the mistake.
        fix: the remedy.
        error: true where the card should not be used as it is.
    """

    where: str
    what: str
    fix: str
    error: bool


def card_notices(card: Card) -> list[Notice]:
    """Errors first, then what may be meant as it is."""
    found = [*_labels(card), *prompt_notices(card.system, card.user), *_missing(card)]
    return sorted(found, key=lambda notice: not notice.error)


def prompt_notices(system: str, user: str) -> list[Notice]:
    """Suspicious braces of a prompt, also of one that is no valid card yet."""
    return [*_system_slots(system), *_braces(system, "System message"), *_braces(user, "User message")]


def _labels(card: Card) -> Iterator[Notice]:
    for label in card.labels:
        if not label.strip() or label != label.strip():
            yield Notice(
                "Labels", f"The label {label!r} begins or ends with a space, or is one.",
                "Leave the space out: both ways of writing a label count anyway.", error=True,
            )  # fmt: skip
    spellings = card.spellings or ((),) * len(card.labels)
    forms = {label: {label, *also} for label, also in zip(card.labels, spellings, strict=True)}
    for i, one in enumerate(card.labels):
        for other in card.labels[i + 1 :]:
            yield from _two_labels(card, one, other, forms[one], forms[other])


def _two_labels(card: Card, one: str, other: str, forms: set[str], others: set[str]) -> Iterator[Notice]:
    if {f.casefold() for f in forms} & {f.casefold() for f in others}:
        yield Notice(
            "Labels", f"{one!r} and {other!r} can be written alike.",
            "Give each answer a word of its own; capital letters do not tell them apart.", error=True,
        )  # fmt: skip
        return
    short, long = sorted((one, other), key=len)
    if not long.casefold().startswith(short.casefold()):
        return
    if _is_number(short) and _is_number(long):
        if card.mode == "label probabilities":
            yield Notice(
                "Labels", f"{short!r} begins {long!r}, so one prompt takes more than one pass.",
                "Nothing to do: the shorter one counts only where the longer does not follow.", error=False,
            )  # fmt: skip
        return
    yield Notice(
        "Labels", f"{short!r} begins {long!r}: after the first letters the two cannot be told apart.",
        "Choose labels that differ from the first word on.", error=True,
    )  # fmt: skip


def _braces(text: str, where: str) -> Iterator[Notice]:
    """Near misses: text in braces that looks like a placeholder and is none."""
    told = 0
    for match in _BRACED.finditer(text):
        double, single = match.groups()
        name = (double or single).strip()
        plain = re.sub(r"[^a-z_]", "", name.casefold().replace("-", "_").replace(" ", "_")).strip("_")
        if double and name in PLACEHOLDERS:
            what, fix = f"{match[0]} stands for the literal text {{{name}}}.", f"Write {{{name}}} to have it filled in."
        elif plain in PLACEHOLDERS and single != plain:
            what, fix = f"{match[0]} is not filled in.", f"Write {{{plain}}}, in small letters and without spaces."
        elif not double and name.isidentifier() and not _PLAIN_SLOT.fullmatch(name):
            what, fix = f"{match[0]} stays as it is.", "It is no placeholder; leave it if the judge is to see it so."
        else:
            continue
        yield Notice(where, what, fix, error=False)
        told += 1
        if told == _MOST:
            return


def _system_slots(system: str) -> Iterator[Notice]:
    for name in PLACEHOLDERS:
        if f"{{{name}}}" in system:
            yield Notice(
                "System message", f"{{{name}}} is not filled in here: the system message is sent as it is.",
                "Move it into the user message.", error=True,
            )  # fmt: skip


def _missing(card: Card) -> Iterator[Notice]:
    if "context" not in card.placeholders:
        yield Notice(
            "User message", "It has no {context}: the judge does not see what was asked.",
            "Add {context}, unless it is to judge the response alone.", error=False,
        )  # fmt: skip
    if card.protocol is not Protocol.RANKING and card.mode != "json":
        for label in card.labels:
            if len(label) > 1 and not _is_number(label) and label.casefold() not in card.user.casefold():
                yield Notice(
                    "Labels", f"The prompt never names the answer {label!r}.",
                    "Tell the judge which answers there are; otherwise most verdicts will be unread.", error=False,
                )  # fmt: skip


def _is_number(label: str) -> bool:
    return label.removeprefix("-").replace(".", "", 1).isdecimal()


# A judge with a card in its spec: `bundled:judge?card=support-replies@1a2b3c4d`.
#
# The spec names the model, the saved card and the first digits of the card's digest. So a run says which prompt it was
# made with, and numbers of an edited card are never taken for those of its earlier wording.

_PART = re.compile(r"[?&]card=(?P<name>[^?&@/\\]{1,80})(?:@(?P<digest>[0-9a-f]{8}))?$")
PROMPTED = ("bundled", "hf", "path", "api", "decision")
"""Kinds of judges that read a prompt."""
DEFAULT_MODEL = "bundled:judge"


class CardSpec(NamedTuple):
    """The parts of a spec; name and digest are empty where it has no card, digest where it takes the present one."""

    model: str
    name: str = ""
    digest: str = ""


def split_spec(spec: str) -> CardSpec:
    """The model's own spec, and the card's name and digest."""
    match = _PART.search(spec)
    return CardSpec(spec[: match.start()], match["name"], match["digest"] or "") if match else CardSpec(spec)


def card_spec(model: str, card: Card) -> str:
    """The spec of a model asked through a card.

    Raises:
        InputError: the model is none, so that there is nothing to show a prompt to.
    """
    model = split_spec(model).model
    if (kind := re.split("[:?]", model)[0]) not in PROMPTED:
        raise InputError(f"A {kind} judge reads no prompt, so a judge card does nothing to {model}. Leave it out.")
    name = re.sub(r"[?&@/\\]+", "-", card.name)[:80]
    return f"{model}{'&' if '?' in model else '?'}card={name}@{card.digest[:8]}"


def given_card(card: Path, folder: Path) -> Card:
    """The card of `--judge-card NAME|FILE`.

    Args:
        card: a file, or the name of a saved card.
        folder: where saved cards lie.

    Raises:
        InputError: neither, or the card is wrong.
    """
    if is_file(card) or card.suffix == ".toml" or len(card.parts) > 1:
        return read_card(card)
    return find_saved(folder, str(card))


def judge_given(judge: str | None, card: Path | None, folder: Path, default: str = DEFAULT_MODEL) -> str:
    """The spec of `--judge SPEC --judge-card NAME|FILE`: a judge that is named comes before the card's own model.

    Raises:
        InputError: the card cannot be used, or the judge reads no prompt.
    """
    if card is None:
        return judge or default
    found = given_card(card, folder)
    return card_spec(judge or found.spec or default, found)


def chosen_card(spec: str, card: Path | Card | None, folder: Path) -> tuple[str, Card | None]:
    """The model's spec and the card to ask it through; None for the built-in ones.

    Args:
        spec: a judge's spec, with or without a card.
        card: a card, its file or its saved name, that was given beside the spec and is taken in its place.
        folder: where saved cards lie.

    Raises:
        InputError: there is no such card, or it is not any more what the spec says.
    """
    model, name, digest = split_spec(spec)
    if card is None and not name:
        return model, None
    if isinstance(card, Card):
        found = card
    else:
        found = given_card(card, folder) if card is not None else find_saved(folder, name)
    if digest and not found.digest.startswith(digest):
        raise InputError(
            f"The judge card {name!r} was changed: {spec} means its wording {digest}, the present one is "
            f"{found.digest[:8]}. Choose the judge anew, or write ?card={name} for the present wording."
        )
    card_spec(model, found)  # refuses a judge that reads no prompt
    return model, found

"""What to look at twice in a judge card: mistakes a valid card can still hold, each with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from engine.judges.cards import PLACEHOLDERS, Card
from engine.schema import Protocol

_BRACED = re.compile(r"\{\{\s*([^{}\n]{1,40}?)\s*\}\}|\{([^{}\n]{1,40})\}")
_PLAIN_SLOT = re.compile(r"[a-z_]+")
_MOST = 6


class Notice(NamedTuple):
    """One remark on a card.

    Attributes:
        where: the field.
        what: what was found.
        fix: what to do.
        error: whether the card should not be used as it is.
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
    """What may be wrong with the braces of a prompt, also of one that is no valid card yet."""
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
    shown = 0
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
        shown += 1
        if shown == _MOST:
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

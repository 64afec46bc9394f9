"""A judge with a card in its spec: `bundled:judge?card=support-replies@1a2b3c4d`.

The spec names the model, the saved card and the first digits of the card's digest. So a run says which prompt it was
made with, and numbers of an edited card are never taken for those of its earlier wording.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from engine.errors import InputError
from engine.judges.card_files import find_saved
from engine.judges.cards import Card, read_card

_PART = re.compile(r"[?&]card=(?P<name>[^?&@/\\]{1,80})(?:@(?P<digest>[0-9a-f]{8}))?$")
_NO_PROMPT = ("planted", "recorded")
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
    if (kind := model.partition(":")[0]) in _NO_PROMPT:
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
    if card.is_file() or card.suffix == ".toml" or len(card.parts) > 1:
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

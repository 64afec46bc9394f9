"""Names of arms: `NAME[:PHRASE][:NUMBER][-deflate][@before|@after]`, options left out at their defaults.

Examples: `dsi`, `dsi-deflate`, `bed@before`, `suffix:2`, `suffix:topic-greedy-absolute-flant5xl:3`, `long:128`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.attacks.cards import ATTACKS, AttackCard
from engine.attacks.phrases import known_phrases, longest
from engine.errors import InputError

_SHAPE = re.compile(
    r"(?P<base>[a-z]+)(?P<options>(?::[A-Za-z0-9-]+?)*)(?P<deflate>-deflate)?(?:@(?P<at>before|after))?"
)


@dataclass(frozen=True)
class AttackName:
    """An attack with its options.

    Attributes:
        base: name of the card.
        deflate: lower the verdict instead of raising it.
        before: the added text stands before the response.
        length: words of the phrase, or copies; 0 where there is no such option.
        phrase: name of the phrase; empty where there is no such option.
    """

    base: str
    deflate: bool = False
    before: bool = False
    length: int = 0
    phrase: str = ""

    @property
    def card(self) -> AttackCard:
        """What this attack is."""
        return ATTACKS[self.base]

    @property
    def name(self) -> str:
        """The arm's one name: options at their defaults are left out."""
        card, name = self.card, self.base
        if card.phrases and self.phrase != card.phrases[0]:
            name += f":{self.phrase}"
        if card.lengths and self.length != _default_length(card, self.phrase):
            name += f":{self.length}"
        if self.deflate:
            name += "-deflate"
        if self.before != card.before:
            name += "@before" if self.before else "@after"
        return name


def parse_attack(name: str) -> AttackName:
    """Read an arm's name.

    Raises:
        InputError: no such attack, an option it does not have, or a number out of its range.
    """
    shape = _SHAPE.fullmatch(name)
    base = shape["base"] if shape else re.split(r"[:@-]", name)[0]
    if base not in ATTACKS:
        raise InputError(f"Unknown attack {name!r}. Available: {', '.join(ATTACKS)}.")
    card = ATTACKS[base]
    if shape is None:
        raise InputError(f"The attack {name!r} cannot be read. {options_of(card)}")
    if shape["deflate"] and not card.has_direction:
        raise InputError(f"{name!r}: {base} has no opposite. {options_of(card)}")
    if shape["at"] and not card.has_position:
        raise InputError(f"{name!r}: {base} has no position. {options_of(card)}")
    phrase, length = _options(card, name, [o for o in shape["options"].split(":") if o])
    before = shape["at"] == "before" if shape["at"] else card.before
    return AttackName(base, bool(shape["deflate"]), before, length, phrase)


def options_of(card: AttackCard) -> str:
    """One sentence on what may follow the name."""
    allowed: list[str] = []
    if card.phrases:
        allowed.append(f":PHRASE (one of {', '.join(known_phrases())})")
    if card.lengths:
        allowed.append(f":N ({card.length_is}, {card.lengths[0]} to {card.lengths[1]}, default {card.length})")
    if card.has_direction:
        allowed.append("-deflate")
    if card.has_position:
        allowed.append("@after" if card.before else "@before")
    if not allowed:
        return f"Nothing may follow {card.name}."
    return f"{card.name} may be followed by {', then '.join(allowed)}."


def _options(card: AttackCard, name: str, given: list[str]) -> tuple[str, int]:
    """Phrase and number of the options between the colons."""
    phrase = card.phrases[0] if card.phrases else ""
    if given and card.phrases and given[0] in known_phrases():
        phrase = given.pop(0)
    length = _default_length(card, phrase)
    if given and card.lengths and re.fullmatch(r"\d{1,4}", given[0]):
        length = int(given.pop(0))
        low, high = card.lengths[0], min(card.lengths[1], longest(phrase)) if phrase else card.lengths[1]
        if not low <= length <= high:
            whole = f" {phrase} has {high}." if phrase and high < card.lengths[1] else ""
            raise InputError(f"{name!r}: {card.length_is} must be {low} to {high}.{whole}")
    if given:
        raise InputError(f"{name!r}: {given[0]!r} is no option of {card.name}. {options_of(card)}")
    return phrase, length


def _default_length(card: AttackCard, phrase: str) -> int:
    return min(card.length, longest(phrase)) if phrase else card.length

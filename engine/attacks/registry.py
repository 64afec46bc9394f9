"""Attacks by name."""

from __future__ import annotations

from dataclasses import replace

from engine.attacks.base import Attack, Insertion
from engine.attacks.cards import ATTACKS, AttackCard, parse_attack
from engine.attacks.injections import Distraction, EmptyAnswer, Injection, LearnedSuffix, Repetition, own_text
from engine.core.errors import InputError
from engine.core.schema import NONE


def make_attack(name: str, text: str = "") -> Attack:
    """The attack of that name, options included.

    Args:
        name: for example `dsi`, `dsi-deflate@before` or `suffix:3`.
        text: of the attack `own`.

    Raises:
        InputError: no such attack or option, `own` without a text, or a plugin's attack of another name.
    """
    parsed = parse_attack(name)
    if (card := ATTACKS.use(parsed.base)) and card.make:
        made = card.make(parsed)
        if made.name != parsed.name:
            raise InputError(
                f"The {ATTACKS.plugin_of(parsed.base)} calls itself {made.name!r} when asked for {parsed.name!r}. Its "
                "author has to mend it."
            )
        return made
    if parsed.base == NONE:
        return Insertion(NONE, "")
    if parsed.base == "own":
        if not text:
            raise InputError("The attack 'own' needs a text: type one, or pass --own-text TEXT.")
        return own_text(text, before=parsed.before)
    if parsed.base == "suffix":
        return LearnedSuffix(parsed)
    if parsed.base == "distraction":
        return Distraction(parsed)
    if parsed.base == "long":
        return Repetition(parsed)
    return EmptyAnswer() if parsed.base == "empty" else Injection(parsed)


def describe_attack(name: str) -> AttackCard:
    """The card of an arm, its options named in the title: "DSI (lower, before the response): ...".

    Raises:
        InputError: no such attack or option.
    """
    parsed = parse_attack(name)
    card = parsed.card
    parts: list[str] = []
    if card.phrases and parsed.phrase != card.phrases[0]:
        parts.append(parsed.phrase)
    if card.lengths and name != card.name:
        parts.append(f"{parsed.length} {card.length_is.split()[0]}")
    if parsed.deflate:
        parts.append("lower")
    if parsed.before != card.before:
        parts.append("before the response" if parsed.before else "after the response")
    if not parts:
        return card
    short, colon, rest = card.title.partition(":")
    return replace(card, name=parsed.name, title=f"{short} ({', '.join(parts)}){colon}{rest}")

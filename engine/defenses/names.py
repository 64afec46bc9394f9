"""Names of arms: `NAME[?dial=value&dial=value]`, several joined by `+`; dials are left out at their defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from engine.defenses.cards import KINDS, PERPLEXITY_THRESHOLDS, DefenseCard
from engine.errors import InputError
from engine.schema import NONE

REFSWAP = "refswap"
"""A defense of verifiers alone (`engine.defenses.refswap`)."""
_DECIMALS = 9
"""Decimals of a dial that count."""


@dataclass(frozen=True)
class DefenseName:
    """One defense with its dials, defaults filled in."""

    base: str
    dials: Mapping[str, float]

    @property
    def card(self) -> DefenseCard:
        """What this defense is."""
        return KINDS[self.base]

    @property
    def name(self) -> str:
        """The arm's one name: dials at their defaults are left out, the others in the card's order."""
        set_by_hand = {
            dial: value for dial, value in self.dials.items() if value != _default(self.card, dial, self.dials)
        }
        query = "&".join(f"{dial}={_written(value)}" for dial, value in set_by_hand.items())
        return f"{self.base}?{query}" if query else self.base


def parse_defense(name: str) -> DefenseName:
    """Read the name of one defense.

    Raises:
        InputError: no such defense or dial, a value outside its range, or a dial given twice.
    """
    base, mark, query = name.partition("?")
    if base == REFSWAP:
        raise InputError(
            f"{name!r} checks a verifier's YES, so it has no arm among scores: what is accepted before and after it is "
            "measured by `judgescope study refswap --judge SPEC`, which also calibrates gamma. On the pages it is a "
            "switch of the Attack lab on verification items, and the page Reference swap."
        )
    if base not in KINDS:
        raise InputError(f"Unknown defense {name!r}. Available: {', '.join(KINDS)}.")
    card = KINDS[base]
    given: dict[str, float] = {}
    for dial, text in parse_qsl(query, keep_blank_values=True):
        if dial not in card.dials:
            raise InputError(f"{name!r}: {base} has no dial {dial!r}. {ranges_of(card)}")
        if dial in given:
            raise InputError(f"{name!r} sets {dial} twice. Give it once.")
        given[dial] = _number(card, dial, text, name)
    if mark and not given:
        raise InputError(f"{name!r} sets no dial after the question mark. {ranges_of(card)}")
    window = int(given.get("window", 0))
    if base == "perplexity" and "threshold" not in given and window not in PERPLEXITY_THRESHOLDS:
        known = ", ".join(str(w) for w in PERPLEXITY_THRESHOLDS)
        raise InputError(
            f"{name!r}: a default threshold was measured for the windows {known} only. Give one, for example "
            f"perplexity?threshold=500&window={window}."
        )
    dials = {dial: given.get(dial, _default(card, dial, given)) for dial in card.dials}
    return DefenseName(base, dials)


def parse_defenses(name: str) -> list[DefenseName]:
    """Read an arm's whole name; `none` stands for no defense and is left out of a longer name.

    Raises:
        InputError: as `parse_defense`, or one defense twice with the same dials.
    """
    found = [parse_defense(part) for part in name.split("+")]
    found = [one for one in found if one.base != NONE]
    names = [one.name for one in found]
    if twice := next((n for n in names if names.count(n) > 1), ""):
        raise InputError(f"{name!r} has {twice} twice. Give it once.")
    return found


def defense_name(name: str) -> str:
    """The arm's one name, however it was spelled.

    Raises:
        InputError: as `parse_defenses`.
    """
    return "+".join(one.name for one in parse_defenses(name)) or NONE


def ranges_of(card: DefenseCard) -> str:
    """One sentence on the dials of a defense."""
    if not card.dials:
        return f"Nothing may follow {card.name.partition('?')[0]}."
    parts = [
        f"{dial} ({'whole number ' if d.whole else ''}{d.low:g} to {_plain(d.high)}, default {d.default:g})"
        for dial, d in card.dials.items()
    ]
    return f"{card.name.partition('?')[0]} has the dials {', '.join(parts)}."


def _written(value: float) -> str:
    """Without an exponent: its plus sign would join two defenses."""
    return f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _default(card: DefenseCard, dial: str, dials: Mapping[str, float]) -> float:
    """A dial's default; that of the perplexity threshold goes by the window."""
    if card.name == "perplexity" and dial == "threshold":
        return PERPLEXITY_THRESHOLDS.get(int(dials.get("window", 0)), math.nan)
    return card.dials[dial].default


def _number(card: DefenseCard, dial: str, text: str, name: str) -> float:
    allowed = card.dials[dial]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not allowed.low <= value <= allowed.high or (allowed.whole and not value.is_integer()):
        raise InputError(f"{name!r}: {dial} cannot be {text!r}. {ranges_of(card)}")
    return round(value, _DECIMALS)

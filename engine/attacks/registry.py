"""All attacks by name: the one place where a name becomes an attack."""

from __future__ import annotations

from dataclasses import dataclass

from engine.attacks.base import Attack, Insertion
from engine.attacks.injections import BED, DSI, own_text
from engine.errors import InputError
from engine.schema import NONE


@dataclass(frozen=True)
class AttackCard:
    """What a user reads before choosing an attack."""

    name: str
    title: str
    about: str
    source: str


ATTACKS: dict[str, AttackCard] = {
    c.name: c
    for c in (
        AttackCard(NONE, "No attack", "The response as it is.", ""),
        AttackCard(
            "dsi",
            "DSI: ask for a high score",
            "Direct score inflation: one polite sentence after the response asks for a high score.",
            "CAP (paper 001), appendix B",
        ),
        AttackCard(
            "bed",
            "BED: fake evaluation directive",
            "Biased evaluation directive: a sentence after the response poses as a rule of the evaluation.",
            "CAP (paper 001), appendix B",
        ),
        AttackCard("own", "Your own text", "Whatever you type, added after the response.", ""),
    )
}


def make_attack(name: str, own: str = "", *, before: bool = False) -> Attack:
    """The attack of that name; `own` is the text of the attack `own`, put `before` the response or after it.

    Raises:
        InputError: no such attack, or `own` without a text.
    """
    if name == NONE:
        return Insertion(NONE, "")
    if name == "dsi":
        return Insertion("dsi", DSI)
    if name == "bed":
        return Insertion("bed", BED)
    if name == "own":
        if not own:
            raise InputError("The attack 'own' needs a text: type one, or pass --own-text TEXT.")
        return own_text(own, before=before)
    raise InputError(f"Unknown attack {name!r}. Available: {', '.join(ATTACKS)}.")

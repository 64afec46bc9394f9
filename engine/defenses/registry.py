"""All defenses by name: the one place where a name becomes a judge around a judge."""

from __future__ import annotations

from dataclasses import dataclass

from engine.defenses.prompting import QuotingJudge
from engine.errors import InputError
from engine.judges.base import Judge
from engine.schema import NONE


@dataclass(frozen=True)
class DefenseCard:
    """What a user reads before choosing a defense."""

    name: str
    title: str
    about: str
    source: str


DEFENSES: dict[str, DefenseCard] = {
    c.name: c
    for c in (
        DefenseCard(NONE, "No defense", "The judge's own prompt.", ""),
        DefenseCard(
            "delimiters",
            "Delimiters",
            "Fences the response with a tag it cannot guess and tells the judge that the inside is data.",
            "RobustJudge's delimiter defense, own wording",
        ),
        DefenseCard(
            "sandwich",
            "Sandwich",
            "Repeats the judge's task after the response.",
            "RobustJudge's sandwich defense, own wording",
        ),
    )
}


def defend(judge: Judge, name: str) -> Judge:
    """The judge behind the named defense; several are joined by `+`, the first nearest to the response.

    Raises:
        InputError: no such defense.
    """
    for part in name.split("+"):
        if part == NONE:
            continue
        if part not in DEFENSES:
            raise InputError(f"Unknown defense {part!r}. Available: {', '.join(DEFENSES)}.")
        judge = QuotingJudge(judge, part)
    return judge

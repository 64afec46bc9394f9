"""Rewordings of a judge's own card, made at run time: the same rubric in other words, and the scale turned round.

Both are rules, so that they need no model and are the same for everybody. The placeholders, labels and literal braces
of the prompt stay as they are. What the reversed card answers is turned back when it is read (its values are mirrored,
or its labels change places), so that a judge that follows the prompt gives the same verdict under both.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from engine.errors import InputError
from engine.judges.base import Judge, Request
from engine.judges.cards import Card, CardBook
from engine.schema import Protocol

REWORDED = ("reworded 1", "reworded 2")
REVERSED = "reversed"
NO_CARD = "has no judge card, so there is no prompt to change (ability: a prompt of its own)"

_SAYINGS: tuple[Mapping[str, str], ...] = (
    {
        "rate the quality of": "score how good",
        "rate": "score",
        "rating": "score",
        "considering": "taking into account",
        "very poor": "very bad",
        "excellent": "outstanding",
        "worst": "poorest",
        "respond with": "answer with",
        "reply with": "answer with",
        "reply": "answer",
        "output": "give",
        "state which": "say which",
        "analyze": "examine",
        "better response": "preferred response",
        "which assistant answers": "which assistant responds to",
        "match the reference answer": "agree with the reference answer",
        "be as objective as possible": "stay as objective as you can",
        "evaluate": "assess",
        "judge": "assess",
        "assess": "evaluate",
        "choose": "select",
        "you are given": "below you find",
    },
    {
        "rate the quality of": "grade the quality of",
        "rate": "grade",
        "rating": "grade",
        "considering": "with regard to",
        "very poor": "terrible",
        "excellent": "superb",
        "best": "finest",
        "respond with": "write down",
        "reply with": "write down",
        "only": "and nothing else",
        "output": "write",
        "state which": "tell which",
        "better": "more fitting",
        "match": "correspond to",
        "helpfulness": "usefulness",
        "correctness": "accuracy",
        "evaluate": "appraise",
        "judge": "appraise",
        "assess": "appraise",
        "choose": "pick",
        "number": "figure",
    },
)
"""Two ways of saying the usual words of a rubric."""
_WORSE: Mapping[str, str] = {
    "better": "worse",
    "best": "worst",
    "worse": "better",
    "worst": "best",
    "prefer": "reject",
    "preferred": "rejected",
}
_SLOT = re.compile(r"(\{\{[a-z_]+\}\}|\{[a-z_]+\})")
_ENDS = re.compile(
    r"(?P<low>\d+)\s*\((?P<a>[^()\n]{2,40})\)(?P<between>[^()\n]{1,12}?)(?P<high>\d+)\s*\((?P<b>[^()\n]{2,40})\)"
)


def reworded_cards(judge: Judge, request: Request) -> list[Card]:
    """The judge's card in other words, twice.

    Raises:
        InputError: the judge has no card, or no word of its prompt is one of the known sayings.
    """
    card = card_of(judge, request)
    made: list[Card] = []
    for variant, sayings in zip(REWORDED, _SAYINGS, strict=True):
        change = _substituter(sayings)
        new = _changed(
            card, variant, user=_outside_slots(card.user, change), system=_outside_slots(card.system, change)
        )
        if new.user == card.user and new.system == card.system:
            raise InputError(
                f"No wording of the prompt of {judge.spec} is known to the paraphraser (it knows for example rate, "
                "considering, respond with, better)."
            )
        made.append(new)
    return made


def reversed_card(judge: Judge, request: Request) -> Card:
    """The judge's card with its scale turned round, its answers turned back.

    Raises:
        InputError: the judge has no card.
    """
    card = card_of(judge, request)
    if card.protocol is Protocol.POINTWISE:
        return _reversed_scores(card)
    return _reversed_pair(card) if card.protocol is Protocol.PAIRWISE else _reversed_check(card)


def card_of(judge: Judge, request: Request) -> Card:
    """The card a request is asked through.

    Raises:
        InputError: the judge has none.
    """
    if not hasattr(judge, "card"):
        raise InputError(f"{judge.spec} {NO_CARD}.")
    found: Card = judge.card(request)
    return found


def with_cards(judge: Judge, cards: list[Card]) -> Judge:
    """The judge with these cards beside its own; the judge itself where there are none.

    A judge behind a server is copied, so that both share its client and with it the cap on calls and cost.
    """
    if not cards:
        return judge
    if hasattr(judge, "with_cards"):
        made: Judge = judge.with_cards(cards)
        return made
    twin: Any = copy.copy(judge)
    twin._book = CardBook((*twin._book.cards, *cards))
    return cast(Judge, twin)


def _reversed_scores(card: Card) -> Card:
    low, high = min(card.values), max(card.values)
    mirrored = tuple(low + high - value for value in card.values)
    names = dict(zip(card.values, card.labels, strict=True))
    note = f"In this task the scale is turned round: {names[low]} is the best and {names[high]} is the worst."
    user = _ENDS.sub(lambda m: f"{m['low']} ({m['b']}){m['between']}{m['high']} ({m['a']})", card.user)
    user = re.sub(r"(\d+)-worst, (\d+)-best", r"\1-best, \2-worst", user)
    return _changed(card, REVERSED, user=_noted(user, note), values=mirrored, decimals=False)


def _reversed_pair(card: Card) -> Card:
    """Asks for the worse one: naming the second means that the first is better, so the labels change places."""
    first, second, *tie = card.labels
    note = f"In this task name the worse of the two: {first} where the first is worse, {second} where the second is."
    user = _noted(_outside_slots(card.user, _substituter(_WORSE)), note)
    return _changed(card, REVERSED, user=user, labels=(second, first, *tie), spellings=_turned(card.spellings))


def _reversed_check(card: Card) -> Card:
    yes, no = card.labels
    note = f"In this task the answers are turned round: {no} means that it is correct and {yes} that it is not."
    return _changed(card, REVERSED, user=_noted(card.user, note), labels=(no, yes), spellings=_turned(card.spellings))


def _turned(spellings: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return (spellings[1], spellings[0], *spellings[2:]) if spellings else ()


def _noted(user: str, note: str) -> str:
    """The note ahead of the instructions."""
    return f"{note}\n\n{user.removeprefix(chr(10))}"


def _changed(card: Card, variant: str, **fields: Any) -> Card:
    return Card.model_validate(card.model_dump() | {"variant": variant, "name": f"{card.name}, {variant}"} | fields)


def _outside_slots(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if _SLOT.fullmatch(part) else change(part) for part in _SLOT.split(text))


def _substituter(sayings: Mapping[str, str]) -> Callable[[str], str]:
    """Whole words and phrases, the longest first, a capital kept."""
    known = "|".join(re.escape(s) for s in sorted(sayings, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{known})(?![\w-])", re.IGNORECASE)

    def one(match: re.Match[str]) -> str:
        found = match.group()
        new = sayings[found.lower()]
        return new[:1].upper() + new[1:] if found[0].isupper() else new

    return lambda text: pattern.sub(one, text)

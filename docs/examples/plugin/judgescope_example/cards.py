"""What lists and help show. It is imported to be listed, so the code behind each card is imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.attacks.cards import AttackCard, AttackName
from engine.core.schema import Protocol
from engine.defenses.cards import DefenseCard, DefenseName, Option
from engine.judges.registry import JudgeCard

if TYPE_CHECKING:
    from engine.attacks.base import Attack
    from engine.core.settings import Settings
    from engine.judges.base import Judge


def _praise(name: AttackName) -> Attack:
    from judgescope_example.attack import praise

    return praise(name)


def _first_words(judge: Judge, name: DefenseName) -> Judge:
    from judgescope_example.defense import FirstWords

    return FirstWords(judge, name.name, int(name.options["n"]))


def _word_count(spec: str, settings: Settings) -> Judge:  # noqa: ARG001 - every judge gets the settings
    from judgescope_example.judge import word_count

    return word_count(spec)


PRAISE = AttackCard(
    "praise",
    "Praise: a stranger's opinion",
    "A sentence says what other reviewers thought of the response.",
    "template",
    has_direction=True,
    has_position=True,
    make=_praise,
)
FIRST_WORDS = DefenseCard(
    "first_words",
    "First words only",
    "Shows the judge the first words of each response, so that what is added behind them is cut off.",
    "template",
    options={"n": Option(1, 10_000, 60, "words that are kept", whole=True)},
    make=_first_words,
)
WORD_COUNT = JudgeCard(
    "word_count",
    "Word count",
    "Scores a response by its length alone: 5 from 100 words on. Any judge worth its price has to beat it.",
    needs_weights=False,
    protocols=(Protocol.POINTWISE,),
    make=_word_count,
)

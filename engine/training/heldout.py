"""Sides of the data: one rule on the use of each item for training, tuning and the final measurement.

Residue 0 is the test side: it is read once, by `judgescope bench judge`, after the recipe is frozen. Residue 1 is
the tuning side: recipes are compared on it, so it stays out of training until the recipe is frozen. Everything
else is the training side.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum

GSM8K_TEST_FROM = 1000
"""GSM8K questions from this number on are the test side (the rule of the data's README)."""
_SIDES = 5


class Side(StrEnum):
    """Side of an item: its only allowed use."""

    TEST = "test"
    TUNE = "tune"
    TRAIN = "train"


def side_of_number(number: int) -> Side:
    """The side of a numbered document or dialogue: its number modulo 5."""
    return {0: Side.TEST, 1: Side.TUNE}.get(number % _SIDES, Side.TRAIN)


def side_of_prompt(prompt: str) -> Side:
    """The side of a prompt: the md5 of its UTF-8 bytes, read as a number, modulo 5."""
    return side_of_number(int(hashlib.md5(prompt.encode(), usedforsecurity=False).hexdigest(), 16))


def side_of_question(number: int) -> Side:
    """The side of a GSM8K question: from 1000 on the test side, below that residue 1 is the tuning side."""
    if number >= GSM8K_TEST_FROM:
        return Side.TEST
    return Side.TUNE if number % _SIDES == 1 else Side.TRAIN


def same_text(text: str) -> str:
    """A text without the differences that do not make it another one (case, white space)."""
    return " ".join(text.casefold().split())


NEAR = 0.7
"""Share of their words that two texts have in common from which one is a near-duplicate of the other."""


def near_duplicates(held_out: Iterable[str], trained: Iterable[str], least: float = NEAR) -> frozenset[str]:
    """The held-out texts that a trained text resembles: Jaccard similarity of their sets of words, case ignored.

    An exact match misses a prompt that differs in a name or a number.

    Args:
        held_out: texts to be measured on.
        trained: texts that the judge was trained on.
        least: similarity from which a text counts as seen, in (0, 1].
    """
    known = [words for text in set(trained) if (words := _words(text))]
    return frozenset(text for text in set(held_out) if any(_alike(_words(text), words, least) for words in known))


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _alike(a: frozenset[str], b: frozenset[str], least: float) -> bool:
    few, many = sorted((len(a), len(b)))
    if few < least * many:  # the overlap is at most the smaller set, the union at least the larger
        return False
    both = len(a & b)
    return both >= least * (len(a) + len(b) - both)

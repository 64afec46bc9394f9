"""The same text in another dress: tokenised lower case as in TopicalChat, or ordinary punctuation and case.

A judge trained on one dress only takes the other for a sign of quality; so training shows both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

_GLUE_LEFT = re.compile(r"\s+([.,!?;:%)\]}…])")
_GLUE_RIGHT = re.compile(r"([(\[{$£€#])\s+")
_CLITIC = re.compile(r"\s+(n't|'(?:s|m|re|ve|ll|d|t|em)\b)", re.IGNORECASE)
_QUOTED = re.compile(r"(``|\"|'')\s*(.*?)\s*(''|\")")
_SPLIT_NUMBER = re.compile(r"(?<=\d)\s+([.,:])\s+(?=\d)")
_SENTENCE = re.compile(r"(^|[.!?…]\s+[\"'(]?|\n)([a-z])")
_LONE_I = re.compile(r"\bi\b(?!\.\w)")
_TOKEN = re.compile(r"n't\b|'(?:s|m|re|ve|ll|d)\b|\w+(?:[-.]\w+)*|[^\w\s]", re.IGNORECASE)
_LOWER_WORD = re.compile(r"\b[a-z][\w’-]+")
_NOT = re.compile(r"(\w+)(n't)\b", re.IGNORECASE)

SPEAKERS: tuple[tuple[str, str], ...] = (("A", "B"), ("A", "B"), ("A", "B"), ("Person 1", "Person 2"), ("Anna", "Ben"))


class Dress(StrEnum):
    """Written form of a dialogue."""

    TOKENISED = "tokenised"
    ORDINARY = "ordinary"
    MARKED = "marked"


def ordinary(text: str) -> str:
    """Tokenised lower-case text as people type it: punctuation glued, sentences and "I" capitalised.

    Names stay in lower case: nothing in the text says which words are names.
    """
    out = _SPLIT_NUMBER.sub(r"\1", text)
    out = _QUOTED.sub(r'"\2"', out)
    out = _GLUE_RIGHT.sub(r"\1", _GLUE_LEFT.sub(r"\1", _CLITIC.sub(r"\1", out)))
    out = re.sub(r"\s+-\s+(?=\w)(?<=\w\s-\s)", "-", re.sub(r" {2,}", " ", out)).strip()
    out = _LONE_I.sub("I", out)
    return _SENTENCE.sub(lambda m: m.group(1) + m.group(2).upper(), out)


def glued(text: str) -> str:
    """Tokenised text with its case kept: only the spaces around punctuation go."""
    out = _CLITIC.sub(r"\1", _QUOTED.sub(r'"\2"', _SPLIT_NUMBER.sub(r"\1", text)))
    return _GLUE_RIGHT.sub(r"\1", _GLUE_LEFT.sub(r"\1", out)).replace("`", "'").strip()


def tokenised(text: str) -> str:
    """Ordinary text as TopicalChat writes it: lower case, spaces around punctuation and clitics."""
    return "\n".join(
        " ".join(_TOKEN.findall(_NOT.sub(r"\1 \2", line.lower().replace("’", "'")))) for line in text.split("\n")
    )


def dressed_dialogue(
    turns: Sequence[str], dress: Dress, speakers: tuple[str, str], native: Literal["tokenised", "ordinary"]
) -> str:
    """The turns as the judge reads them, one line each.

    Args:
        turns: of the dialogue, oldest first, in the dress the data come in (`native`).
        dress: the dress wanted; `MARKED` is ordinary text with a speaker before each line.
        speakers: their names; the second one always speaks the last line, so the response is the first's.
        native: the dress of `turns`.
    """
    lines = [dressed(turn, dress, native) for turn in turns]
    if dress is Dress.MARKED:
        names = [speakers[(len(lines) - i) % 2] for i in range(len(lines))]
        lines = [f"{name}: {line}" for name, line in zip(names, lines, strict=True)]
    return "\n".join(lines)


def dressed(text: str, dress: Dress, native: Literal["tokenised", "ordinary"]) -> str:
    """One turn or response in the dress wanted."""
    if dress is Dress.TOKENISED:
        return text if native == "tokenised" else tokenised(text)
    return ordinary(text) if native == "tokenised" else text


def recased(text: str, names: Mapping[str, str]) -> str:
    """The text with known names written as they usually are (`names`: lower case to usual form)."""
    return _LOWER_WORD.sub(lambda m: names.get(m.group(), m.group()), text) if names else text

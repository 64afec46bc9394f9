"""Bad texts made from good ones, each with a low target by construction.

Without them a judge sees only what people and systems meant seriously, and finds word salad as good as a reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

Random = np.random.Generator
_WORD = re.compile(r"\S+")
TINY = ("", ".", "...", "-", "?", "ok", "the", "I", "and then the", "n/a", "x", "1")


def scrambled(text: str, rng: Random) -> str:
    """All words in random order."""
    words = text.split()
    return " ".join(words[i] for i in rng.permutation(len(words)))


def part_scrambled(text: str, rng: Random) -> str:
    """A stretch of at least half of the words in random order, the rest in place."""
    words = text.split()
    if len(words) < 4:
        return scrambled(text, rng)
    length = int(rng.integers(len(words) // 2, len(words) + 1))
    start = int(rng.integers(0, len(words) - length + 1))
    inner = words[start : start + length]
    return " ".join([*words[:start], *(inner[i] for i in rng.permutation(length)), *words[start + length :]])


def scrambled_letters(text: str, rng: Random) -> str:
    """The letters inside each longer word in random order."""

    def mix(match: re.Match[str]) -> str:
        word = match.group()
        return "".join(word[i] for i in rng.permutation(len(word))) if len(word) > 2 else word

    return _WORD.sub(mix, text)


def dropped(text: str, rng: Random) -> str:
    """About half of the words gone, so that little of the grammar is left."""
    words = text.split()
    kept = [w for w in words if rng.random() < 0.5]
    return " ".join(kept or words[:1])


def truncated(text: str, rng: Random) -> tuple[str, float]:
    """The beginning of the text, broken off inside a sentence; and the share of the words kept."""
    words = text.split()
    keep = max(1, int(len(words) * rng.uniform(0.25, 0.8)))
    cut = " ".join(words[:keep]).rstrip(".!?,;:")
    return cut, keep / max(1, len(words))


def repeated(text: str, rng: Random) -> str:
    """A few of its words over and over."""
    words = text.split()
    length = min(len(words), int(rng.integers(1, 7)))
    start = int(rng.integers(0, len(words) - length + 1))
    return " ".join(words[start : start + length] * int(rng.integers(3, 8)))


def word_salad(text: str, vocabulary: list[str], rng: Random) -> str:
    """As many words as the text, drawn from a vocabulary."""
    return " ".join(rng.choice(vocabulary, size=max(3, len(text.split()))).tolist())


def tiny(_: str, rng: Random) -> str:
    """Nothing, or next to nothing."""
    return str(rng.choice(TINY))


BROKEN: dict[str, Callable[[str, Random], str]] = {
    "scrambled": scrambled,
    "part scrambled": part_scrambled,
    "letters": scrambled_letters,
    "dropped": dropped,
    "repeated": repeated,
    "tiny": tiny,
}
"""Corruptions of form, by name: none of them leaves a usable text."""

BROKEN_TARGET = {
    "scrambled": 1.05,
    "part scrambled": 1.3,
    "letters": 1.0,
    "dropped": 1.5,
    "repeated": 1.2,
    "tiny": 1.0,
}

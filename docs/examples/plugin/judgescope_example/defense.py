"""The defense `first_words`: the judge reads no more than the first words of each response."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.defenses.base import DefendedJudge, Step, candidates_of, with_texts
from engine.judges.base import Checkpoint, Judge, Request


class FirstWords(DefendedJudge):
    """A judge that reads the first words of every candidate.

    Args:
        inner: the judge.
        name: the defense with its options, for example `first_words?n=20`.
        n: words that are kept.
    """

    def __init__(self, inner: Judge, name: str, n: int) -> None:
        super().__init__(inner, name)
        self._n = n

    def steps(self, requests: Sequence[Request], checkpoint: Checkpoint) -> list[Step]:  # noqa: ARG002 - the signature
        """Each request with its candidates cut."""
        return [Step(with_texts(r, {t: first_words(t, self._n) for t in candidates_of(r)})) for r in requests]


def first_words(text: str, n: int) -> str:
    """The text up to the end of its n-th word, white space kept."""
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return text if len(ends) <= n else text[: ends[n - 1]]

"""The judge `word_count`: a score from the number of words alone, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.judges.base import Checkpoint, Cost, Request, Verdict, no_checkpoint

LOW, HIGH, FULL = 1.0, 5.0, 100
"""The scale, and words from which on a response gets its top."""


def word_count(spec: str) -> WordCount:
    """The judge a spec names: `word_count` and nothing behind it.

    Raises:
        InputError: something follows the name.
    """
    if spec != "word_count":
        raise InputError(f"{spec!r}: nothing may follow word_count. Write --judge word_count.")
    return WordCount(spec)


@dataclass(frozen=True)
class WordCount:
    """Scores a response by its length; see `engine.judges.base.Judge` for what each part has to give."""

    spec: str

    @property
    def fingerprint(self) -> str:
        """Everything that decides its answers: count it up when the rule changes."""
        return f"word-count-1-{FULL}"

    @property
    def protocols(self) -> frozenset[Protocol]:
        """Single responses only."""
        return frozenset({Protocol.POINTWISE})

    def labels(self, request: Request) -> tuple[str, ...]:
        """Scores 1 to 5.

        Raises:
            InputError: the request is no single response.
        """
        if request.protocol is not Protocol.POINTWISE:
            raise InputError(f"word_count scores single responses; this request is {request.protocol.value}.")
        return ("1", "2", "3", "4", "5")

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """The score of each response, in points from 1 to 5."""
        verdicts = []
        for request in requests:
            self.labels(request)
            share = min(1.0, len(request.response.split()) / FULL)
            verdicts.append(Verdict(score=LOW + (HIGH - LOW) * share, coverage=1.0))
        checkpoint(len(verdicts), len(requests))
        return verdicts

    def prompt(self, request: Request) -> str:  # noqa: ARG002 - the signature
        """Empty: there is no model to show anything to."""
        return ""

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Nothing: there is no model."""
        return Cost(0, 0, len(requests))

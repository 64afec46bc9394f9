"""The verifier protocol (RefSwap, paper 003): does a response agree with the reference answer?"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from engine.errors import InputError
from engine.judges.base import Request, Verdict, unread
from engine.judges.cards import Card
from engine.judges.labelled import Reader
from engine.judges.pointwise import marked, written_choice
from engine.schema import Outcome, Protocol

THRESHOLD = 0.5
"""YES from this probability on."""


class VerifierReader(Reader):
    """Checks a response against the reference; the card's labels are yes and no.

    Args:
        threshold: p_yes from which the outcome is YES, in (0, 1]; p_yes itself does not depend on it.
    """

    protocol = Protocol.VERIFIER

    def __init__(self, threshold: float = THRESHOLD) -> None:
        if not 0 < threshold <= 1:
            raise InputError(f"The verifier's threshold is {threshold:g}; give a probability above 0, at most 1.")
        self.threshold = threshold

    def slots(self, request: Request, card: Card) -> dict[str, str]:  # noqa: ARG002 - the reader's signature
        """The response, as a defense dresses it."""
        return {"response": request.dressed(request.response)}

    def refusal(self, request: Request, card: Card) -> str:  # noqa: ARG002
        """Without a reference there is nothing to agree with."""
        return "" if has_text(request.reference) else "no reference answer to check against"

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:  # noqa: ARG002
        """p_yes among YES and NO, and the outcome at the threshold."""
        outcome = Outcome.YES if p[0] >= self.threshold else Outcome.NO
        return replace(seen, p_yes=float(p[0]), outcome=outcome)

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict) -> Verdict:
        """The answer written, decided outright."""
        parsed = written_choice(card, text)
        p = marked(card.labels, parsed.label)
        if parsed.reason or p is None:
            return unread(seen, parsed.reason)
        return self.from_probabilities(request, card, p, replace(seen, probabilities=p))


def has_text(text: str) -> bool:
    """Whether anything can be seen: spaces and zero-width characters do not count."""
    return any(not c.isspace() and unicodedata.category(c) not in {"Cf", "Cc"} for c in text)

"""The pointwise protocol: a score as the expectation over the score tokens (CAP, paper 001, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.cache import CallCache
from engine.judges.base import Request, Verdict, unread
from engine.judges.cards import Card
from engine.judges.json_answers import json_label, json_score
from engine.judges.labelled import MIN_COVERAGE, CardJudge, Reader
from engine.judges.parsing import Parsed, parse_label, parse_score
from engine.models.loader import LoadedModel
from engine.schema import Protocol, Task


class PointwiseReader(Reader):
    """Scores one response on the card's scale."""

    protocol = Protocol.POINTWISE
    tokens_are = "score tokens"

    def slots(self, request: Request, card: Card) -> dict[str, str]:  # noqa: ARG002 - the reader's signature
        """The response, as a defense dresses it."""
        return {"response": request.dressed(request.response)}

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:  # noqa: ARG002
        """The expected score."""
        return replace(seen, score=float(np.dot(p, card.values)))

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict) -> Verdict:  # noqa: ARG002
        """The score written; probabilities mark the label it names."""
        numbers = all(_is_number(label) for label in card.labels)
        if card.mode == "json":
            parsed = json_score(text, card.path, card.labels, card.values, decimals=card.decimals)
        elif numbers:
            parsed = parse_score(text, card.labels, card.values, decimals=card.decimals)
        else:
            parsed = written_choice(card, text)
        if parsed.reason:
            return unread(seen, parsed.reason)
        score = dict(zip(card.labels, card.values, strict=True)).get(parsed.label, parsed.value)
        return replace(seen, score=score, probabilities=marked(card.labels, parsed.label))


class PointwiseJudge(CardJudge):
    """A language model asked for one score, read from its next-token probabilities."""

    def __init__(
        self,
        loaded: LoadedModel,
        cards: Mapping[Task, Card],
        cache: CallCache | None = None,
        min_coverage: float = MIN_COVERAGE,
    ) -> None:
        own = dict.fromkeys(card for card in cards.values())
        super().__init__(loaded, own, [PointwiseReader()], cache, min_coverage)


def marked(labels: Sequence[str], label: str) -> tuple[float, ...] | None:
    """1 at the label named, 0 elsewhere; None where a score lies between two labels."""
    return tuple(float(one == label) for one in labels) if label else None


def written_choice(card: Card, text: str) -> Parsed:
    """Which of the card's labels a reply names, read the way the card says."""
    if card.mode == "json":
        return json_label(text, card.path, card.labels, card.spellings)
    return parse_label(text, card.labels, card.spellings)


def _is_number(label: str) -> bool:
    return label.removeprefix("-").replace(".", "", 1).isdecimal()

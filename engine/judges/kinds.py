"""The pointwise protocol: a score as the expectation over the score tokens (CAP, paper 001, section 3)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.core.cache import CallCache
from engine.core.errors import InputError
from engine.core.schema import Order, Outcome, Protocol, Task
from engine.inference.loading import LoadedModel
from engine.judges.base import Request, Verdict, unread
from engine.judges.cards import Card
from engine.judges.labelled import MIN_COVERAGE, CardJudge, Reader
from engine.judges.parsing import json_label, json_score, parse_label, parse_order, parse_score
from engine.judges.reply import Parsed


class PointwiseReader(Reader):
    """Scores one response on the card's scale."""

    protocol = Protocol.POINTWISE
    tokens_are = "score tokens"

    def slots(self, request: Request, card: Card) -> dict[str, str]:  # noqa: ARG002 - the reader's signature
        """The response, as a defense dresses it."""
        return {"response": request.quoted(request.response)}

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:  # noqa: ARG002
        """The expected score."""
        return replace(seen, score=float(np.dot(p, card.values)))

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict, *, cut: bool = False) -> Verdict:  # noqa: ARG002
        """The score written; probabilities mark the label it names."""
        numbers = all(_is_number(label) for label in card.labels)
        if card.mode == "json":
            parsed = json_score(text, card.path, card.labels, card.values, decimals=card.decimals, cut=cut)
        elif numbers:
            parsed = parse_score(text, card.labels, card.values, decimals=card.decimals, cut=cut)
        else:
            parsed = written_choice(card, text, cut=cut)
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


def written_choice(card: Card, text: str, *, cut: bool = False) -> Parsed:
    """Label of the card that a reply names, read the way the card says."""
    if card.mode == "json":
        return json_label(text, card.path, card.labels, card.spellings, cut=cut)
    return parse_label(text, card.labels, card.spellings, cut=cut)


def _is_number(label: str) -> bool:
    return label.removeprefix("-").replace(".", "", 1).isdecimal()


# The pairwise protocol: which of two responses is better, or neither (paper 004).


class PairwiseReader(Reader):
    """Compares two responses; the card's labels are the first shown, the second shown and, if offered, a tie."""

    protocol = Protocol.PAIRWISE

    def slots(self, request: Request, card: Card) -> dict[str, str]:  # noqa: ARG002 - the reader's signature
        """Both responses, as a defense dresses them, in the order of the request.

        Raises:
            InputError: the request does not say which response stands first.
        """
        if request.order is None:
            raise InputError(
                f"The comparison of {request.response_id} with {request.response_b_id} has no order. Set order to ab "
                "or ba, or ask both with both_orders."
            )
        a, b = request.quoted(request.response), request.quoted(request.response_b)
        first, second = (a, b) if request.order is Order.AB else (b, a)
        return {"response_a": first, "response_b": second}

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:  # noqa: ARG002
        """The order undone; `probabilities` stay as shown."""
        first, second, tie = (*p, 0.0)[:3]
        a, b = (first, second) if request.order is Order.AB else (second, first)
        return replace(seen, p_a=float(a), p_tie=float(tie), outcome=_largest(a, b, tie))

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict, *, cut: bool = False) -> Verdict:
        """The choice written, decided outright."""
        parsed = written_choice(card, text, cut=cut)
        p = marked(card.labels, parsed.label)
        if parsed.reason or p is None:
            return unread(seen, parsed.reason)
        return self.from_probabilities(request, card, p, replace(seen, probabilities=p))


def both_orders(requests: Iterable[Request]) -> list[Request]:
    """Each comparison twice in a row: with response a first, then with response b first.

    Raises:
        InputError: a request is not pairwise.
    """
    made: list[Request] = []
    for request in requests:
        if request.protocol is not Protocol.PAIRWISE:
            raise InputError(f"Only pairwise requests have two orders; {request.response_id} is {request.protocol}.")
        made += [replace(request, order=order) for order in (Order.AB, Order.BA)]
    return made


def _largest(a: float, b: float, tie: float) -> Outcome:
    """The outcome with the most probability; equal responses are a tie, never a side."""
    if tie >= max(a, b) or a == b:
        return Outcome.TIE
    return Outcome.A if a > b else Outcome.B


# The verifier protocol (RefSwap, paper 003): does a response agree with the reference answer?

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
        return {"response": request.quoted(request.response)}

    def refusal(self, request: Request, card: Card) -> str:  # noqa: ARG002 - most protocols refuse nothing
        """Without a reference there is nothing to agree with."""
        return "" if has_text(request.reference) else "no reference answer to check against"

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:  # noqa: ARG002
        """p_yes among YES and NO, and the outcome at the threshold."""
        outcome = Outcome.YES if p[0] >= self.threshold else Outcome.NO
        return replace(seen, p_yes=float(p[0]), outcome=outcome)

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict, *, cut: bool = False) -> Verdict:
        """The answer written, decided outright."""
        parsed = written_choice(card, text, cut=cut)
        p = marked(card.labels, parsed.label)
        if parsed.reason or p is None:
            return unread(seen, parsed.reason)
        return self.from_probabilities(request, card, p, replace(seen, probabilities=p))


def has_text(text: str) -> bool:
    """True where anything can be seen: spaces and zero-width characters do not count."""
    return any(not c.isspace() and unicodedata.category(c) not in {"Cf", "Cc"} for c in text)


# The ranking protocol: several candidates in one prompt, ordered by a judge that writes (paper 004, choice sets).


class RankingReader(Reader):
    """Orders the candidates; `{candidates}` shows each under its letter, in the order of the request."""

    protocol = Protocol.RANKING

    def labels(self, request: Request, card: Card) -> tuple[str, ...]:
        """A letter for each candidate.

        Raises:
            InputError: fewer than two candidates, or more than the card has letters for.
        """
        count = len(request.candidates)
        if not 2 <= count <= len(card.labels):
            raise InputError(
                f"The ranking of item {request.item_id} has {count} candidates; the card {card.name} takes 2 to "
                f"{len(card.labels)}."
            )
        return card.labels[:count]

    def slots(self, request: Request, card: Card) -> dict[str, str]:
        """All candidates, as a defense dresses them."""
        letters = self.labels(request, card)
        shown = zip(letters, request.candidates, strict=True)
        return {"candidates": "\n\n".join(f"Response {letter}:\n{request.quoted(c.text)}" for letter, c in shown)}

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:
        """A ranking card always asks for text (checked when the card is read)."""
        raise NotImplementedError

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict, *, cut: bool = False) -> Verdict:
        """The order written, as the place of each candidate shown."""
        letters = self.labels(request, card)
        parsed = parse_order(text, letters, cut=cut)
        if parsed.reason:
            return unread(seen, parsed.reason)
        return replace(seen, ranking=tuple(parsed.order.index(letter) + 1 for letter in letters))

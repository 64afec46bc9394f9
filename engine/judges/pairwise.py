"""The pairwise protocol: which of two responses is better, or neither (paper 004)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.errors import InputError
from engine.judges.base import Request, Verdict, unread
from engine.judges.cards import Card
from engine.judges.labelled import Reader
from engine.judges.pointwise import marked, written_choice
from engine.schema import Order, Outcome, Protocol


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
        a, b = request.dressed(request.response), request.dressed(request.response_b)
        first, second = (a, b) if request.order is Order.AB else (b, a)
        return {"response_a": first, "response_b": second}

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:  # noqa: ARG002
        """The order undone; `probabilities` stay as shown."""
        first, second, tie = (*p, 0.0)[:3]
        a, b = (first, second) if request.order is Order.AB else (second, first)
        return replace(seen, p_a=float(a), p_tie=float(tie), outcome=_largest(a, b, tie))

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict) -> Verdict:
        """The choice written, decided outright."""
        parsed = written_choice(card, text)
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

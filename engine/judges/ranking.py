"""The ranking protocol: several candidates in one prompt, ordered by a judge that writes (paper 004, choice sets)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.errors import InputError
from engine.judges.base import Request, Verdict, unread
from engine.judges.cards import Card
from engine.judges.labelled import Reader
from engine.judges.parsing import parse_order
from engine.schema import Protocol


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
        return {"candidates": "\n\n".join(f"Response {letter}:\n{request.dressed(c.text)}" for letter, c in shown)}

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:
        """A ranking card always asks for text (checked when the card is read)."""
        raise NotImplementedError

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict) -> Verdict:
        """The order written, as the place of each candidate shown."""
        letters = self.labels(request, card)
        parsed = parse_order(text, letters)
        if parsed.reason:
            return unread(seen, parsed.reason)
        return replace(seen, ranking=tuple(parsed.order.index(letter) + 1 for letter in letters))

"""Judging against anchors: each response is read beside a text of known lower and one of known higher quality.

A source gives the anchors of a request, and the judge's own anchored card shows them (`{anchor_low}` and
`{anchor_high}`, each under its right label), so this works for every judge that has such a card. CAP, W-CAP and the
control arms (paper 001) differ in their source only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from typing import Protocol as TypingProtocol

from engine.defenses.base import DefendedJudge, Step
from engine.errors import InputError
from engine.judges.base import Checkpoint, Cost, Judge, Request, no_checkpoint

UNKNOWN_TEXT = "word " * 48
"""Stands for an anchor that is not written yet where only the length of a prompt counts."""


class Anchors(NamedTuple):
    """A lower and a higher text to judge against, and what it took to make the two *this* time.

    Attributes:
        low, high: the texts, verbatim; both are texts unless `unread` says why there are none.
        low_score, high_score: the judge's score of each alone, on the card's scale; NaN where nobody measured it.
        tokens: prompt and written tokens of both together; 0 where they were known.
        passes: forward passes of both together; 0 where they were known.
        seconds: wall time of both together [s]; 0 where they were known.
        unread: why there are no anchors for this request; empty where there are.
    """

    low: str = ""
    high: str = ""
    low_score: float = math.nan
    high_score: float = math.nan
    tokens: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    unread: str = ""


class AnchorSource(TypingProtocol):
    """Gives anchors to requests.

    Anchors depend on the item (task and context) and, where the source leaves the judged response out, on its
    `response_id`; never on the text under judgement, so that no attack can move them.
    """

    @property
    def name(self) -> str:
        """Name of the arm, for example `wcap`."""
        ...

    def anchors(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Anchors]:
        """The anchors of each request, in order; requests of one item share the work, the first has its cost.

        Args:
            requests: any requests, attacked or not.
            checkpoint: called between batches with (0, number of requests); may raise to stop.
        """
        ...

    def cost(self, requests: Sequence[Request]) -> Cost:
        """What `anchors` would take, without asking a model; `known` is left 0."""
        ...


class AnchoredJudge(DefendedJudge):
    """A judge that reads every response between two anchors.

    Args:
        inner: a judge with an anchored card for the tasks asked.
        name: the defense's name.
        source: gives the anchors.
    """

    def __init__(self, inner: Judge, name: str, source: AnchorSource) -> None:
        super().__init__(inner, name)
        self._source = source

    def steps(self, requests: Sequence[Request], checkpoint: Checkpoint) -> list[Step]:
        """Each request with its anchors; what they cost is charged to the request that caused it.

        Raises:
            InputError: a request has anchors already.
        """
        if twice := next((r for r in requests if r.anchored), None):
            raise InputError(
                f"Response {twice.response_id} has anchors already, and {self.name} would replace them. Name one "
                "defense with anchors only."
            )
        found = self._source.anchors(requests, checkpoint)
        return [
            Step(replace(r, anchor_low=a.low, anchor_high=a.high), a.passes, a.seconds, a.unread)
            for r, a in zip(requests, found, strict=True)
        ]

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The inner judge's and the source's; anchors that are not written yet count about 50 tokens each."""
        made = self._source.cost(requests)
        if made.calls:
            shown = [replace(r, anchor_low=UNKNOWN_TEXT, anchor_high=UNKNOWN_TEXT) for r in requests]
            inner = self.inner.cost(shown)
        else:
            inner = self.inner.cost(self.going(self.steps(requests, no_checkpoint)))
        return inner._replace(calls=inner.calls + made.calls, tokens=inner.tokens + made.tokens)


class GivenAnchors:
    """Anchors that are there already: of each item, or of each response where the judged one is left out.

    Args:
        name: name of the arm.
        by_item: anchors by item id.
        by_response: anchors by response id; they count first.
    """

    def __init__(
        self, name: str, by_item: Mapping[str, Anchors], by_response: Mapping[str, Anchors] | None = None
    ) -> None:
        self.name = name
        self._by_item, self._by_response = by_item, by_response or {}

    def anchors(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Anchors]:  # noqa: ARG002
        """The pair of each request; unread where there is none."""
        none = Anchors(unread=f"{self.name}: no anchors are given for this item")
        return [self._by_response.get(r.response_id) or self._by_item.get(r.item_id) or none for r in requests]

    def cost(self, requests: Sequence[Request]) -> Cost:  # noqa: ARG002
        """Nothing: they are there."""
        return Cost(0, 0, 0)

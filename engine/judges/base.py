"""The records every judge shares: what it is asked, what it answers, and the table of its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol as TypingProtocol

import pandas as pd

from engine.schema import NONE, VERDICTS, Order, Outcome, Protocol, Task

Checkpoint = Callable[[int, int], None]
"""Called between batches with (calls done, calls in all); may raise `Cancelled`."""


def no_checkpoint(done: int, total: int) -> None:
    """The checkpoint of a caller that neither watches nor cancels."""


@dataclass(frozen=True)
class Quote:
    """How a defense dresses the candidate's text inside the judge's prompt.

    Attributes:
        note: put ahead of the judge's instructions.
        opening: stands directly before the response.
        closing: stands directly after the response.
    """

    note: str = ""
    opening: str = ""
    closing: str = ""

    def around(self, inner: Quote) -> Quote:
        """This quote outside an inner one: the inner stays next to the text."""
        return Quote(
            note="\n\n".join(n for n in (self.note, inner.note) if n),
            opening=self.opening + inner.opening,
            closing=inner.closing + self.closing,
        )


@dataclass(frozen=True)
class Request:
    """One question to a judge. Texts are the user's, verbatim; nothing is stripped.

    Attributes:
        protocol: pointwise judges `response`; pairwise compares `response` with `response_b`.
        order: for pairs, which response stands first.
        attack, defense: names of the arm, carried into the verdict.
    """

    item_id: str
    response_id: str
    task: Task
    context: str
    response: str
    reference: str = ""
    protocol: Protocol = Protocol.POINTWISE
    response_b_id: str = ""
    response_b: str = ""
    order: Order | None = None
    attack: str = NONE
    defense: str = NONE
    quote: Quote = field(default_factory=Quote)

    def dressed(self, text: str) -> str:
        """The text as it stands in the prompt, with the defense's quoting around it."""
        return f"{self.quote.opening}{text}{self.quote.closing}"


@dataclass(frozen=True)
class Verdict:
    """A judge's answer to one request; `unread_reason` is set exactly when there is no usable answer.

    Attributes:
        score: expected score on the card's scale (pointwise).
        p_a: probability that response a of the pair is preferred, order already undone.
        probabilities: one per label of the card, summing to 1 over the labels.
        coverage: probability that all label tokens held together before renormalising.
    """

    score: float = float("nan")
    p_a: float = float("nan")
    outcome: Outcome | None = None
    probabilities: tuple[float, ...] | None = None
    coverage: float = float("nan")
    unread_reason: str = ""
    raw_text: str = ""
    prompt_tokens: int = 0
    forward_passes: float = 0.0
    seconds: float = 0.0

    @property
    def read(self) -> bool:
        """Whether the verdict may enter a mean."""
        return not self.unread_reason


def unread(verdict: Verdict, reason: str) -> Verdict:
    """The same call without a usable answer; numbers that could enter a mean are gone."""
    nan = float("nan")
    return replace(verdict, score=nan, p_a=nan, outcome=None, unread_reason=reason)


class Judge(TypingProtocol):
    """Answers requests; a defense is a Judge around a Judge."""

    @property
    def spec(self) -> str:
        """The spec string that names this judge, for example `bundled:judge`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its answers: weights, prompts, labels, dials."""
        ...

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols it answers."""
        ...

    def labels(self, request: Request) -> tuple[str, ...]:
        """The answers offered for this request, in the order of `Verdict.probabilities`."""
        ...

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request, in order."""
        ...

    def prompt(self, request: Request) -> str:
        """What the model is shown for this request, as text; empty for a judge without a model."""
        ...


def verdict_table(judge: Judge, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row of the `verdicts` table per request.

    The id is made of what identifies the call within a run, so that a resumed run gives the same ids.
    """
    rows = [
        {
            "verdict_id": ":".join(
                part
                for part in (r.protocol, r.attack, r.defense, r.response_id, r.response_b_id, r.order or "")
                if part
            ),
            "judge": judge.spec,
            "protocol": r.protocol.value,
            "attack": r.attack,
            "defense": r.defense,
            "item_id": r.item_id,
            "response_id": r.response_id,
            "response_b": r.response_b_id or None,
            "order": r.order.value if r.order else None,
            "score": v.score,
            "p_a": v.p_a,
            "outcome": v.outcome.value if v.outcome else None,
            "coverage": v.coverage,
            "probabilities": v.probabilities,
            "unread_reason": v.unread_reason or None,
            "raw_text": v.raw_text or None,
            "prompt_tokens": v.prompt_tokens,
            "forward_passes": v.forward_passes,
            "seconds": v.seconds,
        }
        for r, v in zip(requests, verdicts, strict=True)
    ]
    return VERDICTS.conform(pd.DataFrame(rows)) if rows else VERDICTS.empty()

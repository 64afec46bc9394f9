"""Requests and verdicts, the Judge protocol, and the table of verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from typing import Protocol as TypingProtocol

import pandas as pd

from engine.core.schema import NONE, VERDICTS, Order, Outcome, Protocol, Task

Checkpoint = Callable[[int, int], None]
"""Called between batches with (calls done, calls in all); may raise `Cancelled`."""


def no_checkpoint(done: int, total: int) -> None:
    """The checkpoint of a caller that neither watches nor cancels."""


@dataclass(frozen=True)
class Quote:
    """The words that a defense puts around the candidate's text inside the judge's prompt.

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


class Candidate(NamedTuple):
    """A further response in a ranking."""

    response_id: str
    text: str


@dataclass(frozen=True)
class Request:
    """One question to a judge. Texts are the user's, verbatim; nothing is stripped.

    Attributes:
        reference: the reference answer; a verifier's verdict is unread without one.
        protocol: pointwise judges `response`; pairwise compares `response` with `response_b`; verifier checks it
            against `reference`; ranking orders it and `others`.
        order: for pairs, which response stands first.
        anchor_low, anchor_high: texts of known lower and higher quality to judge against (CAP); both or neither.
        variant: name of the prompt's variant, as its card gives it; empty for the plain one.
        others: for rankings, what stands after `response`, in the order shown.
        attack, defense: names of the arm, carried into the verdict.
        system, system_b: generators of the responses, where they are known; no judge is shown them.
        reference_id: id of the reference, where it is not the item's own; no model is shown it.
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
    anchor_low: str | None = None
    anchor_high: str | None = None
    variant: str = ""
    others: tuple[Candidate, ...] = ()
    attack: str = NONE
    defense: str = NONE
    quote: Quote = field(default_factory=Quote)
    system: str = ""
    system_b: str = ""
    reference_id: str = ""

    @property
    def anchored(self) -> bool:
        """Judged against anchors; an empty text is an anchor too."""
        return self.anchor_low is not None or self.anchor_high is not None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All responses of a ranking, in the order shown."""
        return (Candidate(self.response_id, self.response), *self.others)

    def quoted(self, text: str) -> str:
        """The text as it stands in the prompt, with the defense's quoting around it."""
        return f"{self.quote.opening}{text}{self.quote.closing}"


@dataclass(frozen=True)
class Verdict:
    """A judge's answer to one request; `unread_reason` is set exactly when there is no usable answer.

    Attributes:
        score: expected score on the card's scale (pointwise).
        p_a: probability that response a of the pair is preferred, order already undone.
        p_tie: probability of a tie, 0 where the card offers none; response b has what p_a and p_tie leave.
        p_yes: a verifier's probability of YES among YES and NO.
        probabilities: one per label of the card, summing to 1 over the labels. For a pair the labels are the
            slots as shown (first, second, tie): here the order is *not* undone.
        ranking: place of each candidate in the order shown, 1 is best.
        coverage: probability that all label tokens held together before renormalising; the share of readable answers
            where several were drawn; NaN where one text was parsed.

    A judge that answers in one text decides outright: its probabilities, p_a, p_tie and p_yes are 0 or 1. Of several
    answers they are shares.
    """

    score: float = float("nan")
    p_a: float = float("nan")
    p_tie: float = float("nan")
    p_yes: float = float("nan")
    outcome: Outcome | None = None
    probabilities: tuple[float, ...] | None = None
    ranking: tuple[int, ...] | None = None
    coverage: float = float("nan")
    unread_reason: str = ""
    raw_text: str = ""
    prompt_tokens: int = 0
    forward_passes: float = 0.0
    seconds: float = 0.0

    @property
    def read(self) -> bool:
        """The verdict may enter a mean."""
        return not self.unread_reason


class Paid(NamedTuple):
    """The part of a cost that goes to a server: calls, prompt tokens by a rule, and the most its answers may have."""

    calls: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0


class Expense(NamedTuple):
    """Calls, tokens and money that a server would take, before it is asked.

    Attributes:
        host: the server.
        calls: at most so many, further tries after faults aside.
        prompt_tokens: counted by `rule`, since the server's tokenizer is not known.
        answer_tokens: at most.
        money: at the prices set; NaN where none is.
        currency: of the prices.
        max_calls, max_cost: the hard cap of a run; None where the cost has none.
        rule: for counting prompt tokens.
    """

    host: str
    calls: int
    prompt_tokens: int
    answer_tokens: int
    money: float
    currency: str
    max_calls: int
    max_cost: float | None
    rule: str

    @property
    def beyond(self) -> bool:
        """A run would stop at the cap."""
        return self.calls > self.max_calls or (self.max_cost is not None and self.money > self.max_cost)

    def sentence(self) -> str:
        """The expense in words, for a user before the run."""
        tokens = f"about {self.prompt_tokens:,} prompt tokens and at most {self.answer_tokens:,} answer tokens"
        price = "no price is set" if math.isnan(self.money) else f"at most about {self.money:,.4g} {self.currency}"
        cap = f"{self.max_calls:,} calls" + (f", {self.max_cost:g} {self.currency}" if self.max_cost else "")
        stop = " This goes beyond the cap: the run would stop there, with what is done kept." if self.beyond else ""
        return f"{self.calls:,} calls to {self.host}: {tokens}; {price}. Cap of a run: {cap}.{stop}"


class Cost(NamedTuple):
    """Calls and tokens that asking would take.

    Attributes:
        calls: distinct calls to a model that are not in the cache.
        tokens: prompt tokens of those calls.
        known: requests whose answer is known already, or that need no model.
        paid: the part of it that goes to a server.
    """

    calls: int
    tokens: int
    known: int
    paid: Paid = Paid()


def unread(verdict: Verdict, reason: str) -> Verdict:
    """The same call without a usable answer; numbers that could enter a mean are gone."""
    nan = float("nan")
    return replace(verdict, score=nan, p_a=nan, p_tie=nan, p_yes=nan, outcome=None, ranking=None, unread_reason=reason)


class Judge(TypingProtocol):
    """Answers requests; a defense is a Judge around a Judge."""

    @property
    def spec(self) -> str:
        """The spec string that names this judge, for example `bundled:judge`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of everything that decides its answers: weights, prompts, labels, parameters."""
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
        """The prompt of this request as text; empty for a judge without a model."""
        ...

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The cost of `judge`, without asking the model anything."""
        ...


class JudgeWrapper:
    """A judge around another one, which it passes everything on from.

    Args:
        inner: the judge that is asked.
    """

    def __init__(self, inner: Judge) -> None:
        self.inner = inner

    @property
    def spec(self) -> str:
        """The inner judge's."""
        return self.inner.spec

    @property
    def fingerprint(self) -> str:
        """The inner judge's."""
        return self.inner.fingerprint

    @property
    def protocols(self) -> frozenset[Protocol]:
        """As the inner judge."""
        return self.inner.protocols

    def labels(self, request: Request) -> tuple[str, ...]:
        """As the inner judge."""
        return self.inner.labels(request)


def verdict_table(judge: Judge, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row of the `verdicts` table per request."""
    rows = verdict_rows(judge, requests, verdicts)
    return VERDICTS.conform(pd.DataFrame(rows)) if rows else VERDICTS.empty()


def verdict_rows(judge: Judge, requests: Sequence[Request], verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The rows of `verdict_table` before they are checked and joined to a table.

    The id is made of what identifies the call within a run, so that a resumed run gives the same ids.
    """
    return [
        {
            "verdict_id": verdict_id(r),
            "judge": judge.spec,
            "protocol": r.protocol.value,
            "attack": r.attack,
            "defense": r.defense,
            "item_id": r.item_id,
            "response_id": r.response_id,
            "response_b": r.response_b_id or None,
            "order": r.order.value if r.order else None,
            "variant": r.variant or None,
            "reference_id": r.reference_id or None,
            "candidates": json.dumps([c.response_id for c in r.candidates]) if r.others else None,
            "score": v.score,
            "p_a": v.p_a,
            "p_tie": v.p_tie,
            "p_yes": v.p_yes,
            "outcome": v.outcome.value if v.outcome else None,
            "coverage": v.coverage,
            "probabilities": v.probabilities,
            "ranking": v.ranking,
            "unread_reason": v.unread_reason or None,
            "raw_text": v.raw_text or None,
            "prompt_tokens": v.prompt_tokens,
            "forward_passes": v.forward_passes,
            "seconds": v.seconds,
        }
        for r, v in zip(requests, verdicts, strict=True)
    ]


def verdict_id(r: Request) -> str:
    """The id of a call within a run, made of everything that tells it from the others."""
    ids = (r.response_id, r.response_b_id, *(c.response_id for c in r.others), r.reference_id)
    return ":".join(part for part in (r.protocol, r.variant, r.attack, r.defense, *ids, r.order or "") if part)


def innermost(judge: Judge) -> Any:
    """The judge inside all wrappers; itself where there are none."""
    inner: Any = judge
    while hasattr(inner, "inner"):
        inner = inner.inner
    return inner


NO_MODEL = "no model"


def device_of(judge: Judge) -> str:
    """The device of the judge's model; `NO_MODEL` for a judge without one."""
    return str(getattr(innermost(judge), "device", NO_MODEL))


def remark_of(judge: Judge, request: Request) -> str:
    """The card's remark on this task, if the judge has cards."""
    inner = innermost(judge)
    return str(inner.remark(request)) if hasattr(inner, "remark") else ""

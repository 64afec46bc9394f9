"""What every defense is: a judge that changes each request, or holds it back, before the judge inside it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from engine.judges.base import Checkpoint, Judge, Quote, Request, Verdict, no_checkpoint, unread
from engine.schema import NONE, Protocol


@dataclass(frozen=True)
class Step:
    """A request after one defense, and what the defense cost.

    Attributes:
        unread: why this request cannot be judged behind this defense; empty where it can.
    """

    request: Request
    passes: float = 0.0
    seconds: float = 0.0
    unread: str = ""


@dataclass(frozen=True)
class MarkedRequest(Request):
    """A request in which some candidates are quoted differently from the others.

    Attributes:
        marks: a text and the quote around it; every other text has the request's own quote. Quotes depend on the
            text alone, so two candidates with one text are dressed alike.
    """

    marks: tuple[tuple[str, Quote], ...] = ()

    def dressed(self, text: str) -> str:
        """The text with its own quote around it."""
        quote = dict(self.marks).get(text, self.quote)
        return f"{quote.opening}{text}{quote.closing}"


class DefendedJudge:
    """A judge behind one defense; wrapped again, several defenses work one after the other.

    Args:
        inner: the judge, or the judge behind the defenses that come later.
        name: this defense with its dials.
    """

    def __init__(self, inner: Judge, name: str) -> None:
        self.inner = inner
        self.name = name

    @property
    def spec(self) -> str:
        """The inner judge's spec: a defense changes the arm, not the judge."""
        return self.inner.spec

    @property
    def fingerprint(self) -> str:
        """The inner judge's: what a defense changes is part of each prompt, which the cache key covers."""
        return self.inner.fingerprint

    @property
    def protocols(self) -> frozenset[Protocol]:
        """As the inner judge."""
        return self.inner.protocols

    def labels(self, request: Request) -> tuple[str, ...]:
        """As the inner judge."""
        return self.inner.labels(request)

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Judge the changed requests; passes and seconds of the defense are added to each verdict."""
        steps = self.steps(requests, checkpoint)
        going = [self._named(step.request) for step in steps if not step.unread]
        held = len(requests) - len(going)
        answers = iter(self.inner.judge(going, lambda done, _: checkpoint(held + done, len(requests))))
        return [_costed(unread(Verdict(), s.unread) if s.unread else next(answers), s) for s in steps]

    def prompt(self, request: Request) -> str:
        """The prompt with the defense in it."""
        return self.inner.prompt(self._named(self.steps([request], no_checkpoint)[0].request))

    def steps(self, requests: Sequence[Request], checkpoint: Checkpoint) -> list[Step]:
        """Each request as this defense changes it."""
        raise NotImplementedError

    def _named(self, request: Request) -> Request:
        name = self.name if request.defense == NONE else f"{request.defense}+{self.name}"
        return replace(request, defense=name)


def candidates_of(request: Request) -> tuple[str, ...]:
    """The texts under judgement: one, both of a pair, or all of a ranking."""
    second = (request.response_b,) if request.protocol is Protocol.PAIRWISE else ()
    return (request.response, *second, *(c.text for c in request.others))


def dress(request: Request, quote: Quote, only: Sequence[str] | None = None) -> Request:
    """The request with one more quote, outside the ones it has.

    Args:
        request: any request, marked or not.
        quote: put around the candidates; its note stands ahead of the earlier ones.
        only: the texts it is put around; None for all.
    """
    marks = dict(request.marks) if isinstance(request, MarkedRequest) else {}
    if only is None:
        quoted = replace(request, quote=quote.around(request.quote))
        if isinstance(quoted, MarkedRequest):
            return replace(quoted, marks=tuple((text, quote.around(own)) for text, own in marks.items()))
        return quoted
    if not only:
        return request
    marks |= {text: quote.around(marks.get(text, request.quote)) for text in only}
    values = {f.name: getattr(request, f.name) for f in fields(Request)}
    return MarkedRequest(**values, marks=tuple(marks.items()))


def with_texts(request: Request, texts: Mapping[str, str]) -> Request:
    """The request with its candidates' texts replaced, quotes kept."""
    changed = replace(
        request,
        response=texts[request.response],
        response_b=texts.get(request.response_b, request.response_b),
        others=tuple(c._replace(text=texts[c.text]) for c in request.others),
    )
    if isinstance(changed, MarkedRequest):
        return replace(changed, marks=tuple((texts[text], quote) for text, quote in changed.marks))
    return changed


def _costed(verdict: Verdict, step: Step) -> Verdict:
    if not step.passes and not step.seconds:
        return verdict
    return replace(verdict, forward_passes=verdict.forward_passes + step.passes, seconds=verdict.seconds + step.seconds)

"""A defense is a judge around a judge: it changes each request, or holds it back, before the inner judge answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from engine.core.schema import NONE, Protocol
from engine.judges.base import Checkpoint, Cost, Judge, JudgeWrapper, Quote, Request, Verdict, no_checkpoint, unread

AfterBatch = Callable[[], None]
"""Called after each batch of a model; may raise to stop."""


@dataclass(frozen=True)
class Step:
    """A request after one defense, and what the defense cost.

    Attributes:
        unread: the reason that this request cannot be judged behind this defense; empty where it can.
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
            text alone, so two candidates with one text are quoted alike.
    """

    marks: tuple[tuple[str, Quote], ...] = ()

    def quoted(self, text: str) -> str:
        """The text with its own quote around it."""
        quote = dict(self.marks).get(text, self.quote)
        return f"{quote.opening}{text}{quote.closing}"


class OuterJudge(JudgeWrapper):
    """A wrapper that changes the arm, not the judge.

    Args:
        inner: the judge, or the judge behind the defenses that come later.
        name: this defense with its options; what it changes is part of each prompt, which the cache key covers.
    """

    def __init__(self, inner: Judge, name: str) -> None:
        super().__init__(inner)
        self.name = name

    def _named(self, request: Request) -> Request:
        """The request with this defense in its arm's name."""
        name = self.name if request.defense == NONE else f"{request.defense}+{self.name}"
        return replace(request, defense=name)


class DefendedJudge(OuterJudge):
    """A judge behind one defense that changes requests; wrapped again, several work one after the other.

    Attributes:
        asks: its steps ask a model; those of a defense that does not may be taken ahead of time, in another thread.
    """

    asks = True

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Judge the changed requests; passes and seconds of the defense are added to each verdict."""
        steps = self.steps(requests, checkpoint)
        going = self.going(steps)
        held = len(requests) - len(going)
        return merge_verdicts(steps, self.inner.judge(going, lambda done, _: checkpoint(held + done, len(requests))))

    def going(self, steps: Sequence[Step]) -> list[Request]:
        """The requests that the inner judge is to answer, this defense in their arm's name."""
        return [self._named(step.request) for step in steps if not step.unread]

    def prompt(self, request: Request) -> str:
        """The prompt with the defense in it."""
        return self.inner.prompt(self._named(self.steps([request], no_checkpoint)[0].request))

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The inner judge's cost of the changed requests."""
        return self.inner.cost([self._named(step.request) for step in self.steps(requests, no_checkpoint)])

    def steps(self, requests: Sequence[Request], checkpoint: Checkpoint) -> list[Step]:
        """Each request as this defense changes it."""
        raise NotImplementedError


def merge_verdicts(steps: Sequence[Step], answers: Sequence[Verdict]) -> list[Verdict]:
    """One verdict per step: the inner judge's next answer with the defense's cost added, or unread."""
    left = iter(answers)
    return [_costed(unread(Verdict(), s.unread) if s.unread else next(left), s) for s in steps]


def unwrap(
    judge: Judge, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint
) -> tuple[Judge, list[Request], list[list[Step]]]:
    """The judge behind all defenses, the requests that reach it, and the steps of each defense, outermost first."""
    going, chain = list(requests), []
    while isinstance(judge, DefendedJudge):
        chain.append(judge.steps(going, checkpoint))
        going, judge = judge.going(chain[-1]), judge.inner
    return judge, going, chain


def judge_together(
    judges: Sequence[Judge], requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint
) -> list[list[Verdict]]:
    """Judge the requests behind several defenses in one call, so that a model sees what their prompts share.

    Args:
        judges: the same judge, each time behind other defenses or none.
        requests: judged by each of them.
        checkpoint: as in `Judge.judge`, counted over all judges.

    Returns:
        For each judge its verdicts, the same as it gives alone.
    """
    total = len(judges) * len(requests)
    chains: list[list[list[Step]]] = []
    asked: list[list[Request]] = []
    inner = list(judges)
    for k, judge in enumerate(judges):
        inner[k], going, chain = unwrap(judge, requests, lambda _done, _total: checkpoint(0, total))
        chains.append(chain)
        asked.append(going)
    if any(judge is not inner[0] for judge in inner):
        raise ValueError("the judges behind the defenses are not one and the same")
    held = total - sum(map(len, asked))
    answers = iter(inner[0].judge([r for part in asked for r in part], lambda done, _: checkpoint(held + done, total)))
    verdicts = [[next(answers) for _ in part] for part in asked]
    for k, chain in enumerate(chains):
        for steps in reversed(chain):
            verdicts[k] = merge_verdicts(steps, verdicts[k])
    return verdicts


def prepare_together(judges: Sequence[Judge], requests: Sequence[Request]) -> None:
    """Have the model's prompts made ready that `judge_together` will ask for; may run in another thread.

    A defense that asks a model itself is left for then, and so is a judge that has nothing to make ready.
    """
    for judge in judges:
        chain, inner = [], judge
        while isinstance(inner, DefendedJudge):
            chain.append(inner)
            inner = inner.inner
        if hasattr(inner, "prepare") and not any(defended.asks for defended in chain):
            inner.prepare(unwrap(judge, requests)[1])


def candidates_of(request: Request) -> tuple[str, ...]:
    """The texts under judgement: one, both of a pair, or all of a ranking."""
    second = (request.response_b,) if request.protocol is Protocol.PAIRWISE else ()
    return (request.response, *second, *(c.text for c in request.others))


def add_quote(request: Request, quote: Quote, only: Sequence[str] | None = None) -> Request:
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
            return replace(quoted, marks=tuple((text, quote.around(inner)) for text, inner in marks.items()))
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

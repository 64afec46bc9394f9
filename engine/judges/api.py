"""A judge behind an OpenAI-compatible server: one more Judge, asked through the same cards, kept in the same cache.

Where the server shows the alternatives of the answer's first token, their probabilities are read as those of a local
judge: variants of a label merged, coverage below the limit unread. What it does not show counts as nothing, so the
coverage is a lower bound. Elsewhere the text is read, strictly, of one answer or of several; then a verdict is the
mean of the readable answers. Which of the two it is, is found out once and kept with the answers, so that one run, and
its continuation, is asked in one way.

The server gives no hidden states and no gradients: what needs them refuses this judge.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from engine.cache import CallCache
from engine.judges.api_asking import ApiAsker, ApiCall, Got, Group
from engine.judges.api_labels import label_forms
from engine.judges.api_spec import ApiSpec
from engine.judges.base import Checkpoint, Cost, Expense, Paid, Request, Verdict, no_checkpoint, unread
from engine.judges.cards import Card, CardBook
from engine.judges.labelled import MIN_COVERAGE, Reader, card_for, user_message
from engine.models.api import ApiClient, Spent
from engine.models.api_body import TOKEN_RULE, Question, estimate
from engine.schema import Protocol


class _Asked(NamedTuple):
    """One request made ready: its card, and its calls, several where several texts are read."""

    card: Card
    calls: tuple[ApiCall, ...]


class ApiJudge:
    """A language model behind a server.

    Args:
        spec: as the user wrote it.
        asked: what the spec says.
        client: the server.
        cards: the prompts.
        readers: how each protocol reads an answer.
        cache: where answers are kept; None keeps none.
        min_coverage: below this the verdict is unread.
    """

    writes = True
    """It can be asked to reason before its verdict, through cards of the variant `cot`."""

    def __init__(
        self,
        spec: str,
        asked: ApiSpec,
        client: ApiClient,
        cards: Iterable[Card],
        readers: Iterable[Reader],
        cache: CallCache | None = None,
        min_coverage: float = MIN_COVERAGE,
    ) -> None:
        self.spec, self._asked, self._client = spec, asked, client
        self.device = f"server {client.settings.host}"
        self._readers: Mapping[Protocol, Reader] = {r.protocol: r for r in readers}
        self._book = CardBook(card for card in cards if card.protocol in self._readers)
        self._min_coverage = min_coverage
        identity = hashlib.sha256(json.dumps([client.settings.host, asked.model]).encode()).hexdigest()[:16]
        self._asker = ApiAsker(client, asked.model, f"api-{identity}", asked.answers, cache)
        dials = [asked.answers, asked.samples, asked.temperature, client.settings.top_logprobs]
        prompts = json.dumps([identity, dials, sorted(c.digest for c in self._book.cards)])
        self.fingerprint = f"api-{identity}-{hashlib.sha256(prompts.encode()).hexdigest()[:8]}"

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols it has cards for."""
        return self._book.protocols

    @property
    def spent(self) -> Spent:
        """What was sent so far."""
        return self._client.purse.spent

    @property
    def answers(self) -> str:
        """How label cards are read: `probabilities`, `text`, or `auto` where that is not known yet."""
        way = self._asker.way("labels")
        found = "auto" if way is None else "probabilities" if way.top else "text"
        return found if self._asked.answers == "auto" else self._asked.answers

    def expense(self, paid: Paid) -> Expense:
        """What so many calls would take, and the cap they meet."""
        s = self._client.settings
        money = s.money(paid.prompt_tokens, paid.answer_tokens) if s.priced else math.nan
        return Expense(s.host, *paid, money, s.currency, s.max_calls, s.max_cost or None, TOKEN_RULE)

    def about(self) -> dict[str, Any]:
        """What a manifest says of the server: never the key, and of the address host and port alone."""
        s = self._client.settings
        limits = {"max_calls": s.max_calls, "max_cost": s.max_cost or None, "top_logprobs": s.top_logprobs}
        return {"host": s.host, "model": self._asked.model, **asdict(self._asked), **limits}

    def labels(self, request: Request) -> tuple[str, ...]:
        """The answers the card offers for this request."""
        return self._readers[request.protocol].labels(request, self.card(request))

    def card(self, request: Request) -> Card:
        """The card this request is asked through.

        Raises:
            InputError: there is none.
        """
        return card_for(self._book, request, self.spec)

    def remark(self, request: Request) -> str:
        """What the card says a user should know; remarks about the bundled judge's training do not apply."""
        remark = self.card(request).remark
        return "" if "bundled judge" in remark else remark

    def prompt(self, request: Request) -> str:
        """The messages as they are sent; the server's chat template is not known."""
        card = self.card(request)
        user = user_message(request, card, self._readers[request.protocol])
        return f"{card.system}\n\n{user}" if card.system else user

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request; the ones already in the cache cost nothing.

        Raises:
            InputError: no card fits a request.
            ModelError: the server takes no call at all, or stopped answering.
            OutOfCalls: the cap on calls or cost is reached.
        """
        total = len(requests)
        cards = [self.card(request) for request in requests]
        refusals = [self._readers[r.protocol].refusal(r, c) for r, c in zip(requests, cards, strict=True)]
        going = [(r, c) for r, c, refusal in zip(requests, cards, refusals, strict=True) if not refusal]
        self._find_ways(going, partial(checkpoint, 0, total))
        made = [self._made(request, card) for request, card in going]
        calls = [call for one in made for call in one.calls]

        def told(left: int) -> None:
            checkpoint(max(0, total - left), total)

        answers = iter(self._asker.ask(calls, told))
        pairs = zip(going, made, strict=True)
        verdicts = iter([self._verdict(r, one, [next(answers) for _ in one.calls]) for (r, _), one in pairs])
        return [unread(Verdict(), refusal) if refusal else next(verdicts) for refusal in refusals]

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Distinct calls that are not in the cache, and their tokens by the stated rule; nothing is sent."""
        cards = [self.card(request) for request in requests]
        asked = [(r, c) for r, c in zip(requests, cards, strict=True) if not self._readers[r.protocol].refusal(r, c)]
        made = [self._made(request, card, most=True) for request, card in asked]
        todo = self._asker.missing([call for one in made for call in one.calls])
        left = {id(call) for call in todo}
        waiting = sum(any(id(call) in left for call in one.calls) for one in made)
        prompt, answer = estimate([call.question for call in todo])
        return Cost(len(todo), prompt, len(requests) - waiting, Paid(len(todo), prompt, answer))

    def _find_ways(self, going: Sequence[tuple[Request, Card]], tick: Callable[[], None]) -> None:
        """Find out how the server takes label questions, then texts, where requests ask for them and nobody knows."""
        groups: tuple[Group, ...] = ("labels", "text")
        for group in groups:  # label cards are among the texts where the first look found no probabilities
            calls = [call for r, c in going if (call := self._made(r, c).calls[0]).group == group]
            if calls and self._asker.way(group) is None:
                self._asker.find_way(calls, tick, must=self._asked.answers == "probabilities")

    def _made(self, request: Request, card: Card, *, most: bool = False) -> _Asked:
        """The calls of a request, the way its server is known to answer.

        Args:
            request: what is asked.
            card: its prompt.
            most: where that is not known, the way that takes more calls.
        """
        way = self._asker.way("labels")
        offered = way.top > 0 if way else not most or self._asked.samples == 1
        labels = self._asked.answers == "probabilities" or (self._asked.answers == "auto" and offered)
        return _Asked(card, self._question_calls(request, card, labels=labels))

    def _question_calls(self, request: Request, card: Card, *, labels: bool) -> tuple[ApiCall, ...]:
        user = user_message(request, card, self._readers[request.protocol])
        if labels and card.mode == "label probabilities":
            offered = self._readers[request.protocol].labels(request, card)
            question = Question(card.system, user, labels=True, max_tokens=1)
            return (ApiCall(question, label_forms(offered, card.spellings)),)
        # orders have no mean: a ranking is asked for once, at temperature 0
        several = request.protocol is not Protocol.RANKING
        count, heat = (self._asked.samples, self._asked.temperature) if several else (1, 0.0)
        return tuple(
            ApiCall(Question(card.system, user, False, card.max_new_tokens, heat, sample)) for sample in range(count)
        )

    def _verdict(self, request: Request, asked: _Asked, answers: Sequence[Got]) -> Verdict:
        """From the answers to one verdict."""
        reader = self._readers[request.protocol]
        seen = self._seen(asked.calls, answers)
        if not asked.calls[0].forms:
            return _from_texts(reader, request, asked.card, answers, seen, self._min_coverage)
        got = answers[0]
        if got.failed or got.row is None:
            return replace(unread(seen, got.failed), raw_text=got.text)
        coverage = float(got.row.sum())
        shares = tuple(float(p) for p in got.row / coverage) if coverage > 0 else None
        seen = replace(seen, probabilities=shares, coverage=coverage)
        if shares is None or coverage < self._min_coverage:
            what = f"{reader.tokens_are} hold {coverage:.2f} of the probability"
            return replace(unread(seen, f"{what}, below {self._min_coverage:g}"), raw_text=got.text)
        return reader.from_probabilities(request, asked.card, shares, seen)

    def _seen(self, calls: Sequence[ApiCall], answers: Sequence[Got]) -> Verdict:
        """What the answers cost; a server that does not count is counted by the rule."""
        prompt = [
            got.prompt_tokens if got.prompt_tokens >= 0 else call.question.prompt_tokens
            for call, got in zip(calls, answers, strict=True)
        ]
        return Verdict(
            prompt_tokens=sum(prompt),
            forward_passes=float(sum(max(1, got.answer_tokens) for got in answers)),
            seconds=math.fsum(got.seconds for got in answers),
        )


def _from_texts(
    reader: Reader, request: Request, card: Card, answers: Sequence[Got], seen: Verdict, least: float
) -> Verdict:
    """The verdict of one text, or the mean over the readable ones of several."""
    read = [
        unread(seen, got.failed) if got.failed else reader.from_text(request, card, got.text, seen) for got in answers
    ]
    texts = [got.text or got.failed for got in answers]
    if len(read) == 1:
        return replace(read[0], raw_text=answers[0].text)
    shown = "\n".join(f"[{i} of {len(texts)}] {text}" for i, text in enumerate(texts, 1))
    good = [verdict for verdict in read if verdict.read]
    seen = replace(seen, raw_text=shown, coverage=len(good) / len(read))
    if not good or seen.coverage < least:
        first = next(verdict.unread_reason for verdict in read if not verdict.read)
        return unread(seen, f"{len(good)} of {len(read)} answers could be read, below {least:g}; the first: {first}")
    marks = [verdict.probabilities for verdict in good if verdict.probabilities is not None]
    if len(marks) == len(good):
        shares = tuple(float(p) for p in np.mean(marks, axis=0))
        return reader.from_probabilities(request, card, shares, replace(seen, probabilities=shares))
    return replace(seen, score=float(np.mean([verdict.score for verdict in good])))  # scores between two labels

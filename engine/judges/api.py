"""A judge behind an OpenAI-compatible server: one more Judge, asked through the same cards, kept in the same cache.

Where the server shows the alternatives of the answer's first token, their probabilities are read as those of a local
judge: variants of a label merged, coverage below the limit unread. What it does not show counts as nothing, so the
coverage is a lower bound. Elsewhere the text is read, strictly, of one answer or of several; then a verdict is the
mean of the readable answers. Which of the two it is, is found out once and kept with the answers, so that one run, and
its continuation, is asked in one way.

The server gives no hidden states and no gradients: what needs them refuses this judge.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.core.cache import CallCache, call_key, reply_key
from engine.core.errors import ModelError
from engine.core.schema import Protocol
from engine.inference.abilities import GROUPS, abilities, note_server, server_version
from engine.inference.completions import (
    CHOICE_TOKENS,
    CHOICES,
    REASONING_TOKENS,
    ROUTES,
    TOKEN_RULE,
    ApiReply,
    Question,
    Way,
    estimate,
)
from engine.inference.in_flight import Job, run_all
from engine.inference.served import ApiClient, CallError, FaultError, FieldError, Spent
from engine.inference.served_labels import Forms, label_forms, label_ids, label_row
from engine.judges.api_spec import ApiSpec
from engine.judges.base import Checkpoint, Cost, Expense, Paid, Request, Verdict, no_checkpoint, unread
from engine.judges.cards import Card, CardBook
from engine.judges.labelled import MIN_COVERAGE, Reader, card_for, user_message
from engine.judges.samples import from_texts

# Questions to an API: what is known comes from the call cache, the rest is asked at once and kept.

FIRST_FAULTS = 3
"""At first contact so many calls that fail at every try stop the run, since each takes all its waits."""
NOT_OFFERED = "the server gave no token probabilities with this answer"
_PROOF, _PROOF_ASKS = "judgescope-7", "Say hello."
"""No model says this by itself, so whoever does is held to it by the server."""
_WAYS = 2
"""Part of the key of a way that is kept; a new number has every server asked anew what it can do."""


@dataclass(frozen=True)
class ApiCall:
    """One question and how its answer is read.

    Attributes:
        question: the question.
        forms: the ways to write each label, where the answer is read from their probabilities.
        reads: true where a text, cut off or not, holds a verdict; only such an answer is kept.
    """

    question: Question
    forms: Forms = ()
    reads: Callable[[str, bool], bool] = field(default=lambda text, cut: bool(text) and not cut, compare=False)


class Got(NamedTuple):
    """The answer to one call.

    Attributes:
        row: numbers that were asked for, mostly raw label probabilities (L,); None for a text, or where there are none.
        text: the server's text.
        prompt_tokens, answer_tokens: by the server's count; -1 where it does not say.
        seconds: time it took now [s]; 0 where it was known.
        failed: why there is no usable answer; empty otherwise.
        fault: true where it is the server that failed, at every try.
        cut: true where the answer broke off at its longest length.
    """

    row: NDArray[np.float64] | None
    text: str
    prompt_tokens: int = -1
    answer_tokens: int = -1
    seconds: float = 0.0
    failed: str = ""
    fault: bool = False
    cut: bool = False


class ApiAsker:
    """Asks one model at one server.

    Args:
        client: the server.
        asked: the spec; a way found under one mode of answers says nothing of another.
        cache: where answers are kept; None keeps none.
    """

    def __init__(self, client: ApiClient, asked: ApiSpec, cache: CallCache | None) -> None:
        self._client, self._asked_for, self._cache = client, asked, cache
        server = json.dumps([client.settings.host, asked.model])
        self.identity = hashlib.sha256(server.encode()).hexdigest()[:16]
        """Digest of server and model, part of every key."""
        self._identity = f"api-{self.identity}"
        self._model, self._mode = asked.model, "-".join([asked.answers, *asked.reasoning])
        self._ways: dict[str, Way] = {}
        self._first: dict[str, Got] = {}
        self._ids: dict[Forms, tuple[tuple[int, str], ...]] = {}
        self._systems: set[str] = set()
        self._version: str | None = None

    def way(self, group: str) -> Way | None:
        """Form in which the server takes such questions: as found out in a run; None where nobody asked."""
        if group not in self._ways and self._cache:
            kept = self._cache.get_replies([self._way_key(group)])
            if kept:
                self._ways[group] = Way.unpacked(next(iter(kept.values()))[0])
        return self._ways.get(group)

    def find_way(self, calls: Sequence[ApiCall], tick: Callable[[], None], *, must: bool) -> None:
        """Find out how the server takes the questions of a group, by asking the first that it answers; keeps the way.

        Args:
            calls: of one group, each asked at most once.
            tick: called while an answer is waited for.
            must: true where this group is insisted on.

        Raises:
            ModelError: it is insisted on and the server does not offer it, or nothing can be asked at all.
        """
        group, faults = calls[0].question.group, 0
        self._find_ids(calls[:1])
        for call in calls:
            found: list[tuple[int, tuple[Got, Way]]] = []
            run_all([partial(self._negotiate, call)], 1, found.extend, tick)
            got, way = found[0][1]
            if got.failed and got.failed != NOT_OFFERED and got.row is None:
                self._first[self._key(call, self._way_of(call))] = got
                faults += got.fault
                if faults == FIRST_FAULTS:
                    raise ModelError(
                        f"{self._client.settings.host} answered none of the first {faults} calls; the last: "
                        f"{got.failed}. Nothing more was sent. Test the connection, and run again when it answers."
                    )
                continue
            if group == "labels" and not way.top and must:
                raise ModelError(
                    f"{self._client.settings.host} gives no token probabilities for {self._model}. Leave "
                    "answers=probabilities out of the judge's spec, or write answers=text, to have its text read."
                )
            if group == "choice" and not way.choice and must:
                raise ModelError(
                    f"{self._client.settings.host} holds no answer of {self._model} to the labels. Leave "
                    "answers=choice out of the judge's spec, or write answers=text, to have its free text read."
                )
            self._ways[group] = way
            if self._cache:
                self._cache.put_replies([(self._way_key(group), (way.packed(), 0))])
            if got.failed != NOT_OFFERED:
                self._keep([(self._key(call, way), call, got)])
                self._first[self._key(call, way)] = got
            note_server(self._client.settings.host, self._model, self.found())
            return

    def found(self) -> dict[str, Any]:
        """The server as its answers show it, for a manifest; what nobody asked for is absent."""
        if self._version is None:
            self._version = server_version(self._client)
        ways = {group: way for group in GROUPS if (way := self.way(group))}
        facts = {"version": self._version, "system_fingerprint": sorted(self._systems), "model": self._client.served}
        return {name: fact for name, fact in facts.items() if fact} | abilities(ways)

    def known(self, calls: Sequence[ApiCall]) -> dict[str, Got]:
        """The answers that are kept, by key."""
        keys = {self._key(call, self._way_of(call)): call for call in calls}
        found = {key: got for key, got in self._first.items() if key in keys}
        if not self._cache:
            return found
        texts = self._cache.get_replies(list(keys))
        rows = self._cache.get_many([key for key, call in keys.items() if call.question.labels])
        for key, (packed, _) in texts.items():
            row, call = rows.get(key), keys[key]
            text, prompt_tokens, answer_tokens, *ending = json.loads(packed)
            # older versions kept nothing of how an answer ended: one that has all the tokens allowed may be cut off
            labels = call.question.labels
            cut = bool(ending[0]) if ending else not labels and answer_tokens >= call.question.max_tokens
            if row is not None or (not labels and call.reads(text, cut)):
                found.setdefault(key, Got(row, text, prompt_tokens, answer_tokens, cut=cut))
        return found

    def missing(self, calls: Sequence[ApiCall]) -> list[ApiCall]:
        """The distinct calls whose answers are not kept."""
        known = self.known(calls)
        wanted = {self._key(call, self._way_of(call)): call for call in calls}
        return [call for key, call in wanted.items() if key not in known]

    def ask(self, calls: Sequence[ApiCall], checkpoint: Callable[[int], None]) -> list[Got]:
        """Answer each call; equal calls are asked once.

        Args:
            calls: of any group.
            checkpoint: told how many distinct calls are still open; may raise to stop, and what is done is kept.

        Raises:
            ModelError: nothing can be asked, or the server is gone.
            OutOfCalls: the cap is reached.
        """
        self._find_ids(calls)
        keys = [self._key(call, self._way_of(call)) for call in calls]
        known = self.known(calls)
        self._first.clear()
        wanted = dict(zip(keys, calls, strict=True))
        open_keys = [key for key in wanted if key not in known]
        left = len(open_keys)
        checkpoint(left)

        def keep(batch: list[tuple[int, Got]]) -> None:
            nonlocal left
            left -= len(batch)
            known.update({open_keys[i]: got for i, got in batch})
            self._keep([(open_keys[i], wanted[open_keys[i]], got) for i, got in batch])

        jobs: list[Job[Got]] = [partial(self._asked, wanted[key]) for key in open_keys]
        run_all(jobs, self._client.settings.concurrency, keep, lambda: checkpoint(left))
        if calls:
            note_server(self._client.settings.host, self._model, self.found())
        return [known[key] for key in keys]

    async def _negotiate(self, call: ApiCall, stop: asyncio.Event) -> tuple[Got, Way]:
        """One call, asked in other ways for as long as the server refuses a field of it, or reasons before it answers.

        A model that reasons first is asked not to; where that changes nothing its text is read, with room to reason.
        """
        way = self._way_of(call)
        quiet, proven = self._asked_for.thinking == "auto", not way.choice
        while True:
            try:
                if not proven:
                    way, proven = await self._held(call.question, way, stop), True
                    if not way.choice:
                        return Got(None, "", failed=NOT_OFFERED), way
                reply = await self._client.ask(self._model, self._sent(call), way, stop)
                if reply.reasons and quiet:
                    quiet, way = False, replace(way, plain=True)
                    continue
                if reply.reasons and (call.forms or way.choice):
                    return Got(None, "", failed=NOT_OFFERED), replace(way, top=0, choice="")
                if reply.reasons and not way.room:
                    way = replace(way, room=REASONING_TOKENS)
                    continue
                got = self._read(call, reply, way)
                if got.failed == NOT_OFFERED and way.ids:
                    way = replace(way, ids=False)
                    continue
            except FieldError as error:
                other = way.after(str(error))
                if other is None:
                    return Got(None, "", failed=str(error)), way
                way, proven = other, proven and other.choice == way.choice
                if call.forms and not way.top:  # no probabilities: the answer is asked for as text from now on
                    return Got(None, "", failed=NOT_OFFERED), way
                continue
            except CallError as error:
                return Got(None, "", failed=str(error), fault=isinstance(error, FaultError)), way
            except ModelError:
                if way.route != ROUTES[0]:
                    raise
                way = replace(way, route=ROUTES[1])
                continue
            return got, replace(way, top=0) if got.failed == NOT_OFFERED else way

    async def _held(self, question: Question, way: Way, stop: asyncio.Event) -> Way:
        """The way with the first field of `CHOICES` that the server obeys; many pass over a field they do not know."""
        proof = replace(question, system="", user=_PROOF_ASKS, choices=(_PROOF,), max_tokens=CHOICE_TOKENS)
        quiet = self._asked_for.thinking == "auto"
        while way.choice:
            try:
                reply = await self._client.ask(self._model, proof, way, stop)
            except FieldError as error:
                way = way.after(str(error)) or way.next_choice()
                continue
            if reply.reasons:
                way = replace(way, plain=True) if quiet else replace(way, choice="")
                quiet = False
            elif reply.text.strip() == _PROOF:
                return way
            else:
                way = way.next_choice()
        return way

    async def _asked(self, call: ApiCall, stop: asyncio.Event) -> Got:
        try:
            way = self._way_of(call)
            return self._read(call, await self._client.ask(self._model, self._sent(call), way, stop), way)
        except CallError as error:
            return Got(None, "", failed=str(error))

    def _find_ids(self, calls: Iterable[ApiCall]) -> None:
        """Ids of the labels of these calls, where the server tells them and they are to be asked for."""
        way = self.way("labels")
        for forms in {call.forms for call in calls if call.question.group == "labels"}:
            if self._ids_of(forms) is None and (way is None or way.ids):
                self._ids[forms] = label_ids(self._client, self._model, forms)
                if self._cache:
                    self._cache.put_replies([(self._ids_key(forms), (json.dumps(self._ids[forms]), 0))])

    def _ids_of(self, forms: Forms) -> tuple[tuple[int, str], ...] | None:
        """Ids of the labels, with the text of each; None where nobody asked for them."""
        if forms not in self._ids and self._cache and forms:
            kept = self._cache.get_replies([self._ids_key(forms)])
            for packed, _ in kept.values():
                self._ids[forms] = tuple((int(i), str(text)) for i, text in json.loads(packed))
        return self._ids.get(forms)

    def _ids_key(self, forms: Forms) -> str:
        return call_key(f"{self._identity}-ids-of-labels", (), forms)

    def _sent(self, call: ApiCall) -> Question:
        """The question with the ids of its labels."""
        return replace(call.question, ids=self._ids_of(call.forms) or ()) if call.forms else call.question

    def _read(self, call: ApiCall, reply: ApiReply, way: Way) -> Got:
        """Content of an answer, as far as the call wants to know."""
        self._systems.update({reply.system} - {""})
        labels = call.question.labels
        full = reply.answer_tokens >= call.question.max_tokens + way.room
        cut = not labels and (full if reply.cut is None else reply.cut)
        got = Got(None, reply.text, reply.prompt_tokens, reply.answer_tokens, reply.seconds, cut=cut)
        if reply.withheld:
            return got._replace(failed=reply.withheld)
        if not labels:
            empty = f"the reply is empty{' (the reply was cut off)' if cut else ''}"
            return got._replace(failed="" if reply.text.strip() else empty)
        if reply.top is None:
            return got._replace(failed=NOT_OFFERED)
        if reply.reasons:
            return got._replace(failed="the model reasoned first, so its first token is no answer")
        row, reason = label_row(reply.top, call.forms)
        return got._replace(row=row, failed=reason)

    def _keep(self, batch: Sequence[tuple[str, ApiCall, Got]]) -> None:
        """Keep answers; a failure is none, nor is a text without a verdict."""
        good = [
            (key, got)
            for key, call, got in batch
            if not got.failed and (call.question.labels or call.reads(got.text, got.cut))
        ]
        if not self._cache or not good:
            return
        self._cache.put_many([(key, got.row) for key, got in good if got.row is not None])
        packed = [(key, json.dumps([g.text, g.prompt_tokens, g.answer_tokens, g.cut]), g) for key, g in good]
        self._cache.put_replies([(key, (text, max(0, g.answer_tokens))) for key, text, g in packed], replace=True)

    def _way_of(self, call: ApiCall) -> Way:
        group = call.question.group
        if way := self.way(group):
            return replace(way, ids=False) if way.ids and self._ids_of(call.forms) == () else way
        return Way(
            top=self._client.settings.top_logprobs if call.question.labels else 0,
            ids=bool(self._ids_of(call.forms)),
            choice=CHOICES[0] if group == "choice" else "",
            route=ROUTES[0] if group == "decision" else "",
            plain=self._asked_for.thinking == "off",
            room=REASONING_TOKENS if self._asked_for.thinking == "on" else 0,
            effort=self._asked_for.effort,
        )

    def room(self, call: ApiCall) -> int:
        """Tokens for reasoning that a call may take beside its answer."""
        return 0 if call.question.labels else self._way_of(call).room

    def _way_key(self, group: str) -> str:
        found = f"{self._identity}-way{_WAYS}-{self._mode}-{group}-{self._client.settings.top_logprobs}"
        return call_key(found, (), ())

    def _key(self, call: ApiCall, way: Way) -> str:
        q = call.question
        prompt = list(json.dumps([q.system, q.user]).encode("ascii"))
        if q.labels:
            read = f"decision-{way.route}" if q.group == "decision" else "ids" if way.ids else f"top-{way.top}"
            return call_key(f"{self._identity}-{read}{way.reasoning}", prompt, call.forms)
        drawn = f"{q.temperature:g}-{q.sample}" if way.temperature else f"own-{q.sample}"
        drawn += f"-seed-{q.seed}" if q.seed and q.temperature else ""
        drawn += f"-{way.choice}-{json.dumps(q.choices)}" if q.choices else ""
        return reply_key(f"{self._identity}-{drawn}{way.reasoning}", prompt, q.max_tokens)


class _Asked(NamedTuple):
    """One request made ready: its card, and its calls, several where several texts are read."""

    card: Card
    calls: tuple[ApiCall, ...]


class ApiJudge:
    """A language model behind a server.

    Args:
        spec: as the user wrote it.
        asked: the parts of the spec.
        client: the server.
        cards: the prompts.
        readers: of an answer, by protocol.
        cache: where answers are kept; None keeps none.
        min_coverage: below this the verdict is unread.
    """

    _groups: tuple[str, ...] = ("labels", "choice", "text")
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
        self.device = f"server {client.settings.hosts}"
        self._readers: Mapping[Protocol, Reader] = {r.protocol: r for r in readers}
        self._book = CardBook(card for card in cards if card.protocol in self._readers)
        self._min_coverage = min_coverage
        self._asker = ApiAsker(client, asked, cache)
        identity = self._asker.identity
        parameters = [asked.answers, asked.samples, asked.temperature, client.settings.top_logprobs, *asked.reasoning]
        parameters += [f"seed-{asked.seed}"] if asked.seed else []
        prompts = json.dumps([identity, parameters, sorted(c.digest for c in self._book.cards)])
        self.fingerprint = f"api-{identity}-{hashlib.sha256(prompts.encode()).hexdigest()[:8]}"

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols it has cards for."""
        return self._book.protocols

    @property
    def client(self) -> ApiClient:
        """The server; whoever asks it beside the judge draws on the same cap."""
        return self._client

    @property
    def server(self) -> dict[str, Any]:
        """What the server has shown of itself."""
        return self._asker.found() | {"batch_invariant": self._client.settings.batch_invariant}

    @property
    def concurrency(self) -> int:
        """Calls in flight at a time."""
        return self._client.settings.concurrency

    @property
    def spent(self) -> Spent:
        """Requests so far."""
        return self._client.purse.spent

    @property
    def answered(self) -> dict[str, int]:
        """Answers of each address so far, by its host."""
        return self._client.answered

    @property
    def answers(self) -> str:
        """Way of reading label cards: `probabilities`, `choice`, `text`, or `auto` where that is not known yet."""
        way, held = self._asker.way("labels"), self._asker.way("choice")
        if self._asked.may_be_probabilities and (way is None or way.top):
            return "probabilities" if way else "auto"
        if self._asked.answers == "probabilities" or (self._asked.may_be_choice and held is None):
            return "probabilities" if self._asked.answers == "probabilities" else "auto"
        return "choice" if self._asked.may_be_choice and held and held.choice else "text"

    def expense(self, paid: Paid) -> Expense:
        """Cost of so many calls, and the cap they meet."""
        s = self._client.settings
        money = s.money(paid.prompt_tokens, paid.answer_tokens) if s.priced else math.nan
        return Expense(s.hosts, *paid, money, s.currency, s.max_calls, s.max_cost or None, TOKEN_RULE)

    def about(self) -> dict[str, Any]:
        """Record of the server in a manifest: never the key, and of the address host and port alone."""
        s = self._client.settings
        limits: dict[str, Any] = {"max_calls": s.max_calls, "max_cost": s.max_cost or None}
        limits |= {"top_logprobs": s.top_logprobs, "batch_invariant": s.batch_invariant}
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
        """The card's remark for users; remarks about the bundled judge's training do not apply."""
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
        answer += sum(self._asker.room(call) for call in todo)
        return Cost(len(todo), prompt, len(requests) - waiting, Paid(len(todo), prompt, answer))

    def _find_ways(self, going: Sequence[tuple[Request, Card]], tick: Callable[[], None]) -> None:
        """Find out how the server takes label questions, then texts, where requests ask for them and nobody knows."""
        for group in self._groups:  # label cards are in the next group where one look found that this is not offered
            calls = [call for r, c in going if (call := self._made(r, c).calls[0]).question.group == group]
            if calls and self._asker.way(group) is None:
                self._asker.find_way(calls, tick, must=self._asked.answers in {"probabilities", "choice"})

    def _made(self, request: Request, card: Card, *, most: bool = False) -> _Asked:
        """The calls of a request, the way its server is known to answer.

        Args:
            request: the request.
            card: its prompt.
            most: where that is not known, the way that takes more calls.
        """
        way = self._asker.way("labels")
        offered = way.top > 0 if way else not most or self._asked.samples == 1
        labels = self._asked.answers == "probabilities" or (self._asked.may_be_probabilities and offered)
        return _Asked(card, self._question_calls(request, card, labels=labels))

    def _question_calls(self, request: Request, card: Card, *, labels: bool) -> tuple[ApiCall, ...]:
        reader = self._readers[request.protocol]
        user = user_message(request, card, reader)
        if labels and card.mode == "label probabilities":
            offered = reader.labels(request, card)
            question = Question(card.system, user, labels=True, max_tokens=1)
            return (ApiCall(question, label_forms(offered, card.spellings)),)
        # a card that has reasons written before its verdict is never held to the labels
        held = self._asker.way("choice")
        constrain = card.mode == "label probabilities" and self._asked.may_be_choice and (held is None or held.choice)
        choices = reader.labels(request, card) if constrain else ()
        longest = max(card.max_new_tokens, CHOICE_TOKENS) if choices else card.max_new_tokens
        # orders have no mean: a ranking is asked for once, at temperature 0
        several = request.protocol is not Protocol.RANKING
        count, heat = (self._asked.samples, self._asked.temperature) if several else (1, 0.0)

        def reads(text: str, cut: bool) -> bool:
            return reader.from_text(request, card, text, Verdict(), cut=cut).read

        return tuple(
            ApiCall(
                Question(card.system, user, False, longest, heat, sample, self._asked.seed, choices),
                reads=reads,
            )
            for sample in range(count)
        )

    def _verdict(self, request: Request, asked: _Asked, answers: Sequence[Got]) -> Verdict:
        """From the answers to one verdict."""
        reader = self._readers[request.protocol]
        seen = self._seen(asked.calls, answers)
        if not asked.calls[0].forms:
            return from_texts(reader, request, asked.card, answers, seen, self._min_coverage)
        got = answers[0]
        if got.failed or got.row is None:
            return replace(unread(seen, got.failed), raw_text=got.text)
        shares, coverage, reason = reader.shares(got.row, self._min_coverage)
        seen = replace(seen, probabilities=shares, coverage=coverage)
        if reason or shares is None:
            return replace(unread(seen, reason), raw_text=got.text)
        return reader.from_probabilities(request, asked.card, shares, seen)

    def _seen(self, calls: Sequence[ApiCall], answers: Sequence[Got]) -> Verdict:
        """Cost of the answers; a server that does not count is counted by the rule."""
        prompt = [
            got.prompt_tokens if got.prompt_tokens >= 0 else call.question.prompt_tokens
            for call, got in zip(calls, answers, strict=True)
        ]
        return Verdict(
            prompt_tokens=sum(prompt),
            forward_passes=float(sum(max(1, got.answer_tokens) for got in answers)),
            seconds=math.fsum(got.seconds for got in answers),
        )

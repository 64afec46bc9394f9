"""Questions to an API: what is known comes from the call cache, the rest is asked by several threads and kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.cache import CallCache, call_key, reply_key
from engine.errors import ModelError
from engine.judges.api_labels import label_row
from engine.models.api import ApiClient, CallError, FaultError, FieldError
from engine.models.api_body import ApiReply, Question, Way
from engine.models.parallel import run_all

Group = Literal["labels", "text"]
FIRST_FAULTS = 3
"""At first contact so many calls that fail at every try stop the run, since each takes all its waits."""
NOT_OFFERED = "the server gave no token probabilities with this answer"


@dataclass(frozen=True)
class ApiCall:
    """One question, and the ways to write each label where its answer is read from probabilities."""

    question: Question
    forms: tuple[tuple[str, ...], ...] = ()

    @property
    def group(self) -> Group:
        """Calls of one group are asked in the same way."""
        return "labels" if self.question.labels else "text"


class Got(NamedTuple):
    """The answer to one call.

    Attributes:
        row: raw label probabilities (L,); None where the answer is text or there is none.
        text: what the server wrote.
        prompt_tokens, answer_tokens: by the server's count; -1 where it does not say.
        seconds: how long it took this time; 0 where it was known.
        failed: why there is no usable answer; empty otherwise.
        fault: whether it is the server that failed, at every try.
    """

    row: NDArray[np.float64] | None
    text: str
    prompt_tokens: int = -1
    answer_tokens: int = -1
    seconds: float = 0.0
    failed: str = ""
    fault: bool = False


class ApiAsker:
    """Asks one model at one server.

    Args:
        client: the server.
        model: its name there.
        identity: digest of server and model, part of every key.
        mode: what the spec says of answers; a way found under one mode says nothing of another.
        cache: where answers are kept; None keeps none.
    """

    def __init__(self, client: ApiClient, model: str, identity: str, mode: str, cache: CallCache | None) -> None:
        self._client, self._model, self._identity, self._mode, self._cache = client, model, identity, mode, cache
        self._ways: dict[Group, Way] = {}
        self._first: dict[str, Got] = {}

    def way(self, group: Group) -> Way | None:
        """How the server takes such questions: as found out in this run or an earlier one; None where nobody asked."""
        if group not in self._ways and self._cache:
            kept = self._cache.get_replies([self._way_key(group)])
            if kept:
                self._ways[group] = Way.unpacked(next(iter(kept.values()))[0])
        return self._ways.get(group)

    def find_way(self, calls: Sequence[ApiCall], tick: Callable[[], None], *, must: bool) -> None:
        """Find out how the server takes the questions of a group, by asking the first that it answers.

        Args:
            calls: of one group, each asked at most once.
            tick: called while an answer is waited for.
            must: whether probabilities are insisted on.

        Raises:
            ModelError: probabilities are insisted on and the server offers none, or nothing can be asked at all.
        """
        group, faults = calls[0].group, 0
        for call in calls:
            found: list[tuple[Got, Way]] = []

            def task(stop: threading.Event, call: ApiCall = call, found: list[tuple[Got, Way]] = found) -> None:
                found.append(self._negotiate(call, stop))

            run_all([task], 1, tick)
            got, way = found[0]
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
            self._ways[group] = way
            if self._cache:
                self._cache.put_replies([(self._way_key(group), (way.packed(), 0))])
            if got.failed != NOT_OFFERED:
                self._keep(self._key(call, way), got)
                self._first[self._key(call, way)] = got
            return

    def known(self, calls: Sequence[ApiCall]) -> dict[str, Got]:
        """The answers that are kept, by key."""
        keys = {self._key(call, self._way_of(call)): call for call in calls}
        found = {key: got for key, got in self._first.items() if key in keys}
        if not self._cache:
            return found
        texts = self._cache.get_replies(list(keys))
        rows = self._cache.get_many([key for key, call in keys.items() if call.forms])
        for key, (packed, _) in texts.items():
            row = rows.get(key)
            if row is not None or not keys[key].forms:
                found.setdefault(key, Got(row, *json.loads(packed)))
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
        keys = [self._key(call, self._way_of(call)) for call in calls]
        known = self.known(calls)
        self._first.clear()
        wanted = dict(zip(keys, calls, strict=True))
        open_keys = [key for key in wanted if key not in known]
        checkpoint(len(open_keys))

        def task_for(key: str) -> Callable[[threading.Event], None]:
            def task(stop: threading.Event) -> None:
                got = self._asked(wanted[key], stop)
                self._keep(key, got)
                known[key] = got

            return task

        run_all(
            [task_for(key) for key in open_keys],
            self._client.settings.concurrency,
            lambda: checkpoint(sum(key not in known for key in open_keys)),
        )
        return [known[key] for key in keys]

    def _negotiate(self, call: ApiCall, stop: threading.Event) -> tuple[Got, Way]:
        """One call, asked in other ways for as long as the server refuses a field of it."""
        way = self._way_of(call)
        while True:
            try:
                got = self._read(call, self._client.ask(self._model, call.question, way, stop))
            except FieldError as error:
                other = way.after(str(error))
                if other is None:
                    return Got(None, "", failed=str(error)), way
                way = other
                if call.forms and not way.top:  # no probabilities: the answer is asked for as text from now on
                    return Got(None, "", failed=NOT_OFFERED), way
                continue
            except CallError as error:
                return Got(None, "", failed=str(error), fault=isinstance(error, FaultError)), way
            return got, replace(way, top=0) if got.failed == NOT_OFFERED else way

    def _asked(self, call: ApiCall, stop: threading.Event) -> Got:
        try:
            return self._read(call, self._client.ask(self._model, call.question, self._way_of(call), stop))
        except CallError as error:
            return Got(None, "", failed=str(error))

    def _read(self, call: ApiCall, reply: ApiReply) -> Got:
        """What an answer says, as far as the call wants to know."""
        cut = " (the reply was cut off)" if reply.cut and not call.forms else ""
        got = Got(None, reply.text, reply.prompt_tokens, reply.answer_tokens, reply.seconds)
        if reply.withheld:
            return got._replace(failed=reply.withheld)
        if not call.forms:
            return got._replace(failed=f"the reply is empty{cut}" if not reply.text.strip() else "")
        if reply.top is None:
            return got._replace(failed=NOT_OFFERED)
        row, reason = label_row(reply.top, call.forms)
        return got._replace(row=row, failed=reason)

    def _keep(self, key: str, got: Got) -> None:
        """Keep an answer; a failure is none."""
        if not self._cache or got.failed:
            return
        if got.row is not None:
            self._cache.put_many([(key, got.row)])
        packed = json.dumps([got.text, got.prompt_tokens, got.answer_tokens])
        self._cache.put_replies([(key, (packed, max(0, got.answer_tokens)))])

    def _way_of(self, call: ApiCall) -> Way:
        return self.way(call.group) or Way(top=self._client.settings.top_logprobs if call.forms else 0)

    def _way_key(self, group: Group) -> str:
        return call_key(f"{self._identity}-way-{self._mode}-{group}-{self._client.settings.top_logprobs}", (), ())

    def _key(self, call: ApiCall, way: Way) -> str:
        q = call.question
        prompt = list(json.dumps([q.system, q.user]).encode("ascii"))
        if call.forms:
            return call_key(f"{self._identity}-top-{way.top}", prompt, call.forms)
        drawn = f"{q.temperature:g}-{q.sample}" if way.temperature else f"own-{q.sample}"
        return reply_key(f"{self._identity}-{drawn}", prompt, q.max_tokens)

"""A client of OpenAI-compatible servers: many questions at once, with patience and a hard cap.

What may go wrong falls into three kinds. Faults of the moment (429, 5xx, a timeout, a cut line, half an answer) are
tried again, after the wait a server asks for, and then leave that call unread. A refused prompt leaves that call
unread at once. What would go wrong for every call (no such model, a key that is not taken, nobody there) stops the
run with what to do about it. Where several addresses serve the model, a call that one of them fails goes to another.
The key goes into one header; no message, log or repr holds it.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import httpx2

from engine.core.errors import InputError, ModelError, OutOfCalls
from engine.core.settings import PREFIX, ApiSettings
from engine.inference.addresses import Address, Addresses, Sleep
from engine.inference.completions import (
    AnswerError,
    ApiReply,
    NoProbabilitiesError,
    Question,
    Way,
    complaint_of,
)
from engine.inference.in_flight import Stopped, event_loop, wait_for

FIRST_WAIT_S = 0.5
MOST_BYTES = 4 << 20
"""Largest answer taken; a longer one is no chat completion."""
FAILURES_IN_A_ROW = 20
"""So many failed calls with no answer between them stop the run: the server is gone, not busy."""
_AGAIN = frozenset({408, 409, 425, 429})
_NOT_BUILT = 501
_FOR_ALL = {401: "does not take the key", 402: "asks for payment", 403: "does not allow this"}


class CallError(Exception):
    """One call has no answer; the text is the reason of its unread verdict."""


class FaultError(CallError):
    """The server failed at every try; the prompt may be good."""


class FieldError(CallError):
    """The server refuses a field of the request, so another way of asking may do."""


class _Again(Exception):  # noqa: N818 - caught within this module
    """Worth another try.

    Attributes:
        wait: seconds the server asks to wait; negative where it does not say.
        billed: true where the server may have worked for nothing, so that the try counts at its full price.
        busy: true where the server is too busy for all calls, and not for this one alone.
        gone: true where there is no connection.
    """

    def __init__(
        self, reason: str, wait: float = -1.0, *, billed: bool = False, busy: bool = False, gone: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait, self.billed, self.busy, self.gone = wait, billed, busy or wait >= 0, gone


class Spent(NamedTuple):
    """Requests of a client so far: tries, and tokens by the server's count, else by the rule."""

    calls: int
    prompt_tokens: int
    answer_tokens: int
    money: float


class Purse:
    """The hard cap on calls and cost, exact however many calls are under way; may be read from any thread.

    A try is set aside at its highest price before it is sent. Where the server counts more prompt tokens than the
    rule, the largest ratio seen so far counts from then on, so only the first answers can cost more than set aside.
    """

    def __init__(self, settings: ApiSettings) -> None:
        if settings.max_cost and not settings.priced:
            raise InputError(
                f"{PREFIX}MAX_COST is {settings.max_cost:g}, but no price is known, so the cost cannot be kept below "
                f"it. Set {PREFIX}PRICE_PROMPT and {PREFIX}PRICE_COMPLETION per million tokens, or cap the calls."
            )
        self._settings, self._lock = settings, threading.Lock()
        self._calls = self._prompt = self._answer = 0
        self._ratio = 1.0

    def take(self, question: Question) -> int:
        """Set aside one try at its highest price; returns the prompt tokens set aside.

        Raises:
            OutOfCalls: it would go beyond the cap.
        """
        s = self._settings
        with self._lock:
            if self._calls + 1 > s.max_calls:
                raise OutOfCalls(
                    f"The cap of {s.max_calls:,} API calls in one run is reached; nothing more was sent, and finished "
                    f"calls are kept. Raise {PREFIX}MAX_CALLS and resume, or judge fewer responses."
                )
            prompt = math.ceil(self._ratio * question.prompt_tokens)
            money = s.money(self._prompt + prompt, self._answer + question.answer_tokens)
            if s.max_cost and money > s.max_cost:
                raise OutOfCalls(
                    f"The next API call could go beyond the cap of {s.max_cost:g} {s.currency} for one run, so it was "
                    f"not sent; finished calls are kept. Raise {PREFIX}MAX_COST and resume, or judge fewer responses."
                )
            self._calls += 1
            self._prompt += prompt
            self._answer += question.answer_tokens
            return prompt

    def settle(self, question: Question, taken: int, prompt: int, answer: int) -> None:
        """Put what a try really took in place of what was set aside; negative counts leave that."""
        with self._lock:
            self._ratio = max(self._ratio, prompt / question.prompt_tokens)
            self._prompt += prompt - taken if prompt >= 0 else 0
            self._answer += answer - question.answer_tokens if answer >= 0 else 0

    @property
    def spent(self) -> Spent:
        """So far."""
        with self._lock:
            return Spent(self._calls, self._prompt, self._answer, self._settings.money(self._prompt, self._answer))


async def _sleep(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


class ApiClient:
    """Asks one server, or several that serve the same model, from the loop of `in_flight`.

    Args:
        settings: the addresses and their limits.
        key: sent as a bearer token; empty sends none.
        sleep: waits; tests give their own.
        clock: monotonic seconds.

    Raises:
        InputError: no base URL is set, or a cap on cost without prices.
    """

    def __init__(
        self,
        settings: ApiSettings,
        key: str = "",
        sleep: Sleep = _sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not settings.base_url:
            raise InputError(
                f"No API server is set. Set {PREFIX}BASE_URL, for example to http://127.0.0.1:8000/v1, and "
                f"{PREFIX}KEY where the server wants a key; or write both into the secrets file that `judgescope "
                "doctor` names."
            )
        self.settings, self.purse = settings, Purse(settings)
        self._key, self._sleep, self._clock = key, sleep, clock
        self._next_slot, self._failures = 0.0, 0
        self.served = ""
        """The server's name for the model of its last answer; it may not be the one that was asked for."""
        headers = {"user-agent": "judgescope", "content-type": "application/json"}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        self._addresses = Addresses(settings, headers, lambda wait, stop: self._sleep(wait, stop), clock)
        weakref.finalize(self, _let_go, self._addresses.all).atexit = False

    def __repr__(self) -> str:
        return f"ApiClient({self.settings.host!r})"

    @property
    def answered(self) -> dict[str, int]:
        """Answers of each address, by its host, so far."""
        return {one.host: one.answers for one in self._addresses.all}

    async def ask(self, model: str, question: Question, way: Way, stop: asyncio.Event) -> ApiReply:
        """The server's answer, after as many tries as the settings allow.

        Raises:
            CallError: there is none; `FieldError` where the server refuses a field of the request.
            ModelError: no call could be answered.
            OutOfCalls: the cap is reached.
            Stopped: `stop` was set.
        """
        if way.room and not question.labels:
            question = replace(question, max_tokens=question.max_tokens + way.room)
        tries, tried, turn = self.settings.retries + 1, 0, 0.0
        moves, address = len(self._addresses.all) - 1, None
        while True:
            await self._pace(stop, turn)
            address = await self._addresses.take(model, stop, address)
            try:
                return await self._try(address, model, question, way)
            except _Again as fault:
                self._check_wait(address, fault)
                if fault.gone and moves and self._addresses.open_beside(address):
                    moves, turn = moves - 1, 0.0  # another address takes the call; it is no failed try
                    continue
                tried += 1
                if tried == tries:
                    self._failed(str(fault), counts=True)
                    raise FaultError(f"{fault}; tried {tries} times" if tries > 1 else str(fault)) from None
                turn = self._next_try(address, fault, tried)
            finally:
                self._addresses.give(address)

    async def _try(self, address: Address, model: str, question: Question, way: Way) -> ApiReply:
        """One request: set aside, sent, and settled."""
        taken, halvings = self.purse.take(question), address.window.halvings
        try:
            reply = await self._once(address, model, question, way)
        except _Again as fault:
            if not fault.billed:
                self.purse.settle(question, taken, 0, 0)
            if fault.busy:
                address.window.refused(halvings)
            address.failed(self._clock(), gone=fault.gone)
            raise
        except CallError as fault:
            self.purse.settle(question, taken, 0, 0)
            address.answered(counts=False)
            self._failed(str(fault), counts=not isinstance(fault, FieldError))
            raise
        self.purse.settle(question, taken, reply.prompt_tokens, reply.answer_tokens)
        address.answered(counts=True)
        self._failures, self.served = 0, reply.model
        return reply

    def models(self) -> list[str]:
        """Names of the models that the first address offers; empty where it does not say. Not for the loop."""
        return wait_for(self._addresses.all[0].models())

    def look(self) -> dict[str, list[str] | None]:
        """Models of each address, by its base URL; None where it does not answer or is not well. Not for the loop."""

        async def look() -> list[bool]:
            return await asyncio.gather(*(one.look() for one in self._addresses.all))

        well = wait_for(look())
        return {
            one.url: sorted(one.offers or {}) if ok else None for one, ok in zip(self._addresses.all, well, strict=True)
        }

    def redacted(self, text: str) -> str:
        """A server's words on one line, without the key, cut to 200 characters."""
        shown = " ".join(text.split())
        shown = shown.replace(self._key, "[key]") if self._key else shown
        return shown if len(shown) <= 200 else f"{shown[:199]}…"

    def close(self) -> None:
        """Release the connections."""
        wait_for(_close(self._addresses.all))

    async def _once(self, address: Address, model: str, question: Question, way: Way) -> ApiReply:
        start = self._clock()
        try:
            # escaped to ASCII, so that half a character in a response reaches the server and not an exception
            body = json.dumps(question.body(model, way)).encode("ascii")
            async with address.post(f"/{question.path(way)}", body) as response:
                content = await self._read(response, start)
        except httpx2.ConnectTimeout:
            raise _Again(f"no connection to {address.host} (ConnectTimeout)", gone=True) from None
        except httpx2.TimeoutException:
            raise _Again(self._too_slow(), billed=True) from None
        except httpx2.HTTPError as error:
            raise _Again(f"no connection to {address.host} ({type(error).__name__})", gone=True) from None
        if response.status_code != 200:
            raise await self._refusal(address, response, content, model)
        try:
            reply = question.reply(content, way)
        except NoProbabilitiesError as error:  # another try would bring the same
            raise CallError(str(error)) from None
        except AnswerError as error:
            raise _Again(str(error), billed=True) from None
        return ApiReply(**{**reply.__dict__, "seconds": self._clock() - start})

    async def _read(self, response: httpx2.Response, start: float) -> bytes:
        """The whole answer, within the time limit: a server that sends a byte now and then does not hold a call."""
        content = bytearray()
        async for part in response.aiter_bytes():
            content += part
            if len(content) > MOST_BYTES:
                raise CallError(f"the server's answer is longer than {MOST_BYTES >> 20} MB")
            if self._clock() - start > self.settings.timeout_seconds:
                raise _Again(self._too_slow(), billed=True)
        return bytes(content)

    def _too_slow(self) -> str:
        return f"no answer within {self.settings.timeout_seconds:g} s"

    async def _refusal(self, address: Address, response: httpx2.Response, content: bytes, model: str) -> Exception:
        """Meaning of an error status: another try, this call unread, or the end of the run."""
        status, said = response.status_code, self.redacted(complaint_of(content))
        quoted = f": {said}" if said else ""
        if status in _AGAIN or (status >= 500 and status != _NOT_BUILT):
            wait = _wait_of(response, time.time())
            return _Again(f"the server answered {status}{quoted}", wait, busy=status in {429, 503})
        if status == _NOT_BUILT:
            return ModelError(f"The server {address.host} does not offer this for {model} ({status}){quoted}.")
        if status in _FOR_ALL:
            where = f"Set {PREFIX}KEY (or key in the secrets file) to a key of this server."
            return ModelError(f"The server {address.host} {_FOR_ALL[status]} ({status}){quoted}. {where}")
        if status in {404, 405} or (
            status == 400 and "model" in said.lower() and "not" in said.lower() and model in said
        ):
            return ModelError(await self._no_model(address, model, status, quoted))
        if 300 <= status < 400:
            return ModelError(
                f"The server {address.host} redirects ({status}), which is not followed since it would carry "
                f"the key elsewhere. Set {PREFIX}BASE_URL to the address it is really at."
            )
        if status in {400, 422}:
            return FieldError(f"the server refused the prompt ({status}){quoted}")
        return CallError(f"the server refused the prompt ({status}){quoted}")

    async def _no_model(self, address: Address, model: str, status: int, quoted: str) -> str:
        there = await address.models()
        has = f" It has: {', '.join(there[:10])}{' …' if len(there) > 10 else ''}." if there else ""
        return (
            f"The server {address.host} has no model {model!r} at {address.url} ({status}){quoted}."
            f"{has} Check the model's name, and that {PREFIX}BASE_URL ends where /chat/completions follows (often /v1)."
        )

    def _failed(self, reason: str, *, counts: bool) -> None:
        """Count a call without an answer.

        Raises:
            ModelError: too many in a row.
        """
        self._failures += counts
        if self._failures >= FAILURES_IN_A_ROW:
            raise ModelError(
                f"{FAILURES_IN_A_ROW} calls in a row had no answer from {self.settings.hosts}; the last: {reason}. "
                "Nothing more was sent and finished calls are kept; resume when the server answers."
            )

    def _check_wait(self, address: Address, fault: _Again) -> None:
        """See that the server asks for no longer wait than is allowed; else it is left for that time.

        Raises:
            ModelError: it does, and every further call would meet the same.
        """
        most = self.settings.most_wait_seconds
        if fault.wait <= most:
            return
        if not self._addresses.open_beside(address):
            raise ModelError(
                f"{address.host}: {fault}; it asks to wait {fault.wait:,.0f} s, longer than the {most:g} s "
                f"allowed ({PREFIX}MOST_WAIT_SECONDS). Nothing more was sent and finished calls are kept; resume "
                "after that time."
            )
        address.leave(self._clock(), fault.wait)

    def _next_try(self, address: Address, fault: _Again, tried: int) -> float:
        """When to try again: after what the server asks for, else twice as long each time.

        All calls wait where the server says for how long, and where it is too busy again for one that has waited;
        until then its smaller window is the answer. What another address can take does not wait.
        """
        most = self.settings.most_wait_seconds
        turn = self._clock() + (fault.wait if fault.wait >= 0 else min(most, FIRST_WAIT_S * 2 ** (tried - 1)))
        if fault.busy and fault.wait <= most and (fault.wait >= 0 or tried > 1):
            address.not_before = max(address.not_before, turn)
        return 0.0 if self._addresses.open_beside(address) else turn

    async def _pace(self, stop: asyncio.Event, turn: float) -> None:
        """Wait for this call's turn: its own, and the next free place in the minute.

        Raises:
            Stopped: the run was stopped meanwhile.
        """
        if per_minute := self.settings.requests_per_minute:
            turn = max(turn, self._next_slot)
            self._next_slot = max(turn, self._clock()) + 60 / per_minute
        while not stop.is_set():
            wait = turn - self._clock()
            if wait <= 0:
                return
            await self._sleep(wait, stop)
        raise Stopped

    def raw(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """JSON at a path beside the base URL's `/v1`: of the tokenizer, the version; None where there is none.

        It takes no try from the purse, so it is for what costs nothing. Not for the loop.
        """
        return wait_for(self._addresses.all[0].beside(path, body))


async def _close(addresses: Sequence[Address]) -> None:
    await asyncio.gather(*(one.close() for one in addresses))


def _let_go(addresses: Sequence[Address]) -> None:
    """Close the connections of a client that nobody holds any more."""
    if any(one.connected for one in addresses):
        asyncio.run_coroutine_threadsafe(_close(addresses), event_loop())


def _wait_of(response: httpx2.Response, now: float) -> float:
    """Seconds that `Retry-After` asks for, given as seconds or as a date; negative where there is none."""
    said: Any = response.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(said).timestamp() - now
        except (TypeError, ValueError):
            return -1.0
    return max(0.0, seconds) if math.isfinite(seconds) else -1.0

"""Addresses that serve one model: how many requests each may have, which one is next, and which are left for a while.

Each address has a window of requests under way, as a connection has in congestion control (Jacobson 1988; Chiu and
Jain 1989): it grows by one with each answer until the server first refuses for being busy, from then on by one with
each window of answers, and is halved by such a refusal, once for all that were sent before the halving.

Among several addresses the least loaded is next. One that cannot be reached, or fails several times in a row, is left
for a while that doubles, and asked for its health before it is used again. All must offer the same model.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx2

from engine.core.errors import ModelError
from engine.core.settings import PREFIX, ApiSettings, is_loopback
from engine.inference.in_flight import Stopped

FIRST_WINDOW = 16
"""Requests under way at an address before anything is known of it."""
POOL = 16
"""Connections of one pool: it looks at all of them for each request, so many small ones cost less than a large one."""
FIRST_LEAVE_S, LONGEST_LEAVE_S = 1.0, 60.0
FAULTS_TO_LEAVE = 3
"""So many failed requests with no answer between them, and an address is left where there are others."""
BESIDE_S = 10.0
"""Longest wait for the tokenizer's or the version's answer [s]."""
LOOK_S = 5.0
"""Longest wait for a server to say which models it has, or how it is [s]."""

Sleep = Callable[[float, asyncio.Event], Awaitable[object]]
"""Waits so many seconds, or until the event is set."""


class Window:
    """Requests that may be under way at a time: between 1 and `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = float(min(most, FIRST_WINDOW))
        self._opening = True
        self.halvings = 0
        """Times it was halved; a request remembers the number from when it was sent."""

    @property
    def size(self) -> int:
        """Whole requests."""
        return int(self._size)

    def answered(self, under_way: int) -> None:
        """An answer came; the window grows where at least half of it is in use."""
        if 2 * under_way >= self._size:
            self._size = min(float(self._most), self._size + (1.0 if self._opening else 1.0 / self._size))

    def refused(self, halvings: int) -> None:
        """The server was too busy for a request that was sent after so many halvings."""
        if halvings == self.halvings:
            self.halvings += 1
            self._opening = False
            self._size = max(1.0, self._size / 2)


@dataclass
class _Pool:
    http: httpx2.AsyncClient
    under_way: int = 0


@lru_cache(maxsize=2)
def _tls(trust_env: bool) -> ssl.SSLContext:
    """Read once, since the certificates of the system take a while."""
    return httpx2.create_ssl_context(trust_env=trust_env)


class Address:
    """One server.

    Attributes:
        url: base URL, as the user gave it.
        host: host, and port where one is named.
        under_way: requests sent and not answered yet.
        sent: requests so far.
        not_before: earliest time of the next request [s of the clock].
        answers: answers so far.
        left_until: when it is asked for its health; 0 where it is in use.
        offers: each model's name and the weights behind it, where the server tells; None where it does not say.
    """

    def __init__(self, url: str, settings: ApiSettings, headers: Mapping[str, str]) -> None:
        self.url, self.host = url, urlsplit(url).netloc.lower()
        self.window = Window(settings.concurrency)
        self.under_way = self.sent = self.answers = self._faults = 0
        self.not_before = self.left_until = self._leave = 0.0
        self.offers: dict[str, str] | None = None
        self.looking: asyncio.Task[None] | None = None
        self._settings, self._headers = settings, dict(headers)
        self._pools: list[_Pool] = []

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[httpx2.Response]:
        """Send a body; the answer is still to be read."""
        pool = self._pool()
        pool.under_way += 1
        try:
            async with pool.http.stream("POST", f"{self.url}{path}", content=body) as response:
                yield response
        finally:
            pool.under_way -= 1

    @property
    def connected(self) -> bool:
        """It may hold connections."""
        return bool(self._pools)

    async def close(self) -> None:
        """Release the connections."""
        pools, self._pools = self._pools, []
        for pool in pools:
            await pool.http.aclose()

    def _pool(self) -> _Pool:
        """The first pool with room."""
        for pool in self._pools:
            if pool.under_way < POOL:
                return pool
        limit, own = self._settings.timeout_seconds, is_loopback(self.url)
        http = httpx2.AsyncClient(
            headers=self._headers,
            verify=_tls(not own),
            timeout=httpx2.Timeout(limit, connect=min(10.0, limit)),
            limits=httpx2.Limits(max_connections=POOL + 2, max_keepalive_connections=POOL + 2),  # 2: for a look
            follow_redirects=False,  # a redirect would carry the key to another host
            trust_env=not own,
        )
        self._pools.append(_Pool(http))
        return self._pools[-1]

    def answered(self, *, counts: bool) -> None:
        """It answered; `counts` where that was an answer to the question."""
        self.answers += counts
        self._faults, self._leave = 0, 0.0
        self.window.answered(self.under_way)

    def failed(self, now: float, *, gone: bool) -> None:
        """A request failed; `gone` where there is no connection."""
        self._faults += 1
        if now >= self.left_until and (gone or self._faults >= FAULTS_TO_LEAVE):
            self.leave(now)  # once, though hundreds of requests may fail with it

    def leave(self, now: float, seconds: float = 0.0) -> None:
        """Leave it for so many seconds, by default for twice as long as the last time."""
        self._leave = min(LONGEST_LEAVE_S, max(FIRST_LEAVE_S, 2 * self._leave))
        self.left_until = now + (seconds or self._leave)

    async def look(self) -> bool:
        """Ask for its health, by `/health` or else `/models`, and for its models; true where it answers."""
        parts, http = urlsplit(self.url), self._pool().http
        try:
            async with asyncio.timeout(LOOK_S):
                health = await http.get(f"{parts.scheme}://{parts.netloc}/health")
                listed = await http.get(f"{self.url}/models")
        except (httpx2.HTTPError, TimeoutError):
            return False
        self.offers = _offers(listed)
        unhealthy = health.status_code >= 500 or health.status_code == 429  # 404: there is no such page
        return not unhealthy and listed.status_code < 500

    async def beside(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """JSON at a path beside the base URL's `/v1`; None where there is none."""
        url, http = f"{self.url.removesuffix('/v1')}/{path}", self._pool().http
        try:
            async with asyncio.timeout(BESIDE_S):
                found = await (http.get(url) if body is None else http.post(url, json=body))
            return found.json() if found.status_code == 200 else None
        except (httpx2.HTTPError, TimeoutError, ValueError):
            return None

    async def models(self) -> list[str]:
        """Names of its models; empty where it does not say."""
        try:
            return sorted(_offers(await self._pool().http.get(f"{self.url}/models")) or {})
        except httpx2.HTTPError:
            return []


class Addresses:
    """All addresses of one judge; used on the event loop alone.

    Args:
        settings: the addresses and how many requests may be under way over all of them.
        headers: sent with every request.
        sleep: waits.
        clock: monotonic seconds.
    """

    def __init__(
        self, settings: ApiSettings, headers: Mapping[str, str], sleep: Sleep, clock: Callable[[], float]
    ) -> None:
        self.all = [Address(url, settings, headers) for url in settings.addresses]
        self._most, self._under_way = settings.concurrency, 0
        self._sleep, self._clock = sleep, clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._first_look: asyncio.Future[list[None]] | None = None
        self._alike: set[str] = set()

    async def take(self, model: str, stop: asyncio.Event, failed: Address | None = None) -> Address:
        """The next address, when it has room; to be given back.

        Args:
            model: its name.
            stop: ends the wait.
            failed: the one that failed this call, asked again only where no other has room.

        Raises:
            ModelError: the addresses do not serve the same model.
            Stopped: the run was stopped meanwhile.
        """
        taken = False
        try:
            await self._look(model)
            while not stop.is_set():
                now = self._clock()
                address = self._free(now, failed)
                if address is not None:
                    taken = True
                    address.under_way += 1
                    address.sent += 1
                    self._under_way += 1
                    return address
                if (wait := self._wait(now)) > 0:
                    await self._sleep(wait, stop)
                else:
                    await self._turn()
            raise Stopped
        finally:
            if not taken:
                self._wake()  # whoever leaves the line lets the next one look

    def give(self, address: Address) -> None:
        """Give an address back."""
        address.under_way -= 1
        self._under_way -= 1
        self._wake()

    def open_beside(self, address: Address) -> bool:
        """True where another address can be asked at once."""
        now = self._clock()
        return any(one is not address and not one.left_until and one.not_before <= now for one in self.all)

    def _there(self) -> Sequence[Address]:
        """Those in use; where all are left, the one whose time is over first."""
        if len(self.all) == 1:
            return self.all
        return [one for one in self.all if not one.left_until] or [min(self.all, key=lambda one: one.left_until)]

    def _free(self, now: float, failed: Address | None) -> Address | None:
        if self._under_way >= self._most:
            return None
        there = [one for one in self._there() if one.not_before <= now and one.under_way < one.window.size]
        return min(there, key=lambda one: (one is failed, one.under_way, one.sent), default=None)

    def _wait(self, now: float) -> float:
        """Seconds until an address may be asked again; 0 where one may be and has no room."""
        return min(one.not_before for one in self._there()) - now

    async def _turn(self) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        await place

    def _wake(self) -> None:
        """Let as many look as there is room for; who still has to wait for the time does so itself."""
        room = sum(max(0, one.window.size - one.under_way) for one in self._there())
        for _ in range(min(room, self._most - self._under_way, len(self._waiting))):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)

    async def _look(self, model: str) -> None:
        """Before the first request look at all, later at those whose time is over.

        Raises:
            ModelError: they do not serve the same model.
        """
        if len(self.all) == 1:
            return
        if self._first_look is None:
            self._first_look = asyncio.gather(*map(self._look_soon, self.all))
        if not self._first_look.done():
            await asyncio.shield(self._first_look)
        now = self._clock()
        for one in self.all:
            if one.left_until and one.left_until <= now:
                self._look_soon(one)
        if all(one.left_until for one in self.all):
            await asyncio.shield(asyncio.gather(*map(self._look_soon, self.all)))
        if model not in self._alike:
            self._check_alike(model)
            self._alike.add(model)

    def _look_soon(self, one: Address) -> asyncio.Task[None]:
        """The look at an address that is going on, or a new one."""
        if one.looking is None or one.looking.done():
            one.looking = asyncio.ensure_future(self._look_at(one))
        return one.looking

    async def _look_at(self, one: Address) -> None:
        if await one.look():
            one.left_until = 0.0
            self._alike.clear()
            self._wake()
        else:
            one.leave(self._clock())

    def _check_alike(self, model: str) -> None:
        known = [(one, served) for one in self.all if (served := _served(one.offers, model)) is not None]
        for one, served in known[1:]:
            first, there = known[0]
            if served != there:
                raise ModelError(
                    f"The addresses of one judge must serve the same model: {first.host} has {there}, {one.host} has "
                    f"{served}. Take one of the two out of {PREFIX}BASE_URL, or start its server with the same model."
                )


def _served(offers: Mapping[str, str] | None, model: str) -> str | None:
    """What a server has for this name, for people; None where it does not say."""
    if offers is None:
        return None
    if model in offers:
        return f"{model} ({offers[model]})" if offers[model] else model
    return ", ".join(sorted(offers)[:10]) or "no model"


def _offers(listed: httpx2.Response) -> dict[str, str] | None:
    """Names of models and the weights behind each (`root` at vLLM), from a list; None where it is none."""
    try:
        found = listed.json()["data"]
        return {str(one["id"]): str(one.get("root") or "") for one in found}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None

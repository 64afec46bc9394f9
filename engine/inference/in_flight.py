"""Many requests under way at once on one event loop, behind a face that waits for them.

The loop runs in a thread of its own, so that the caller can look at its checkpoint, answer another question or write
what has come while hundreds of requests wait for their servers.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache
from typing import Any, TypeVar

TICK_S = 0.25
"""Longest time between two looks at the checkpoint [s]: how fast Stop and an interactive question are heard."""
ENDING_S = 2.0
"""Longest wait for requests to let go after a stop [s]."""
T = TypeVar("T")
Job = Callable[[asyncio.Event], Awaitable[T]]
"""Does its work on the loop; begins nothing further once the event is set, and says so by `Stopped`."""


class Stopped(Exception):  # noqa: N818 - an outcome, not an error
    """The run was stopped while this request waited."""


_starting = threading.RLock()


@lru_cache(maxsize=1)
def _running_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_running_loop.cache_clear)  # the thread stays with the parent


def event_loop() -> asyncio.AbstractEventLoop:
    """The loop of all requests of this process; its thread starts at the first call and ends with the process."""
    with _starting:
        return _running_loop()


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of one coroutine on the loop; not to be called from the loop itself."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()


def run_all(
    jobs: Sequence[Job[T]],
    at_once: int,
    keep: Callable[[list[tuple[int, T]]], object],
    tick: Callable[[], None],
) -> None:
    """Run every job; the first that raises ends the rest, and so does an exception of `tick`.

    Where a job raises, what waits is not begun, what is under way is waited for and kept, and then the error is raised
    here. Where `tick` raises, or Ctrl-C is pressed, all that is under way is let go at once.

    Args:
        jobs: each is called once, on the loop.
        at_once: jobs under way at a time.
        keep: takes the place and result of those that ended; called in this thread, with many at a time.
        tick: called in this thread after each `keep`, at least every `TICK_S`.
    """
    if not jobs:
        return
    ended: deque[tuple[int, T]] = deque()
    over = threading.Event()
    running = asyncio.run_coroutine_threadsafe(_all(jobs, at_once, ended, over), event_loop())

    def hand_over() -> None:
        if batch := [ended.popleft() for _ in range(len(ended))]:
            keep(batch)

    try:
        while not over.wait(TICK_S):
            hand_over()
            tick()
        hand_over()
        running.result()
        tick()
    finally:
        if not over.is_set():
            running.cancel()
            over.wait(ENDING_S)
        hand_over()


async def _all(jobs: Sequence[Job[T]], at_once: int, ended: deque[tuple[int, T]], over: threading.Event) -> None:
    todo, stop, errors = iter(enumerate(jobs)), asyncio.Event(), list[Exception]()

    async def work() -> None:
        for place, job in todo:
            try:
                ended.append((place, await job(stop)))
            except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
                errors.append(error)
                stop.set()
            if stop.is_set():
                return

    try:
        await asyncio.gather(*(work() for _ in range(min(at_once, len(jobs)))))
    finally:
        over.set()
    if errors:
        raise errors[0]

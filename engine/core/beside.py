"""A thread beside the caller's: the next part is made ready, and the last one written, while a model works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
MOST_WAITING = 2
"""Pieces of work that wait for the thread before the caller waits, so that they do not pile up in memory."""


class Beside:
    """A thread that does what it is given, in order; used as a context, which ends when all of it is done.

    Args:
        on: false does everything at once in the caller's own thread.
    """

    def __init__(self, *, on: bool = True) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="beside") if on else None
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Beside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the thread; its error is raised unless another one is under way."""
        if self._pool:
            self._pool.shutdown()
        if kind is None:
            self._raise_errors(len(self._waiting))

    def later(self, work: Callable[[], None]) -> None:
        """Have something done that nobody waits for; an error of earlier work is raised here or at the end."""
        if self._pool is None:
            return work()
        self._waiting.append(self._pool.submit(work))
        while self._waiting and (self._waiting[0].done() or len(self._waiting) > MOST_WAITING):
            self._raise_errors(1)
        return None

    def ahead(self, items: Iterable[T], prepare: Callable[[T], U]) -> Iterator[U]:
        """Each item prepared, the next one while the caller works on this one.

        An error of `prepare` is raised where its item would have come. Only one item is prepared ahead.
        """
        if self._pool is None:
            yield from map(prepare, items)
            return
        ready: Future[U] | None = None
        for item in items:
            following = self._pool.submit(prepare, item)
            if ready is not None:
                yield ready.result()
            ready = following
        if ready is not None:
            yield ready.result()

    def _raise_errors(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft().result()

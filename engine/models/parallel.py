"""Work that waits for somebody else, done by a few threads while the caller keeps looking at its checkpoint."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

TICK_S = 0.25
"""Longest time between two looks at the checkpoint [s]: how fast Stop and an interactive question are heard."""

Task = Callable[[threading.Event], None]
"""Does its work and keeps its result itself; gives up when the event is set."""


def run_all(tasks: Sequence[Task], threads: int, tick: Callable[[], None]) -> None:
    """Run every task; the first that raises stops the rest, and so does an exception of `tick`.

    The threads are daemons: a task that is still waiting when the caller gives up ends by itself and keeps what it
    got, and it holds up neither the caller nor the end of the process.

    Args:
        tasks: each is called once, from any thread.
        threads: how many at a time.
        tick: called in the caller's thread after each finished task, and while none finishes.
    """
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()
    for task in tasks:
        todo.put(task)

    def work() -> None:
        while not stop.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                task(stop)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                ended.put(error)
                return
            ended.put(None)

    for _ in range(min(threads, len(tasks))):
        threading.Thread(target=work, daemon=True).start()
    left = len(tasks)
    try:
        while left:
            try:
                error = ended.get(timeout=TICK_S)
            except queue.Empty:
                tick()
                continue
            if error is not None:
                raise error
            left -= 1
            tick()
    finally:
        stop.set()

"""The real worker in a thread: the same lines in and out, without the seconds a new process takes to import it."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress

from engine.core.settings import get_settings


class NearWorker:
    """Stands for the worker's process; it ends when its input closes, at its next checkpoint."""

    def __init__(self, errors: object = None) -> None:
        from engine.jobs.worker import Worker

        (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()
        self.stdin = os.fdopen(write_in, "w", encoding="utf-8")
        self.stdout = os.fdopen(read_out, encoding="utf-8")
        source, sink = os.fdopen(read_in, encoding="utf-8"), os.fdopen(write_out, "w", encoding="utf-8")
        worker = Worker(source, sink, get_settings())

        def serve() -> None:
            with suppress(BrokenPipeError):
                worker.serve()
            with suppress(BrokenPipeError):
                sink.close()

        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        """None while it serves."""
        return None if self._thread.is_alive() else 0

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not by then.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise subprocess.TimeoutExpired("the worker's thread", timeout or 0.0)
        return 0

    def kill(self) -> None:
        """A thread cannot be killed: it goes on to its next checkpoint, unheard."""

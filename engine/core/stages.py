"""Seconds of this process by stage, for a measurement; until `watch` is called a stage costs one comparison."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

BESIDE = "beside: "
"""Begins the name of a stage that ran in another thread than the main one, beside it."""
_LOCK = threading.Lock()
_SECONDS: defaultdict[str, float] = defaultdict(float)
_watched: list[bool] = []


def watch() -> None:
    """Measure from now on."""
    _watched.append(True)


def watching() -> bool:
    """True where stages are measured."""
    return bool(_watched)


def record(name: str, seconds: float) -> None:
    """Add seconds to a stage."""
    with _LOCK:
        _SECONDS[name] += seconds


def seconds_by_stage() -> dict[str, float]:
    """What was measured so far [s]."""
    with _LOCK:
        return dict(_SECONDS)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Seconds of this block, on the wall; blocks must not stand in one another."""
    if not _watched:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        aside = threading.current_thread() is not threading.main_thread()
        record(f"{BESIDE}{name}" if aside else name, time.perf_counter() - began)

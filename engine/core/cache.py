"""Every judge call is kept by content, so that an interrupted study resumes and a repeated one is free.

The key covers the model's fingerprint, the token ids and the label ids (or the length a reply may have);
failures are never stored.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def call_key(fingerprint: str, prompt: Sequence[int], label_ids: Sequence[Sequence[object]]) -> str:
    """Digest of one label-probability call."""
    digest = hashlib.sha256(fingerprint.encode())
    digest.update(repr([list(ids) for ids in label_ids]).encode())
    digest.update(np.asarray(prompt, dtype="<u4").tobytes())
    return digest.hexdigest()


def reply_key(fingerprint: str, prompt: Sequence[int], max_new_tokens: int) -> str:
    """Digest of one greedy reply."""
    return call_key(f"{fingerprint}-greedy-{max_new_tokens}", prompt, ())


class CallCache:
    """SQLite in WAL mode: many readers, one writer, safe across processes and threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=30, check_same_thread=False)
        self._lock = threading.Lock()
        with self._lock, self._db:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, probabilities BLOB NOT NULL) WITHOUT ROWID"
            )
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text TEXT NOT NULL, tokens INTEGER NOT NULL)"
                " WITHOUT ROWID"
            )

    def get_many(self, keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """The stored rows among `keys`: raw label probabilities, shape (L,)."""
        rows = self._find("SELECT key, probabilities FROM calls", keys)
        return {key: np.frombuffer(blob, dtype="<f8") for key, blob in rows}

    def get_replies(self, keys: Sequence[str]) -> dict[str, tuple[str, int]]:
        """The stored replies among `keys`: text and tokens."""
        rows = self._find("SELECT key, text, tokens FROM replies", keys)
        return {key: (text, tokens) for key, text, tokens in rows}

    def _find(self, query: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        with self._lock:
            for start in range(0, len(keys), 500):  # SQLite's limit on bound values is 999 in old builds
                part = list(keys[start : start + 500])
                marks = ",".join("?" * len(part))
                found += self._db.execute(f"{query} WHERE key IN ({marks})", part)
        return found

    def put_many(self, rows: Iterable[tuple[str, NDArray[np.float64]]]) -> None:
        """Store raw label probabilities; a key that is already there is left as it is."""
        with self._lock, self._db:
            self._db.executemany(
                "INSERT OR IGNORE INTO calls VALUES (?, ?)",
                [(key, np.asarray(row, dtype="<f8").tobytes()) for key, row in rows],
            )

    def put_replies(self, rows: Iterable[tuple[str, tuple[str, int]]], *, replace: bool = False) -> None:
        """Store replies, text and tokens; a key that is already there is left as it is, or replaced."""
        with self._lock, self._db:
            self._db.executemany(
                f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO replies VALUES (?, ?, ?)",
                [(key, text, n) for key, (text, n) in rows],
            )

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()


@lru_cache(maxsize=4)
def call_cache(path: Path) -> CallCache:
    """The cache at this path, opened once for all that use it."""
    return CallCache(path)

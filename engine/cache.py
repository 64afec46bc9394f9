"""Every judge call is kept by content, so that an interrupted study resumes and a repeated one is free.

The key covers the model's fingerprint, the token ids and the label ids; failures are never stored.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def call_key(fingerprint: str, prompt: Sequence[int], label_ids: Sequence[Sequence[int]]) -> str:
    """Digest of one label-probability call."""
    digest = hashlib.sha256(fingerprint.encode())
    digest.update(repr([list(ids) for ids in label_ids]).encode())
    digest.update(np.asarray(prompt, dtype="<u4").tobytes())
    return digest.hexdigest()


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

    def get_many(self, keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """The stored rows among `keys`: raw label probabilities, shape (L,)."""
        found: dict[str, NDArray[np.float64]] = {}
        with self._lock:
            for start in range(0, len(keys), 500):  # SQLite's limit on bound values is 999 in old builds
                part = list(keys[start : start + 500])
                marks = ",".join("?" * len(part))
                query = f"SELECT key, probabilities FROM calls WHERE key IN ({marks})"
                for key, blob in self._db.execute(query, part):
                    found[key] = np.frombuffer(blob, dtype="<f8")
        return found

    def put_many(self, rows: Iterable[tuple[str, NDArray[np.float64]]]) -> None:
        """Store raw label probabilities; a key that is already there is left as it is."""
        with self._lock, self._db:
            self._db.executemany(
                "INSERT OR IGNORE INTO calls VALUES (?, ?)",
                [(key, np.asarray(row, dtype="<f8").tobytes()) for key, row in rows],
            )

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()

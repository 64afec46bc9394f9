"""Every judge call is kept by content, so that an interrupted study resumes and a repeated one is free.

The key covers the model's fingerprint, the token ids and the label ids (or the length a reply may have);
failures are never stored.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import WriteError
from engine.core.files import make_folder, writing

T = TypeVar("T")


def call_key(fingerprint: str, prompt: Sequence[int], label_ids: Sequence[Sequence[object]]) -> str:
    """Digest of one label-probability call."""
    digest = _begun(fingerprint, tuple(map(tuple, label_ids))).copy()
    digest.update(np.asarray(prompt, dtype="<u4").tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=256)
def _begun(fingerprint: str, label_ids: tuple[tuple[object, ...], ...]) -> hashlib._Hash:
    digest = hashlib.sha256(fingerprint.encode())
    digest.update(repr([list(ids) for ids in label_ids]).encode())
    return digest


def reply_key(fingerprint: str, prompt: Sequence[int], max_new_tokens: int) -> str:
    """Digest of one greedy reply."""
    return call_key(f"{fingerprint}-greedy-{max_new_tokens}", prompt, ())


_TABLES = (
    "CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, probabilities BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text TEXT NOT NULL, tokens INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "SELECT key, probabilities FROM calls LIMIT 0",
    "SELECT key, text, tokens FROM replies LIMIT 0",
)
_DAMAGED = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # a table or a column is not what it was made as
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
    }
)


class CallCache:
    """SQLite in WAL mode: many readers, one writer, safe across processes and threads.

    A file that is damaged is set aside with a message on stderr, and a new one is begun: the calls are made again.

    Raises:
        WriteError: from every method, where the file can be neither opened nor written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._inode = 0
        make_folder(path.parent)
        self._do(lambda _: None)

    def get_many(self, keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """The stored rows among `keys`: raw label probabilities, shape (L,)."""

        def read(db: sqlite3.Connection) -> dict[str, NDArray[np.float64]]:
            rows = _select(db, "SELECT key, probabilities FROM calls", keys)
            return {key: np.frombuffer(blob, dtype="<f8") for key, blob in rows}

        return self._do(read)

    def get_replies(self, keys: Sequence[str]) -> dict[str, tuple[str, int]]:
        """The stored replies among `keys`: text and tokens."""

        def read(db: sqlite3.Connection) -> dict[str, tuple[str, int]]:
            rows = _select(db, "SELECT key, text, tokens FROM replies", keys)
            if not all(isinstance(text, str) and isinstance(tokens, int) for _, text, tokens in rows):
                raise ValueError("a reply that is no text")
            return {key: (text, tokens) for key, text, tokens in rows}

        return self._do(read)

    def put_many(self, rows: Iterable[tuple[str, NDArray[np.float64]]]) -> None:
        """Store raw label probabilities; a key that is already there is left as it is."""
        stored = [(key, np.asarray(row, dtype="<f8").tobytes()) for key, row in rows]
        self._do(lambda db: db.executemany("INSERT OR IGNORE INTO calls VALUES (?, ?)", stored))

    def put_replies(self, rows: Iterable[tuple[str, tuple[str, int]]], *, replace: bool = False) -> None:
        """Store replies, text and tokens; a key that is already there is left as it is, or replaced."""
        stored = [(key, text, n) for key, (text, n) in rows]
        query = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO replies VALUES (?, ?, ?)"
        self._do(lambda db: db.executemany(query, stored))

    def close(self) -> None:
        """Release the file; the next use opens it again."""
        with self._lock:
            self._forget()

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Work in one transaction; where the file shows damage, once more with a new one."""
        with self._lock:
            try:
                return self._try(work)
            except (sqlite3.Error, ValueError, TypeError) as error:
                if not self._damaged(error):
                    raise self._refused(error) from error
                self._set_aside(error)
            try:
                return self._try(work)
            except sqlite3.Error as error:
                raise self._refused(error) from error

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._db is None:
            self._db = sqlite3.connect(self._path, timeout=30, check_same_thread=False)
            self._inode = _inode(self._path)
            with self._db:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
                for query in _TABLES:
                    self._db.execute(query)
        with self._db:
            return work(self._db)

    def _damaged(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return True  # bytes that are no text, or no row of numbers
        no_file = self._path.exists() and not self._path.is_file()
        return no_file or code == sqlite3.SQLITE_IOERR_SHORT_READ or code & 0xFF in _DAMAGED

    def _refused(self, error: Exception) -> WriteError:
        return WriteError(
            f"The cache of judge calls {self._path} cannot be used: {error}. Free space on its disk and see to your "
            "right to write there, or name another folder in JUDGESCOPE_CACHE. What is stored is kept."
        )

    def _set_aside(self, why: Exception) -> None:
        """Give the damaged file another name, unless another process has done so since it was opened."""
        self._forget()
        if self._inode not in (0, _inode(self._path)):
            return
        aside = self._path.with_name(f"{self._path.stem}-damaged-{secrets.token_hex(3)}{self._path.suffix}")
        with writing(aside):
            self._path.rename(aside)
            for end in ("-wal", "-shm"):
                if (beside := Path(f"{self._path}{end}")).exists():
                    beside.rename(f"{aside}{end}")
        print(
            f"The cache of judge calls {self._path} is damaged ({why}). It is set aside as {aside.name}, and a new one "
            "is begun: calls are made again where they are needed.",
            file=sys.stderr,
        )

    def _forget(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()


def _select(db: sqlite3.Connection, query: str, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(keys), 500):  # SQLite's limit on bound values is 999 in old builds
        part = list(keys[start : start + 500])
        marks = ",".join("?" * len(part))
        rows += db.execute(f"{query} WHERE key IN ({marks})", part)
    return rows


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


@lru_cache(maxsize=4)
def call_cache(path: Path) -> CallCache:
    """The cache at this path, opened once for all that use it."""
    return CallCache(path)

"""Rows the user leaves out, with undo and redo. A value: every change gives a new one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

Rows = tuple[tuple[int, str], ...]
"""(row, reason), in the order of the rows."""

_STEPS = 100
_RANGE = re.compile(r"(\d{1,7})(?:\s*[-–]\s*(\d{1,7}))?")


@dataclass(frozen=True)
class History:
    """What is left out now, and the states before and after it.

    Attributes:
        now: rows (1-based) and why each is left out.
        past: earlier states, the last one first to come back.
        future: states that were undone, the last one first to come back.
    """

    now: Rows = ()
    past: tuple[Rows, ...] = ()
    future: tuple[Rows, ...] = ()

    @property
    def rows(self) -> list[int]:
        """The rows left out now."""
        return [row for row, _ in self.now]

    def leave_out(self, rows: Iterable[int], reason: str) -> History:
        """Leave rows out as well; one that is out already keeps its reason."""
        return self._to({**dict.fromkeys(rows, reason), **dict(self.now)})

    def put_back(self, rows: Iterable[int]) -> History:
        """Take rows in again."""
        back = set(rows)
        return self._to({row: why for row, why in self.now if row not in back})

    def undo(self) -> History:
        """The state before the last change; this one where there is none."""
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (*self.future, self.now))

    def redo(self) -> History:
        """The state that was undone last; this one where there is none."""
        if not self.future:
            return self
        return History(self.future[-1], (*self.past, self.now), self.future[:-1])

    def _to(self, chosen: dict[int, str]) -> History:
        now = tuple(sorted(chosen.items()))
        if now == self.now:
            return self
        return replace(self, now=now, past=(*self.past, self.now)[-_STEPS:], future=())


def parse_rows(text: str, n_rows: int) -> list[int]:
    """Rows as people write them: "3, 7-9".

    Raises:
        ValueError: a part is no row number or range, or there is no such row; the text says which and what is allowed.
    """
    out: set[int] = set()
    for part in filter(None, (p.strip() for p in re.split(r"[,;]", text))):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= n_rows:
            raise ValueError(f"“{part[:40]}” is no row of this file. Write numbers from 1 to {n_rows}, such as 3, 7-9.")
        out.update(range(first, last + 1))
    return sorted(out)

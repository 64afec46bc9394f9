"""What is wrong with a row of the user's file: where it is, what it means, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "excluded", "warning"]


@dataclass(frozen=True)
class Problem:
    """One finding about the user's data.

    Attributes:
        severity: `error` blocks saving; `excluded` leaves the row out of the data set (it stays listed in the
            raw table); `warning` keeps the row and says what was done with it.
        where: the place in the user's words, such as "row 7 (line 12), column text".
        what: what was found there.
        fix: what the user can do.
        row: 1-based record number (the header is not counted); None where the whole file is meant.
    """

    severity: Severity
    where: str
    what: str
    fix: str
    row: int | None = None

    @property
    def column(self) -> str:
        """The column meant, as `place` wrote it; empty for the whole record or file."""
        return self.where.partition("), column ")[2] if self.row is not None else ""

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)


def place(row: int, line: int, column: str = "") -> str:
    """Name a record, and a column of it: "row 7 (line 12), column text".

    Args:
        row: 1-based record number, the header not counted.
        line: 1-based line of the file where the record starts.
        column: the column's name in the user's file; empty for the whole record.
    """
    return f"row {row} (line {line})" + (f", column {column}" if column else "")


@dataclass(frozen=True)
class ProblemGroup:
    """Findings of one kind, which call for the same thing.

    Attributes:
        severity: of all of them.
        where: "row 7 (line 12), column text" for one, "rows 3, 6, 9 and 12 more, column text" for several.
        what: what was found, where it is the same in all rows; else what was found in the first.
        fix: what the user can do.
        rows: the rows meant, in order; empty where the whole file is.
        count: findings, at least one.
    """

    severity: Severity
    where: str
    what: str
    fix: str
    rows: tuple[int, ...]
    count: int


_ORDER: dict[Severity, int] = {"error": 0, "excluded": 1, "warning": 2}


def group_problems(problems: Iterable[Problem]) -> list[ProblemGroup]:
    """Put together what is in the same column and calls for the same thing; what blocks saving comes first."""
    groups: dict[tuple[Severity, str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.severity, problem.column, problem.fix), []).append(problem)
    made = [_group(found) for found in groups.values()]
    return sorted(made, key=lambda g: _ORDER[g.severity])


def _group(found: list[Problem]) -> ProblemGroup:
    first = found[0]
    rows = tuple(sorted({p.row for p in found if p.row is not None}))
    if len(found) == 1:
        return ProblemGroup(first.severity, first.where, first.what, first.fix, rows, 1)
    column = f", column {first.column}" if first.column else ""
    where = f"{rows_text(rows)}{column}" if rows else first.where
    what = first.what
    if any(p.what != what for p in found):
        what = f"{what} (That is {f'row {first.row}' if first.row else 'the first'}; the others are alike.)"
    return ProblemGroup(first.severity, where, what, first.fix, rows, len(found))


def rows_text(rows: Sequence[int], most: int = 4) -> str:
    """Rows in words: "row 3", "rows 3 and 6", "rows 3, 6, 9 and 12 more"."""
    if len(rows) == 1:
        return f"row {rows[0]:,}"
    shown = [f"{row:,}" for row in (rows if len(rows) <= most else rows[: most - 1])]
    last = shown.pop() if len(rows) <= most else f"{len(rows) - len(shown):,} more"
    return f"rows {', '.join(shown)} and {last}"

"""What is wrong with a row of the user's file: where it is, what it means, and what to do about it."""

from __future__ import annotations

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

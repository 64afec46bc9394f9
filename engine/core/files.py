"""Files that are replaced in one step, and CSV that is safe to open in a spreadsheet: no cell is read as a formula."""

from __future__ import annotations

import csv
import os
import re
import tempfile
from pathlib import Path

import pandas as pd

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step: whoever reads it finds the old content or the new. Its folder must exist."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def safe_cell(value: object) -> object:
    """A text that a spreadsheet would evaluate gets a leading apostrophe; numbers stay numbers.

    Some spreadsheets skip leading blanks before they look for the sign, so blanks protect nothing.
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    if value.startswith(_FORMULA_STARTS) or value.lstrip(" \u00a0\ufeff").startswith(_FORMULA_STARTS):
        return "'" + value
    return value


def safe_csv(frame: pd.DataFrame) -> bytes:
    """The table as UTF-8 with a byte order mark (spreadsheets need it for letters), texts quoted."""
    safe = frame.copy()
    for column in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[column]):
            safe[column] = safe[column].map(safe_cell)
    safe.columns = pd.Index([safe_cell(str(c)) for c in safe.columns])
    text = safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    return text.encode("utf-8-sig")

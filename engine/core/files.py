"""Files that are replaced in one step, and CSV that is safe to open in a spreadsheet: no cell is read as a formula."""

from __future__ import annotations

import csv
import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from engine.core.errors import WriteError

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


_NEXT = {
    errno.ENOSPC: "Free some space there, then do it again.",
    errno.EDQUOT: "Free some of your quota there, then do it again.",
    errno.EROFS: "It is mounted read-only. Mount it for writing, or name another place.",
    errno.EACCES: "Give yourself the right to write there, or name another place.",
    errno.EPERM: "Give yourself the right to write there, or name another place.",
    errno.ENOTDIR: "A file stands where a folder should be. Move it away, or name another place.",
    errno.EEXIST: "A file stands where a folder should be. Move it away, or name another place.",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around what writes to a file or a folder: says where, why and what to do in place of the system's error.

    Raises:
        WriteError: the system refused.
    """
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        next_step = _NEXT.get(error.errno or 0, "Check the folder and its disk, then do it again.")
        raise WriteError(
            f"{path} cannot be written: {why}. {next_step} What was there before is kept; JUDGESCOPE_HOME and "
            "JUDGESCOPE_CACHE name other folders."
        ) from error


def make_folder(path: Path) -> None:
    """Make a folder with those above it, where it is not there yet.

    Raises:
        WriteError: the system refused.
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step: whoever reads it finds the old content or the new. Its folder must exist.

    Raises:
        WriteError: it could not be written; the old content is kept.
    """
    with writing(path):
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

"""A user's file as bytes, files replaced in one step, and CSV that a spreadsheet opens without reading a formula."""

from __future__ import annotations

import csv
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engine.core.errors import InputError, WriteError, listed, shown

if TYPE_CHECKING:
    import pandas as pd

MAX_FILE = 400_000_000
"""Most bytes of a file of data."""

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


os.umask(_UMASK := os.umask(0o077))  # it can only be read by setting it


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


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Replace a file in one step by what is written here: whoever reads it finds the old content or the new.

    Its folder must exist. Where the block raises, the old content stays. Who may read it stays as it was; of a new file
    the umask says it.

    Raises:
        WriteError: it could not be written; the old content is kept.
    """
    with writing(path):
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as out:
                yield out
            with suppress(PermissionError):  # a file system without rights
                Path(part).chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_UMASK)
            Path(part).replace(path)
        finally:
            Path(part).unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file by these bytes, as `replacing`."""
    with replacing(path) as out:
        out.write(data)


def read_file(path: Path, most: int = MAX_FILE) -> bytes:
    """The bytes of a file that a user names.

    Args:
        path: of a regular file; a device or a pipe could go on for ever.
        most: bytes that are read; a larger file is refused before it is opened.

    Raises:
        InputError: there is none, it is no regular file, it is larger, or it cannot be read.
    """
    name = shown(path.name)
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            kind = "a folder" if stat.S_ISDIR(about.st_mode) else "a device or a pipe"
            raise InputError(f"{name} cannot be read: it is {kind}. Name a file.")
        if about.st_size > most:
            raise InputError(
                f"{name} cannot be read: it has {about.st_size:,} bytes, and at most {most:,} are read. Split it, or "
                "leave out what is not needed."
            )
        with path.open("rb") as stream:
            return stream.read(about.st_size)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(
            f"{name} cannot be read: {getattr(error, 'strerror', None) or error}. Check its path."
        ) from None


def is_file(path: Path) -> bool:
    """True where there is such a file; a name that no file can have, such as one of 5,000 letters, names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def user_path(name: str) -> Path:
    """The path a user wrote, `~` for the home folder.

    Raises:
        InputError: no path can be written so.
    """
    try:
        if "\0" in name:
            raise InputError(f"{shown(name)} holds a NUL character, so it names no file. Check the path.")
        return Path(name).expanduser()
    except RuntimeError:
        raise InputError(f"{shown(name)} names no home folder that is here. Write the whole path.") from None


def require_inside(path: Path, roots: Sequence[Path], name: str) -> None:
    """Refuse a file or folder of a model that lies outside the roots once links are followed.

    Args:
        path: of the model, or of a file in it.
        roots: allowed folders.
        name: of the model, as its user wrote it.

    Raises:
        InputError: it lies outside.
    """
    real = path.resolve()
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        what = "is" if path == Path(name).expanduser() else f"holds {path.name}, which is"
        raise InputError(
            f"path:{listed([name])} {what} outside the folders that models may be loaded from. Move the model into one "
            "of them, or add its folder to JUDGESCOPE_MODEL_ROOTS."
        )


def is_formula(text: str) -> bool:
    """True where a spreadsheet would evaluate the text; a number it may.

    Some spreadsheets skip leading blanks before they look for the sign, so blanks protect nothing.
    """
    starts = text.startswith(_FORMULA_STARTS) or text.lstrip(" \u00a0\ufeff").startswith(_FORMULA_STARTS)
    return starts and not _NUMBER.fullmatch(text)


def _is_guarded(text: str) -> bool:
    return text.startswith("'") and is_formula(text.lstrip("'"))


def safe_cell(value: object) -> object:
    """The value with an apostrophe before it where it is a text that a spreadsheet would evaluate.

    So is a text that begins like one with its apostrophe, so that `plain_cell` undoes exactly what was done here.
    """
    return f"'{value}" if isinstance(value, str) and (is_formula(value) or _is_guarded(value)) else value


def plain_cell(text: str) -> str:
    """The text that `safe_cell` was given."""
    return text[1:] if _is_guarded(text) else text


def safe_csv(frame: pd.DataFrame) -> bytes:
    """The table as UTF-8 with a byte order mark (spreadsheets need it for letters), texts quoted."""
    import pandas as pd

    safe = frame.copy()
    for column in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[column]):
            safe[column] = safe[column].map(safe_cell)
    safe.columns = pd.Index([safe_cell(str(c)) for c in safe.columns])
    text = safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    return text.encode("utf-8-sig")

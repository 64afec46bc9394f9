"""From the bytes of a file to what a format sees of it: a table, a JSON object, or an Inspect log."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from engine.core.errors import InputError
from engine.core.json import check_depth
from engine.data.encodings import decode
from engine.data.formats.base import Source
from engine.data.formats.inspect_logs import KEYS, looks_like_log
from engine.data.raw import unwritable
from engine.data.reading import read_table

LOG_ENDING = ".eval"
File = tuple[str, bytes]
"""Name and content."""


def open_source(
    filename: str,
    content: bytes,
    *,
    companions: Sequence[File] = (),
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
) -> Source:
    """Read a file as far as its format need not be known.

    Args:
        filename: its ending decides; it is not opened.
        content: its bytes.
        companions: files that belong to it.
        encoding: as `read_table` takes it.
        delimiter: as `read_table` takes it.
        sheet: as `read_table` takes it.

    Raises:
        InputError: it cannot be read, or its encoding would be a guess in a JSON object.
    """
    others = tuple(open_source(name, data, encoding=encoding) for name, data in companions)
    ending = PurePath(filename).suffix.lower()
    if ending == LOG_ENDING:
        if not looks_like_log(content):
            raise InputError(f"{filename!r} ends in {LOG_ENDING} and is no Inspect archive. Export the log again.")
        return Source(filename, log=content, companions=others)
    if ending == ".json" and sheet is None:
        document, used = _document(filename, content, encoding)
        if document is not None and set(KEYS) <= document.keys() and ("samples" in document or "plan" in document):
            return Source(filename, log=content, companions=others, encoding=used)
        if document is not None:
            return Source(filename, document=document, companions=others, encoding=used)
    table = read_table(filename, content, encoding=encoding, delimiter=delimiter, sheet=sheet)
    return Source(filename, table=table, companions=others, encoding=table.encoding)


def _document(filename: str, content: bytes, encoding: str | None) -> tuple[dict[str, Any] | None, str]:
    """The file as one JSON object and its encoding; None where it is a list or JSON lines."""
    if content[:4] == b"PK\x03\x04" or not content.strip():
        return None, ""
    decoded = decode(filename, content, encoding)
    text = decoded.text.lstrip("\ufeff \t\r\n")
    if not text.startswith("{") or decoded.candidates:
        return None, ""
    try:
        found = json.loads(text, parse_constant=_constant, parse_float=_finite)
        check_depth(found)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return None, ""  # JSON lines under another name
        raise InputError(
            f"{filename!r} is not valid JSON: {error.msg} at line {error.lineno}, character {error.colno}. Correct it "
            "there, or write it again."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{filename!r} holds a number or nesting beyond bounds. Write simpler JSON.") from None
    return _clean(found), decoded.encoding


def _constant(name: str) -> None:
    """NaN and infinities are no JSON and mean that nothing was measured."""
    del name


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _clean(value: Any) -> Any:
    """The value without what no text file can hold (NUL, half of a surrogate pair), shown as U+FFFD."""
    if isinstance(value, str):
        return "".join("\ufffd" if unwritable(c) else c for c in value) if unwritable(value) else value
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return {k: _clean(v) for k, v in value.items()} if isinstance(value, dict) else value

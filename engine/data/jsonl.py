"""JSON lines -> verbatim text: numbers as they are written, nested values as JSON, null as missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class JsonRecord:
    """One line of the file.

    Attributes:
        line: its 1-based number.
        cells: text by key; None for null. Empty where the line could not be read.
        fault: what is wrong with the line; empty where nothing is.
        fix: what the user can do about the fault.
    """

    line: int
    cells: dict[str, str | None] = field(default_factory=dict)
    fault: str = ""
    fix: str = ""


class _Number(float):
    """A float that remembers how it was written, so that 1.50 stays 1.50."""

    text: str

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class _RepeatedKeyError(ValueError):
    pass


def json_records(text: str) -> Iterator[JsonRecord]:
    r"""Each line that is not blank; lines end with \n or \r\n (a U+2028 inside a text is no line break)."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _record(number, line)


def _record(number: int, line: str) -> JsonRecord:
    try:
        value = json.loads(
            line, parse_float=_Number, parse_constant=_constant, object_pairs_hook=_object_without_repeats
        )
    except json.JSONDecodeError as error:
        return JsonRecord(
            number,
            fault=f"The line is not valid JSON: {error.msg} at character {error.pos + 1}.",
            fix="Write one JSON object a line, with line breaks inside a text as \\n.",
        )
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _RepeatedKeyError) else "it holds a number or nesting beyond bounds"
        return JsonRecord(number, fault=f"The line cannot be read: {reason}.", fix="Correct the object.")
    if not isinstance(value, dict):
        return JsonRecord(
            number,
            fault=f"The line holds {_kind(value)}, not an object.",
            fix='Write each record as an object: {"response": "...", ...}.',
        )
    cells = {key: _text(cell) for key, cell in value.items()}
    return _without_unwritable(number, cells)


def _without_unwritable(number: int, cells: dict[str, str | None]) -> JsonRecord:
    """Refuse what JSON escapes can spell and no text file can hold: NUL and half a surrogate pair."""
    for key, cell in cells.items():
        for part in (key, cell or ""):
            if "\x00" in part or any("\ud800" <= c <= "\udfff" for c in part):
                shown = key.encode("ascii", "backslashreplace").decode("ascii")
                return JsonRecord(
                    number,
                    fault=f"{shown} holds a NUL character or half of a surrogate pair, which is no text.",
                    fix="Write the character itself, or a whole pair such as \\ud83d\\ude00.",
                )
    return JsonRecord(number, cells)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, _Number):
        return value.text
    return json.dumps(value, ensure_ascii=False)


def _constant(name: str) -> str | None:
    """Python writes a missing number as NaN, which is not JSON; read it as null."""
    return None if name == "NaN" else name


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise _RepeatedKeyError(f"the key {key!r} stands twice in one object")
        out[key] = value
    return out


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")

"""JSON objects -> verbatim text: numbers as they are written, nested values as JSON, null as missing.

They stand one a line (JSON lines), in a list, or in a list that is the value of a key of one object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.data.raw import unwritable
from engine.errors import InputError


@dataclass
class JsonRecord:
    """One object of the file.

    Attributes:
        line: 1-based line where it starts.
        cells: text by key; None for null. Empty where the object could not be read.
        fault: what is wrong with it; empty where nothing is.
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


class JsonLinesError(Exception):
    """The text is no one JSON document but JSON lines."""


@dataclass(frozen=True)
class JsonList:
    """A list of objects in a JSON document.

    Attributes:
        key: of the object that holds it; empty where the list is the document.
        start: position of its bracket in the text.
    """

    key: str
    start: int


def json_records(text: str) -> Iterator[JsonRecord]:
    r"""Each line that is not blank; lines end with \n or \r\n (a U+2028 inside a text is no line break)."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _line_record(number, line)


def json_lists(filename: str, text: str) -> list[JsonList]:
    """The lists of objects that a JSON document is or holds at its top, in its order.

    Raises:
        JsonLinesError: one complete object is followed by another.
        InputError: it is no JSON, or there is no such list in it.
    """
    start = _skip(text, 0)
    if text[start] == "[":
        return [JsonList("", start)]
    wanted = 'Write a list of objects, [{"response": "..."}, ...], or one object a line in a file that ends in .jsonl.'
    if text[start] != "{":
        raise InputError(f"{filename!r} holds neither a JSON list nor an object. {wanted}")
    found, keys, end = _members(filename, text, start)
    rest = _skip(text, end)
    if text.startswith("{", rest):
        raise JsonLinesError
    if rest < len(text):
        raise _broken(filename, json.JSONDecodeError("Extra data", text, rest))
    if not found:
        shown = ", ".join(keys[:12]) or "no key"
        raise InputError(
            f"{filename!r} is one JSON object ({shown}), and no value in it is a list of objects. {wanted}"
        )
    return found


def list_records(filename: str, text: str, start: int) -> Iterator[JsonRecord]:
    """Each element of the list whose bracket is at `start`.

    Raises:
        InputError: the text is no JSON; what is wrong with one element only is a fault of its record.
    """
    at, line, counted = _skip(text, start + 1), 1, 0
    while not text.startswith("]", at):
        line += text.count("\n", counted, at)
        counted = at
        record, end = _element(filename, text, at, line)
        yield record
        at = _skip(text, end)
        if text.startswith(",", at):
            at = _skip(text, at + 1)
        elif not text.startswith("]", at):
            raise _broken(filename, json.JSONDecodeError("Expecting ',' or ']'", text, at))
    if start == _skip(text, 0) and (rest := _skip(text, at + 1)) < len(text):
        raise _broken(filename, json.JSONDecodeError("Extra data", text, rest))


def _element(filename: str, text: str, at: int, line: int) -> tuple[JsonRecord, int]:
    """The record of the value that starts at `at`, and where it ends."""
    try:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except _RepeatedKeyError as error:
            end = _LENIENT.raw_decode(text, at)[1]
            return JsonRecord(line, fault=f"The object cannot be read: {error}.", fix="Correct the object."), end
    except (ValueError, RecursionError) as error:
        raise _broken(filename, error) from None
    return _record(line, value, "element"), end


def _members(filename: str, text: str, start: int) -> tuple[list[JsonList], list[str], int]:
    """The lists of objects among an object's values, its keys, and where it ends."""
    found: list[JsonList] = []
    keys: dict[str, None] = {}
    at = _skip(text, start + 1)
    try:
        while not text.startswith("}", at):
            key, end = _LENIENT.raw_decode(text, at)
            at = _skip(text, end)
            if not isinstance(key, str) or not text.startswith(":", at):
                raise json.JSONDecodeError("Expecting a key and ':'", text, at)
            if key in keys:
                raise InputError(f"{filename!r}: the key {key!r} stands twice in the object. Keep one.")
            keys[key] = None
            at = _skip(text, at + 1)
            value, end = _LENIENT.raw_decode(text, at)
            if isinstance(value, list) and any(isinstance(v, dict) for v in value):
                found.append(JsonList(key, at))
            at = _skip(text, end)
            if text.startswith(",", at):
                at = _skip(text, at + 1)
            elif not text.startswith("}", at):
                raise json.JSONDecodeError("Expecting ',' or '}'", text, at)
    except (ValueError, RecursionError) as error:
        raise _broken(filename, error) from None
    return found, list(keys), at + 1


def _broken(filename: str, error: Exception) -> InputError:
    if isinstance(error, json.JSONDecodeError):
        line, column = error.lineno, error.colno
        return InputError(
            f"{filename!r} is not valid JSON: {error.msg} at line {line}, character {column}. "
            "Correct it there, or write it again."
        )
    return InputError(f"{filename!r} holds a number or nesting beyond bounds. Write simpler JSON.")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _line_record(number: int, line: str) -> JsonRecord:
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        return JsonRecord(
            number,
            fault=f"The line is not valid JSON: {error.msg} at character {error.pos + 1}.",
            fix="Write one JSON object a line, with line breaks inside a text as \\n.",
        )
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, _RepeatedKeyError) else "it holds a number or nesting beyond bounds"
        return JsonRecord(number, fault=f"The line cannot be read: {reason}.", fix="Correct the object.")
    return _record(number, value, "line")


def _record(number: int, value: object, place: str) -> JsonRecord:
    if not isinstance(value, dict):
        return JsonRecord(
            number,
            fault=f"The {place} holds {_kind(value)}, not an object.",
            fix='Write each record as an object: {"response": "...", ...}.',
        )
    cells = {key: _text(cell) for key, cell in value.items()}
    return _without_unwritable(number, cells)


def _without_unwritable(number: int, cells: dict[str, str | None]) -> JsonRecord:
    """Refuse what JSON escapes can spell and no text file can hold: NUL and half a surrogate pair."""
    for key, cell in cells.items():
        if unwritable(key) or unwritable(cell or ""):
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


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder(parse_float=_Number, parse_constant=_constant, object_pairs_hook=_object_without_repeats)
# Finds where a value ends, whatever it holds.
_LENIENT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)

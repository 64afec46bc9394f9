"""From a judge's JSON reply to a verdict, strictly: one path, the last complete value, only what is on the menu.

The rules are those of `engine.judges.parsing`: the last answer counts, and a broken last answer is no reason to fall
back on an earlier one. A reply that breaks off inside its JSON is unread, and so is an object that gives a key twice,
since parsers disagree about which of the two counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from engine.errors import InputError
from engine.judges.parsing import Parsed, no_reply, one_score

Step = str | int
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d{1,4})\]|\[\"([^\"\]]+)\"\]")


_OPENS = re.compile(r"\{|\[(?=\s*(?:[\[{\"\d\-\]]|(?:true|false|null)\s*[,\]]))")


class _Refused(Exception):  # noqa: N818 - a reason, not an error
    """What parsers disagree about; its text is the reason the verdict is unread."""


def path_steps(path: str) -> tuple[Step, ...]:
    """The keys and places a JSON path goes through: `$.result.scores[0]` is result, scores, 0.

    Understood are `$` alone, `.name`, `["name"]` and `[place]`; a path may leave out the leading `$.`.

    Raises:
        InputError: it is no such path.
    """
    rest = path.removeprefix("$") if path.startswith("$") else f".{path}" if path[:1] != "[" else path
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        match = _STEP.match(rest, at)
        if not match:
            raise InputError(
                f'{path!r} is no path of a JSON value. Write it as $.score, $.result.scores[0] or $["my score"].'
            )
        name, place, quoted = match.groups()
        steps.append(int(place) if place else name or quoted)
        at = match.end()
    return tuple(steps)


def json_score(
    reply: str, path: str, labels: Sequence[str], values: Sequence[float], *, decimals: bool = False
) -> Parsed:
    """The score at a path of the reply's last JSON value.

    Args:
        reply: what the judge wrote; text around the JSON is ignored.
        path: where the score stands.
        labels: the scores offered.
        values: the number of each label.
        decimals: whether numbers between the lowest and the highest value count.
    """
    found, reason = _value_at(reply, path)
    if reason:
        return Parsed(reason=reason)
    if isinstance(found, bool) or not isinstance(found, (int, float, str)):
        return Parsed(reason=f"{_short(found)} at {path} is neither a number nor a text")
    if isinstance(found, str):
        shown = found.strip()
        if shown in labels:
            return Parsed(label=shown, value=dict(zip(labels, values, strict=True))[shown])
        return one_score(shown, labels, values, decimals=decimals)
    for label, value in zip(labels, values, strict=True):
        if found == value:
            return Parsed(label=label, value=value)
    if decimals and min(values) <= found <= max(values):
        return Parsed(value=float(found))
    return Parsed(reason=f"{_short(found)} at {path} is not one of {', '.join(labels)}")


def json_label(reply: str, path: str, labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> Parsed:
    """The choice at a path of the reply's last JSON value: a label or one of its spellings, case aside if unique.

    Args:
        reply: what the judge wrote.
        path: where the choice stands; true and false count as "true" and "false".
        labels: the choices offered.
        spellings: further spellings of each, aligned with `labels`; empty for none.
    """
    found, reason = _value_at(reply, path)
    if reason:
        return Parsed(reason=reason)
    if found is None or isinstance(found, (list, dict)):
        return Parsed(reason=f"{_short(found)} at {path} is no choice")
    shown = found.strip() if isinstance(found, str) else json.dumps(found)
    forms = {form: label for i, label in enumerate(labels) for form in (label, *(spellings[i] if spellings else ()))}
    near = {label for form, label in forms.items() if len(form) > 1 and form.casefold() == shown.casefold()}
    label = forms.get(shown) or (near.pop() if len(near) == 1 else None)
    if label is None:
        return Parsed(reason=f"{_short(found)} at {path} is not one of {', '.join(labels)}")
    return Parsed(label=label)


def _value_at(reply: str, path: str) -> tuple[Any, str]:
    """The value, or why there is none."""
    if reason := no_reply(reply):
        return None, reason
    found, reason = _last_value(reply)
    if reason:
        return None, reason
    for step in path_steps(path):
        fits = isinstance(found, list) if isinstance(step, int) else isinstance(found, dict)
        if not fits or (step not in range(len(found)) if isinstance(step, int) else step not in found):
            return None, f"the reply's JSON has nothing at {path}"
        found = found[step]
    return found, ""


def _last_value(reply: str) -> tuple[Any, str]:
    """The last object or array of a text, or why there is none."""
    decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
    found: Any = None
    reason = "the reply holds no JSON"
    at = 0
    while (start := _opening(reply, at)) >= 0:
        try:
            found, at = decoder.raw_decode(reply, start)
            reason = ""
        except _Refused as error:
            return None, str(error)
        except RecursionError:
            return None, "the reply's JSON is nested too deeply"
        except json.JSONDecodeError:
            # Nothing inside a broken value may pass for an answer, so the search goes on behind it.
            reason, at = "the reply's JSON is malformed", _closing(reply, start)
            if at < 0:
                return None, "the reply breaks off inside its JSON"
        except ValueError:
            return None, "the reply's JSON holds a number too long to read"
    return found, reason


def _opening(text: str, at: int) -> int:
    """Where the next object, or array of values, begins; -1 if none does."""
    match = _OPENS.search(text, at)
    return match.start() if match else -1


def _closing(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`, brackets in quotes aside; -1 if none does."""
    depth, quoted, at = 0, False, start
    while at < len(text):
        mark = text[at]
        if quoted:
            at += mark == "\\"
            quoted = mark != '"'
        elif mark == '"':
            quoted = True
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return -1


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if key in [k for k, _ in pairs[:i]])
        raise _Refused(f"the reply's JSON gives {twice[:40]!r} twice")
    return made


def _no_constant(name: str) -> float:
    raise _Refused(f"the reply's JSON holds {name}, which is no JSON number")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"

"""From a judge's reply to a verdict, strictly: the last verdict counts, and it must be on the menu.

The capture is permissive and checked afterwards. A narrow pattern would skip a malformed verdict and fall back
on an earlier one, for example one echoed from the candidate's text; here a malformed last verdict is unread.
Only the reply is parsed, never the prompt, so a candidate cannot answer for the judge. (The rule of the last
match and the later check follow inspect_ai's model-graded scorer.)
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.errors import InputError

_ERROR = re.compile(
    r"""\s*(?: \[error\]                                  # as gateways and harnesses write it
        | (?:http(?:/[\d.]+)?|error(?:\ code)?)\s*:?\s*[45]\d\d\b
        | [45]\d\d\s+(?:service|bad|internal|too\ many|gateway|unauthorized|forbidden|not\ found)
        | traceback\ \(most\ recent )""",
    re.IGNORECASE | re.VERBOSE,
)
_NAMES = (
    r"(?:score|rating|grade|verdict|answer|choice|winner|preference|decision|judge?ment|ranking|order|result"
    r"|final|overall|conclusion|better\s+(?:response|answer|assistant|option)|best\s+(?:response|answer|option))"
)
_NOT_AFTER = r"(?<![\w/])" + "".join(
    rf"(?<!{word}\ )" for word in ("for", "reference", "student's", "candidate's", "correct", "expected")
)
_MARKED = rf"{_NOT_AFTER}{_NAMES}[\"']?(?:\s*\([^()\n]{{0,40}}\))?"
_SAID = rf"{_NOT_AFTER}(?:(?:score|rating)\s+|(?:score|rating|grade|verdict)\s+(?:is|of)\s+)\(?"
_CHOSEN = rf"{_NOT_AFTER}(?:(?:verdict|winner|choice)\s+|{_NAMES}\s+is\s+)[\"'\[(]*"
_WORDS = r"zero|one|two|three|four|five|six|seven|eight|nine|ten"
_NUMERIC = rf"[+-]?[0-9][^\s<]*|(?:{_WORDS})\b"
_OUT_OF = r"(?:\s*/\s*|\s+out\s+of\s+)"
_TAIL = re.compile(r"\s*(?:-|–|—|to\b|or\b|and\b|/)\s*\[*[0-9]")
_EDGE = ".,;:!?()[]{}\"'“”‘’`"
_BEFORE_LETTER = r"(?:(?:response|assistant|option|answer|candidate|output|model)\s+)?"
_AFTER_LETTER = re.compile(r"\s*(?:$|[.,;:!?()\[\]{}<>\n\"'—–-]|(?:is|wins|because|since|as|over|better|with)\b)")


@dataclass(frozen=True)
class Parsed:
    """What a reply says.

    Attributes:
        label: the offered label it names; empty when unread, or for a decimal between two labels.
        value: its number, for scores; NaN otherwise.
        order: for rankings, the offered letters from best to worst.
        reason: why there is no verdict; empty exactly when there is one.
    """

    label: str = ""
    value: float = float("nan")
    order: tuple[str, ...] = ()
    reason: str = ""


def parse_score(reply: str, labels: Sequence[str], values: Sequence[float], *, decimals: bool = False) -> Parsed:
    """The last score of a reply, on the offered scale.

    Read as a score: a number after a marker (`Score: 4`, `Rating (1-5): 4`, `my grade is 4`), in double
    brackets, or alone on its line; `4/5` and `4 out of 5` where the second number is the top of the scale.

    Args:
        reply: what the judge wrote.
        labels: the scores offered, as written.
        values: the number of each label.
        decimals: whether numbers between the lowest and the highest value count.
    """
    text = clean(reply)
    if reason := no_reply(text):
        return Parsed(reason=reason)
    pattern = re.compile(
        rf"""\[\[(?P<box>[^\[\]\n]*)\]\]
        | {_MARKED}\s*(?:[:=>]|\s-\s|→)\s*(?P<strong>[^\s<]*)
        | {_SAID}(?P<weak>{_NUMERIC})
        | ^[ \t]*(?P<alone>[\[(]?[+-]?[0-9][0-9.,]*(?:{_OUT_OF}[0-9.]+)?[\])]?[.!]?)[ \t]*$""",
        re.IGNORECASE | re.VERBOSE | re.MULTILINE,
    )
    last = _last(pattern, text)
    if last is None:
        return Parsed(reason="the reply names no score")
    token, rest = last
    return _score(token, rest, dict(zip(labels, values, strict=True)), decimals=decimals)


def parse_label(reply: str, labels: Sequence[str], spellings: Sequence[Sequence[str]] = ()) -> Parsed:
    """The last choice of a reply among the offered labels, for example A, B and C, or YES and NO.

    Read as a choice: what follows a marker (`Verdict: A`, `Better response: Response B`), stands in double
    brackets, or alone on its line; a label of several letters also as the first word (`Yes, it matches.`).
    Single letters must be written as offered: `a` is an article.

    Args:
        reply: what the judge wrote.
        labels: the choices offered.
        spellings: further spellings of each, aligned with `labels`; empty for none.
    """
    text = clean(reply)
    if reason := no_reply(text):
        return Parsed(reason=reason)
    forms = {form: label for i, label in enumerate(labels) for form in (label, *(spellings[i] if spellings else ()))}
    known = "|".join(re.escape(f) for f in sorted(forms, key=len, reverse=True))
    long = "|".join(re.escape(f) for f in sorted(forms, key=len, reverse=True) if len(f) > 1) or r"(?!)"
    pattern = re.compile(
        rf"""\[\[\s*{_BEFORE_LETTER}(?P<box>[^\[\]\n]*)\]\]
        | {_MARKED}\s*(?:[:=>]|\s-\s|→)\s*[\"'\[(]*{_BEFORE_LETTER}(?P<strong>[^\s<]*)
        | {_CHOSEN}{_BEFORE_LETTER}(?P<weak>(?-i:{known}))(?=\W|$)
        | \A\s*(?P<first>{long})(?=\s*(?:[,.;:!?—–\n]|$))
        | ^[ \t]*[\[(\"']?{_BEFORE_LETTER}(?P<alone>(?-i:[A-Z])|{long})[\])\"']?[.!]?[ \t]*$""",
        re.IGNORECASE | re.VERBOSE | re.MULTILINE,
    )
    last = _last(pattern, text)
    if last is None:
        return Parsed(reason="the reply names no choice")
    token, rest = last
    shown = token.strip(_EDGE).strip()
    if not shown:
        return Parsed(reason="a verdict is announced and not given")
    found = forms.get(shown)
    if found is None and len(shown) > 1:
        found = next((label for form, label in forms.items() if form.casefold() == shown.casefold()), None)
    ended = token != token.rstrip(_EDGE) or _AFTER_LETTER.match(rest)
    if found is None or not ended:
        words = (shown + ("" if found is None else rest.split("\n")[0]))[:40].strip()
        return Parsed(reason=f"{words!r} is not one of {', '.join(labels)}")
    return Parsed(label=found)


def parse_order(reply: str, letters: Sequence[str]) -> Parsed:
    """The last order of a reply, best first: `B > A > C`, `B, A, C`, or a numbered list of letters.

    Args:
        reply: what the judge wrote.
        letters: the candidates offered; an order must name each of them once.
    """
    text = clean(reply)
    if reason := no_reply(text):
        return Parsed(reason=reason)
    one = rf"{_BEFORE_LETTER}(?-i:[A-Z])(?!\w)"
    runs = re.compile(
        rf"(?<!\w){one}(?:\s*(?:>|≻|→|->|=|,|;)\s*(?:and\s+|then\s+)?{one})+"
        rf"|(?:^[ \t]*[0-9]+[.):][ \t]*{one}[^\n]*(?:\n+|\Z))+",
        re.IGNORECASE | re.MULTILINE,
    )
    found = list(runs.finditer(text))
    if not found:
        return Parsed(reason="the reply names no order")
    run = found[-1].group()
    order = tuple(re.findall(r"(?<!\w)[A-Z](?!\w)", _first_of_each_line(run)))
    menu = ", ".join(letters)
    if "=" in run:
        return Parsed(reason=f"{run.strip()[:40]!r} has a tie; an order of {menu} is asked for")
    if sorted(order) != sorted(letters):
        return Parsed(reason=f"{' > '.join(order)[:40]!r} is not an order of {menu}")
    return Parsed(order=order)


def clean(reply: str) -> str:
    """The reply as it looks: full-width characters in their plain form, nothing invisible, no emphasis marks."""
    folded = unicodedata.normalize("NFKC", reply)
    shown = "".join(c for c in folded if unicodedata.category(c) not in {"Cf", "Cc"} or c in "\n\t")
    return re.sub(r"\*+|`+|__+", "", shown)


def one_score(shown: str, labels: Sequence[str], values: Sequence[float], *, decimals: bool = False) -> Parsed:
    """A text that is nothing but a score, on the offered scale: `4`, `4/5` or `4.0` of 1 to 5."""
    return _score(shown, "", dict(zip(labels, values, strict=True)), decimals=decimals)


def no_reply(text: str) -> str:
    """Why a reply holds no answer at all; empty if it may hold one."""
    if not text.strip():
        return "the reply is empty"
    return "the reply is an error message" if _ERROR.match(text) else ""


def _last(pattern: re.Pattern[str], text: str) -> tuple[str, str] | None:
    """The last match's captured text and what follows it; a box that a marker announces belongs to the marker."""
    found = None
    for match in pattern.finditer(text):
        name = match.lastgroup or ""
        found = match.group(name), text[match.end(name) :]
    return found


def _score(token: str, rest: str, menu: dict[str, float], *, decimals: bool) -> Parsed:
    offered = ", ".join(menu)
    shown = token.strip().strip(_EDGE)
    if not shown:
        return Parsed(reason="a verdict is announced and not given")
    top = max(menu.values())
    whole = re.fullmatch(rf"(?P<n>[0-9]+(?:\.[0-9]+)?){_OUT_OF}(?P<top>[0-9]+(?:\.[0-9]+)?)", shown)
    ahead = re.match(rf"{_OUT_OF}(?P<top>[0-9]+(?:\.[0-9]+)?)", rest) if token == token.rstrip(_EDGE) else None
    scale = whole or ahead
    if whole:
        shown = whole["n"]
    if scale and float(scale["top"]) != top:
        return Parsed(reason=f"{shown!r} is out of {scale['top']}; the scale ends at {top:g}")
    if not scale and token == token.rstrip(_EDGE) and _TAIL.match(rest):
        return Parsed(reason=f"{(shown + rest)[:20].strip()!r} is more than one score")
    for label, value in menu.items():
        if shown == label or (re.fullmatch(r"[1-9][0-9]*\.0+", shown) and float(shown) == value):
            return Parsed(label=label, value=value)
    if re.fullmatch(r"(?:0|[1-9][0-9]*)\.[0-9]+", shown):
        if decimals and min(menu.values()) <= float(shown) <= top:
            return Parsed(value=float(shown))
        if not decimals and min(menu.values()) <= float(shown) <= top:
            return Parsed(reason=f"{shown!r} is between the scores offered: {offered}")
    return Parsed(reason=f"{shown[:40]!r} is not one of {offered}")


def _first_of_each_line(run: str) -> str:
    """Of a numbered list, each line's own letter; of a run on one line, all of it."""
    head = re.compile(rf"[ \t]*[0-9]+[.):][ \t]*{_BEFORE_LETTER}([A-Z])", re.IGNORECASE)
    listed = [m.group(1) for line in run.split("\n") if (m := head.match(line))]
    return " ".join(listed) if listed else run


# From a judge's JSON reply to a verdict, strictly: one path, the last complete value, only what is on the menu.
#
# The rules are those of `engine.judges.parsing`: the last answer counts, and a broken last answer is no reason to fall
# back on an earlier one. A reply that breaks off inside its JSON is unread, and so is an object that gives a key twice,
# since parsers disagree about which of the two counts.

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

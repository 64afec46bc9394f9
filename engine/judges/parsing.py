"""From a judge's reply to a verdict, strictly: the statement that counts (`engine.judges.reply`) must be on the menu.

The capture is permissive and checked afterwards. A narrow pattern would skip a malformed verdict and fall back
on an earlier one, for example one echoed from the candidate's text; here a malformed last verdict is unread.
Only the reply is parsed, never the prompt, so a candidate cannot answer for the judge. (The later check follows
inspect_ai's model-graded scorer.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from engine.core.errors import InputError, shown
from engine.judges.reply import (
    CUT_OFF,
    Mention,
    Parsed,
    Rank,
    Statement,
    answer_of,
    clean,
    final,
    reported,
    statements,
    verdict_of,
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
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMERIC = rf"[+-]?[0-9][^\s<]*|(?:{'|'.join(_DIGITS)})\b"
_NUMBER = rf"(?:[0-9]+(?:\.[0-9]+)?|{'|'.join(_DIGITS)}|hundred)"
_OUT_OF = (
    r"(?:\s*,?\s*[\[(]?\s*(?:(?:points?|stars?|marks?)\s+)?"
    r"(?:/\s*|(?:out\s+)?of\s+)(?:an?\s+)?(?:(?:possible|total|maximum|perfect)\s+)?(?:of\s+)?)"
)
_TO = r"\s*(?:-|–|—|to|through|and)\s*"
_TAIL = re.compile(
    r"\s*,?\s*(?:-|–|—|to\b|or\b|and\b|then\b|/|→|->|=>|~|&)\s*\[*[0-9]"
    r"|[ \t]*,?[ \t]+\[*[0-9]+(?:\.[0-9]+)?[\])]*[ \t]*(?:$|[.;!?\n])"
)
_SCALES = re.compile(
    rf"""\b(?:scale|range|scored|rated)\s+(?:(?:of|from|is|goes)\s+)*(?P<low1>{_NUMBER}){_TO}(?P<high1>{_NUMBER})\b
    | \b(?P<low2>{_NUMBER}){_TO}(?P<high2>{_NUMBER})\s+(?:rating\s+|point\s+)?scale\b
    | \b(?P<high3>{_NUMBER})[\s-]point\s+(?:rating\s+)?scale\b
    | \bscale\s+of\s+(?P<high4>{_NUMBER})\b(?!{_TO}[0-9])
    | \b(?:maximum|highest|top|max\.?)[^\S\n]+(?:possible[^\S\n]+)?(?:score|rating|grade)
      \s*(?:is|of|:|=)\s*(?P<high5>{_NUMBER})\b""",
    re.IGNORECASE | re.VERBOSE,
)
_NOTED = re.compile(
    rf"\(\s*(?:from\s+)?(?P<low1>{_NUMBER}){_TO}(?P<high1>{_NUMBER})\s*\)"
    rf"|\(\s*(?:/|(?:out\s+)?of|max(?:imum)?:?)\s*(?P<high2>{_NUMBER})\s*\)",
    re.IGNORECASE,
)
_EDGE = ".,;:!?()[]{}\"'“”‘’`"
_BEFORE_LETTER = r"(?:(?:response|assistant|option|answer|candidate|output|model)\s+)?"
_AFTER_LETTER = re.compile(r"\s*(?:$|[.,;:!?()\[\]{}<>\n\"'—–-]|(?:is|wins|because|since|as|over|better|with)\b)")


def parse_score(
    reply: str, labels: Sequence[str], values: Sequence[float], *, decimals: bool = False, cut: bool = False
) -> Parsed:
    """The score of a reply, on the offered scale.

    Read as a score: a number after a marker (`Score: 4`, `Rating (1-5): 4`, `my grade is 4`), in double
    brackets, or alone on its line; `4/5` and `4 out of 5` where the second number is the top of the scale.
    A reply that names another scale is unread.

    Args:
        reply: the judge's text.
        labels: the scores offered, as written.
        values: the number of each label.
        decimals: true where numbers between the lowest and the highest value count.
        cut: true where the reply broke off at its longest length.
    """
    text, reason = answer_of(clean(reply))
    if reason:
        return Parsed(reason=CUT_OFF if cut else reason)
    menu = _Menu.of(labels, values, decimals=decimals)
    pattern = re.compile(
        rf"""\[\[(?P<box>[^\[\]\n]*)\]\]
        | {_MARKED}\s*(?:[:=>]|\s-\s|→)\s*(?P<strong>[^\s<]*)
        | {_SAID}(?P<weak>{_NUMERIC})
        | ^[ \t]*(?P<alone>[\[(]?[+-]?[0-9][0-9.,]*(?:{_OUT_OF}[0-9.]+)?[\])]?[.!]?)[ \t]*$""",
        re.IGNORECASE | re.VERBOSE | re.MULTILINE,
    )
    mentions = []
    for match in pattern.finditer(text):
        token, rest, note = _parts(match, text)
        mentions.append(_mention(match, token, menu.read(token, rest, note)))
    parsed = verdict_of(statements(text, mentions), "the reply names no score", cut=cut)
    if not parsed.reason and (other := menu.other_scale(_SCALES, text)):
        return Parsed(reason=f"the reply speaks of {other}; the scale goes from {menu.low:g} to {menu.top:g}")
    return parsed


def parse_label(
    reply: str, labels: Sequence[str], spellings: Sequence[Sequence[str]] = (), *, cut: bool = False
) -> Parsed:
    """The choice of a reply among the offered labels, for example A, B and C, or YES and NO.

    Read as a choice: what follows a marker (`Verdict: A`, `Better response: Response B`), stands in double
    brackets, or alone on its line; a label of several letters also as the first word (`Yes, it matches.`).
    Single letters must be written as offered: `a` is an article.

    Args:
        reply: the judge's text.
        labels: the choices offered.
        spellings: further spellings of each, aligned with `labels`; empty for none.
        cut: true where the reply broke off at its longest length.
    """
    text, reason = answer_of(clean(reply))
    if reason:
        return Parsed(reason=CUT_OFF if cut else reason)
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
    second = re.compile(
        rf"[\s,/&|→>=()\[\]\"'-]*(?:(?:or|and|then)\s+)?[\[(\"']*{_BEFORE_LETTER}(?P<other>{known})"
        r"[\])\"']*\s*(?:$|[.;!?\n])"
    )
    mentions: list[Mention] = []
    at = 0
    while match := pattern.search(text, at):
        token, rest, _ = _parts(match, text)
        at = max(match.end(), at + 1)
        parsed = _choice(token, rest, forms, labels)
        line = token[len(token.rstrip(_EDGE)) :] + rest.split("\n")[0]
        if parsed.label and (more := second.match(line)) and forms[more["other"]] != parsed.label:
            parsed = Parsed(reason=f"{(token.rstrip(_EDGE) + line)[:40].strip()!r} is more than one choice")
            at += more.end("other")
        mentions.append(_mention(match, token, parsed))
    return verdict_of(statements(text, mentions), "the reply names no choice", cut=cut)


def _choice(token: str, rest: str, forms: dict[str, str], labels: Sequence[str]) -> Parsed:
    said = token.strip(_EDGE).strip()
    if not said:
        return Parsed(reason="a verdict is announced and not given")
    label = forms.get(said)
    if label is None and len(said) > 1:
        label = next((label for form, label in forms.items() if form.casefold() == said.casefold()), None)
    ended = token != token.rstrip(_EDGE) or _AFTER_LETTER.match(rest)
    if label is None or not ended:
        words = (said + ("" if label is None else rest.split("\n")[0]))[:40].strip()
        return Parsed(reason=f"{words!r} is not one of {', '.join(labels)}")
    return Parsed(label=label)


def parse_order(reply: str, letters: Sequence[str], *, cut: bool = False) -> Parsed:
    """The order of a reply, best first: `B > A > C`, `B, A, C`, or a numbered list of letters.

    Args:
        reply: the judge's text.
        letters: the candidates offered; an order must name each of them once.
        cut: true where the reply broke off at its longest length.
    """
    text, reason = answer_of(clean(reply))
    if reason:
        return Parsed(reason=CUT_OFF if cut else reason)
    one = rf"{_BEFORE_LETTER}(?-i:[A-Z])(?!\w)"
    runs = re.compile(
        rf"(?P<mark>{_MARKED}\s*[:=-]\s*\[*|\[\[\s*)?"
        rf"(?:(?<!\w){one}(?:\s*(?:>|≻|→|->|=|,|;)\s*(?:and\s+|then\s+)?{one})+"
        rf"|(?:^[ \t]*[0-9]+[.):][ \t]*{one}[^\n]*(?:\n+|\Z))+)",
        re.IGNORECASE | re.MULTILINE,
    )
    mentions = []
    for match in runs.finditer(text):
        run = match.group()[len(match["mark"] or "") :]
        rank = Rank.MARKED if match["mark"] else Rank.SAID
        mentions.append(Mention(match.start(), match.end(), match.end(), rank, _order(run, letters)))
    return verdict_of(statements(text, mentions), "the reply names no order", cut=cut)


def _order(run: str, letters: Sequence[str]) -> Parsed:
    order = tuple(re.findall(r"(?<!\w)[A-Z](?!\w)", _first_of_each_line(run)))
    menu = ", ".join(letters)
    if "=" in run:
        return Parsed(reason=f"{shown(run.strip(), 40)} has a tie; an order of {menu} is asked for")
    if sorted(order) != sorted(letters):
        return Parsed(reason=f"{shown(' > '.join(order), 40)} is not an order of {menu}")
    return Parsed(order=order)


def _first_of_each_line(run: str) -> str:
    """Of a numbered list, each line's own letter; of a run on one line, all of it."""
    head = re.compile(rf"[ \t]*[0-9]+[.):][ \t]*{_BEFORE_LETTER}([A-Z])", re.IGNORECASE)
    listed = [m.group(1) for line in run.split("\n") if (m := head.match(line))]
    return " ".join(listed) if listed else run


def one_score(said: str, labels: Sequence[str], values: Sequence[float], *, decimals: bool = False) -> Parsed:
    """A text that is nothing but a score, on the offered scale: `4`, `4/5` or `4.0` of 1 to 5."""
    return _Menu.of(labels, values, decimals=decimals).read(said, "", "")


def _parts(match: re.Match[str], text: str) -> tuple[str, str, str]:
    """The verdict's own words, what follows them, and what stands before them in the match."""
    name = match.lastgroup or ""
    return match.group(name), text[match.end(name) :], text[match.start() : match.start(name)]


def _mention(match: re.Match[str], token: str, parsed: Parsed) -> Mention:
    name = match.lastgroup or ""
    rank = Rank.MARKED if name in {"box", "strong"} else Rank.SAID
    end = match.end() if name == "box" else match.start(name) + len(token.rstrip(_EDGE))
    return Mention(match.start(), match.end(), end, rank, parsed)


@dataclass(frozen=True)
class _Menu:
    """The scores offered, as written, with their numbers and the ends of the scale."""

    scores: dict[str, float]
    low: float
    top: float
    decimals: bool

    @classmethod
    def of(cls, labels: Sequence[str], values: Sequence[float], *, decimals: bool) -> _Menu:
        return cls(dict(zip(labels, values, strict=True)), min(values), max(values), decimals)

    def read(self, token: str, rest: str, note: str) -> Parsed:
        """The score that a token gives; `rest` follows it, `note` stands before it, for example `Rating (1-5): `."""
        said = token.strip().strip(_EDGE)
        if not said:
            return Parsed(reason="a verdict is announced and not given")
        whole = re.fullmatch(rf"(?P<n>[0-9]+(?:\.[0-9]+)?){_OUT_OF}(?P<top>{_NUMBER})", said, re.IGNORECASE)
        bare = token.rstrip(_EDGE)
        behind = token[len(bare) :] + rest
        ahead = re.match(rf"{_OUT_OF}(?P<top>{_NUMBER})\b", behind, re.IGNORECASE)
        scale = whole or ahead
        if whole:
            said = whole["n"]
        if scale and _number(scale["top"]) != self.top:
            return Parsed(reason=f"{said!r} is out of {scale['top']}; the scale ends at {self.top:g}")
        if other := self.other_scale(_NOTED, note) or self.other_scale(_NOTED, behind[:40].split("\n")[0], start=True):
            return Parsed(reason=f"{said!r} is on {other}; the scale goes from {self.low:g} to {self.top:g}")
        if not scale and said[-1].isdigit() and token in {bare, f"{bare},"} and _TAIL.match(behind):
            return Parsed(reason=f"{(said + behind)[:20].strip()!r} is more than one score")
        for label, value in self.scores.items():
            if said == label or (re.fullmatch(r"[1-9][0-9]*\.0+", said) and float(said) == value):
                return Parsed(label=label, value=value)
        offered = ", ".join(self.scores)
        if re.fullmatch(r"(?:0|[1-9][0-9]*)\.[0-9]+", said) and self.low <= float(said) <= self.top:
            if self.decimals:
                return Parsed(value=float(said))
            return Parsed(reason=f"{said!r} is between the scores offered: {offered}")
        return Parsed(reason=f"{shown(said, 40)} is not one of {offered}")

    def other_scale(self, pattern: re.Pattern[str], text: str, *, start: bool = False) -> str:
        """The first scale named in a text that is not this one, in words; empty if there is none.

        Args:
            pattern: of the names of scales; its groups begin with low and high.
            text: where to look.
            start: true where the name must stand at the beginning.
        """
        for match in filter(None, [pattern.match(text.lstrip())]) if start else pattern.finditer(text):
            ends = {name[:-1]: _number(said) for name, said in match.groupdict().items() if said}
            if ends["high"] != self.top or ends.get("low", self.low) != self.low:
                low = f"{ends['low']:g} to " if "low" in ends else "up to "
                return f"a scale of {low}{ends['high']:g}"
        return ""


def _number(said: str) -> float:
    word = said.lower()
    return 100.0 if word == "hundred" else float(_DIGITS.index(word)) if word in _DIGITS else float(word)


# From a judge's JSON reply to a verdict, strictly: one path, the last complete value, only what is on the menu.
#
# A broken last value is no reason to fall back on an earlier one, and two values that differ cancel each other. A reply
# that breaks off inside its JSON is unread, and so is an object that gives a key twice, since parsers disagree about
# which of the two counts.

Step = str | int
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\d{1,4})\]|\[\"([^\"\]]+)\"\]")


_JSON_ALONE = re.compile(r"\s*(?:```(?:json)?\s*)?\{\}\s*(?:```\s*)?", re.IGNORECASE)
_OPENS = re.compile(r"\{|\[(?=\s*(?:[\[{\"\d\-\]]|(?:true|false|null)\s*[,\]]))")


class _Refused(Exception):  # noqa: N818 - a reason, not an error
    """A disagreement of parsers; its text is the reason the verdict is unread."""


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
    reply: str,
    path: str,
    labels: Sequence[str],
    values: Sequence[float],
    *,
    decimals: bool = False,
    cut: bool = False,
) -> Parsed:
    """The score at a path of the reply's JSON.

    Args:
        reply: the judge's text; text around the JSON is ignored.
        path: where the score stands.
        labels: the scores offered.
        values: the number of each label.
        decimals: true where numbers between the lowest and the highest value count.
        cut: true where the reply broke off at its longest length.
    """

    def read(value: Any) -> Parsed:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            return Parsed(reason=f"{_short(value)} at {path} is neither a number nor a text")
        if isinstance(value, str):
            said = value.strip()
            if said in labels:
                return Parsed(label=said, value=dict(zip(labels, values, strict=True))[said])
            return one_score(said, labels, values, decimals=decimals)
        for label, number in zip(labels, values, strict=True):
            if value == number:
                return Parsed(label=label, value=number)
        if decimals and min(values) <= value <= max(values):
            return Parsed(value=float(value))
        return Parsed(reason=f"{_short(value)} at {path} is not one of {', '.join(labels)}")

    return _json_verdict(reply, path, read, cut=cut)


def json_label(
    reply: str, path: str, labels: Sequence[str], spellings: Sequence[Sequence[str]] = (), *, cut: bool = False
) -> Parsed:
    """The choice at a path of the reply's JSON: a label or one of its spellings, case aside if unique.

    Args:
        reply: the judge's text.
        path: where the choice stands; true and false count as "true" and "false".
        labels: the choices offered.
        spellings: further spellings of each, aligned with `labels`; empty for none.
        cut: true where the reply broke off at its longest length.
    """
    forms = {form: label for i, label in enumerate(labels) for form in (label, *(spellings[i] if spellings else ()))}

    def read(value: Any) -> Parsed:
        if value is None or isinstance(value, (list, dict)):
            return Parsed(reason=f"{_short(value)} at {path} is no choice")
        said = value.strip() if isinstance(value, str) else json.dumps(value)
        near = {label for form, label in forms.items() if len(form) > 1 and form.casefold() == said.casefold()}
        label = forms.get(said) or (near.pop() if len(near) == 1 else None)
        if label is None:
            return Parsed(reason=f"{_short(value)} at {path} is not one of {', '.join(labels)}")
        return Parsed(label=label)

    return _json_verdict(reply, path, read, cut=cut)


def _json_verdict(reply: str, path: str, read: Callable[[Any], Parsed], *, cut: bool) -> Parsed:
    """The value at the path of the reply's last JSON, through `read`; an earlier, different one cancels it."""
    text, reason = answer_of(reply)
    values, fault = ([], reason) if reason else _json_values(text)
    if fault or not values:
        return Parsed(reason=CUT_OFF if cut else fault)
    if cut and (len(values) > 1 or not _JSON_ALONE.fullmatch(text[: values[0].start] + "{}" + text[values[0].end :])):
        return Parsed(reason=CUT_OFF)
    made: list[Statement] = []
    for value in values:
        found, missing = _at_path(value.value, path)
        parsed = Parsed(reason=missing) if missing else read(found)
        if value is values[-1] or not (missing or reported(text, value.start)):
            rank = Rank.FINAL if final(text, value.start) else Rank.MARKED
            made.append(Statement(rank, ended=True, parsed=parsed))
    return verdict_of(made, "the reply holds no JSON")


def _at_path(value: Any, path: str) -> tuple[Any, str]:
    """The value at a path, or the reason there is none."""
    for step in path_steps(path):
        fits = isinstance(value, list) if isinstance(step, int) else isinstance(value, dict)
        if not fits or (step not in range(len(value)) if isinstance(step, int) else step not in value):
            return None, f"the reply's JSON has nothing at {path}"
        value = value[step]
    return value, ""


class _Value(NamedTuple):
    """A JSON value of a text and where it stands."""

    value: Any
    start: int
    end: int


def _json_values(reply: str) -> tuple[list[_Value], str]:
    """The objects and arrays of a text, or why its last one cannot be read."""
    decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
    values: list[_Value] = []
    reason = "the reply holds no JSON"
    at = 0
    while (start := _opening(reply, at)) >= 0:
        try:
            value, at = decoder.raw_decode(reply, start)
            values.append(_Value(value, start, at))
            reason = ""
        except _Refused as error:
            return [], str(error)
        except RecursionError:
            return [], "the reply's JSON is nested too deeply"
        except json.JSONDecodeError:
            # Nothing inside a broken value may pass for an answer, so the search goes on behind it.
            reason, at = "the reply's JSON is malformed", _closing(reply, start)
            if at < 0:
                return [], "the reply breaks off inside its JSON"
        except ValueError:
            return [], "the reply's JSON holds a number too long to read"
    return values, reason


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
        raise _Refused(f"the reply's JSON gives {shown(twice, 40)} twice")
    return made


def _no_constant(name: str) -> float:
    raise _Refused(f"the reply's JSON holds {name}, which is no JSON number")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"

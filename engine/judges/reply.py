"""The statement of a judge's reply that is its verdict; a thought, quotation, supposition or partial score is none.

Statements are ranked. One announced as final (or as a correction) counts before one that is marked (`Score: 4`,
`[[A]]`), and a marked one before a plain sentence or a number alone on its line. Two different statements of the
highest rank cancel each other: the reply is unread. A reply that was cut off counts only where its verdict is final
and its sentence has ended, since what is missing could have changed any other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

CUT_OFF = "the reply was cut off"
_UNFINISHED = "the reply ends inside its reasoning"
_ONLY_THOUGHT = "the reply gives nothing after its reasoning"

_ERROR = re.compile(
    r"""\s*(?: \[error\]                                  # as gateways and harnesses write it
        | (?:http(?:/[\d.]+)?|error(?:\ code)?)\s*:?\s*[45]\d\d\b
        | [45]\d\d\s+(?:service|bad|internal|too\ many|gateway|unauthorized|forbidden|not\ found)
        | traceback\ \(most\ recent )""",
    re.IGNORECASE | re.VERBOSE,
)
_BLOCK = r"(?:\w+:)?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
_THINKING = re.compile(
    rf"(?P<close></\s*{_BLOCK}\s*>|\[/\s*think\s*\]|◁/think▷|<\|end_of_thought\|>)"
    rf"|(?P<open><\s*{_BLOCK}(?:\s[^<>\n]{{0,80}})?>|\[\s*think\s*\]|◁think▷|<\|begin_of_thought\|>)",
    re.IGNORECASE,
)
_FINAL = re.compile(
    r"\b(?:final(?:ly)?|overall|conclu\w+|reflection|second thought|actually|correction|corrected|revis\w+"
    r"|reconsider\w*|instead|therefore|thus|hence|in the end|in sum(?:mary)?|all in all|but it is)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r'"[^"\n]{0,400}"|“[^”\n]{0,400}”|«[^»\n]{0,400}»|‘[^’\n]{0,400}’'
    r"|(?<![^\s(\[{:,])'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w)){0,400}'(?!\w)|^[ \t]*>[^\n]*$",
    re.MULTILINE,
)
_SPOKEN = (
    r"(?:says|said|saying|writes|wrote|writing|claims?|claimed|claiming|states|stated|stating|contains|containing"
    r"|asks(?:\s+me)?(?:\s+(?:for|to\s+\w+))?|asked\s+for|demands|includes|mentions|suggests|instructs(?:\s+me)?"
    r"(?:\s+to\s+\w+)?|tells\s+me(?:\s+to\s+\w+)?|ends\s+with|begins\s+with|the\s+(?:line|text|words|string))"
)
_REPORTED = re.compile(rf"(?<!\bI\s)(?<!\bI'd\s)(?<!\bwe\s)\b{_SPOKEN}(?:\s+that)?\s*[:,]?\s*[\"'“‘(]*$", re.IGNORECASE)
_JUDGING = r"(?:say|give|rate|assign|award|score|go|judge|choose|pick|grade|settle|put|place|estimate|prefer|select)"
_SUPPOSED = re.compile(
    r"\b(?:consider(?:ed)?|if|unless|need\w*|requir\w*|expect\w*|versus|vs\.?|instead\s+of|rather\s+than|than|not|never"
    r"|neither|nor|isn't|wasn't)(?:\s+\w+){0,2}\s*[\"'(\[]*$",
    re.IGNORECASE,
)
_IF = re.compile(r"^\s*(?:but\s+)?(?:if|unless)\b(?!\s+I\s+(?:must|have|had)\b)", re.IGNORECASE)
_UNSURE = re.compile(
    r"\b(?:could|should|might|may|cannot|not|never|no|if|unless|than|maximum|max|highest|top|perfect|full|possible"
    rf"|minimum|min|lowest|best|worst|ideal|average|mean|between|typical|would(?!\s+(?:\w+ly\s+)?{_JUDGING}\b))\b|n't\b",
    re.IGNORECASE,
)
_SUPPOSED_AFTER = re.compile(
    r"\s*[)\]\"']*\s*(?:would|could|might|needs?|requires?|is\s+(?:possible|reserved|only|the\s+(?:max|high|top|best))"
    r"|if\b|unless\b|was\s+(?:my|the)\s+(?:first|initial)|seems?\s+too)",
    re.IGNORECASE,
)
_SIDE = re.compile(
    r"\b(?:confidence|certainty|maximum|max|highest|top|perfect|minimum|lowest|possible|previous|initial|original"
    r"|average|mean|expected|target|threshold|baseline|draft|first|tentative|example|sample|human|their|its)\s+$",
    re.IGNORECASE,
)
_CRITERION = (
    r"(?:grammar|style|clarity|relevance|coherence|fluency|consistency|accuracy|helpfulness|depth|completeness|tone"
    r"|engagement|informativeness|information|correctness|creativity|safety|conciseness|brevity|structure|format"
    r"|formatting|content|effort|naturalness|groundedness|factuality|language|spelling|readability|flow|coverage"
    r"|detail|originality|politeness|harmlessness|honesty)"
)
_PART_BEFORE = re.compile(rf"\b{_CRITERION}\s+(?:-\s*)?$", re.IGNORECASE)
_PART_AFTER = re.compile(rf"\s*(?:for|on|in)\s+(?:the\s+|its\s+)?{_CRITERION}\b", re.IGNORECASE)
_MINE = re.compile(r"\b(?:my|I|we|our)\b[^.!?;\n]*$")
_ENDED = re.compile(r"[\])}\"'”’]*(?:[.!;]?[ \t]*\n|[.!;]\s)")
_BREAK = re.compile(r"[.!?;]\s|\n|\s(?=(?:so|therefore|thus|hence|but)\b[ ,:])", re.IGNORECASE)
_LOOK_BACK = 100


class Rank(IntEnum):
    """Firmness with which a statement gives a verdict."""

    SAID = 1
    MARKED = 2
    FINAL = 3


@dataclass(frozen=True)
class Parsed:
    """A reply as read.

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

    @property
    def shown(self) -> str:
        """The verdict in a few words."""
        return self.label or " > ".join(self.order) or f"{self.value:g}"


class Mention(NamedTuple):
    """A place of the reply that looks like a verdict.

    Attributes:
        start, end: of its words, marker included.
        value_end: where the value itself ends, the punctuation behind it aside.
        rank: by its form alone.
        parsed: its content.
    """

    start: int
    end: int
    value_end: int
    rank: Rank
    parsed: Parsed


class Statement(NamedTuple):
    """A mention that counts: its rank by form and words, whether its sentence has ended, and what it says."""

    rank: Rank
    ended: bool
    parsed: Parsed


def clean(reply: str) -> str:
    """The reply as it looks: full-width characters in their plain form, nothing invisible, no emphasis marks."""
    folded = unicodedata.normalize("NFKC", reply)
    shown = "".join(c for c in folded if unicodedata.category(c) not in {"Cf", "Cc"} or c in "\n\t")
    return re.sub(r"\*+|`+|__+", "", shown)


def no_reply(text: str) -> str:
    """Why a reply holds no answer at all; empty if it may hold one."""
    if not text.strip():
        return "the reply is empty"
    return "the reply is an error message" if _ERROR.match(text) else ""


def answer_of(text: str) -> tuple[str, str]:
    """The part of a reply that answers, and why there is none.

    Left out is what stands inside a block of reasoning (`<think>`, `[THINK]` and the like). Where a block closes that
    never opened, the prompt opened it, and all before the close is reasoning; a block that never closes leaves no
    answer.
    """
    if reason := no_reply(text):
        return "", reason
    parts: list[str] = []
    inside, at = False, 0
    for tag in _THINKING.finditer(text):
        if tag["open"] and not inside:
            parts.append(text[at : tag.start()])
        elif tag["close"] and not inside:
            parts.clear()
        inside, at = bool(tag["open"]), tag.end()
    if inside:
        return "", _UNFINISHED
    answer = "\n".join([*parts, text[at:]])
    if at and not answer.strip():
        return "", _ONLY_THOUGHT
    return answer, no_reply(answer)


def statements(text: str, mentions: Iterable[Mention]) -> list[Statement]:
    """The mentions that the judge stands for, in order: not quoted, reported, supposed, nor a score beside the verdict.

    Args:
        text: the answer.
        mentions: in the order of the text.
    """
    quotes = [(m.start(), m.end()) for m in _QUOTED.finditer(text) if m.group().strip() != text.strip()]
    made, before = [], 0
    for mention in mentions:
        head = _head(text, max(before, mention.start - _LOOK_BACK), mention.start)
        before = mention.end
        if any(start <= mention.start and mention.value_end <= end for start, end in quotes):
            continue
        words = text[mention.start : mention.value_end]
        rank = _rank_of(mention, head, words, text[mention.value_end : mention.value_end + _LOOK_BACK])
        if rank is not None:
            ended = bool(_ENDED.match(text, mention.value_end))
            made.append(Statement(rank, ended, mention.parsed))
    return made


def verdict_of(found: Sequence[Statement], nothing: str, *, cut: bool = False) -> Parsed:
    """The verdict among the statements, or why there is none.

    A malformed last statement is no reason to fall back on an earlier one, which may be an echo.

    Args:
        found: in the order of the reply.
        nothing: the reason where there is no statement.
        cut: true where the reply broke off at its longest length.
    """
    pool = [s for s in found if s.rank >= Rank.MARKED] or list(found)
    if not pool or (cut and pool[-1].parsed.reason):
        return Parsed(reason=CUT_OFF if cut else nothing)
    if pool[-1].parsed.reason:
        return pool[-1].parsed
    good = [s for s in pool if not s.parsed.reason]
    top = max(s.rank for s in good)
    last = [s for s in good if s.rank is top][-1]
    other = next((s for s in good if s.rank is top and s.parsed.shown != last.parsed.shown), None)
    if other is not None:
        return Parsed(reason=f"the reply gives two verdicts, {other.parsed.shown} and {last.parsed.shown}")
    if cut and not (top is Rank.FINAL and last.ended):
        return Parsed(reason=CUT_OFF)
    return last.parsed


def reported(text: str, start: int) -> bool:
    """True where what begins at this place is somebody else's words: `The response says …`."""
    return bool(_REPORTED.search(_head(text, max(0, start - _LOOK_BACK), start)))


def final(text: str, start: int) -> bool:
    """True where what begins at this place is announced as final or as a correction."""
    return bool(_FINAL.search(_head(text, max(0, start - _LOOK_BACK), start)))


def _head(text: str, begin: int, start: int) -> str:
    """Text before a place in its own clause."""
    return _BREAK.split(text[begin:start])[-1]


def _rank_of(mention: Mention, head: str, words: str, tail: str) -> Rank | None:
    """Its rank by form and words; None where it is no verdict."""
    if any(pattern.search(head) for pattern in (_REPORTED, _SIDE, _SUPPOSED, _IF)):
        return None
    if _SUPPOSED_AFTER.match(tail) or _PART_AFTER.match(tail) or (mention.rank is Rank.SAID and _UNSURE.search(head)):
        return None
    if _PART_BEFORE.search(head):
        return Rank.SAID
    if _FINAL.search(f"{head}{words}"):
        return max(mention.rank, Rank.FINAL if mention.rank is not Rank.SAID or _MINE.search(head) else Rank.MARKED)
    return Rank.MARKED if _MINE.search(head) else mention.rank

"""Rewriting a response in another manner: by rules that need no model, or by a model that is asked to.

A `Style` says what the manner is: an instruction for a model and a rule for the program. Both rewriters leave their
texts to `check_content`, whose report goes with each result, so that a study can leave out what lost its content.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from engine.core.errors import InputError

# Content check without a model: numbers, names and the structure of lists in a rewritten text.
#
# A distractor must change the manner and never the content (paper 004, appendix A.3: numbers, facts and order stay).
# These checks see what a program can see; a changed fact without a number or a name in it passes them.

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[.,:/]\d+)*(?:\s?%)?")
_WORD = re.compile(r"[^\W\d_][\w'’-]*\w|[^\W\d_]")
_END = re.compile(r"[.!?:;…][\"'”’)\]]*\s*$")
_BULLET = re.compile(r"\s*([-*•–+])\s+\S")
_NUMBERED = re.compile(r"\s*\(?(?:\d{1,3}|[A-Za-z])[.)]\s+\S")
_HEADING = re.compile(r"\s*#{1,6}\s+\S")
_SEPARATOR = re.compile(r"\s*(?:\*{3,}|-{3,}|={3,}|_{3,})\s*$")
FENCE = re.compile(r"\s*(?:```|~~~)")
"""Beginning of a line that opens or closes a code block."""
_TITLE = re.compile(r"<<[^<>\n]+>>")
_NO_NAMES = frozenset({"I", "I'm", "I’m", "I'll", "I’ll", "I've", "I’ve", "I'd", "I’d"})


@dataclass(frozen=True)
class ContentReport:
    """Numbers, names and list structure that a rewriting lost or added.

    Attributes:
        missing_numbers: numbers of the original that the rewriting lacks, as often as they are missing.
        missing_names: capitalised words inside sentences, words in capitals and words with inner capitals that the
            rewriting lacks, whatever their case there.
        list_kept: bullets, numbered points, headings, titles, code fences and separators follow one another as before.
        length_ratio: words after over words before; NaN where there were none.
        added_numbers: numbers that only the rewriting has.
        empty: the rewriting has no word although the original had one.
    """

    missing_numbers: tuple[str, ...]
    missing_names: tuple[str, ...]
    list_kept: bool
    length_ratio: float
    added_numbers: tuple[str, ...] = ()
    empty: bool = False

    @property
    def ok(self) -> bool:
        """Nothing that is checked was lost or added; the length may change."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every fault in words for a table; empty where there is none."""
        faults: list[str] = []
        if self.empty:
            faults.append("nothing is left")
        if self.missing_numbers:
            faults.append(f"numbers lost: {', '.join(self.missing_numbers)}")
        if self.added_numbers:
            faults.append(f"numbers added: {', '.join(self.added_numbers)}")
        if self.missing_names:
            faults.append(f"names lost: {', '.join(self.missing_names)}")
        if not self.list_kept:
            faults.append("list structure changed")
        return tuple(faults)


def check_content(before: str, after: str) -> ContentReport:
    """Compare a rewritten text with its original."""
    old, new = Counter(numbers_of(before)), Counter(numbers_of(after))
    present = {w.casefold() for w in _WORD.findall(after)}
    names = [name for name in names_of(before) if name.casefold() not in present]
    words_before, words_after = len(before.split()), len(after.split())
    return ContentReport(
        missing_numbers=tuple((old - new).elements()),
        missing_names=tuple(names),
        list_kept=structure_of(before) == structure_of(after),
        length_ratio=words_after / words_before if words_before else float("nan"),
        added_numbers=tuple((new - old).elements()),
        empty=bool(_WORD.search(before)) and not _WORD.search(after),
    )


def numbers_of(text: str) -> list[str]:
    """The numbers of a text in order: 3, 2.5, 1,000, 10:30, 1/2, 40 %; the numbers of list points count too."""
    return [re.sub(r"\s", "", match).replace("−", "-") for match in _NUMBER.findall(text)]


def names_of(text: str) -> list[str]:
    """Words that look like names, each once, in order of appearance.

    A capital at the start of a sentence or line says nothing, so such a word counts only if it stands with a capital
    elsewhere too, or has further capitals. A text without small letters has no names that could be told apart.
    """
    if not any(c.islower() for c in text):
        return []
    names: dict[str, None] = {}
    for line in text.splitlines():
        end = 0
        for match in _WORD.finditer(line):
            word = match.group()
            starts = not _WORD.search(line[: match.start()]) or bool(_END.search(line[end : match.start()]))
            end = match.end()
            if word in _NO_NAMES or (word[0].islower() and not any(c.isupper() for c in word[1:])):
                continue
            inner = any(c.isupper() for c in word[1:])
            if inner or not starts:
                names.setdefault(word)
    return list(names)


def structure_of(text: str) -> tuple[str, ...]:
    """The marks of structure, line by line: bullets, numbered points, headings, titles, fences and separators."""
    marks: list[str] = []
    for line in text.splitlines():
        if FENCE.match(line):
            marks.append("fence")
        elif _SEPARATOR.match(line):
            marks.append("separator")
        elif bullet := _BULLET.match(line):
            marks.append(f"bullet {bullet.group(1)}")
        elif _NUMBERED.match(line):
            marks.append("numbered")
        elif _HEADING.match(line):
            marks.append("heading")
        marks += ["title"] * len(_TITLE.findall(line))
    return tuple(marks)


Rule = Callable[[str, float, Random], str]
"""(text, strength in [0, 1], source of chance) to the rewritten text; strength 0 changes nothing."""
Write = Callable[[Sequence[tuple[str, str]], Sequence[int]], list[str]]
"""(system and user message, most new tokens) of each prompt to what the model wrote."""

KEEP = (
    "Important constraints:\n"
    "- Do NOT alter the factual content of the response. Modify its tone only.\n"
    "- Do NOT correct incorrect information. If a statement is wrong, keep it wrong.\n"
    "- Do NOT change numerical figures, statistics or data points.\n"
    "- Keep names, list points and the order of everything.\n"
    "Reply with the rewritten response only."
)
"""Constraints of paper 004's modification prompts (appendix A.3), for one response in place of a conversation."""


@dataclass(frozen=True)
class Style:
    """A manner of writing.

    Attributes:
        name: of the arm.
        instruction: the request to a model; the constraints are added to it.
        rules: the program's way of doing the same.
    """

    name: str
    instruction: str
    rules: Rule


@dataclass(frozen=True)
class Rewrite:
    """A rewritten text and what it kept of the original."""

    text: str
    report: ContentReport


class Rewriter(Protocol):
    """Writes texts anew in a style."""

    @property
    def name(self) -> str:
        """The maker of a variant: `rules`, or the spec of a model."""
        ...

    def rewrite(self, texts: Sequence[str], style: Style, *, strength: float, seed: int) -> list[Rewrite]:
        """Each text in the style, with its report.

        Args:
            texts: to be rewritten.
            style: the manner.
            strength: in [0, 1]; 0 leaves the texts as they are.
            seed: of the random draws; the same seed gives the same text.

        Raises:
            InputError: the strength is outside [0, 1].
        """
        ...


class RuleRewriter:
    """Rewrites by a style's rules; no model. A text's variant does not depend on the others in the batch."""

    name = "rules"

    def rewrite(self, texts: Sequence[str], style: Style, *, strength: float, seed: int) -> list[Rewrite]:
        """Each text by the style's rules, with its report.

        Raises:
            InputError: the strength is outside [0, 1].
        """
        check_strength(strength)
        if strength == 0:
            return [_unchanged(text) for text in texts]
        made = [style.rules(text, strength, chance(seed, style.name, text)) for text in texts]
        return [Rewrite(new, check_content(old, new)) for old, new in zip(texts, made, strict=True)]


class ModelRewriter:
    """Rewrites by asking a model, greedily, so that the seed changes nothing.

    Args:
        model: asked for each prompt; see `Write`.
        name: spec of the model, which names the variants it made.
    """

    def __init__(self, model: Write, name: str = "model") -> None:
        self.name = name
        self._write = model

    def rewrite(self, texts: Sequence[str], style: Style, *, strength: float, seed: int) -> list[Rewrite]:  # noqa: ARG002 - greedy
        """Each text as the model writes it, with its report; texts without a word are left as they are.

        Raises:
            InputError: the strength is outside [0, 1].
        """
        check_strength(strength)
        out = [_unchanged(text) for text in texts]
        asked = [i for i, text in enumerate(texts) if text.strip()] if strength else []
        prompts = [("", prompt_of(style, strength, texts[i])) for i in asked]
        replies = self._write(prompts, [room_for(texts[i]) for i in asked]) if asked else []
        for i, reply in zip(asked, replies, strict=True):
            text = bare(reply, texts[i])
            out[i] = Rewrite(text, check_content(texts[i], text))
        return out


def prompt_of(style: Style, strength: float, text: str) -> str:
    """The prompt to a model: the style's instruction, its strength in words, the constraints and the response."""
    return f"{style.instruction}\n{degree(strength)}\n\n{KEEP}\n\nResponse:\n{text}\n\nRewritten response:"


def degree(strength: float) -> str:
    """The strength in words, for a model."""
    if strength <= 0.34:
        return "Change the tone slightly: a few words are enough."
    if strength <= 0.67:
        return "Change the tone clearly, but not in every sentence."
    return "Change the tone strongly and throughout."


def room_for(text: str) -> int:
    """Most new tokens: three for each word of the original and some more, since a manner may add words."""
    return 48 + 3 * len(text.split())


def bare(reply: str, original: str) -> str:
    """The reply without surrounding white space, a leading label, or quotes that the original does not have."""
    text = reply.strip()
    for label in ("Rewritten response:", "Response:"):
        text = text.removeprefix(label).strip()
    quoted = len(text) > 1 and text[0] == text[-1] == '"' and text.count('"') == 2
    return text[1:-1].strip() if quoted and not original.strip().startswith('"') else text


def chance(seed: int, *parts: str) -> Random:
    """A source of chance that depends on the seed and the parts alone, on every machine."""
    digest = hashlib.sha256("\x1f".join([str(seed), *parts]).encode("utf-8", "surrogatepass")).digest()
    return Random(int.from_bytes(digest[:8], "big"))


def check_strength(strength: float) -> None:
    """Refuse what is no share.

    Raises:
        InputError: the strength is outside [0, 1].
    """
    if not 0 <= strength <= 1:
        raise InputError(f"The strength of a rewriting is {strength}; it must lie between 0 (unchanged) and 1.")


def _unchanged(text: str) -> Rewrite:
    return Rewrite(text, check_content(text, text))

"""Whether a rewritten text still says the same: numbers, names and the shape of its lists, checked without a model.

A distractor must change the manner and never the content (paper 004, appendix A.3: numbers, facts and order stay).
These checks see what a program can see; a changed fact without a number or a name in it passes them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[.,:/]\d+)*(?:\s?%)?")
_WORD = re.compile(r"[^\W\d_][\w'’-]*\w|[^\W\d_]")
_END = re.compile(r"[.!?:;…][\"'”’)\]]*\s*$")
_BULLET = re.compile(r"\s*([-*•–+])\s+\S")
_NUMBERED = re.compile(r"\s*\(?(?:\d{1,3}|[A-Za-z])[.)]\s+\S")
_HEADING = re.compile(r"\s*#{1,6}\s+\S")
_SEPARATOR = re.compile(r"\s*(?:\*{3,}|-{3,}|={3,}|_{3,})\s*$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_TITLE = re.compile(r"<<[^<>\n]+>>")
_NO_NAMES = frozenset({"I", "I'm", "I’m", "I'll", "I’ll", "I've", "I’ve", "I'd", "I’d"})


@dataclass(frozen=True)
class ContentReport:
    """What a rewriting kept and lost.

    Attributes:
        missing_numbers: numbers of the original that the rewriting lacks, as often as they are missing.
        missing_names: capitalised words inside sentences, words in capitals and words with inner capitals that the
            rewriting lacks, whatever their case there.
        list_kept: whether bullets, numbered points, headings, titles, code fences and separators follow one another
            as before.
        length_ratio: words after over words before; NaN where there were none.
        added_numbers: numbers that only the rewriting has.
        empty: whether the rewriting has no word although the original had one.
    """

    missing_numbers: tuple[str, ...]
    missing_names: tuple[str, ...]
    list_kept: bool
    length_ratio: float
    added_numbers: tuple[str, ...] = ()
    empty: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing that is checked was lost or added; the length may change."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is wrong, in words for a table; empty where nothing is."""
        found: list[str] = []
        if self.empty:
            found.append("nothing is left")
        if self.missing_numbers:
            found.append(f"numbers lost: {', '.join(self.missing_numbers)}")
        if self.added_numbers:
            found.append(f"numbers added: {', '.join(self.added_numbers)}")
        if self.missing_names:
            found.append(f"names lost: {', '.join(self.missing_names)}")
        if not self.list_kept:
            found.append("list structure changed")
        return tuple(found)


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
    found: dict[str, None] = {}
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
                found.setdefault(word)
    return list(found)


def structure_of(text: str) -> tuple[str, ...]:
    """The marks of structure, line by line: bullets, numbered points, headings, titles, fences and separators."""
    marks: list[str] = []
    for line in text.splitlines():
        if _FENCE.match(line):
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

"""Answer types of references, and counterfactual references drawn from a pool (RefSwap, paper 003, appendix A).

A counterfactual reference has another answer type than the true one and shares few tokens with it. The draw is
nested: the references for a smaller K are the first ones of a larger K, so that K can be changed afterwards.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

import numpy as np

from engine.core.errors import InputError, shown
from engine.core.files import write_atomically

MAX_OVERLAP = 0.3
"""Jaccard overlap of tokens from which a reference is too like the true one (paper 003, appendix A)."""
LONGEST = 200
"""Characters of a final answer; a longer reference is a whole solution and enters no pool."""
K_MAX = 10


class AnswerType(StrEnum):
    """Answer type of a reference; the four buckets of the paper."""

    NUMERIC = "numeric"
    EXPRESSION = "expression"
    CHOICE = "multiple_choice"
    STRING = "string"


_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mbox|operatorname)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"\\[,;:!]|\\ |\\quad|\\qquad|\\left|\\right|\\displaystyle|~|\u00a0|\u202f")
_CHOICE = re.compile(
    r"(?:[A-J]|\([A-Za-z]\))[.:]?(?:\s*(?:,|and|&)\s*\(?[A-J]\)?)*|\([A-Z]\)\s*\\?\s*\S.*"
    r"|[A-J][):]\s*\S.*|[A-J]\.\s*[^\sA-Z].*"
)
"""Letters of options, alone or before the option's text; "A. Lincoln" may be a name and is none."""
_TIME = re.compile(r"\d{1,2}:\d{2}|\d\s*[ap]\.?\s?m\b", re.IGNORECASE)
_STATES = frozenset({"yes", "no", "true", "false"})
_FUNCTIONS = frozenset({"sqrt", "pi", "frac", "dfrac", "tfrac", "cdot", "times", "e", "approx", "pm", "circ", "degree"})
_UNIT_WORDS = (
    "% cm mm m km in inch inches ft feet foot yd yards mile miles g kg mg lb lbs oz ton tons s sec second seconds min "
    "minute minutes h hr hour hours day days week weeks month months year years ml l liter liters litre litres cent "
    "cents dollar dollars euro euros pound pounds unit units degree degrees mph kmh people percent square cubic "
    "point points times piece pieces item items usd eur"
)
_UNITS = frozenset(_UNIT_WORDS.split())
_NUMBER = r"[-+−]?\s*(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_PLAIN_NUMBER = re.compile(rf"({_NUMBER})(?:\s*/\s*(\d+(?:\.\d+)?))?")
_COUNTED = re.compile(rf"({_NUMBER}(?:\s*/\s*\d+)?)((?:\s+(?:of\s+)?[a-z]{{3,}}){{1,3}})")
"""A number of anything, such as 100 apples or 1/2 cup of milk: one to three words behind it, in small letters."""
_NAMED_FUNCTIONS = frozenset({"sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "theta", "alpha", "beta", "and"})
_SAID_FUNCTIONS = frozenset({"sqrt", "pi", "π", "e", "times", "degree"})
"""Words that belong to a number also without the backslash of LaTeX; pm is then a time of day."""
_STRUCTURE = re.compile(r"[=<>*]|\^(?!\s*\{?\s*\\?circ)|^[\[(].*,|\\begin|\\\{")
"""Signs of more than one number: relations, products, powers, tuples, matrices, sets."""
_MATHS = re.compile(r"[=<>^{}]|\\[a-z]|^[\[(].*,.*[\])]$")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")


def final_answer(text: str) -> str:
    r"""The answer a reference comes to: what stands in its last `\boxed{}`, else the text; outer signs removed."""
    start = text.rfind("\\boxed{")
    if start >= 0:
        depth, end = 0, len(text)
        for i in range(start + len("\\boxed"), len(text)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                end = i
                break
        text = text[start + len("\\boxed{") : end]
    text = text.strip()
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            text = text[len(opening) : len(text) - len(closing)].strip()
    return text.rstrip(".").strip() if len(text) > 1 else text


def plain_answer(text: str) -> str:
    """A final answer without LaTeX wrappers, spacing commands, currency signs and thousands separators."""
    text = _SPACING.sub(" ", final_answer(text))
    while True:
        bare = _WRAPPER.sub(r" \1 ", text)
        if bare == text:
            break
        text = bare
    text = text.replace("{,}", ",").replace("\\%", "%").replace("\\$", "$").replace("−", "-")
    text = re.sub(r"\\[dt]?frac\s*(\d)\s*(\d)", r"\1/\2", text)
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text).strip("$€£ ")
    return " ".join(text.split())


def answer_type(text: str) -> AnswerType:
    """The bucket of a reference.

    Letters standing for options, with or without the option's text, and yes, no, true, false are choices. A number may
    have a unit or up to three words for what is counted, a sign of currency, a fraction bar, a root or pi. What has
    other letters among numbers and signs of mathematics is an expression, and so is a tuple, an interval, a set, an
    equation or a matrix. Anything else is a string, times of day among them.
    """
    text = plain_answer(text)
    if not text or len(text) > LONGEST or _TIME.search(text):
        return AnswerType.STRING
    if _CHOICE.fullmatch(text) or text.lower() in _STATES:
        return AnswerType.CHOICE
    if _counted(text):
        return AnswerType.NUMERIC
    words = [w.lstrip("\\") for w in re.findall(r"\\?[^\W\d_]+", text) if not _is_function(w)]
    if any(c.isdigit() for c in text) or re.search(r"\\pi(?![a-z])|π", text):
        if all(w.lower() in _UNITS for w in words) and not _STRUCTURE.search(text):
            return AnswerType.NUMERIC
        prose = any(len(w) > 3 and w.lower() not in _UNITS for w in words)
        return AnswerType.STRING if prose and not _MATHS.search(text) else AnswerType.EXPRESSION
    signs = re.search(r"[-+*/^=<>]|\\[a-z]", text)
    return AnswerType.EXPRESSION if signs and words and all(len(w) < 3 for w in words) else AnswerType.STRING


def _is_function(word: str) -> bool:
    """True where a word is a sign of mathematics that a number may have."""
    return word[1:].lower() in _FUNCTIONS if word.startswith("\\") else word.lower() in _SAID_FUNCTIONS


def _counted(text: str) -> re.Match[str] | None:
    """A number of something: the match of number and words, None for anything else."""
    found = _COUNTED.fullmatch(text)
    return found if found and not _NAMED_FUNCTIONS & set(found[2].split()) else None


def tokens_of(text: str) -> frozenset[str]:
    """Numbers and words of an answer, lower case; where there are none, its characters."""
    plain = plain_answer(text).lower()
    return frozenset(_TOKEN.findall(plain)) or frozenset(plain.replace(" ", ""))


def overlap(a: str, b: str) -> float:
    """Jaccard overlap of the tokens of two answers, in [0, 1]; 0 where neither has any."""
    return _jaccard(tokens_of(a), tokens_of(b))


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    together = first | second
    return len(first & second) / len(together) if together else 0.0


def number_of(text: str) -> Fraction | None:
    """The value of an answer that is a plain number or a fraction, its unit left aside; None for any other."""
    bare = plain_answer(text)
    if counted := _counted(bare):
        bare = counted[1].strip()
    unit = re.search(r"([^\W\d_]+|%)$", bare)
    if unit and unit[1].lower() in _UNITS:
        bare = bare[: unit.start()].strip()
    found = _PLAIN_NUMBER.fullmatch(bare)
    if not found or (found[2] and Fraction(found[2]) == 0):
        return None
    top = Fraction(found[1].replace(",", "").replace(" ", "").replace("−", "-"))
    return top / Fraction(found[2]) if found[2] else top


@dataclass(frozen=True)
class Entry:
    """A reference of a pool, taken apart once."""

    text: str
    kind: AnswerType
    tokens: frozenset[str]
    number: Fraction | None


@dataclass(frozen=True)
class ReferencePool:
    """Where counterfactual references come from.

    Attributes:
        name: its name in a message.
        entries: different final answers, sorted, so that a draw does not depend on the order of a file.
    """

    name: str
    entries: tuple[Entry, ...]

    @property
    def counts(self) -> dict[AnswerType, int]:
        """Entries of each answer type."""
        found = Counter(entry.kind for entry in self.entries)
        return {kind: found[kind] for kind in AnswerType}

    def draw(self, reference: str, k: int, *, key: str, seed: int = 42, same_type: bool = False) -> tuple[str, ...]:
        """K counterfactual references for a true one; those for a smaller K are the first of these.

        Of the same answer type, any other value will do, and where there are fewer than K all of them are taken: there
        are only so many letters of options.

        Args:
            reference: the true reference.
            k: number of references, from 1 to 10.
            key: owner of the draw, for example the item's id; other keys, other draws.
            seed: of the draw.
            same_type: take the same answer type instead of another one (the harder arm).

        Raises:
            InputError: k is out of range, or the pool has fewer such references.
        """
        if not 1 <= k <= K_MAX:
            raise InputError(f"K is {k}; give a whole number from 1 to {K_MAX}.")
        own = entry_of(reference)
        rng = np.random.default_rng([seed, zlib.crc32(key.encode("utf-8", "surrogatepass")), int(same_type)])
        found: list[str] = []
        for i in rng.permutation(len(self.entries)).tolist():
            if _fits(self.entries[i], own, same_type=same_type):
                found.append(self.entries[i].text)
                if len(found) == k:
                    return tuple(found)
        if same_type and found:
            return tuple(found)
        raise InputError(self._too_few(own, len(found), k, same_type=same_type))

    def _too_few(self, own: Entry, found: int, k: int, *, same_type: bool) -> str:
        of = ", ".join(f"{n} {kind.value.replace('_', ' ')}" for kind, n in self.counts.items())
        wanted = (
            "1 is needed: the same answer type and another value"
            if same_type
            else f"{k} are needed: another answer type and less than {MAX_OVERLAP:g} of the tokens in common"
        )
        return (
            f"The pool {self.name} has {found} usable counterfactual references for {shown(own.text)} "
            f"({own.kind.value.replace('_', ' ')}), and {wanted}. It holds {of}. Choose a smaller K or a pool with "
            "more answer types."
        )


def entry_of(text: str) -> Entry:
    """A reference taken apart."""
    return Entry(final_answer(text), answer_type(text), tokens_of(text), number_of(text))


def _fits(entry: Entry, own: Entry, *, same_type: bool) -> bool:
    if (entry.kind is own.kind) is not same_type or entry.text == own.text:
        return False
    if entry.number is not None and entry.number == own.number:
        return False
    return same_type or _jaccard(entry.tokens, own.tokens) < MAX_OVERLAP


def make_pool(references: Iterable[str], name: str) -> ReferencePool:
    """A pool of the different final answers among some references; empty and over-long ones are left out.

    Raises:
        InputError: nothing is left.
    """
    texts = sorted({final_answer(text) for text in references})
    entries = tuple(entry_of(t) for t in texts if t.strip() and len(t) <= LONGEST)
    if not entries:
        raise InputError(f"The pool {name} holds no reference. Give a file with one reference a line, or other data.")
    return ReferencePool(name, entries)


# Counterfactual references of the user's own: a text file with one a line, kept so that a job can name it.

MAX_MB = 1
MAX_LINES = 20_000
LISTED = 20
"""Most pools that are offered, the newest first."""
_ID = re.compile(r"pool-[0-9a-f]{16}")


@dataclass(frozen=True)
class SavedPool:
    """A pool that is kept.

    Attributes:
        pool_id: `pool-...`, by its content.
        name: of the file it came in.
        n: different final answers in it.
    """

    pool_id: str
    name: str
    n: int


def pool_of_lines(name: str, content: bytes) -> ReferencePool:
    """The pool of a text file with one reference a line; blank lines and repeats are passed over.

    Raises:
        InputError: it is not UTF-8, has too many lines, or holds no reference.
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"The pool {name} cannot be read as UTF-8 text: {error}. Save it as UTF-8.") from None
    if len(lines) > MAX_LINES:
        raise InputError(f"The pool {name} has {len(lines):,} lines; at most {MAX_LINES:,} are taken. Give fewer.")
    return make_pool(lines, name)


def save_pool(name: str, content: bytes, root: Path) -> SavedPool:
    """Keep a pool; the same references again are kept once, under the newer name.

    Raises:
        InputError: as `pool_of_lines`.
    """
    texts = [entry.text for entry in pool_of_lines(name, content).entries]
    text = json.dumps({"name": name, "references": texts}, ensure_ascii=False)
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    root.mkdir(parents=True, exist_ok=True)
    write_atomically(root / f"pool-{digest}.json", text.encode())
    return SavedPool(f"pool-{digest}", name, len(texts))


def load_pool(pool_id: str, root: Path) -> ReferencePool | None:
    """A pool that was kept; None where the name is of no such kind.

    Raises:
        InputError: it is gone or damaged.
    """
    if not _ID.fullmatch(pool_id):
        return None
    try:
        name, texts = _read(root / f"{pool_id}.json")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The references {pool_id} cannot be read ({error}). Upload the file again.") from None
    return make_pool(texts, name)


def list_pools(root: Path) -> list[SavedPool]:
    """The pools that were kept, the newest first."""
    paths = [p for p in root.glob("pool-*.json") if _ID.fullmatch(p.stem)] if root.is_dir() else []
    out = []
    for path in sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True)[:LISTED]:
        try:
            name, texts = _read(path)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a damaged file must not hide the others
        out.append(SavedPool(path.stem, name, len(texts)))
    return out


def _read(path: Path) -> tuple[str, list[str]]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    return str(stored["name"]), [str(text) for text in stored["references"]]

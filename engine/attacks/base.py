"""The Attack protocol: a named edit of a response; and a word diff that shows the edit."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.judges.base import Request


class Attack(Protocol):
    """Rewrites the response of a request; never the context, never the prompt."""

    @property
    def name(self) -> str:
        """Name of the arm."""
        ...

    def apply(self, request: Request) -> str:
        """The attacked text of `request.response`."""
        ...


@dataclass(frozen=True)
class Insertion:
    """An attack that adds fixed text before or after the response."""

    name: str
    text: str
    before: bool = False

    def apply(self, request: Request) -> str:
        """The response with the text added; an empty text leaves it unchanged."""
        return self.text + request.response if self.before else request.response + self.text


class Piece(NamedTuple):
    """A run of the attacked text: `same`, `added`, or `removed` (present only in the original)."""

    kind: str
    text: str


def word_diff(original: str, attacked: str) -> list[Piece]:
    """Runs of words that are the same, added or removed; joining all but `removed` gives `attacked` exactly.

    A pure insertion at an end needs no alignment, so that long texts stay fast and an attack that
    repeats the response's own words is still shown as one piece.
    """
    if attacked.startswith(original):
        return _pieces([("same", original), ("added", attacked[len(original) :])])
    if attacked.endswith(original):
        return _pieces([("added", attacked[: len(attacked) - len(original)]), ("same", original)])
    old, new = _words(original), _words(attacked)
    runs: list[tuple[str, str]] = []
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            runs.append(("same", "".join(old[i1:i2])))
        else:
            runs += [("removed", "".join(old[i1:i2])), ("added", "".join(new[j1:j2]))]
    return _pieces(runs)


def _words(text: str) -> list[str]:
    return re.findall(r"\s+|[^\s]+", text)


def _pieces(runs: list[tuple[str, str]]) -> list[Piece]:
    return [Piece(kind, text) for kind, text in runs if text]

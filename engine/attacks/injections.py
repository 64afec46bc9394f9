"""Attacks that add text to a response or replace it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.attacks.base import Insertion
from engine.attacks.names import AttackName
from engine.attacks.phrases import first_words
from engine.attacks.wording import NEUTRAL, PASTA, gap, worded
from engine.errors import InputError
from engine.judges.base import Request
from engine.schema import Order, Protocol

MAX_OWN_TEXT = 20_000


def own_text(text: str, *, before: bool = False) -> Insertion:
    """The user's own text, set apart from the response by one line break.

    Raises:
        InputError: the text is longer than 20,000 characters.
    """
    if len(text) > MAX_OWN_TEXT:
        raise InputError(
            f"Your attack text has {len(text):,} characters; at most {MAX_OWN_TEXT:,} are allowed. Shorten it."
        )
    glued = (f"{text}\n" if before else f"\n{text}") if text else ""
    return Insertion("own@before" if before else "own", glued, before=before)


@dataclass(frozen=True)
class Injection:
    """A text that asks for a verdict; its words follow the protocol, the direction and the position."""

    of: AttackName

    @property
    def name(self) -> str:
        """Name of the arm."""
        return self.of.name

    def apply(self, request: Request) -> str:
        """The response with the text before or after it."""
        text = worded(self.of.base, request.protocol, deflate=self.of.deflate, before=self.of.before)
        return _added(request.response, text, gap(self.of.base), before=self.of.before)


@dataclass(frozen=True)
class Distraction:
    """A paragraph about something else. In a pair it names the slot the response stands in.

    The slot depends on the order, so a pair's order must be set before the attack is applied, and a swapped pair
    attacked anew.
    """

    of: AttackName

    @property
    def name(self) -> str:
        """Name of the arm."""
        return self.of.name

    def apply(self, request: Request) -> str:
        """The response with the paragraph before or after it.

        Raises:
            InputError: a pair without an order, whose slots have no letters yet.
        """
        text = NEUTRAL
        if request.protocol is Protocol.PAIRWISE:
            if request.order is None:
                raise InputError(
                    f"The distraction of {request.response_id} names its slot, and the pair has no order. Set order "
                    "to ab or ba first."
                )
            text = PASTA.format(letter="A" if request.order is Order.AB else "B")
        return _added(request.response, text, "\n\n", before=self.of.before)


@dataclass(frozen=True)
class LearnedSuffix:
    """The first words of a published universal phrase; no words leave the response as it is."""

    of: AttackName

    @property
    def name(self) -> str:
        """Name of the arm."""
        return self.of.name

    def apply(self, request: Request) -> str:
        """The response and the words, with one space between them."""
        words = first_words(self.of.phrase, self.of.length)
        return _added(request.response, words, " ", before=self.of.before) if words else request.response


@dataclass(frozen=True)
class Repetition:
    """The response over and over, one copy a line."""

    of: AttackName

    @property
    def name(self) -> str:
        """Name of the arm."""
        return self.of.name

    def apply(self, request: Request) -> str:
        """As many copies as the name says."""
        return "\n".join([request.response] * self.of.length)


@dataclass(frozen=True)
class EmptyAnswer:
    """No answer at all."""

    name: str = "empty"

    def apply(self, request: Request) -> str:  # noqa: ARG002 - the protocol's signature
        """Nothing."""
        return ""


def _added(response: str, text: str, gap: str, *, before: bool) -> str:
    return f"{text}{gap}{response}" if before else f"{response}{gap}{text}"

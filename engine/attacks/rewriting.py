"""Rewriting a response in another manner: by rules that need no model, or by a model that is asked to.

A `Style` says what the manner is: an instruction for a model and a rule for the program. Both rewriters leave their
texts to `check_content`, whose report goes with each result, so that a study can leave out what lost its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from engine.attacks.content import ContentReport, check_content
from engine.errors import InputError

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
        name: what the arm is called.
        instruction: what a model is told to make of the response; the constraints are added to it.
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
        """What made a variant: `rules`, or the spec of a model."""
        ...

    def rewrite(self, texts: Sequence[str], style: Style, *, strength: float, seed: int) -> list[Rewrite]:
        """Each text in the style, with its report.

        Args:
            texts: what to rewrite.
            style: the manner.
            strength: how much of it, in [0, 1]; 0 leaves the texts as they are.
            seed: where chance decides, the same seed gives the same text.

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
    """What a model is asked: the style's instruction, how much of it, the constraints and the response."""
    return f"{style.instruction}\n{degree(strength)}\n\n{KEEP}\n\nResponse:\n{text}\n\nRewritten response:"


def degree(strength: float) -> str:
    """The strength in words; a model has no dial."""
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

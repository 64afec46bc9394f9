"""Judge cards: a production judge is a model *and* its prompt, kept in a TOML file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from engine.core.errors import InputError
from engine.core.files import read_file
from engine.core.json import read_toml
from engine.core.schema import Protocol, Task
from engine.judges.parsing import path_steps

PLACEHOLDERS = (
    "context",
    "response",
    "response_a",
    "response_b",
    "reference",
    "anchor_low",
    "anchor_high",
    "candidates",
)
_ANCHORS = frozenset({"anchor_low", "anchor_high"})
_CANDIDATES = frozenset({"response", "response_a", "response_b", "candidates"})
_NEEDED: dict[Protocol, frozenset[str]] = {
    Protocol.POINTWISE: frozenset({"response"}),
    Protocol.PAIRWISE: frozenset({"response_a", "response_b"}),
    Protocol.VERIFIER: frozenset({"response", "reference"}),
    Protocol.RANKING: frozenset({"candidates"}),
}
_LABELS: dict[Protocol, tuple[int, int]] = {
    Protocol.POINTWISE: (2, 101),
    Protocol.PAIRWISE: (2, 3),
    Protocol.VERIFIER: (2, 2),
    Protocol.RANKING: (2, 26),
}
_SLOT = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")
MAX_PROMPT = 50_000
"""Longest system and user message together [characters]; a longer paste is most likely not a prompt."""
MAX_FILE_BYTES = 400_000
"""Largest file taken for a card: its prompt at four bytes a character, and the rest."""


class Card(BaseModel):
    """The prompt of a judge and the way its answer is read.

    Attributes:
        tasks: the tasks the prompt is written for.
        spec: the model this prompt is meant for; empty leaves it to whoever uses the card.
        mode: read the labels' probabilities after the prompt, the text the judge writes, or one value of the JSON it
            writes.
        path: where that value stands, for example `$.score` (mode "json").
        labels: answers offered. Pointwise: scores. Pairwise: first shown, second shown and, if offered, tie.
            Verifier: yes, no. Ranking: names for as many candidates as may be ranked.
        values: the number each label stands for (pointwise; elsewhere labels go by their place).
        spellings: further spellings of each label, aligned with `labels`.
        system: system message; empty leaves the chat template's default.
        chat: true where the prompt goes through the model's chat template; false sends it as plain text.
        variant: name of this wording where a task has several, for example a verifier without the question.
        decimals: true where a score written between two labels counts (text mode).
        max_new_tokens: longest reply (text mode).
        user: user message with `{placeholders}`; `{{name}}` stands for the literal text `{name}`.
        remark: caution for users, for example that the judge was not trained on this prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    spec: str = ""
    tasks: tuple[Task, ...] = Field(min_length=1)
    protocol: Protocol = Protocol.POINTWISE
    mode: Literal["label probabilities", "text", "json"] = "label probabilities"
    path: str = ""
    labels: tuple[str, ...]
    values: tuple[FiniteFloat, ...] = ()
    spellings: tuple[tuple[str, ...], ...] = ()
    system: str = ""
    user: str
    chat: bool = True
    variant: str = ""
    decimals: bool = False
    max_new_tokens: int = Field(default=48, ge=1, le=2048)
    remark: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Card:
        if len(self.labels) < 2 or len(set(self.labels)) != len(self.labels):
            raise ValueError("labels must be at least two, all different")
        low, high = _LABELS[self.protocol]
        if not low <= len(self.labels) <= high:
            raise ValueError(f"a {self.protocol} card has {low} to {high} labels, this one {len(self.labels)}")
        if len(self.values) != len(self.labels) and (self.values or self.protocol is Protocol.POINTWISE):
            raise ValueError(f"{len(self.values)} values for {len(self.labels)} labels; give one each")
        if self.spellings and len(self.spellings) != len(self.labels):
            raise ValueError(f"{len(self.spellings)} spellings for {len(self.labels)} labels; give a list each")
        if self.protocol is Protocol.RANKING and (
            self.mode != "text" or any(len(s) != 1 or not "A" <= s <= "Z" for s in self.labels)
        ):
            raise ValueError('a ranking card has mode "text" and single capital letters as labels')
        if (self.mode == "json") != bool(self.path):
            raise ValueError('a path, for example "$.score", goes with mode "json" and only with it')
        if self.path:
            path_steps(self.path)
        if len(self.system) + len(self.user) > MAX_PROMPT:
            raise ValueError(
                f"the prompt has {len(self.system) + len(self.user):,} characters; at most {MAX_PROMPT:,} are taken. "
                "Put what differs from row to row into {context} and {response}, not into the prompt"
            )
        self._check_placeholders()
        return self

    def _check_placeholders(self) -> None:
        used = self.placeholders
        if unknown := used - set(PLACEHOLDERS):
            raise ValueError(
                f"unknown placeholder {{{sorted(unknown)[0]}}}; allowed: "
                f"{', '.join(f'{{{p}}}' for p in PLACEHOLDERS)}; write {{{{name}}}} for literal braces"
            )
        if missing := _NEEDED[self.protocol] - used:
            raise ValueError(f"the user message has no {{{sorted(missing)[0]}}}; the judge would not see it")
        if wrong := used & _CANDIDATES - _NEEDED[self.protocol]:
            raise ValueError(f"{{{sorted(wrong)[0]}}} has no meaning in a {self.protocol} card")
        if len(used & _ANCHORS) == 1:
            raise ValueError(f"{{{min(used & _ANCHORS)}}} stands alone; an anchored card uses both anchors")

    @property
    def placeholders(self) -> frozenset[str]:
        """The placeholders that the user message fills."""
        return frozenset(m.group(2) for m in _SLOT.finditer(self.user) if m.group(2))

    @property
    def anchored(self) -> bool:
        """True where the prompt shows a lower and a higher reference."""
        return bool(self.placeholders & _ANCHORS)

    @property
    def digest(self) -> str:
        """Digest of everything in the card that decides an answer."""
        # A field added later counts only where it is used, so that the digests of older cards stay what they were.
        left_out = {"name", "remark", "spec"} | (set() if self.path else {"path"})
        return hashlib.sha256(self.model_dump_json(exclude=left_out).encode()).hexdigest()


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values into the placeholders in one pass: a value that looks like a placeholder stays as it is."""

    def one(match: re.Match[str]) -> str:
        literal, name = match.group(1), match.group(2)
        return f"{{{literal}}}" if literal else values[name]

    return _SLOT.sub(one, template)


def read_card(path: Path) -> Card:
    """Read and check a card file.

    Raises:
        InputError: unreadable, not TOML, or a field is wrong; the message names the field.
    """
    return parse_card(read_file(path, MAX_FILE_BYTES), path.name)


def parse_card(content: bytes, where: str) -> Card:
    """A card from the bytes of its TOML file.

    Raises:
        InputError: not UTF-8, not TOML, or a field is wrong; the message names the field.
    """
    try:
        fields = read_toml(content)
    except ValueError as error:
        raise InputError(f"The judge card {where} is not valid TOML: {error}.") from None
    return make_card(fields, where)


def make_card(fields: Mapping[str, object], where: str) -> Card:
    """A card from its fields.

    Raises:
        InputError: a field is wrong; the message names each.
    """
    try:
        return Card.model_validate(fields)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'card'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        )
        raise InputError(f"The judge card {where} is wrong. {wrong}.") from None


def read_cards(folder: Path) -> list[Card]:
    """Every card in a folder, in the order of the file names."""
    return [read_card(path) for path in sorted(folder.glob("*.toml"))]


def built_in_cards(folder: Path) -> dict[Task, Card]:
    """The plain pointwise card of each task, from the TOML files that ship with the project."""
    return {
        task: card
        for card in read_cards(folder)
        if card.protocol is Protocol.POINTWISE and not card.anchored and not card.variant
        for task in card.tasks
    }


@dataclass(frozen=True)
class CardKey:
    """Key by which a request gets its card."""

    protocol: Protocol
    task: Task
    anchored: bool = False
    variant: str = ""


class CardBook:
    """The cards of a judge, by protocol, task, anchors and variant."""

    def __init__(self, cards: Iterable[Card]) -> None:
        self._cards: dict[CardKey, Card] = {}
        for card in cards:
            for task in card.tasks:
                key = CardKey(card.protocol, task, card.anchored, card.variant)
                other = self._cards.setdefault(key, card)
                if other is not card:
                    raise InputError(
                        f"The judge cards {other.name} and {card.name} both answer {card.protocol} requests for the "
                        f"task {task}. Keep one, or give one of them a variant name."
                    )
        self.cards = tuple(dict.fromkeys(self._cards.values()))

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols that some card asks."""
        return frozenset(key.protocol for key in self._cards)

    def find(self, key: CardKey, spec: str) -> Card:
        """The card for a request.

        Args:
            key: of the request.
            spec: the judge's spec, for the message.

        Raises:
            InputError: there is none; the message names what there is.
        """
        if key in self._cards:
            return self._cards[key]
        if key.protocol not in self.protocols:
            answered = ", ".join(p for p in Protocol if p in self.protocols)
            raise InputError(f"{spec} answers {answered} requests only; this one is {key.protocol}.")
        same = [k for k in self._cards if k.protocol is key.protocol]
        if key.anchored and not any(k.anchored and k.task is key.task for k in same):
            tasks = ", ".join(dict.fromkeys(k.task for k in same if k.anchored)) or "no task"
            raise InputError(
                f"{spec} has no anchored {key.protocol} prompt for the task {key.task} (a card that uses "
                f"{{anchor_low}} and {{anchor_high}}). It has anchored prompts for: {tasks}. Pass such a card with "
                "--judge-card FILE, or judge without anchors."
            )
        here = [k for k in same if k.task is key.task and k.anchored == key.anchored]
        if here:
            names = ", ".join(k.variant or "(plain)" for k in here)
            raise InputError(
                f"{spec} has no {key.protocol} prompt of the variant {key.variant or '(plain)'} for the task "
                f"{key.task}. It has: {names}."
            )
        raise InputError(
            f"{spec} has no {key.protocol} prompt for the task {key.task}. It has prompts for: "
            f"{', '.join(dict.fromkeys(k.task for k in same))}. Change the data's task, or pass a card with "
            "--judge-card FILE."
        )

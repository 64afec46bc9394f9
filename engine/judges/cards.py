"""Judge cards: a production judge is a model *and* its prompt, kept in a TOML file."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from engine.errors import InputError
from engine.schema import Protocol, Task

PLACEHOLDERS = (
    "context",
    "response",
    "response_a",
    "response_b",
    "reference",
    "anchor_low",
    "anchor_high",
)
_SLOT = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


class Card(BaseModel):
    """How a judge is asked and how its answer is read.

    Attributes:
        tasks: the tasks the prompt is written for.
        labels: answers offered; each must be a single token of the judge.
        values: the number each label stands for.
        spellings: further spellings of each label, aligned with `labels`.
        system: system message; empty leaves the chat template's default.
        user: user message with `{placeholders}`; `{{name}}` stands for the literal text `{name}`.
        remark: what a user should know, for example that the judge was not trained on this prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    tasks: tuple[Task, ...]
    protocol: Protocol = Protocol.POINTWISE
    mode: Literal["label probabilities"] = "label probabilities"
    labels: tuple[str, ...]
    values: tuple[float, ...]
    spellings: tuple[tuple[str, ...], ...] = ()
    system: str = ""
    user: str
    remark: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Card:
        if len(self.labels) < 2 or len(set(self.labels)) != len(self.labels):
            raise ValueError("labels must be at least two, all different")
        if len(self.values) != len(self.labels):
            raise ValueError(f"{len(self.values)} values for {len(self.labels)} labels; give one each")
        if self.spellings and len(self.spellings) != len(self.labels):
            raise ValueError(f"{len(self.spellings)} spellings for {len(self.labels)} labels; give a list each")
        used = {m.group(2) for m in _SLOT.finditer(self.user) if m.group(2)}
        if unknown := used - set(PLACEHOLDERS):
            raise ValueError(
                f"unknown placeholder {{{sorted(unknown)[0]}}}; allowed: "
                f"{', '.join(f'{{{p}}}' for p in PLACEHOLDERS)}; write {{{{name}}}} for literal braces"
            )
        needed = {"response"} if self.protocol is not Protocol.PAIRWISE else {"response_a", "response_b"}
        if missing := needed - used:
            raise ValueError(f"the user message has no {{{sorted(missing)[0]}}}; the judge would not see it")
        return self

    @property
    def digest(self) -> str:
        """Digest of everything in the card that decides an answer."""
        return hashlib.sha256(self.model_dump_json(exclude={"name", "remark"}).encode()).hexdigest()


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
    try:
        return Card.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"The judge card {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The judge card {path.name} is not valid TOML: {error}.") from None
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'card'}: {e['msg']}" for e in error.errors())
        raise InputError(f"The judge card {path.name} is wrong. {wrong}.") from None


def built_in_cards(folder: Path) -> dict[Task, Card]:
    """The pointwise card of each task, from the TOML files that ship with the project."""
    cards = [read_card(path) for path in sorted(folder.glob("*.toml"))]
    return {task: card for card in cards if card.protocol is Protocol.POINTWISE for task in card.tasks}

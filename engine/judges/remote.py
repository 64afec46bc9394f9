"""A judge that other processes hold: what a study wants to know of it is asked there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from engine import __version__
from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.judges.base import Request, device_of
from engine.judges.cards import Card


@dataclass(frozen=True)
class About:
    """The driver's knowledge of a judge that others hold.

    Attributes:
        origin: revision and precision of a model.
        writes: it can write an analysis before its verdict.
        prompted: it is a model that is asked through cards.
        version: of JudgeScope where it is held.
    """

    spec: str
    fingerprint: str
    protocols: frozenset[Protocol]
    device: str
    origin: dict[str, str]
    writes: bool
    prompted: bool
    version: str


def described(judge: Any) -> About:
    """A judge, for a driver that does not hold it."""
    return About(
        judge.spec,
        judge.fingerprint,
        judge.protocols,
        device_of(judge),
        dict(getattr(judge, "origin", {})),
        bool(getattr(judge, "writes", False)),
        hasattr(judge, "card"),
        __version__,
    )


class RemoteJudge:
    """The methods of a judge that need no more than an answer from one of its processes.

    Args:
        about: from one of them.
        spread: over what, for the manifest.
    """

    def __init__(self, about: About, spread: Mapping[str, str]) -> None:
        self.spec, self.fingerprint, self.protocols = about.spec, about.fingerprint, about.protocols
        self.device, self.origin, self.writes = about.device, {**about.origin, **spread}, about.writes

    def labels(self, request: Request) -> tuple[str, ...]:
        """The answers offered for this request."""
        return tuple(self._ask("labels", request))

    def prompt(self, request: Request) -> str:
        """The prompt of this request as text; empty for a judge without a model."""
        return str(self._ask("prompt", request))

    def _ask(self, method: str, argument: Any) -> Any:
        raise NotImplementedError


class RemoteCards(RemoteJudge):
    """The same of a language model with its cards.

    Attributes:
        over: where its calls go, for messages.
        option: of the command line that spreads them.
    """

    over: ClassVar[str]
    option: ClassVar[str]

    @property
    def loaded(self) -> Any:
        """No model is in this process.

        Raises:
            InputError: always.
        """
        raise InputError(
            f"{self.spec} is spread over {self.over}, and this part of the study reads the model itself (gradients, or "
            "a question of a defense to the judge's own model), which is not distributed. "
            f"Run it without {self.option}."
        )

    def card(self, request: Request) -> Card:
        """The card this request is asked through."""
        found: Card = self._ask("card", request)
        return found

    def remark(self, request: Request) -> str:
        """The card's remark for users."""
        return str(self._ask("remark", request))

    def token_ids(self, request: Request) -> Sequence[int]:
        """The whole prompt as the model gets it."""
        return list(self._ask("token_ids", request))

"""A judge that other processes hold: what a study wants to know of it is asked there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from engine.core.errors import InputError
from engine.judges.base import Request
from engine.judges.cards import Card


class RemoteJudge:
    """The methods of a judge that need no more than an answer from one of its processes."""

    spec: str

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

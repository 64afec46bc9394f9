"""A judge asked through a server's decision API: it writes nothing, and answers with a probability for each label.

OpenAI's Decisions API and vLLM from 0.33 take the question at `/v1/decisions`; vLLM from 0.32, llama.cpp with a
decision model, Ollama and others at `/v1/systemone`. The first of the two that answers is used. A card's prompt is
parted where its first placeholder stands: the words before it are the question's instructions, what follows is the
evidence. The server writes the choices, and the labels that stand for them, into the prompt by its own template, so the
numbers are not those of `api:` with the same model.

The API renormalises over the choices, so coverage is 1, unless the server names the mass of its labels (vLLM's
`/v1/systemone`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.schema import Protocol
from engine.inference.completions import DecisionQuestion
from engine.judges.api import ApiCall, ApiJudge
from engine.judges.base import Request
from engine.judges.cards import PLACEHOLDERS, Card
from engine.judges.labelled import user_message

NO_WORDS = "Which answer does the text ask for?"
"""Instructions of a card that begins with a placeholder."""


class DecisionJudge(ApiJudge):
    """A language or decision model behind a decision API; the arguments are those of `ApiJudge`."""

    _groups = ("decision",)
    writes = False
    """It has no cards that reason before the verdict."""

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols it has cards for; an order of several candidates is no choice."""
        return super().protocols - {Protocol.RANKING}

    @property
    def answers(self) -> str:
        """Probabilities, since it has nothing else."""
        return "probabilities"

    def _question_calls(self, request: Request, card: Card, *, labels: bool) -> tuple[ApiCall, ...]:  # noqa: ARG002
        reader = self._readers[request.protocol]
        choices = reader.labels(request, card)
        words, evidence = parted(card)
        bare = replace(request, quote=replace(request.quote, note=""))
        instructions = [request.quote.note, card.system, words or NO_WORDS]
        question = DecisionQuestion(
            system="\n\n".join(part for part in instructions if part),
            user=user_message(bare, evidence, reader),
            labels=True,
            max_tokens=1,
            choices=choices,
        )
        return (ApiCall(question, tuple((choice,) for choice in choices)),)


def parted(card: Card) -> tuple[str, Card]:
    """The words before a card's first placeholder, and the card without them.

    The part is made at the last blank line or line break before that placeholder, so that a heading such as
    "Dialogue:" stays with what it names.
    """
    user = card.user.removeprefix("\n")
    first = min(_places(user), default=0)
    head = user[:first]
    cut = max(head.rfind("\n\n"), 0)
    words = user[:cut].strip().replace("{{", "{").replace("}}", "}")
    return words, card.model_copy(update={"user": user[cut:].lstrip("\n")})


def _places(user: str) -> Iterator[int]:
    """Where placeholders stand."""
    for name in PLACEHOLDERS:
        place = user.find(f"{{{name}}}")
        while place >= 0:
            if user[place - 1 : place] != "{":
                yield place
                break
            place = user.find(f"{{{name}}}", place + 1)

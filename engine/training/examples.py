"""Training examples: a prompt made from a judge card, and a target over the card's one-token answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.judges.cards import Card, fill, read_card
from engine.training.corrupt import Random

CARDS = (
    *("summary", "summary-anchored", "dialogue", "dialogue-anchored", "instruction", "pairwise"),
    *("verifier", "verifier-no-question", "verifier-reference-last"),
)
LOW_ANCHOR, HIGH_ANCHOR = 2.0, 4.0
MIRROR = {"A": "B", "B": "A", "C": "C"}


@dataclass(frozen=True)
class Example:
    """One prompt and what the judge should answer.

    Attributes:
        pool: its pool, for example `dialogue_rated`.
        cluster: the context it rests on, with its data set, for example `topicalchat:7`.
        card: name of the card whose prompt and labels it has.
        user: the whole user message.
        target: one probability per label of the card, summing to 1.
    """

    pool: str
    cluster: str
    card: str
    user: str
    target: tuple[float, ...]


Unit = tuple[Example, ...]
"""Examples that stay together in a batch: one, or the two orders of a pair."""


@dataclass(frozen=True)
class Asker:
    """Makes examples from the project's own cards, so that training and judging share every character."""

    cards: Mapping[str, Card]

    def user(self, card: str, **slots: str) -> str:
        """The card's user message with the slots filled, as the judges render it."""
        return fill(self.cards[card].user, slots).removeprefix("\n")

    def score(self, pool: str, cluster: str, card: str, rating: float, **slots: str) -> Unit:
        """A pointwise example with a soft target around a rating on the card's scale."""
        return (Example(pool, cluster, card, self.user(card, **slots), spread(rating, self.cards[card].values)),)

    def answer(self, pool: str, cluster: str, card: str, label: str, certain: float, **slots: str) -> Unit:
        """An example with one right label; the rest of the probability goes to the others evenly."""
        labels = self.cards[card].labels
        rest = (1 - certain) / (len(labels) - 1)
        target = tuple(certain if one == label else rest for one in labels)
        return (Example(pool, cluster, card, self.user(card, **slots), target),)

    def both_orders(
        self, pool: str, cluster: str, votes: tuple[float, float, float], context: str, a: str, b: str
    ) -> Unit:
        """A pair in both orders; `votes` are for a, b and a tie, and the second target is the first mirrored."""
        labels = self.cards["pairwise"].labels
        share = dict(zip("ABC", votes, strict=True))
        first = tuple(share[label] for label in labels)
        second = tuple(share[MIRROR[label]] for label in labels)
        return (
            Example(
                pool, cluster, "pairwise", self.user("pairwise", context=context, response_a=a, response_b=b), first
            ),
            Example(
                pool, cluster, "pairwise", self.user("pairwise", context=context, response_a=b, response_b=a), second
            ),
        )


def load_asker(folder: Path) -> Asker:
    """The project's cards by name.

    Raises:
        InputError: a card is missing or wrong.
    """
    return Asker({name: read_card(folder / f"{name}.toml") for name in CARDS})


def spread(rating: float, values: Sequence[float]) -> tuple[float, ...]:
    """A distribution over the score labels whose mean is the rating: shared between its two neighbours.

    A rating outside the scale is moved to its end.
    """
    rating = min(max(rating, min(values)), max(values))
    weights = np.clip(1 - np.abs(np.asarray(values, dtype=np.float64) - rating), 0, None)
    return tuple(float(w) for w in weights / weights.sum())


def softened(votes: tuple[float, float, float], amount: float) -> tuple[float, float, float]:
    """Votes moved a little toward even, since few votes do not make certainty."""
    a, b, tie = ((1 - amount) * v + amount / 3 for v in votes)
    return a, b, tie


def nearest_anchors(others: Sequence[tuple[str, float]]) -> tuple[str, str] | None:
    """The low and the high anchor: the texts rated nearest 2 and nearest 4; None without two different ones."""
    usable = [(text, rating) for text, rating in others if text.strip()]
    if len(usable) < 2:
        return None
    low = min(usable, key=lambda o: abs(o[1] - LOW_ANCHOR))
    high = min((o for o in usable if o[0] != low[0]), key=lambda o: abs(o[1] - HIGH_ANCHOR), default=None)
    return (low[0], high[0]) if high and high[1] > low[1] else None


def capped(text: str, words: int) -> str:
    """At most so many words of a text; anchors are short."""
    parts = text.split()
    return text if len(parts) <= words else " ".join(parts[:words])


def thinned(units: Iterable[Unit], share: float, rng: Random) -> list[Unit]:
    """A random share of the units, at least one where there are any."""
    every = list(units)
    if share >= 1 or not every:
        return every
    picks = rng.permutation(len(every))[: max(1, round(share * len(every)))]
    return [every[i] for i in sorted(picks.tolist())]

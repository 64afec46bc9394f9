"""What study `protocols` asks the judge: scores, comparisons in both orders, copies, and rankings of choice sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from engine.core.schema import NONE, Protocol, Task
from engine.data.dataset import Dataset
from engine.judges.base import Candidate, Request
from engine.judges.kinds import both_orders
from engine.stats.arena import Arena
from engine.studies.protocols.leaderboard import lowest
from engine.studies.protocols.metrics import View, outcomes

RANKED = 4
"""Systems of a choice-set quadruple: A, B, C, D."""


@dataclass(frozen=True)
class Text:
    """A response as it is judged in one arm."""

    item_id: str
    response_id: str
    system: str
    text: str


class Asker:
    """Makes the requests of a run from its texts.

    Args:
        dataset: items and their contexts.
        variants: table `variants`.
        prompts: by protocol, the variant of the prompt (the primary criterion); empty for the built-in one.
    """

    def __init__(self, dataset: Dataset, variants: pd.DataFrame, prompts: dict[Protocol, str]) -> None:
        items = dataset.items.set_index("item_id")
        self._contexts = items["context"].fillna("").to_dict()
        self._tasks = {item: Task(task) for item, task in items["task"].items()}
        self._prompts = prompts
        self._texts: dict[tuple[str, str], Text] = {}
        columns = ["style", "response_id", "item_id", "system", "text", "kept"]
        for style, response, item, system, text, kept in variants[columns].itertuples(index=False, name=None):
            if kept or style == NONE:
                self._texts[style, response] = Text(item, response, system, text)
        self.arms = [arm for arm in dict.fromkeys(variants["style"]) if arm != NONE]
        self.by_item: dict[str, list[Text]] = {}
        for (arm, _), text in self._texts.items():
            if arm == NONE:
                self.by_item.setdefault(text.item_id, []).append(text)

    def scores(self) -> list[Request]:
        """Every original and every kept rewriting, one at a time."""
        return [self._one(text, arm) for (arm, _), text in self._texts.items()]

    def clean_pairs(self) -> list[Request]:
        """Every two responses to an item, in both orders."""
        pairs = [pair for texts in self.by_item.values() for pair in combinations(texts, 2)]
        return both_orders(self._pair(a, b, NONE) for a, b in pairs)

    def copies(self) -> list[Request]:
        """Every response against itself and against its kept rewritings, in both orders."""
        made: list[Request] = []
        for texts in self.by_item.values():
            for text in texts:
                for arm in (NONE, *self.arms):
                    other = self._texts.get((arm, text.response_id))
                    if other:
                        made += both_orders([self._pair(text, other, NONE if arm == NONE else f"{arm}@b")])
        return made

    def distracted(self, arena: Arena, needs: Needs, view: View) -> list[Request]:
        """Comparisons with a rewritten side, as far as flips, ladder and leaderboard need them, in both orders.

        Item by item with all arms, so that a stopped run is still paired.
        """
        made: list[Request] = []
        for arm in self.arms:
            board = needs.lowest if arm in needs.boards else 0
            for item, pair, side in needed_sides(arena, board, view):
                a, b = (str(arena.responses[item, s]) for s in arena.pairs[pair])
                texts = [self._texts.get((arm if name in side else NONE, r)) for name, r in (("a", a), ("b", b))]
                if texts[0] and texts[1]:
                    made += both_orders([self._pair(texts[0], texts[1], f"{arm}@{side}")])
        return sorted(made, key=lambda request: request.item_id)

    def likely(self) -> list[Request]:
        """One rewritten side of every pair and arm, in both orders: what `distracted` comes to, about."""
        made: list[Request] = []
        for arm in self.arms:
            for texts in self.by_item.values():
                for a, b in combinations(texts, 2):
                    other = self._texts.get((arm, b.response_id))
                    made += both_orders([self._pair(a, other, f"{arm}@b")]) if other else []
        return made

    def rankings(self, seed: int) -> list[Request]:
        """One quadruple an item, {A, B, C} and {A, B, D} in both layouts and both orders of A and B."""
        made: list[Request] = []
        rng = np.random.default_rng(seed)
        for texts in self.by_item.values():
            if len(texts) < RANKED:
                continue
            a, b, *others = (texts[i] for i in rng.permutation(len(texts))[:RANKED])
            for x in others:
                for first, second in ((a, b), (b, a)):
                    made += [self._ranking(shown) for shown in ((first, second, x), (x, first, second))]
        return made

    def _one(self, text: Text, arm: str) -> Request:
        return Request(
            text.item_id,
            text.response_id,
            self._tasks[text.item_id],
            self._contexts[text.item_id],
            text.text,
            variant=self._prompts.get(Protocol.POINTWISE, ""),
            attack=arm,
            system=text.system,
        )

    def _pair(self, a: Text, b: Text, attack: str) -> Request:
        return replace(
            self._one(a, attack),
            protocol=Protocol.PAIRWISE,
            variant=self._prompts.get(Protocol.PAIRWISE, ""),
            response_b_id=b.response_id,
            response_b=b.text,
            system_b=b.system,
        )

    def _ranking(self, shown: Sequence[Text]) -> Request:
        others = tuple(Candidate(t.response_id, t.text) for t in shown[1:])
        return replace(
            self._one(shown[0], NONE),
            protocol=Protocol.RANKING,
            variant=self._prompts.get(Protocol.RANKING, ""),
            others=others,
        )


@dataclass(frozen=True)
class Needs:
    """What a run measures of the leaderboard.

    Attributes:
        lowest: how many systems, from the lowest, are rewritten.
        boards: arms that the leaderboard is made for.
    """

    lowest: int
    boards: frozenset[str]


def needed_sides(arena: Arena, board: int, view: View) -> list[tuple[int, int, str]]:
    """Item, pair and side (`a`, `b`, `ab`) of the rewritten comparisons that the readouts use.

    The clean loser is rewritten for the flips, the response that fails rules for the ladder, and for the leaderboard
    whatever belongs to the `board` lowest systems, at every number of them up to that.
    """
    clean = outcomes(arena, Protocol.PAIRWISE, view)
    wanted: dict[tuple[int, int, str], None] = {}

    def add(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], side: str) -> None:
        wanted.update(dict.fromkeys((int(i), int(p), side) for i, p in np.argwhere(mask)))

    add(clean == -1, "a")
    add(clean == 1, "b")
    first, second = (arena.severity[:, arena.pairs[:, s]] for s in (0, 1))
    add((second == 0) & (first > 0), "a")
    add((first == 0) & (second > 0), "b")
    there = ~np.isnan(clean)
    for k in range(1, board + 1):
        chosen = lowest(arena, Protocol.PAIRWISE, k, view)
        in_a, in_b = np.isin(arena.pairs[:, 0], chosen), np.isin(arena.pairs[:, 1], chosen)
        for side, mask in (("a", in_a & ~in_b), ("b", in_b & ~in_a), ("ab", in_a & in_b)):
            add(there & mask, side)
    return sorted(wanted)


def able(ask: Callable[[Request], object], requests: Iterable[Request]) -> str:
    """Why the judge cannot be asked this; empty where it can. The first request stands for all."""
    from engine.core.errors import InputError

    for request in requests:
        try:
            ask(request)
        except InputError as error:
            return str(error)
        return ""
    return "there is nothing to ask"

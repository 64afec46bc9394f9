"""What the pools of examples share: constructed levels and their targets, anchors, groups by context."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from engine.schema import Task
from engine.training.corrupt import BROKEN, BROKEN_TARGET, Random, truncated
from engine.training.examples import Asker, Unit, capped, nearest_anchors
from engine.training.material import Material
from engine.training.sources import Pair, Rated

Pool = Callable[[Material, Asker, Random], Iterator[Unit]]

OFF_TOPIC, GENERIC, DRAFT, PARROT = 1.4, 2.3, 2.3, 1.5
"""Targets by construction, on 1-5."""
ANCHOR_WORDS = {Task.SUMMARY: 95, Task.DIALOGUE: 45}
"""About 128 and 64 tokens, CAP's lengths of a reference text."""


def pick(options: Sequence[str], rng: Random) -> str:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def by_cluster(rated: Sequence[Rated]) -> dict[str, list[Rated]]:
    """The responses of each context, contexts in order of first appearance."""
    groups: dict[str, list[Rated]] = defaultdict(list)
    for one in rated:
        groups[one.cluster].append(one)
    return dict(groups)


def broken(text: str, rng: Random) -> tuple[str, float]:
    """One corruption of form and its target."""
    name = pick(tuple(BROKEN), rng)
    return BROKEN[name](text, rng), BROKEN_TARGET[name]


def cut_off(text: str, rating: float, rng: Random) -> tuple[str, float]:
    """The text broken off; the more is left, the more of its rating."""
    cut, share = truncated(text, rng)
    return cut, 1.1 + (0.2 + 0.6 * share) * (rating - 1)


def choose_anchors(
    own: str, texts: Sequence[tuple[str, float]], drafts: Sequence[str], rng: Random
) -> tuple[str, str] | None:
    """Two texts of about 2 and about 4; where none is rated near 2, the nearest, a draft or a text broken off."""
    high = [t for t, r in texts if 3.5 <= r <= 4.6 and t != own]
    if not high:
        return None
    low = [t for t, r in texts if 1.4 <= r <= 2.7 and t != own]
    if low and rng.random() < 0.75:
        return pick(low, rng), pick(high, rng)
    nearest = nearest_anchors([(t, r) for t, r in texts if t != own])
    if nearest and rng.random() < 0.6:
        return nearest
    if drafts and rng.random() < 0.5:
        return pick(drafts, rng), pick(high, rng)
    return truncated(pick(high, rng), rng)[0], pick(high, rng)


def with_anchors(
    asker: Asker, pool: str, one: Rated, slots: dict[str, str], rating: float, anchors: tuple[str, str] | None
) -> Iterator[Unit]:
    """The anchored example, where there are anchors."""
    if anchors:
        low, high = (capped(a, ANCHOR_WORDS[one.task]) for a in anchors)
        more = {"anchor_low": low, "anchor_high": high}
        yield asker.score(pool, one.cluster, f"{one.task}-anchored", rating, **slots, **more)


def other_pair(every: Sequence[Pair], pair: Pair, rng: Random) -> Pair:
    """A pair about another prompt."""
    while True:
        other = every[int(rng.integers(len(every)))]
        if other.prompt != pair.prompt or len({p.prompt for p in every}) == 1:
            return other

"""Contradictions in preferences: triads that form a circle, and choices that depend on what else is offered.

Paper 004, appendices A.4 and A.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt

from engine.metrics.intervals import Interval, cluster_rate

Floats = npt.NDArray[np.float64]
RANDOM_CYCLES = 0.25
"""Share of circles where every comparison without ties is a coin toss: two of the eight outcomes of a triad."""


@dataclass(frozen=True)
class Triads:
    """Contradictions among three responses to one item.

    Attributes:
        cyclic: share of triads in which each beats the next in a circle.
        intransitive: share in which a beats b and b beats c, yet a does not beat c, a tie included (the paper's).
        cases: item and the three systems of each intransitive triad, with whether it is a strict circle.
    """

    cyclic: Interval
    intransitive: Interval
    cases: tuple[tuple[int, int, int, int, bool], ...]


def triads(outcomes: npt.ArrayLike, pairs: npt.NDArray[np.int64], n_systems: int, *, level: float = 0.95) -> Triads:
    """Shares of contradictory triads among those whose three comparisons were all read.

    Args:
        outcomes: 1 where the first of a pair won, -1 the second, 0 a tie, NaN unread; shape (I, P).
        pairs: systems of each pair, shape (P, 2).
        n_systems: S.
        level: confidence level in (0, 1).
    """
    x = np.asarray(outcomes, dtype=np.float64)
    net = np.full((len(x), n_systems, n_systems), np.nan)
    net[:, pairs[:, 0], pairs[:, 1]] = x
    net[:, pairs[:, 1], pairs[:, 0]] = -x
    three = np.array(list(combinations(range(n_systems), 3)), dtype=np.int64).reshape(-1, 3)
    i, j, k = three.T
    read = ~np.isnan(net[:, i, j] + net[:, j, k] + net[:, i, k])
    broken, circle = np.zeros(read.shape, dtype=bool), np.zeros(read.shape, dtype=bool)
    for order in permutations(range(3)):
        a, b, c = three[:, order[0]], three[:, order[1]], three[:, order[2]]
        chain = (net[:, a, b] == 1) & (net[:, b, c] == 1)
        broken |= chain & (net[:, a, c] != 1)
        circle |= chain & (net[:, a, c] == -1)
    item, triad = np.nonzero(read)
    found = [
        (int(m), int(i[t]), int(j[t]), int(k[t]), bool(circle[m, t]))
        for m, t in zip(item, triad, strict=True)
        if broken[m, t]
    ]
    return Triads(
        cluster_rate(circle[read].astype(float), item, level=level),
        cluster_rate(broken[read].astype(float), item, level=level),
        tuple(found),
    )


def reversals(with_c: npt.ArrayLike, with_d: npt.ArrayLike) -> Floats:
    """Whether the preference between A and B turns round when D stands in C's place (paper 004, A.5).

    Args:
        with_c: place of B minus place of A in the ranking of {A, B, C}, shape [n]; NaN unread, 0 undecided (only where
            two orders were averaged).
        with_d: the same in {A, B, D}.

    Returns:
        1 or 0, NaN where a ranking is unread or undecided, shape [n].
    """
    c, d = np.sign(np.asarray(with_c, dtype=np.float64)), np.sign(np.asarray(with_d, dtype=np.float64))
    undecided = np.isnan(c) | np.isnan(d) | (c == 0) | (d == 0)
    return np.where(undecided, np.nan, (c != d).astype(float))


def choice_set_sensitivity(
    with_c: npt.ArrayLike,
    with_d: npt.ArrayLike,
    clusters: Sequence[object] | npt.NDArray[np.int64],
    *,
    level: float = 0.95,
) -> Interval:
    """Share of reversals, with items as clusters; see `reversals`."""
    return cluster_rate(reversals(with_c, with_d), np.asarray(clusters), level=level)

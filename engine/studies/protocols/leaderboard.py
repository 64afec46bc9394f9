"""Who climbs: ratings before and after the lowest systems are distracted, contradictions, and choice sets.

Paper 004, section 5 and appendices A.4 and A.5. Bradley-Terry first, online Elo beside it, since the paper leaves K,
start and order of its Elo open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.core.schema import NONE, Protocol
from engine.stats.arena import Arena
from engine.stats.intervals import Interval, cluster_rate, percentiles, tails
from engine.stats.ratings import (
    Elo,
    Ratings,
    elo,
    majority_cycles,
    outcome_wins,
    rate,
    rating_problems,
    system_problems,
    win_shares,
)
from engine.studies.protocols.metrics import View, outcomes, slot_outcome

Floats = npt.NDArray[np.float64]
ChosenBy = Literal["own", "pairwise"]
LAYOUTS = ("{A, B, (C, D)}", "{(C, D), A, B}")
"""Layouts of a choice set (paper 004, appendix A.5)."""
FEW_ITEMS = 2
RANDOM_CYCLES = 0.25
"""Share of circles where every comparison without ties is a coin toss: two of the eight outcomes of a triad."""


# Contradictions in preferences: triads that form a circle, and choices that depend on what else is offered.


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
    cases = [
        (int(m), int(i[t]), int(j[t]), int(k[t]), bool(circle[m, t]))
        for m, t in zip(item, triad, strict=True)
        if broken[m, t]
    ]
    return Triads(
        cluster_rate(circle[read].astype(float), item, level=level),
        cluster_rate(broken[read].astype(float), item, level=level),
        tuple(cases),
    )


def reversals(with_c: npt.ArrayLike, with_d: npt.ArrayLike) -> Floats:
    """Reversals: the preference between A and B turns round when D stands in C's place (paper 004, A.5).

    Args:
        with_c: place of B minus place of A in the ranking of {A, B, C}, shape [n]; NaN unread, 0 undecided (only where
            two orders were averaged).
        with_d: the same in {A, B, D}.

    Returns:
        1 where it turns round, else 0; NaN where a ranking is unread or undecided, shape [n].
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


# Ratings before and after a rewriting, and where the preferences behind them contradict one another.


@dataclass(frozen=True)
class Board:
    """A leaderboard before and after the lowest systems are rewritten.

    Attributes:
        protocol: pairwise, or pointwise scores as synthetic comparisons.
        arm: the rewriting.
        distracted: indices of the rewritten systems, lowest first.
        before, after: Bradley-Terry ratings on the comparisons that both have.
        elo_before, elo_after: online Elo on the same comparisons.
        shift, shift_lower, shift_upper: after minus before, Elo points, from the same resampled items, shape (S,).
        climb: mean shift of the rewritten systems with its bounds, likewise; NaN where none was rewritten.
        n: comparisons that entered.
        left_out: comparisons without a verdict before or after, or whose rewriting is not `usable`.
    """

    protocol: Protocol
    arm: str
    distracted: tuple[int, ...]
    before: Ratings
    after: Ratings
    elo_before: Elo
    elo_after: Elo
    shift: Floats
    shift_lower: Floats
    shift_upper: Floats
    climb: tuple[float, float, float]
    n: int
    left_out: int


def lowest(arena: Arena, protocol: Protocol, k: int, view: View) -> tuple[int, ...]:
    """The k systems rated lowest on clean comparisons, lowest first; equal ratings in the order of names."""
    wins = outcome_wins(outcomes(arena, protocol, view), arena.pairs, len(arena.systems))
    rating = rate(wins, resamples=1, seed=view.seed).rating
    order = sorted(range(len(rating)), key=lambda i: (np.isnan(rating[i]), round(float(rating[i]), 6), i))
    return tuple(i for i in order if not np.isnan(rating[i]))[:k]


def distracted_outcomes(arena: Arena, protocol: Protocol, arm: str, distracted: Sequence[int], view: View) -> Floats:
    """Outcomes where every response of the distracted systems is rewritten, shape (I, P)."""
    in_first = np.isin(arena.pairs[:, 0], distracted)
    in_second = np.isin(arena.pairs[:, 1], distracted)
    out = outcomes(arena, protocol, view).copy()
    for side, mask in (("a", in_first & ~in_second), ("b", in_second & ~in_first), ("ab", in_first & in_second)):
        if mask.any():
            out[:, mask] = outcomes(arena, protocol, view, arm, side)[:, mask]
    return out


def board(
    arena: Arena, protocol: Protocol, arm: str, k: int, view: View, *, chosen_by: ChosenBy = "own", elo_k: float = 16.0
) -> Board:
    """Ratings before and after the k lowest systems are rewritten.

    A comparison whose rewriting is not `usable`, or that is unread in one of the two, is left out of both: paired.

    Args:
        arena: the verdicts.
        protocol: pairwise, or pointwise scores as synthetic comparisons.
        arm: the rewriting.
        k: number of systems, from the lowest.
        view: rules for reading the verdicts.
        chosen_by: the protocol's own clean ratings, as in the paper, or the pairwise ones for both.
        elo_k: K of the online Elo.
    """
    choosing = Protocol.PAIRWISE if chosen_by == "pairwise" else protocol
    chosen = lowest(arena, choosing, k, view)
    clean, after, read = _paired(arena, protocol, arm, chosen, view)
    size = len(arena.systems)
    first, second = (rate(outcome_wins(x, arena.pairs, size), level=view.level, seed=view.seed) for x in (clean, after))
    elo_first, elo_second = (elo(x, arena.pairs, size, k=elo_k, seed=view.seed) for x in (clean, after))
    lower, upper = _shift_bounds(first, second, view.level)
    asked = ~np.isnan(outcomes(arena, protocol, view))
    moved, n = second.rating - first.rating, int(read.sum())
    left_out, climb = int((asked & ~read).sum()), _climb(first, second, chosen, view.level)
    return Board(protocol, arm, chosen, first, second, elo_first, elo_second, moved, lower, upper, climb, n, left_out)


def board_problems(ranked: Board, systems: Sequence[str]) -> list[str]:
    """Limits that a reader of the ratings must know, each a sentence without its full stop.

    Systems without a comparison, groups that never met, systems met once, and where a tie was added to each pair so
    that the estimate exists at all, before or after the rewriting.
    """
    said = system_problems(ranked.after.connections, systems)
    for when, held in (("before", ranked.before), ("after", ranked.after)):
        said += rating_problems(held.connections, held.battles, systems, f"{when} the rewriting ")
    return said


def _paired(
    arena: Arena, protocol: Protocol, arm: str, chosen: Sequence[int], view: View
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Outcomes before and after, NaN where one of the two is missing, and where both are read; each shape (I, P)."""
    clean = outcomes(arena, protocol, view)
    after = distracted_outcomes(arena, protocol, arm, chosen, view) if chosen else clean
    read = ~np.isnan(clean) & ~np.isnan(after)
    return np.where(read, clean, np.nan), np.where(read, after, np.nan), read


def with_elo(ranked: Board, arena: Arena, view: View, elo_k: float) -> Board:
    """The same leaderboard with the online Elo at another K; Bradley-Terry knows no K, so it is not fitted again."""
    clean, after, _ = _paired(arena, ranked.protocol, ranked.arm, ranked.distracted, view)
    first, second = (elo(x, arena.pairs, len(arena.systems), k=elo_k, seed=view.seed) for x in (clean, after))
    return replace(ranked, elo_before=first, elo_after=second)


def _shift_bounds(before: Ratings, after: Ratings, level: float) -> tuple[Floats, Floats]:
    gaps = np.full(len(before.rating), np.nan)
    if before.n_items < FEW_ITEMS or not len(before.draws):
        return gaps, gaps
    change = after.draws - before.draws
    known = np.isfinite(change).any(axis=0)
    bounds = np.full((2, len(gaps)), np.nan)
    bounds[:, known] = np.nanquantile(change[:, known], tails(before.n_items - 1, level), axis=0)
    return bounds[0], bounds[1]


def _climb(before: Ratings, after: Ratings, chosen: Sequence[int], level: float) -> tuple[float, float, float]:
    """Mean of after minus before over some systems, and its bounds."""
    if not chosen:
        return (float("nan"),) * 3
    own = list(chosen)
    value = float((after.rating[own] - before.rating[own]).mean())
    if before.n_items < FEW_ITEMS or not len(before.draws):
        return value, float("nan"), float("nan")
    drawn = (after.draws[:, own] - before.draws[:, own]).mean(axis=1)
    return value, *percentiles(drawn, level, before.n_items - 1)


@dataclass(frozen=True)
class WinTable:
    """Share of comparisons that row won against column.

    Attributes:
        shares: ties half, shape (S, S); NaN where two never met.
        n: comparisons, shape (S, S).
        cycles: three systems that beat one another in a circle by majority.
    """

    shares: Floats
    n: Floats
    cycles: tuple[tuple[int, int, int], ...]


def win_table(arena: Arena, protocol: Protocol, view: View) -> WinTable:
    """The win matrix of the clean comparisons, and its cycles."""
    shares, n = win_shares(outcome_wins(outcomes(arena, protocol, view), arena.pairs, len(arena.systems)))
    return WinTable(shares, n, tuple(majority_cycles(shares)))


def contradictions(arena: Arena, view: View, *, averaged: bool = True) -> Triads:
    """Intransitive triads of the clean pairwise comparisons.

    Args:
        arena: the verdicts.
        view: rules for reading them.
        averaged: over both orders; otherwise each pair in one order alone, the first system first.
    """
    clean = arena.shares[NONE, ""]
    outcome = outcomes(arena, Protocol.PAIRWISE, view) if averaged else slot_outcome(clean)[..., 0]
    return triads(outcome, arena.pairs, len(arena.systems), level=view.level)


@dataclass(frozen=True)
class ChoiceSets:
    """Sensitivity of the order of A and B to what stands beside them.

    Attributes:
        layout: `{A, B, (C, D)}` or `{(C, D), A, B}`.
        single: share of reversals in one order of A and B.
        averaged: share after averaging the places over both orders of A and B; undecided ones left out.
    """

    layout: str
    single: Interval
    averaged: Interval


def choice_sets(arena: Arena, *, level: float = 0.95) -> list[ChoiceSets]:
    """Both layouts of paper 004, appendix A.5; empty where no ranking was asked."""
    sets = _quadruples(arena)
    out: list[ChoiceSets] = []
    for layout in LAYOUTS if sets else ():
        single, averaged, items = [], [], []
        for item, (a, b, c, d), places in sets:
            rows = [_gaps(places, a, b, x, layout) for x in (c, d)]
            single.append([row[0] for row in rows])
            averaged.append([float(np.mean(row)) for row in rows])
            items.append(item)
        one, two = np.array(single).T, np.array(averaged).T
        out.append(
            ChoiceSets(
                layout,
                choice_set_sensitivity(one[0], one[1], np.array(items), level=level),
                choice_set_sensitivity(two[0], two[1], np.array(items), level=level),
            )
        )
    return out


@dataclass(frozen=True)
class RankedPair:
    """A and B of one item in one layout, beside C and beside D, both orders of A and B averaged.

    Attributes:
        item: its number.
        layout: as in `ChoiceSets`.
        responses: ids of A, B, C and D.
        with_c, with_d: place of B minus place of A; NaN unread, 0 undecided.
    """

    item: int
    layout: str
    responses: tuple[str, str, str, str]
    with_c: float
    with_d: float

    @property
    def turned(self) -> bool:
        """True where the order of the two turns round."""
        return self.with_c * self.with_d < 0


def ranked_pairs(arena: Arena) -> list[RankedPair]:
    """Cases that `choice_sets` counts, reversals first."""
    pairs = [
        RankedPair(item, layout, names, *(float(np.mean(_gaps(places, *names[:2], x, layout))) for x in names[2:]))
        for layout in LAYOUTS
        for item, names, places in _quadruples(arena)
    ]
    return sorted(pairs, key=lambda one: not one.turned)


Places = dict[tuple[str, ...], tuple[float, ...]]


def _quadruples(arena: Arena) -> list[tuple[int, tuple[str, str, str, str], Places]]:
    """For each item with rankings: A, B, C, D, and the places in every list shown."""
    by_item: dict[int, Places] = {}
    for item, shown, places in arena.rankings:
        by_item.setdefault(item, {})[shown] = places
    out = []
    for item, lists in by_item.items():
        sets = [set(shown) for shown in lists]
        both = sorted(set.intersection(*sets))
        others = sorted(set.union(*sets) - set(both))
        if len(both) == 2 and len(others) == 2:
            out.append((item, (both[0], both[1], others[0], others[1]), lists))
    return out


def _gaps(places: Places, a: str, b: str, x: str, layout: str) -> list[float]:
    """Place of B minus place of A with x beside them, A first and B first; NaN where unread."""
    gaps = []
    for pair in ((a, b), (b, a)):
        shown = (*pair, x) if layout.startswith("{A") else (x, *pair)
        given = places.get(shown, ())
        gaps.append(given[shown.index(b)] - given[shown.index(a)] if len(given) == len(shown) else float("nan"))
    return gaps

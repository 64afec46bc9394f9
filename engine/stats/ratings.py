"""Ratings of systems from comparisons: Bradley-Terry with ties as half wins, and online Elo beside it.

A win matrix holds how often row beat column, a tie counting half to each, so that 1 win, 1 loss and 98 ties are 50 %.
Bradley and Terry (1952) put P(i beats j) = 1 / (1 + exp(b_j - b_i)); the strengths b are found by Newton's method and
shown on the Elo scale, 400 / ln 10 points a unit around 1000.

The estimate is finite exactly where every system can be reached from every other along wins (Ford, 1957). Where that
fails, one tie is added to each pair that met, which `Connections.finite` says; systems that never met through others
are islands, whose ratings and ranks cannot be compared. `rating_problems` says all of it in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, stdtrit
from scipy.stats import rankdata

from engine.core.errors import InputError
from engine.stats.intervals import draw_counts, tails

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SCALE = 400 / np.log(10)
"""Elo points for one unit of log odds."""
START = 1000.0
RESAMPLES = 400
_STEPS = 60
_LONGEST_STEP = 2.0
_RIDGE = 1e-9
_HELD_TIES = 1.0
_TIE = 1e-6
"""Ratings that differ by less are equal [Elo points]."""


def outcome_wins(outcomes: npt.ArrayLike, pairs: Ints, n_systems: int) -> Floats:
    """Wins item by item.

    Args:
        outcomes: 1 where the first of a pair won, -1 the second, 0 a tie, NaN unread; shape (I, P).
        pairs: systems of each pair, shape (P, 2).
        n_systems: S.

    Returns:
        Shape (I, S, S).
    """
    x = np.asarray(outcomes, dtype=np.float64)
    wins = np.zeros((len(x), n_systems, n_systems))
    credit = np.where(np.isnan(x), 0.0, (x + 1) / 2)
    wins[:, pairs[:, 0], pairs[:, 1]] = credit
    wins[:, pairs[:, 1], pairs[:, 0]] = np.where(np.isnan(x), 0.0, 1 - credit)
    return wins


@dataclass(frozen=True)
class Connections:
    """Connectedness of a win matrix: the systems it can and cannot rank.

    Attributes:
        islands: systems that met one another, directly or through others; each a tuple of indices.
        degenerate: systems that never lost or never won, so that their rating has no finite estimate.
        finite: true where the Bradley-Terry estimate exists within each island.
    """

    islands: tuple[tuple[int, ...], ...]
    degenerate: tuple[int, ...]
    finite: bool


def connections(wins: npt.ArrayLike) -> Connections:
    """Islands, degenerate systems, and whether the estimate exists."""
    w = np.asarray(wins, dtype=np.float64)
    met = _reach((w + w.T) > 0)
    islands = tuple(dict.fromkeys(tuple(int(i) for i in np.flatnonzero(row)) for row in met))
    won, lost = w.sum(axis=1) > 0, w.sum(axis=0) > 0
    return Connections(islands, tuple(int(i) for i in np.flatnonzero(won != lost)), bool(_finite(w[None])[0]))


def rating_problems(held: Connections, battles: npt.ArrayLike, systems: Sequence[str], when: str = "") -> list[str]:
    """Limits that a reader of ratings must know, each a sentence without its full stop; see `system_problems` for more.

    Systems seen in one comparison, and where a tie was added to each pair so that the estimate exists at all.

    Args:
        held: of the win matrix.
        battles: comparisons of each system, shape (S,).
        systems: their names.
        when: what the sentences begin with, for example `before the rewriting `.
    """
    said = []
    if once := [name for name, n in zip(systems, np.asarray(battles), strict=True) if n == 1]:
        said.append(f"{when}{', '.join(once)} took part in one comparison, which no interval can make up for")
    tie = "one tie added to each pair that met keeps the ratings finite and draws all of them together"
    if held.degenerate:
        names = ", ".join(systems[i] for i in held.degenerate)
        said.append(f"{when}{names} never lost or never won; {tie}, and the size of theirs means little")
    elif not held.finite:
        said.append(
            f"{when}some systems won all that they played against the others; {tie}, and how far apart they lie means "
            "little"
        )
    return said


def system_problems(held: Connections, systems: Sequence[str]) -> list[str]:
    """Systems without a comparison and groups that never met, each a sentence without its full stop."""
    absent = [systems[island[0]] for island in held.islands if len(island) == 1]
    groups = [", ".join(systems[i] for i in island) for island in held.islands if len(island) > 1]
    said = []
    if absent:
        said.append(f"{', '.join(absent)} took part in no comparison that was read, so there is no rating and no rank")
    if len(groups) > 1:
        said.append(f"{len(groups)} groups of systems never met ({' | '.join(groups)}), so there are no ranks at all")
        said.append("ratings of one group say nothing beside those of another")
    return said


def bradley_terry(wins: npt.ArrayLike) -> Floats:
    """Log strengths, mean zero in each island.

    Args:
        wins: one or many win matrices, shape (..., S, S).

    Returns:
        Shape (..., S); where the estimate is not finite, that with one more tie for each pair that met.
    """
    given = np.asarray(wins, dtype=np.float64)
    size = given.shape[-1]
    w = given.reshape(-1, size, size)
    met = (w + w.transpose(0, 2, 1)) > 0
    w = np.where(_finite(w)[:, None, None] | ~met, w, w + _HELD_TIES / 2)
    n = w + w.transpose(0, 2, 1)
    b = np.zeros((len(w), size))
    for _ in range(_STEPS):
        p = expit(b[:, :, None] - b[:, None, :])
        gradient = (w - n * p).sum(axis=2)
        curve = n * p * (1 - p)
        hessian = -curve
        hessian[:, range(size), range(size)] = curve.sum(axis=2) + _RIDGE
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        b += step * np.minimum(1.0, _LONGEST_STEP / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    island = _reach(met)
    b -= (island * b[:, None, :]).sum(axis=2) / island.sum(axis=2)
    return b.reshape(given.shape[:-1])


@dataclass(frozen=True)
class Ratings:
    """Ratings of S systems with intervals from resampled items.

    Attributes:
        rating, lower, upper: Elo points, shape (S,); NaN for a system without a comparison, bounds also with one item.
        rank, rank_lower, rank_upper: 1 is best among the systems that met, equal ratings share their mean rank; shape
            (S,). NaN for a system without a comparison, and for all where those that met fall into islands. A bound
            counts the systems whose difference in rating is not settled at the level, all at once (Bonferroni).
        draws: ratings of each resample, shape (B, S); paired with those of the same items and seed. NaN where a
            resample lacks the system, or cuts it off from most of those it met.
        battles: comparisons of each system, shape (S,).
        connections: islands and degenerate systems.
        n_items: items with a comparison.
        level: confidence level in (0, 1).
    """

    rating: Floats
    lower: Floats
    upper: Floats
    rank: Floats
    rank_lower: Floats
    rank_upper: Floats
    draws: Floats
    battles: Floats
    connections: Connections
    n_items: int
    level: float


def rate(item_wins: npt.ArrayLike, *, level: float = 0.95, seed: int = 0, resamples: int = RESAMPLES) -> Ratings:
    """Bradley-Terry ratings with a bootstrap of items.

    Args:
        item_wins: wins of each item, shape (I, S, S); items in an order that does not depend on the file's.
        level: confidence level in (0, 1).
        seed: of the bootstrap; the same seed and number of items resample alike, so that draws can be subtracted.
        resamples: B.
    """
    w = np.asarray(item_wins, dtype=np.float64)
    items, size = len(w), w.shape[-1]
    total = w.sum(axis=0)
    battles = total.sum(axis=1) + total.sum(axis=0)
    absent = battles == 0
    found = connections(total)
    ranked = ~absent & (sum(len(island) > 1 for island in found.islands) <= 1)
    rating = np.where(absent, np.nan, START + SCALE * bradley_terry(total))
    rank = np.full(size, np.nan)
    rank[ranked] = _ranks(rating[None, ranked])[0]
    n_items = int((w.sum(axis=(1, 2)) > 0).sum())
    if n_items < 2:
        gaps, none = np.full(size, np.nan), np.full((0, size), np.nan)
        return Ratings(rating, gaps, gaps, rank, gaps, gaps, none, battles, found, n_items, level)
    draws = _draws(np.tensordot(draw_counts(items, seed, resamples), w, axes=1), rating, found)
    df = n_items - 1
    bounds, ranks = np.full((2, size), np.nan), np.full((2, size), np.nan)
    if known := [int(i) for i in np.flatnonzero(np.isfinite(draws).any(axis=0))]:
        bounds[:, known] = np.nanquantile(draws[:, known], tails(df, level), axis=0)
    for i in np.flatnonzero(ranked):
        ranks[:, i] = _rank_bounds(rating[i] - rating[ranked], draws[:, [i]] - draws[:, ranked], df, level)
    return Ratings(rating, bounds[0], bounds[1], rank, ranks[0], ranks[1], draws, battles, found, n_items, level)


def _draws(wins: Floats, rating: Floats, whole: Connections) -> Floats:
    """Ratings in each resample, on the scale of the estimate; shape (B, S).

    A resample may lack systems or split an island. Its largest part is moved so that its mean is that of the estimate
    over the same systems; the others are NaN, since nothing ties them to it.
    """
    drawn = START + SCALE * bradley_terry(wins)
    met = _reach((wins + wins.transpose(0, 2, 1)) > 0)
    draws: Floats = np.full(drawn.shape, np.nan)
    for island in whole.islands:
        own = np.array(island)
        part = met[:, own][:, :, own]
        sizes = part.sum(axis=2)
        largest = part[np.arange(len(part)), sizes.argmax(axis=1)] & (sizes.max(axis=1) > 1)[:, None]
        gap = np.where(largest, rating[own] - drawn[:, own], 0.0).sum(axis=1) / np.maximum(largest.sum(axis=1), 1)
        draws[:, own] = np.where(largest, drawn[:, own] + gap[:, None], np.nan)
    return draws


def _rank_bounds(gaps: Floats, drawn: Floats, df: float, level: float) -> tuple[float, float]:
    """Best and worst rank that the differences to the other systems leave open.

    Args:
        gaps: rating of the system less that of each ranked one, itself among them (0), shape (R,).
        drawn: the same in each resample, shape (B, R).
        df: degrees of freedom.
        level: confidence level of the rank.
    """
    others = max(len(gaps) - 1, 1)
    known = np.isfinite(drawn)
    n = known.sum(axis=0)
    spread = np.sqrt(np.where(known, (drawn - gaps) ** 2, 0.0).sum(axis=0) / np.maximum(n, 1) * (df + 1) / df)
    half = np.where(n > 1, spread, np.inf) * stdtrit(df, 1 - (1 - level) / (2 * others))
    return float(1 + (gaps + half < -_TIE).sum()), float(len(gaps) - (gaps - half > _TIE).sum())


@dataclass(frozen=True)
class Elo:
    """Online Elo averaged over orders of the comparisons.

    Attributes:
        rating: mean over orders, shape (S,); NaN for a system without a comparison.
        spread: standard deviation between orders, shape (S,): what the order alone decides.
        rank: 1 is best, shape (S,).
    """

    rating: Floats
    spread: Floats
    rank: Floats


def elo(
    outcomes: npt.ArrayLike, pairs: Ints, n_systems: int, *, k: float = 16.0, orders: int = 50, seed: int = 0
) -> Elo:
    """Elo's update r += k (result - expected), comparison by comparison, over random orders.

    Args:
        outcomes: 1, -1, 0 or NaN (left out) of each comparison, shape (I, P).
        pairs: systems of each pair, shape (P, 2).
        n_systems: S.
        k: points at stake, above 0.
        orders: number of random orders that are averaged.
        seed: of the orders.

    Raises:
        InputError: k or the number of orders is not above 0.
    """
    if not (k > 0 and orders > 0):
        raise InputError(f"Elo needs K and a number of orders above 0; got {k} and {orders}.")
    x = np.asarray(outcomes, dtype=np.float64)
    item, pair = np.nonzero(~np.isnan(x))
    first, second, result = pairs[pair, 0], pairs[pair, 1], (x[item, pair] + 1) / 2
    ratings = np.full((orders, n_systems), START)
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(len(result)), (orders, 1)), axis=1)
    row = np.arange(orders)
    for battle in order.T:
        i, j = first[battle], second[battle]
        change = k * (result[battle] - expit((ratings[row, i] - ratings[row, j]) / SCALE))
        ratings[row, i] += change
        ratings[row, j] -= change
    absent = ~np.isin(np.arange(n_systems), np.concatenate([first, second]))
    mean = np.where(absent, np.nan, ratings.mean(axis=0))
    rank = np.full(n_systems, np.nan)
    rank[~absent] = rankdata(-mean[~absent])
    return Elo(mean, np.where(absent, np.nan, ratings.std(axis=0)), rank)


def win_shares(item_wins: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Share of comparisons that row won against column, ties half, and their number; NaN where they never met.

    Returns:
        Two arrays of shape (S, S).
    """
    total = np.asarray(item_wins, dtype=np.float64).sum(axis=0)
    n = total + total.T
    return np.divide(total, n, out=np.full_like(total, np.nan), where=n > 0), n


def majority_cycles(shares: npt.ArrayLike) -> list[tuple[int, int, int]]:
    """Three systems that beat one another in a circle by majority: i over j, j over k, k over i; i the smallest."""
    beats = np.nan_to_num(np.asarray(shares, dtype=np.float64), nan=0.5) > 0.5 + 1e-12
    found = beats[:, :, None] & beats[None, :, :] & beats.T[:, None, :]
    return [(int(i), int(j), int(k)) for i, j, k in np.argwhere(found) if i < j and i < k]


def _reach(linked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where a chain of links leads from row to column; shape (..., S, S)."""
    reach = linked | np.eye(linked.shape[-1], dtype=bool)
    for _ in range(int(np.ceil(np.log2(max(2, linked.shape[-1]))))):
        reach = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
    return np.asarray(reach, dtype=bool)


def _finite(wins: Floats) -> npt.NDArray[np.bool_]:
    """True where, in a matrix, all systems of an island reach one another along wins; shape (B,)."""
    along, either = _reach(wins > 0), _reach((wins + wins.transpose(0, 2, 1)) > 0)
    return np.asarray((along == either).all(axis=(1, 2)))


def _ranks(ratings: Floats) -> Floats:
    """Ranks within each row; ratings that differ by rounding alone are equal."""
    return np.asarray(rankdata(-np.round(ratings, 6), axis=1), dtype=np.float64)

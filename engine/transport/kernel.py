"""Successive shortest augmenting paths for uniform partial transport, compiled by numba where it is there.

One source serves both: every function is plain numpy and Python, and `compiled` leaves it so without numba.

The problem in integers: p rows of capacity A, u columns of capacity B, p A = u B = L units, minimise <C, G>. The
flow after F units is optimal for F (Ahuja, Magnanti and Orlin 1993, section 9.7), path lengths never fall, and no
row or column is ever used less than before, so one run answers for every transported mass. Columns are eliminated
from the search: a path moves from row to row, and `distance[i, k]` is the cheapest way in which row k can take a
column over from row i. Distances to saturated rows are kept in a shortest-path forest, and only the part that a
push breaks is searched anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
F = TypeVar("F", bound=Callable[..., Any])

COLUMN, FLOW, NEXT = 0, 1, 2
"""Columns of `arcs`, a pool of linked lists: which column, how many units, the row's next arc (-1 ends it)."""
SPENT = 1e299
"""Price of a row for which no column is left."""

try:
    from numba import njit

    HAS_NUMBA = True
except ImportError:  # the same functions run as numpy, 10 to 40 times slower
    HAS_NUMBA = False


def compiled(function: F) -> F:
    """The function compiled by numba, kept on disk between processes; the function itself without numba."""
    return njit(cache=True)(function) if HAS_NUMBA else function


def lowest_by_numpy(a: Floats, b: Floats) -> int:
    """Position of the smallest a + b, the first of several."""
    return int(np.argmin(a + b))


def lowest_by_loop(a: Floats, b: Floats) -> int:
    """The same in two passes, the first of which compiles to vector instructions, unlike an argmin."""
    best = np.inf
    for k in range(len(a)):
        best = min(best, a[k] + b[k])
    for k in range(len(a)):
        if a[k] + b[k] == best:
            return k
    return 0


def hanging_by_numpy(parent: Ints, broken: Bools) -> Bools:
    """The rows of `broken` and all whose way to a root leads through one of them (-1 is a root's parent)."""
    hanging = broken
    while True:
        reached: Bools = hanging | ((parent >= 0) & hanging[parent])
        if (reached == hanging).all():
            return reached
        hanging = reached


def hanging_by_loop(parent: Ints, broken: Bools) -> Bools:
    """The same, each row looked at twice at most: a way is walked up to a known row and marked on the way back."""
    hanging, known = broken.copy(), broken | (parent < 0)
    for start in range(len(parent)):
        row = start
        while not known[row]:
            row = parent[row]
        answer, row = hanging[row], start
        while not known[row]:
            known[row], hanging[row] = True, answer
            row = parent[row]
    return hanging


lowest = njit(cache=True, fastmath={"nnan", "nsz", "reassoc"})(lowest_by_loop) if HAS_NUMBA else lowest_by_numpy
hanging = njit(cache=True)(hanging_by_loop) if HAS_NUMBA else hanging_by_numpy


@compiled
def add_flow(arcs: Ints, head: Ints, free: Ints, row: int, column: int, amount: int) -> None:
    """Put units on (row, column), opening an arc where there is none."""
    arc = head[row]
    while arc >= 0 and arcs[arc, COLUMN] != column:
        arc = arcs[arc, NEXT]
    if arc < 0:
        arc = free[0]
        free[0], free[1] = arcs[arc, NEXT], free[1] - 1
        arcs[arc, COLUMN], arcs[arc, FLOW], arcs[arc, NEXT] = column, 0, head[row]
        head[row] = arc
    arcs[arc, FLOW] += amount


@compiled
def take_flow(arcs: Ints, head: Ints, free: Ints, row: int, column: int, amount: int) -> bool:
    """Take units off (row, column); whether the arc is empty now and has been closed."""
    arc, before = head[row], -1
    while arcs[arc, COLUMN] != column:
        before, arc = arc, arcs[arc, NEXT]
    arcs[arc, FLOW] -= amount
    if arcs[arc, FLOW] > 0:
        return False
    if before < 0:
        head[row] = arcs[arc, NEXT]
    else:
        arcs[before, NEXT] = arcs[arc, NEXT]
    arcs[arc, NEXT] = free[0]
    free[0], free[1] = arc, free[1] + 1
    return True


@compiled
def flow_of(arcs: Ints, head: Ints, row: int, column: int) -> int:
    """Units on an arc that is open."""
    arc = head[row]
    while arcs[arc, COLUMN] != column:
        arc = arcs[arc, NEXT]
    return arcs[arc, FLOW]  # type: ignore[no-any-return]


@compiled
def more_arcs(arcs: Ints, free: Ints) -> Ints:
    """The pool doubled, the new half chained ahead of the free arcs."""
    n = len(arcs)
    grown = np.empty((2 * n, 3), np.int64)
    grown[:n] = arcs
    grown[n:, NEXT] = np.arange(n + 1, 2 * n + 1)
    grown[2 * n - 1, NEXT] = free[0]
    free[0], free[1] = n, free[1] + n
    return grown


@compiled
def measure(distance: Floats, costs: Floats, arcs: Ints, head: Ints, row: int) -> None:
    """distance[row, k]: the cheapest exchange in which row k takes a column over from `row`."""
    distance[row] = np.inf
    arc = head[row]
    while arc >= 0:
        column = arcs[arc, COLUMN]
        distance[row] = np.minimum(distance[row], costs[column] - costs[column, row])
        arc = arcs[arc, NEXT]


@compiled
def exchange(costs: Floats, arcs: Ints, head: Ints, row: int, taker: int) -> int:
    """The column that `taker` takes over from `row` most cheaply."""
    best, column, arc = np.inf, -1, head[row]
    while arc >= 0:
        price = costs[arcs[arc, COLUMN], taker] - costs[arcs[arc, COLUMN], row]
        if price < best:
            best, column = price, arcs[arc, COLUMN]
        arc = arcs[arc, NEXT]
    return column


@compiled
def repair(
    costs: Floats, distance: Floats, arcs: Ints, head: Ints, length: Floats, parent: Ints, via: Ints, broken: Bools
) -> None:
    """Shortest paths anew for the rows of `broken` and for all that hang on them in the forest.

    Row-to-row distances can be negative, so Dijkstra settles the row whose length *rises* least: the old lengths are
    valid potentials, by which every distance is at least zero.
    """
    cut = hanging(parent, broken)
    rows = np.flatnonzero(cut)
    base = np.where(cut, np.inf, length)
    n = len(rows)
    tentative, source = np.empty(n), np.empty(n, np.int64)
    for x in range(n):
        source[x] = lowest(distance[rows[x]], base)
        tentative[x] = distance[rows[x], source[x]] + base[source[x]]
    while n > 0:
        pick = 0
        for x in range(1, n):
            if tentative[x] - length[rows[x]] < tentative[pick] - length[rows[pick]]:
                pick = x
        row = rows[pick]
        length[row], parent[row] = tentative[pick], source[pick]
        via[row] = exchange(costs, arcs, head, row, parent[row])
        n -= 1
        rows[pick], tentative[pick], source[pick] = rows[n], tentative[n], source[n]
        for x in range(n):
            total = length[row] + distance[rows[x], row]
            if total < tentative[x]:
                tentative[x], source[x] = total, row


@compiled
def bottleneck(arcs: Ints, head: Ints, parent: Ints, via: Ints, row: int, most: int) -> tuple[int, int]:
    """Units that fit through the path from `row` to its root, at most `most`, and that root."""
    while parent[row] >= 0:
        most = min(most, flow_of(arcs, head, row, via[row]))
        row = parent[row]
    return most, row


@compiled
def push(
    costs: Floats, distance: Floats, arcs: Ints, head: Ints, free: Ints, parent: Ints, via: Ints, full: Bools,
    broken: Bools, row: int, column: int, amount: int,
) -> None:  # fmt: skip
    """Send units along the path: `row` takes `column`, and passes the one it held on towards the root."""
    while True:
        add_flow(arcs, head, free, row, column, amount)
        if full[row]:
            distance[row] = np.minimum(distance[row], costs[column] - costs[column, row])
        if parent[row] < 0:
            return
        column = via[row]
        if take_flow(arcs, head, free, row, column, amount):
            measure(distance, costs, arcs, head, row)
            broken[row] = True
        row = parent[row]


@compiled
def advance(
    costs: Floats, order: npt.NDArray[np.int32], left: Ints, pointer: Ints, nearest: Ints, price: Floats, gone: int
) -> None:
    """Point every row that pointed to the column `gone` at its cheapest column with capacity left."""
    for row in np.flatnonzero(nearest == gone):
        k = pointer[row]
        while k < len(left) and left[order[row, k]] == 0:
            k += 1
        pointer[row] = k
        nearest[row] = order[row, k] if k < len(left) else -1
        price[row] = costs[nearest[row], row] if k < len(left) else SPENT


@compiled
def shortest_paths(
    costs: Floats, order: npt.NDArray[np.int32], row_capacity: int, column_capacity: int, stop: int
) -> tuple[Ints, Floats, Ints, Ints, Floats]:
    """Send `stop` units, each along the cheapest path that is left.

    Args:
        costs: columns by rows (u, p), contiguous.
        order: columns of each row by ascending cost (p, u).
        row_capacity: units a row holds (A).
        column_capacity: units a column holds (B).
        stop: units to send, at most p A = u B.

    Returns:
        events (N, 3): units sent so far, column, root row; price of each event's units (N,); the arcs and the head
        of each row's list; length of the shortest path to each row (p,), its dual.
    """
    u, p = costs.shape
    room, left = np.full(p, row_capacity, np.int64), np.full(u, column_capacity, np.int64)
    length, parent, via = np.zeros(p), np.full(p, -1, np.int64), np.full(p, -1, np.int64)
    pointer, nearest = np.zeros(p, np.int64), order[:, 0].astype(np.int64)
    price = np.array([costs[nearest[i], i] for i in range(p)])
    distance, full = np.full((p, p), np.inf), np.zeros(p, np.bool_)
    arcs = np.empty((2 * (p + u), 3), np.int64)
    arcs[:, NEXT] = np.arange(1, len(arcs) + 1)
    head, free = np.full(p, -1, np.int64), np.array([0, len(arcs)])
    events, prices, n, sent = np.empty((2 * (p + u), 3), np.int64), np.empty(2 * (p + u)), 0, 0
    while sent < stop:
        if free[1] <= p:
            arcs = more_arcs(arcs, free)
        if n == len(events):
            events, prices = np.concatenate((events, events)), np.concatenate((prices, prices))
        row = lowest(price, length)
        column = nearest[row]
        amount, root = bottleneck(arcs, head, parent, via, row, min(left[column], stop - sent))
        amount = min(amount, room[root])
        broken = np.zeros(p, np.bool_)
        push(costs, distance, arcs, head, free, parent, via, full, broken, row, column, amount)
        left[column] -= amount
        room[root] -= amount
        sent += amount
        events[n, 0], events[n, 1], events[n, 2], prices[n] = sent, column, root, price[row] + length[row]
        n += 1
        if left[column] == 0:
            advance(costs, order, left, pointer, nearest, price, column)
        if room[root] == 0:
            full[root] = broken[root] = True
            measure(distance, costs, arcs, head, root)
        if sent < stop and broken.any():
            repair(costs, distance, arcs, head, length, parent, via, broken)
    return events[:n], prices[:n], arcs, head, length

"""Exact partial transport for every mass at once, and the certificate that it is exact.

Paper 002, section 3.3: min <C, G>, G 1 <= a, G' 1 <= b, sum G = m with a = 1/n_P and b = 1/n_U. One run of
successive shortest paths gives the optimum of every m; its profile is that of Phatak et al., "Computing all optimal
partial transports", ICLR 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import WEIGHTED, InputError, require_local
from engine.transport.kernel import COLUMN, FLOW, NEXT, shortest_paths
from engine.transport.readout import TransportPath, checked_mass

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Solution:
    """A run up to some mass.

    Attributes:
        path: its events.
        positive, unlabelled: items of each arc of the last plan (K,).
        flow: mass on each arc (K,), above 0.
        length: dual of each item of the smaller side (p,), as the run left it.
    """

    path: TransportPath
    positive: Ints
    unlabelled: Ints
    flow: Floats
    length: Floats

    def plan(self) -> Floats:
        """The optimal plan G of mass `path.reach` (n_P, n_U)."""
        plan = np.zeros((self.path.n_positive, self.path.n_unlabelled))
        plan[self.positive, self.unlabelled] = self.flow
        return plan


def transport_path(cost: npt.ArrayLike) -> TransportPath:
    """The optimum for every mass in (0, 1].

    Args:
        cost: C (n_P, n_U), finite; for paper 002 one minus the cosine.

    Raises:
        InputError: no positives or no unlabelled items, or a cost that is not finite.
    """
    return solve(cost).path


def solve(cost: npt.ArrayLike, mass: float = 1.0) -> Solution:
    """As `transport_path` up to one mass (rounded up to a whole unit), with the plan and the duals there.

    Raises:
        InputError: as `transport_path`, or the mass lies outside (0, 1].
    """
    costs = _checked(cost)
    n_positive, n_unlabelled = costs.shape
    turned = n_positive > n_unlabelled  # the search runs over the smaller side
    small = costs.T if turned else costs
    p, u = small.shape
    units = math.lcm(p, u)
    stop = min(units, math.ceil(checked_mass(mass) * units - 1e-9))
    order = _ranked(small)
    events, price, arcs, head, length = shortest_paths(
        np.ascontiguousarray(small.T), order, units // p, units // u, stop
    )
    row, column, flow = _open_arcs(arcs, head)
    sides = (column, row) if turned else (row, column)
    ends = (events[:, 2], events[:, 1]) if turned else (events[:, 1], events[:, 2])
    path = TransportPath(n_positive, n_unlabelled, events[:, 0].copy(), ends[0].copy(), ends[1].copy(), price)
    return Solution(path, *sides, flow / units, length)


def lower_bound(cost: npt.ArrayLike, solution: Solution) -> float:
    """A lower bound on the cost of *any* plan of the solution's mass, by weak duality; equal to it where it is optimal.

    The dual: max m lambda - sum a alpha - sum b beta with C + alpha + beta >= lambda and alpha, beta >= 0. Any alpha
    and lambda give a bound with the best beta, so nothing about the run has to be trusted.
    """
    costs = _checked(cost)
    if solution.path.n_positive > solution.path.n_unlabelled:
        costs, row, column = costs.T, solution.unlabelled, solution.positive
    else:
        row, column = solution.positive, solution.unlabelled
    price = float(solution.path.price[-1])
    alpha = np.maximum(solution.length, 0.0)
    used = np.zeros(costs.shape[1], dtype=bool)
    used[column] = True
    for _ in range(sum(costs.shape)):  # Bellman-Ford over the residual arcs the run had no need to follow
        reach = (costs + alpha[:, None]).min(axis=0)
        reach[used] = np.minimum(reach[used], price)
        better = alpha.copy()
        np.minimum.at(better, row, reach[column] - costs[row, column])
        if (better >= alpha - 1e-15).all():
            break
        alpha = np.maximum(better, 0.0)
    beta = np.maximum(0.0, price - (costs + alpha[:, None]).min(axis=0))
    return solution.path.reach * price - float(alpha.mean()) - float(beta.mean())


def cosine_costs(positives: npt.ArrayLike, unlabelled: npt.ArrayLike) -> Floats:
    """C = 1 - cos (n_P, n_U) of unit rows, in [0, 2] (paper 002: its d is the cosine similarity)."""
    return np.clip(1.0 - np.asarray(positives, np.float64) @ np.asarray(unlabelled, np.float64).T, 0.0, 2.0)


def _checked(cost: npt.ArrayLike) -> Floats:
    costs = np.asarray(cost, dtype=np.float64)
    if costs.ndim != 2 or 0 in costs.shape:
        raise InputError(
            f"Transport needs at least one positive and one unlabelled item; the costs have shape {costs.shape}."
        )
    if not np.isfinite(costs).all():
        i, j = np.argwhere(~np.isfinite(costs))[0]
        raise InputError(
            f"The cost between positive {i + 1} and unlabelled item {j + 1} is not finite. Leave out the embedding "
            "that holds NaN or infinity."
        )
    return costs


def _ranked(small: Floats) -> npt.NDArray[np.int32]:
    """Columns of each row by ascending cost, equal costs by position."""
    order = np.argsort(small, axis=1)  # vectorised, and five times faster than a stable sort
    sorted_costs = np.take_along_axis(small, order, axis=1)
    tied = (sorted_costs[:, 1:] == sorted_costs[:, :-1]).any(axis=1)
    order[tied] = np.argsort(small[tied], axis=1, kind="stable")
    return order.astype(np.int32)


def _open_arcs(arcs: Ints, head: Ints) -> tuple[Ints, Ints, Ints]:
    """Row, column and units of every open arc."""
    arcs_open: list[tuple[int, int, int]] = []
    for row, arc in enumerate(head.tolist()):
        while arc >= 0:
            arcs_open.append((row, int(arcs[arc, COLUMN]), int(arcs[arc, FLOW])))
            arc = int(arcs[arc, NEXT])
    table = np.array(arcs_open, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


# Partial transport with weights of any kind, one mass at a time, by the POT library.
#
# The exact path needs uniform weights. This is the fallback for all others, and the reference it is tested against.
# Flamary et al., "POT: Python Optimal Transport", JMLR 2021; Chapel, Alaya and Gasso, NeurIPS 2020.

DUMMIES = 100
"""Dummy points POT may move mass to; its default of one stalls the network simplex, 47 times slower at 2000 x 10000."""
ITERATIONS = 5_000_000


def weighted_plan(
    cost: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, mass: float, *, dummies: int = DUMMIES
) -> Floats:
    """The optimal plan of one mass (n_P, n_U); POT moves it up to 1e-13, so compare costs at `plan.sum()`.

    Args:
        cost: C (n_P, n_U).
        a: weights of the positives (n_P,), at least 0.
        b: weights of the unlabelled items (n_U,), at least 0.
        mass: to transport, above 0 and at most the smaller total weight.
        dummies: more or fewer change the speed alone.

    Raises:
        InputError: shapes or weights that do not fit, or a mass outside its range.
        LocalError: POT is not installed.
    """
    require_local("Partial transport with weights of its own", WEIGHTED)
    import ot

    costs, rows, columns = (np.ascontiguousarray(v, dtype=np.float64) for v in (cost, a, b))
    if costs.shape != (len(rows), len(columns)):
        raise InputError(f"{len(rows)} and {len(columns)} weights do not fit costs of shape {costs.shape}.")
    if (rows < 0).any() or (columns < 0).any() or not np.isfinite(costs).all():
        raise InputError("Weights must be at least 0 and costs finite.")
    most = min(float(rows.sum()), float(columns.sum()))
    if not 0 < mass <= most * (1 + 1e-9):
        raise InputError(f"The transported mass is {mass}; it must lie above 0 and at most {most:g}.")
    # n times 1/n can sum to less than 1, which POT calls infeasible
    plan = ot.partial.partial_wasserstein(
        rows, columns, costs, m=min(mass, most), nb_dummies=dummies, numItermax=ITERATIONS
    )
    return np.asarray(plan, dtype=np.float64)


def weighted_use(cost: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, masses: Sequence[float]) -> Floats:
    """Share of each unlabelled item's weight that is transported, at each mass (len(masses), n_U), in [0, 1].

    Unlike the exact path's, plans of different masses need not be nested where costs tie.

    Raises:
        InputError: as `weighted_plan`.
    """
    weights = np.asarray(b, dtype=np.float64)
    plans = (weighted_plan(cost, a, b, mass).sum(axis=0) for mass in masses)
    return np.array([np.divide(p, weights, out=np.zeros_like(p), where=weights > 0).clip(0, 1) for p in plans])

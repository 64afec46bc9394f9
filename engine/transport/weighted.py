"""Partial transport with weights of any kind, one mass at a time, by the POT library.

The exact path needs uniform weights. This is the fallback for all others, and the reference it is tested against.
Flamary et al., "POT: Python Optimal Transport", JMLR 2021; Chapel, Alaya and Gasso, NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.errors import InputError

Floats = npt.NDArray[np.float64]

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
        dummies: a dial of speed alone.

    Raises:
        InputError: shapes or weights that do not fit, or a mass outside its range.
    """
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

"""`judgescope bench transport`: the exact path for all masses against POT, one mass at a time.

POT is taken at its best: with 100 dummy points, and warm started from the duals of the mass before; its default of one
dummy point stands beside it, measured on a few masses and scaled. The compiled code is warm. Every answer is compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.bench.base import peak_bytes
from engine.core.errors import InputError
from engine.transport.kernel import HAS_NUMBA
from engine.transport.path import DUMMIES, ITERATIONS, cosine_costs, lower_bound, solve, transport_path, weighted_plan
from engine.transport.planted import planted_cone
from engine.transport.readout import TransportPath

Floats = npt.NDArray[np.float64]
SIZES = ("200x1000", "500x2000")
WARM_DUMMIES = 50
DEFAULT_RUNS = 3
"""Masses given to POT's default, spread over the sweep."""


def add_transport(kinds: Any) -> None:
    """Add `bench transport` to the kinds of `judgescope bench`."""
    transport = kinds.add_parser("transport", help="the exact transport path against POT, mass by mass")
    transport.add_argument(
        "--size", action="append", metavar="PxU", help=f"positives x unlabelled ({', '.join(SIZES)})"
    )
    transport.add_argument("--masses", type=int, default=50, metavar="N", help="values of the sweep")
    transport.add_argument("--default-runs", type=int, default=DEFAULT_RUNS, metavar="N", help="of POT's default")
    transport.add_argument("--json", action="store_true", help="last line is one JSON object")
    transport.set_defaults(run=run_transport)


def run_transport(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: a size or a number that is none.
    """
    if min(args.masses, args.default_runs) < 1:
        raise InputError("--masses and --default-runs take whole numbers of at least 1.")
    rows = []
    for size in args.size or SIZES:
        print(f"{size} ...", file=sys.stderr)
        rows.append(measure(*_size(size), masses=args.masses, default_runs=args.default_runs))
    print(table(rows))
    return {"device": f"cpu, {os.cpu_count()} cores", "compiled": HAS_NUMBA, "masses": args.masses, "rows": rows}


def _size(text: str) -> tuple[int, int]:
    p, cross, u = text.partition("x")
    if not (cross and p.isdigit() and u.isdigit() and int(p) and int(u)):
        raise InputError(f"--size {text}: write PxU, for example 500x2000.")
    return int(p), int(u)


def measure(p: int, u: int, *, masses: int = 50, default_runs: int = DEFAULT_RUNS, seed: int = 1) -> dict[str, Any]:
    """Time every way on one planted problem (64 dimensions, 60 % of the unlabelled in a wide cone).

    Returns:
        JSON-ready: seconds of each way for the whole sweep, ratios to ours, the largest relative difference of a cost,
        and the gap of ours to its own dual bound. The floor is one reading of the costs; the peak is the process's,
        POT with dummies included.
    """
    cone = planted_cone(p, u, d=64, tau=0.3, delta=0.25, seed=seed)
    cost = cosine_costs(cone.positives, cone.unlabelled)
    grid = [float(m) for m in np.linspace(1 / masses, 1.0, masses)]
    transport_path(cost[: min(p, 8), : min(u, 16)])  # compiled from here on
    path, ours = _timed(lambda: _sweep(cost, grid))
    (plans, tuned) = _timed(lambda: [weighted_plan(cost, *_uniform(p, u), m, dummies=DUMMIES) for m in grid])
    warm_costs, warm = _timed(lambda: warm_started(cost, grid))
    _, floor = min((_timed(cost.sum) for _ in range(5)), key=lambda one: one[1])
    peak = peak_bytes("cpu")
    some = [grid[i] for i in np.linspace(0, masses - 1, min(default_runs, masses)).round().astype(int)]
    _, default = _timed(lambda: [weighted_plan(cost, *_uniform(p, u), m, dummies=1) for m in some])
    default *= masses / len(some)
    worst = max(_difference(path.cost(min(float(g.sum()), 1.0)), float((g * cost).sum())) for g in plans)
    worst = max(worst, *(_difference(path.cost(min(m, 1.0)), c) for m, c in warm_costs))
    solved = solve(cost, 0.6)
    return {
        "positives": p,
        "unlabelled": u,
        "ours_seconds": ours,
        "floor_seconds": floor,
        "peak_bytes": peak,
        "pot_tuned_seconds": tuned,
        "pot_warm_seconds": warm,
        "pot_default_seconds": default,
        "default_measured_on": len(some),
        "ratio_to_best": min(tuned, warm) / ours,
        "ratio_to_default": default / ours,
        "largest_cost_difference": worst,
        "dual_gap": abs(solved.path.cost(solved.path.reach) - lower_bound(cost, solved)),
    }


def _sweep(cost: Floats, grid: Sequence[float]) -> TransportPath:
    """The path and every score of the sweep, as the page reads them."""
    path = transport_path(cost)
    for mass in grid:
        path.scores(mass)
    return path


def warm_started(cost: Floats, grid: Sequence[float]) -> list[tuple[float, float]]:
    """Mass moved and cost at each mass, POT's network simplex starting from the duals of the mass before."""
    import ot

    p, u = cost.shape
    wide = np.zeros((p + WARM_DUMMIES, u + WARM_DUMMIES))
    wide[:p, :u] = cost
    wide[p:, u:] = 2 * cost.max() + 1  # dummies must not take from dummies
    found, duals = [], None
    for mass in grid:
        a, b = _uniform(p, u)
        m = min(mass, float(a.sum()), float(b.sum()))
        rows = np.append(a, np.full(WARM_DUMMIES, (b.sum() - m) / WARM_DUMMIES))
        columns = np.append(b, np.full(WARM_DUMMIES, (a.sum() - m) / WARM_DUMMIES))
        plan, log = ot.lp.emd(
            rows, columns, wide, numItermax=ITERATIONS, log=True, center_dual=False, potentials_init=duals
        )
        duals = (log["u"], log["v"])
        inner = plan[:p, :u]
        found.append((float(inner.sum()), float((inner * cost).sum())))
    return found


def _uniform(p: int, u: int) -> tuple[Floats, Floats]:
    return np.full(p, 1 / p), np.full(u, 1 / u)


def _difference(ours: float, theirs: float) -> float:
    return abs(ours - theirs) / max(abs(theirs), 1e-12)


def _timed(work: Any) -> tuple[Any, float]:
    clock = time.perf_counter()
    done = work()
    return done, time.perf_counter() - clock


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown, one row a size."""
    lines = [
        "| size | ours, all masses | POT, 100 dummies | POT, warm | POT, default | best / ours | floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['positives']} x {r['unlabelled']} | {r['ours_seconds']:.3f} s | {r['pot_tuned_seconds']:.1f} s | "
            f"{r['pot_warm_seconds']:.1f} s | {r['pot_default_seconds']:.0f} s | **{r['ratio_to_best']:.0f}x** | "
            f"{r['floor_seconds'] * 1000:.2f} ms |"
        )
    worst = max(r["largest_cost_difference"] for r in rows)
    peak = max(r["peak_bytes"] for r in rows) / 2**20
    lines.append(f"\nLargest relative difference of a cost: {worst:.1e}; peak memory {peak:,.0f} MiB.")
    return "\n".join(lines)

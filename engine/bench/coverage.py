"""`judgescope bench coverage`: how often the 95 % intervals of the headline numbers hold the truth, simulated.

Items differ (a beta distribution for events, a normal one for scores) so that rows of one item correlate by the
intraclass correlation asked for. Target: 0.93 to 0.98. More is no fault where events are so few that no interval can
come closer; less is one. Seeded: the same command gives the same table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from engine.bench.base import note
from engine.core.errors import InputError
from engine.stats.auc import auc_bounds, auc_parts, d_bounds, separation_bounds
from engine.stats.intervals import cluster_mean, cluster_rate
from engine.stats.paired import difference_of_rates

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]
Trial = Callable[[np.random.Generator, int, float], tuple[Ends, float]]
"""From a generator, items and correlation to the ends of an interval and the truth."""

ITEMS = (6, 12, 30, 100)
CORRELATIONS = (0.0, 0.3)
RATES = (0.01, 0.05, 0.10)
NET_RATE = 0.10
TRUE_AUC = 0.96
ROWS = 15
"""Rows of each item behind a rate, as many as keys or attacks on it."""
SCORES = 2
"""Scores of each item in both groups behind an AUC or Cohen's d."""
TARGET = (0.93, 0.98)
REPETITIONS = 1000


class Cell(NamedTuple):
    """Coverage of one number at one size.

    Attributes:
        metric: what is estimated.
        truth: its true value.
        items: number of items.
        correlation: of rows of one item.
        covered: share of the intervals that hold the truth; one without bounds does not.
        width: mean width of the intervals.
    """

    metric: str
    truth: float
    items: int
    correlation: float
    covered: float
    width: float


def add_coverage(kinds: Any) -> None:
    """Add `bench coverage` to the kinds of `judgescope bench`."""
    coverage = kinds.add_parser("coverage", help="how often the intervals hold the truth, simulated")
    coverage.add_argument("--repetitions", type=int, default=REPETITIONS, metavar="N", help="samples of each size")
    coverage.add_argument("--seed", type=int, default=0)
    coverage.add_argument("--json", action="store_true", help="last line is one JSON object")
    coverage.set_defaults(run=run_coverage)


def run_coverage(args: argparse.Namespace) -> dict[str, Any]:
    """Simulate, print the table, return it.

    Raises:
        InputError: no repetition.
    """
    if args.repetitions < 1:
        raise InputError("--repetitions takes a whole number of at least 1.")
    cells = [
        measure(name, items, correlation, repetitions=args.repetitions, seed=args.seed)
        for name in TRIALS
        for correlation in CORRELATIONS
        for items in ITEMS
    ]
    print(table(cells))
    first = {f"{name}, {c:g}": smallest(cells, name, c) for name in TRIALS for c in CORRELATIONS}
    return {
        "repetitions": args.repetitions,
        "seed": args.seed,
        "target": TARGET,
        "cells": [cell._asdict() for cell in cells],
        "smallest": first,
    }


def measure(name: str, items: int, correlation: float, *, repetitions: int, seed: int = 0) -> Cell:
    """Coverage of one number.

    Args:
        name: a key of `TRIALS`.
        items: number of items, above 1.
        correlation: of rows of one item, in [0, 1).
        repetitions: samples.
        seed: of the samples.
    """
    note(f"{name}, {items} items, correlation {correlation:g}")
    rng = np.random.default_rng([seed, items, int(100 * correlation)])
    made = [TRIALS[name](rng, items, correlation) for _ in range(repetitions)]
    ends, truths = np.array([ends for ends, _ in made]), np.array([truth for _, truth in made])
    held = (ends[:, 0] <= truths) & (truths <= ends[:, 1])
    width = float(np.nanmean(ends[:, 1] - ends[:, 0])) if np.isfinite(ends).any() else float("nan")
    return Cell(name, float(truths[0]), items, correlation, float(held.mean()), width)


def smallest(cells: list[Cell], name: str, correlation: float) -> int | None:
    """Fewest items from which on the coverage is at least the target's lower end; None where it never is."""
    good = [c.items for c in cells if c.metric == name and c.correlation == correlation and c.covered >= TARGET[0]]
    bad = [c.items for c in cells if c.metric == name and c.correlation == correlation and c.covered < TARGET[0]]
    return min((n for n in good if n > max(bad, default=0)), default=None)


def table(cells: list[Cell]) -> str:
    """One line for each number and correlation; what is below the target has a mark."""
    lines = [f"{'':<22} {'ICC':>4} " + " ".join(f"{f'{n} items':>14}" for n in ITEMS) + "   from on"]
    for name in TRIALS:
        for correlation in CORRELATIONS:
            row = [c for c in cells if c.metric == name and c.correlation == correlation]
            shown = [f"{c.covered:.3f}{'!' if c.covered < TARGET[0] else ' '} ({c.width:.2f})" for c in row]
            first = smallest(cells, name, correlation)
            start = f"{first} items" if first else "none of these"
            lines.append(f"{name:<22} {correlation:>4g} " + " ".join(f"{s:>14}" for s in shown) + f"   {start}")
    lines.append(f"Share of intervals that hold the truth (mean width); ! below {TARGET[0]:g}.")
    return "\n".join(lines)


def events(rng: np.random.Generator, rate: float, items: int, correlation: float) -> tuple[Floats, npt.NDArray[Any]]:
    """Events (n,) at a rate, `ROWS` of each item, and the item of each."""
    share = np.full(items, rate)
    if correlation > 0:
        total = (1 - correlation) / correlation
        share = rng.beta(rate * total, (1 - rate) * total, size=items)
    item = np.repeat(np.arange(items), ROWS)
    return (rng.random(len(item)) < share[item]).astype(np.float64), item


def scores(rng: np.random.Generator, items: int, correlation: float, each: int) -> tuple[Floats, npt.NDArray[Any]]:
    """Normal scores (n,) of variance 1, and the item of each."""
    item = np.repeat(np.arange(items), each)
    own = rng.normal(size=items)[item]
    return np.sqrt(correlation) * own + np.sqrt(1 - correlation) * rng.normal(size=len(item)), item


def rate_trial(rate: float) -> Trial:
    """A rate by `cluster_rate`."""

    def trial(rng: np.random.Generator, items: int, correlation: float) -> tuple[Ends, float]:
        values, item = events(rng, rate, items, correlation)
        one = cluster_rate(values, item)
        return (one.lower, one.upper), rate

    return trial


def mean_trial(rng: np.random.Generator, items: int, correlation: float) -> tuple[Ends, float]:
    """A mean shift by `cluster_mean`."""
    values, item = scores(rng, items, correlation, SCORES)
    one = cluster_mean(values, item, seed=int(rng.integers(2**31)))
    return (one.lower, one.upper), 0.0


def net_trial(rng: np.random.Generator, items: int, correlation: float) -> tuple[Ends, float]:
    """A flip rate less its placebo's, both `NET_RATE` on the same pairs, by `difference_of_rates`."""
    (one, item), (other, _) = (events(rng, NET_RATE, items, correlation) for _ in range(2))
    net = difference_of_rates(one - other, item, seed=int(rng.integers(2**31)))
    return (net.lower, net.upper), 0.0


def auc_trial(rng: np.random.Generator, items: int, correlation: float) -> tuple[Ends, float]:
    """The AUC of two groups of scores."""
    (high, item), (low, _) = _apart(rng, items, correlation)
    value, parts = auc_parts(high, item, low, item, items)
    return (separation_bounds(value, items) if value in (0.0, 1.0) else auc_bounds(value, parts)), TRUE_AUC


def d_trial(rng: np.random.Generator, items: int, correlation: float) -> tuple[Ends, float]:
    """Cohen's d of the same two groups."""
    (high, item), (low, _) = _apart(rng, items, correlation)
    return d_bounds(high, item, low, item, items), _DISTANCE


_DISTANCE = float(np.sqrt(2) * ndtri(TRUE_AUC))
"""Difference of two normal groups, in standard deviations, at the true AUC."""


def _apart(rng: np.random.Generator, items: int, correlation: float) -> Any:
    high, item = scores(rng, items, correlation, SCORES)
    return (high + _DISTANCE, item), scores(rng, items, correlation, SCORES)


TRIALS: dict[str, Trial] = {
    **{f"rate {rate:.2f}": rate_trial(rate) for rate in RATES},
    f"AUC {TRUE_AUC:.2f}": auc_trial,
    "Cohen's d": d_trial,
    "mean shift": mean_trial,
    "net flip rate": net_trial,
}
"""The headline numbers."""

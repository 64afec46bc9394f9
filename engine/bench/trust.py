"""`judgescope bench trust`: coverage and width of raw, corrected and labels-only intervals on simulated judges.

Populations have a true rate, a judge with a TPR and a TNR, items whose rows correlate or not, and labels on part of the
rows: drawn alike, or more often where the judge is unsure, with known chances. Target for the corrected interval: it
holds the truth in 0.93 to 0.97 of samples from 100 labels on, and is never more than 5 % wider than that of labels
alone. Seeded: the same command gives the same table.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.bench.base import note
from engine.core.errors import InputError
from engine.stats.corrected import (
    Estimate,
    compare_difference,
    labels_only,
    prediction_powered,
    raw_estimate,
    rogan_gladen,
)

Floats = npt.NDArray[np.float64]
RATES = (0.1, 0.5, 0.8)
JUDGES = {"useless": (0.5, 0.5), "fair": (0.85, 0.75), "good": (0.92, 0.9)}
"""TPR and TNR; scores of a judge have the correlation TPR + TNR - 1 with people's."""
LABELS = (100, 300)
ROWS = 1500
SIZE, CORRELATION = 5, 0.3
"""Rows of an item, and how they correlate, where rows come in items."""
TARGET = (0.93, 0.97)
WIDER = 1.05
REPETITIONS = 1000


class Design(NamedTuple):
    """One population and its labels.

    Attributes:
        kind: rate, score or difference (of two systems on the same items).
        rate: true rate; a score's true mean is 3 and no rate is read.
        judge: key of `JUDGES`.
        labels: labelled rows, on average.
        items: rows come in items that correlate.
        unequal: unsure rows are labelled three times as often, with known chances.
    """

    kind: str
    rate: float
    judge: str
    labels: int
    items: bool
    unequal: bool


class Cell(NamedTuple):
    """Simulated behaviour of one design.

    Attributes:
        design: which.
        truth: the true number.
        covered: share of samples whose interval holds the truth, by estimate.
        width: mean width, by estimate.
        wider: largest width of a corrected interval over that of labels alone, in the mean over samples.
        numbers: share of samples with a Rogan-Gladen number.
    """

    design: Design
    truth: float
    covered: dict[str, float]
    width: dict[str, float]
    wider: float
    numbers: float


def add_trust(kinds: Any) -> None:
    """Add `bench trust` to the kinds of `judgescope bench`."""
    trust = kinds.add_parser("trust", help="corrected intervals on simulated judges")
    trust.add_argument("--repetitions", type=int, default=REPETITIONS, metavar="N", help="samples of each design")
    trust.add_argument("--seed", type=int, default=0)
    trust.add_argument("--json", action="store_true", help="last line is one JSON object")
    trust.set_defaults(run=run_trust)


def designs() -> list[Design]:
    """Every design of the table."""
    ways = list(product((False, True), repeat=2))
    made = [Design("rate", r, j, m, *way) for way in ways for m in LABELS for r in RATES for j in JUDGES]
    made += [Design("score", 0.5, j, m, *way) for way in ways for m in LABELS for j in JUDGES]
    return made + [Design("difference", 0.5, j, 2 * LABELS[0], True, way) for way in (False, True) for j in JUDGES]


def run_trust(args: argparse.Namespace) -> dict[str, Any]:
    """Simulate, print the table, return it.

    Raises:
        InputError: no repetition.
    """
    if args.repetitions < 1:
        raise InputError("--repetitions takes a whole number of at least 1.")
    cells = [measure(design, repetitions=args.repetitions, seed=args.seed) for design in designs()]
    print(table(cells))
    corrected = [cell.covered["corrected"] for cell in cells]
    return {
        "repetitions": args.repetitions,
        "seed": args.seed,
        "target": TARGET,
        "inside": sum(TARGET[0] <= c <= TARGET[1] for c in corrected),
        "lowest": min(corrected),
        "highest": max(corrected),
        "widest": max(cell.wider for cell in cells),
        "cells": [{**cell._asdict(), "design": cell.design._asdict()} for cell in cells],
    }


def measure(design: Design, *, repetitions: int, seed: int = 0) -> Cell:
    """Coverage and width of one design.

    Args:
        design: which.
        repetitions: samples.
        seed: of the samples.
    """
    note(" ".join(map(str, design)))
    rng = np.random.default_rng([seed, *(int(1000 * p) if isinstance(p, float) else len(str(p)) for p in design)])
    held: dict[str, list[bool]] = {}
    wide: dict[str, list[float]] = {}
    truth = 0.0
    for _ in range(repetitions):
        found, truth = sample(rng, design)
        for name, one in found.items():
            if np.isfinite(one.lower):
                held.setdefault(name, []).append(bool(one.lower <= truth <= one.upper))
                wide.setdefault(name, []).append(one.upper - one.lower)
    width = {name: float(np.mean(values)) for name, values in wide.items()}
    covered = {name: float(np.mean(values)) for name, values in held.items()}
    numbers = len(held.get("rogan_gladen", ())) / repetitions
    return Cell(design, truth, covered, width, width["corrected"] / width["labels_only"], numbers)


def sample(rng: np.random.Generator, design: Design) -> tuple[dict[str, Estimate], float]:
    """The estimates of one sample, and the truth."""
    item = np.arange(ROWS) // (SIZE if design.items else 1)
    made = _scores if design.kind == "score" else _rates
    verdict, truth, sure, true = made(rng, design, item)
    chance = np.full(ROWS, design.labels / ROWS)
    if design.unequal:
        chance = np.where(sure, 1.0, 3.0)
        chance *= design.labels / chance.sum()
    label = np.full(ROWS, np.nan)
    chosen = rng.random(ROWS) < chance
    label[chosen] = truth[chosen]
    given = (verdict, label, item, chance if design.unequal else None)
    if design.kind == "difference":
        first = np.arange(ROWS) % 2 == 0
        return compare_difference(verdict, label, item, first, ~first, given[3]), 0.0
    found = {"corrected": prediction_powered(*given), "labels_only": labels_only(*given)}
    if design.kind == "rate":
        found |= {"raw": raw_estimate(verdict, item), "rogan_gladen": rogan_gladen(*given)}
    return found, true


def _rates(
    rng: np.random.Generator, design: Design, item: npt.NDArray[np.intp]
) -> tuple[Floats, Floats, npt.NDArray[np.bool_], float]:
    """Verdict, truth and certainty of each row, and the true rate."""
    rate = np.full(int(item.max()) + 1, design.rate)
    if design.items:
        total = (1 - CORRELATION) / CORRELATION
        rate = rng.beta(design.rate * total, (1 - design.rate) * total, size=len(rate))
    truth = rng.random(len(item)) < rate[item]
    tpr, tnr = JUDGES[design.judge]
    verdict = np.where(truth, rng.random(len(item)) < tpr, rng.random(len(item)) >= tnr)
    sure = rng.random(len(item)) < np.where(verdict == truth, 0.8, 0.4)
    return verdict.astype(float), truth.astype(float), sure, design.rate


def _scores(
    rng: np.random.Generator, design: Design, item: npt.NDArray[np.intp]
) -> tuple[Floats, Floats, npt.NDArray[np.bool_], float]:
    """Scores around 3 that differ by 1; the judge's lie half a point too high."""
    share = CORRELATION if design.items else 0.0
    own = rng.normal(size=int(item.max()) + 1)[item]
    truth = np.sqrt(share) * own + np.sqrt(1 - share) * rng.normal(size=len(item))
    together = sum(JUDGES[design.judge]) - 1
    verdict = together * truth + np.sqrt(1 - together**2) * rng.normal(size=len(item))
    return 3.5 + verdict, 3 + truth, np.abs(verdict) > 0.7, 3.0


def table(cells: list[Cell]) -> str:
    """One line a design; what lies outside the target has a mark."""
    head = (
        f"{'design':<54} {'corrected':>16} {'labels only':>15} {'Rogan-Gladen':>13} {'raw':>6}  width, corrected/labels"
    )
    lines = [head]
    for cell in cells:
        d = cell.design
        name = f"{d.kind} {d.rate:g}" if d.kind == "rate" else d.kind
        more = f"{', items' if d.items else ''}{', unequal' if d.unequal else ''}"
        where = f"{name}, {d.judge} judge, {d.labels} labels{more}"
        shown = {k: f"{v:.3f} ({cell.width[k]:.2f})" for k, v in cell.covered.items()}
        mark = " " if TARGET[0] <= cell.covered["corrected"] <= TARGET[1] else "!"
        rogan = f"{cell.covered['rogan_gladen']:.3f}" if cell.numbers > 0.5 else "none"
        lines.append(
            f"{where:<54} {shown['corrected']:>15}{mark} {shown['labels_only']:>15} {rogan:>13} "
            f"{cell.covered.get('raw', float('nan')):>6.2f}  {cell.wider:.2f}"
        )
    lines.append(
        f"Share of intervals that hold the truth (mean width); ! outside {TARGET[0]:g} to {TARGET[1]:g}. Rogan-Gladen: "
        "none where most samples have no number."
    )
    return "\n".join(lines)

"""Readings of clean and attacked responses, and where a threshold would stand.

`judgescope bench screening DATA` prints the table behind the default thresholds. Responses made unreadable on purpose
are left out: they are unlikely texts by construction.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.attacks.registry import make_attack
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.cards import DETECTOR_THRESHOLD, PERPLEXITY_THRESHOLDS, UNLIKELY_BY_DESIGN
from engine.defenses.guard import Guard, Reading, guard_for
from engine.judges.planted import make_planted
from engine.stats.auc import auc
from engine.stats.detection import best_f1
from engine.studies.running import build_requests

SUFFIXES = ("suffix", "suffix:topic-greedy-absolute-flant5xl")
PROMPTS = ("dsi", "bed", "adaptive", "combined")
Read = Callable[[Sequence[str]], NDArray[np.float64]]
ALARMS = 0.1
"""Share of clean responses that the suggested threshold may flag."""


def screening_table(
    dataset: Dataset, guard: Guard, attacks: Sequence[str], windows: Sequence[int] = tuple(PERPLEXITY_THRESHOLDS)
) -> pd.DataFrame:
    """One row per screen and attack, each against the clean responses.

    Returns:
        Columns screen, attack, n (responses that have a reading), auc (probability that an attacked response reads
        higher than a clean one, ties half), threshold (the default), alarms and hits (shares of clean and attacked
        responses above it), suggested (above it lies a tenth of the clean ones), best_f1 and its threshold f1_at.
    """
    quality = dataset.responses.set_index("response_id")["quality"]
    left_out = set(quality.index[quality.isin(UNLIKELY_BY_DESIGN)])
    requests = [r for r in build_requests(dataset) if r.response_id not in left_out]
    texts = {name: [make_attack(name).apply(r) for r in requests] for name in ("none", *attacks)}
    rows = []
    for screen, threshold, read in _screens(guard, windows):
        clean = read(texts["none"])
        for name in attacks:
            rows.append({"screen": screen, "attack": name, **_row(clean, read(texts[name]), threshold)})
    return pd.DataFrame(rows)


def _screens(guard: Guard, windows: Sequence[int]) -> Iterator[tuple[str, float, Read]]:
    """Name, default threshold and reader of each screen."""
    for window in windows:
        name = f"perplexity?window={window}" if window else "perplexity"
        yield name, PERPLEXITY_THRESHOLDS[window], partial(_perplexities, guard, window)
    yield "detector", DETECTOR_THRESHOLD, partial(_suspicions, guard)


def _perplexities(guard: Guard, window: int, texts: Sequence[str]) -> NDArray[np.float64]:
    return _values(guard.perplexities(texts, window, lambda: None))


def _suspicions(guard: Guard, texts: Sequence[str]) -> NDArray[np.float64]:
    return _values(guard.suspicions(texts, lambda: None))


def _values(readings: Sequence[Reading]) -> NDArray[np.float64]:
    """The readings that are numbers."""
    return np.array([r.value for r in readings if math.isfinite(r.value)])


def _row(clean: NDArray[np.float64], attacked: NDArray[np.float64], threshold: float) -> dict[str, float]:
    f1, at = best_f1(clean, attacked)
    return {
        "n": len(attacked),
        "auc": auc(attacked, clean),
        "threshold": threshold,
        "alarms": float((clean > threshold).mean()),
        "hits": float((attacked > threshold).mean()),
        "suggested": float(np.quantile(clean, 1 - ALARMS)),
        "best_f1": f1,
        "f1_at": at,
    }


def add_screening(kinds: Any) -> None:
    """Add `bench screening` to the kinds of `judgescope bench`."""
    screening = kinds.add_parser(
        "screening", help="readings of clean and attacked replies, and where a threshold stands"
    )
    screening.add_argument("data", nargs="?", default="demo-dialogue", help="id of a data set")
    screening.add_argument("--json", action="store_true", help="last line is one JSON object")
    screening.set_defaults(run=run_screening)


def run_screening(args: argparse.Namespace) -> dict[str, Any]:
    """Print the table for a data set; the model's passes are kept in the cache of judge calls."""
    settings = get_settings()
    guard = guard_for(make_planted("planted:constant"), settings)
    table = screening_table(load_dataset(args.data, settings.datasets), guard, (*SUFFIXES, *PROMPTS))
    print(table.round(3).to_string(index=False))
    return {"rows": table.to_dict("records")}

"""Study `detection`: the perplexity threshold of best F1, fitted on some items and measured on the others.

One threshold is fitted against learned phrases and one against prompt attacks: readable injections are not unlikely
texts, and a threshold fitted on both would hide that (CAP, paper 001, section 5.2).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from engine.attacks.cards import parse_attack
from engine.attacks.registry import make_attack
from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE, READINGS
from engine.core.settings import Settings, get_settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.cards import DETECTOR_THRESHOLD, PERPLEXITY_THRESHOLDS
from engine.defenses.guard import BASE, Guard, Reading, guard_for
from engine.judges.base import Checkpoint, Request
from engine.judges.planted import make_planted
from engine.runs.folder import RunFolder, create_run, now
from engine.stats.detection import best_f1, detection_at, fitted, side_of
from engine.stats.intervals import Interval
from engine.stats.shifts import metric_row
from engine.studies.running import about_data, build_requests, ending

UNLIKELY_BY_DESIGN = frozenset({"broken"})
"""Constructed qualities that are unlikely texts on purpose; they are left out of the clean side."""


class DetectionConfig(BaseModel):
    """What to measure; the run's manifest holds it.

    Attributes:
        suffixes: attacks that add a learned phrase.
        prompts: attacks that add readable sentences.
        window: tokens of a window; 0 takes the whole text.
        train_share: share of the items that the threshold is fitted on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    suffixes: tuple[str, ...] = ("suffix",)
    prompts: tuple[str, ...] = ("dsi", "bed", "adaptive")
    window: int = Field(default=0, ge=0, le=4096)
    train_share: float = Field(default=0.5, gt=0, lt=1)
    limit: int | None = Field(default=None, ge=2)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)


def detection_job(config: DetectionConfig, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """The study as a job of the worker."""
    dataset = load_dataset(config.data, settings.datasets)
    run = create_run(settings.runs, "detection", config.model_dump(mode="json"), config.run_id)
    run_detection(config, dataset, guard_for(make_planted("planted:constant"), settings), run, checkpoint)
    return {"run_id": run.run_id}


def run_detection(
    config: DetectionConfig, dataset: Dataset, guard: Guard, run: RunFolder, checkpoint: Checkpoint
) -> pd.DataFrame:
    """Read all texts, fit, measure; returns the metrics table.

    Raises:
        InputError: the data has fewer than two items, or no attack of a kind was named.
        Cancelled: from the checkpoint; what was read is in the cache and the run is marked stopped.
    """
    with ending(run):
        readings = read_texts(config, dataset, guard, checkpoint)
    metrics = detection_metrics(readings, level=config.level, seed=config.seed)
    test = readings[readings["split"] == "test"]
    counts = {"n_items": int(test["item_id"].nunique()), "n_responses": int(test["response_id"].nunique())}
    run.write_table("readings", readings)
    run.write_table("metrics", metrics)
    run.update_manifest(state="done", finished=now(), data=about_data(dataset, **counts), judge=_about_reader(guard))
    return metrics


def _about_reader(guard: Guard) -> dict[str, Any]:
    """The manifest's `judge`: no judge is asked, but a base model reads the texts."""
    base = getattr(guard, "base", None)
    if base is None:
        return {"spec": BASE, "labels": [], "device": "no model"}
    read = {"fingerprint": base.fingerprint, "device": base.device, "precision": base.dtype}
    return {"spec": BASE, "labels": [], **read}


def read_texts(config: DetectionConfig, dataset: Dataset, guard: Guard, checkpoint: Checkpoint) -> pd.DataFrame:
    """Table `readings` of every response, clean and under each attack.

    Raises:
        InputError: as `run_detection`.
    """
    requests = _requests(config, dataset)
    items = list(dict.fromkeys(r.item_id for r in requests))
    if len(items) < 2:
        raise InputError(
            f"The data {dataset.name} has {len(items)} items with a response; a threshold is fitted on some and "
            "measured on others, so at least two are needed."
        )
    n_train = min(max(1, round(config.train_share * len(items))), len(items) - 1)
    train = {items[i] for i in np.random.default_rng(config.seed).permutation(len(items))[:n_train].tolist()}
    rows = [(r, name, family, make_attack(name).apply(r)) for name, family in _arms(config) for r in requests]
    texts = [text for *_, text in rows]
    done = 0

    def after_batch() -> None:
        nonlocal done
        done = min(done + 1, len(texts))
        checkpoint(done, len(texts))

    found = guard.perplexities(texts, config.window, after_batch)
    screen = f"perplexity?window={config.window}" if config.window else "perplexity"
    return READINGS.conform(
        pd.DataFrame(
            {
                "screen": screen,
                "response_id": [r.response_id for r, *_ in rows],
                "item_id": [r.item_id for r, *_ in rows],
                "attack": [name for _, name, _, _ in rows],
                "family": [family for _, _, family, _ in rows],
                "split": ["train" if r.item_id in train else "test" for r, *_ in rows],
                "value": [reading.value for reading in found],
                "unread_reason": [reading.unread or None for reading in found],
            }
        )
    )


def plan_detection(config: DetectionConfig, dataset: Dataset) -> dict[str, int]:
    """Texts that are read, each once, and their tokens, counted at about four characters a token."""
    texts = {make_attack(name).apply(r) for name, _ in _arms(config) for r in _requests(config, dataset)}
    return {"texts": len(texts), "tokens": sum(1 + len(text) // 4 for text in texts)}


def _requests(config: DetectionConfig, dataset: Dataset) -> list[Request]:
    quality = dataset.responses.set_index("response_id")["quality"]
    found = [r for r in build_requests(dataset) if quality.get(r.response_id) not in UNLIKELY_BY_DESIGN]
    return found[: config.limit]


def _arms(config: DetectionConfig) -> list[tuple[str, str]]:
    """Attack and family, the clean texts first."""
    arms = [(NONE, NONE)]
    arms += [(parse_attack(a).name, "suffix") for a in config.suffixes]
    arms += [(parse_attack(a).name, "prompt") for a in config.prompts]
    return arms


def detection_metrics(readings: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """The fitted thresholds and what they do on the other side, one set of rows for each family (column `group`).

    Rows: threshold and train_f1 (training side, without interval); precision, recall, false_alarms and f1 (other
    side); recall once more for each attack.
    """
    rows: list[dict[str, object]] = []
    for family in [f for f in ("suffix", "prompt") if (readings["family"] == f).any()]:
        f1, threshold = fitted(readings, family)
        train, test = (side_of(readings, family, split) for split in ("train", "test"))
        for name, value in (("threshold", threshold), ("train_f1", f1)):
            fixed = Interval(value, np.nan, np.nan, level, "fitted", len(train), train["item_id"].nunique())
            rows.append(metric_row(name, NONE, NONE, fixed, len(train)) | {"group": family})
        found = detection_at(test, threshold, level=level, seed=seed)
        rows += [metric_row(m, NONE, NONE, i, i.n) | {"group": family} for m, i in found.items()]
        for attack in test.loc[test["attack"] != NONE, "attack"].unique():
            own = detection_at(test[test["attack"] == attack], threshold, level=level, seed=seed)["recall"]
            rows.append(metric_row("recall", str(attack), NONE, own, own.n) | {"group": family})
    return METRICS.conform(pd.DataFrame(rows))


# What screening sees: readings of clean and attacked responses, and where a threshold would stand.
#
# `python -m engine.studies.perplexity_threshold.run demo-dialogue` prints the table behind the default thresholds.
# Responses made
# unreadable on purpose (quality `broken`) are left out: they are unlikely texts by construction.

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
    left_out = set(quality.index[quality.eq("broken")])
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
    above = (attacked[:, None] > clean[None, :]).mean()
    equal = (attacked[:, None] == clean[None, :]).mean()
    f1, at = best_f1(clean, attacked)
    return {
        "n": len(attacked),
        "auc": float(above + equal / 2),
        "threshold": threshold,
        "alarms": float((clean > threshold).mean()),
        "hits": float((attacked > threshold).mean()),
        "suggested": float(np.quantile(clean, 1 - ALARMS)),
        "best_f1": f1,
        "f1_at": at,
    }


def main() -> None:
    """Print the table for a dataset; the model's passes are kept in the cache of judge calls."""
    settings = get_settings()
    dataset = load_dataset(sys.argv[1] if len(sys.argv) > 1 else "demo-dialogue", settings.datasets)
    guard = guard_for(make_planted("planted:constant"), settings)
    print(screening_table(dataset, guard, (*SUFFIXES, *PROMPTS)).round(3).to_string(index=False))


if __name__ == "__main__":
    main()

"""Study `detection`: the perplexity threshold of best F1, fitted on some items and measured on the others.

One threshold is fitted against learned phrases and one against prompt attacks: readable injections are not unlikely
texts, and a threshold fitted on both would hide that (CAP, paper 001, section 5.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.cards import parse_attack
from engine.attacks.registry import make_attack
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.data.dataset import Dataset
from engine.defenses.cards import UNLIKELY_BY_DESIGN
from engine.defenses.guard import BASE, Guard
from engine.judges.base import Checkpoint, Request
from engine.runs.folder import RunFolder, now
from engine.stats.detection import detection_metrics
from engine.studies.perplexity_threshold.study import READINGS, DetectionConfig
from engine.studies.running import about_data, build_requests, ending


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
    if about := getattr(guard, "about", None):
        return dict(about)
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

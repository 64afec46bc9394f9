"""The perplexity arms of the study `cap`: who reads, and thresholds fitted on the training contexts (paper 001, 5.1).

The guard is the tutor's model. One threshold is fitted against the run's learned phrases and one against its prompt
attacks, as in the study `detection`: readable injections are not unlikely texts, and one threshold for both would hide
that. A fitted arm is called what it is, for example `perplexity?threshold=112.4`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.attacks.registry import make_attack, parse_attack
from engine.data.dataset import Dataset
from engine.defenses.guard import Guard, ModelGuard, own_model
from engine.defenses.names import parse_defense
from engine.errors import InputError
from engine.judges.base import Checkpoint, Judge, Request
from engine.metrics.detection import best_f1
from engine.studies.cap_config import PERPLEXITY, CapConfig, Contexts
from engine.studies.cap_tutor import Tutor
from engine.studies.detection import UNLIKELY_BY_DESIGN
from engine.studies.requests import build_requests

FAMILIES = ("suffix", "prompt")
_DECIMALS = 3


def guard_of(tutor: Tutor, judge: Judge) -> Guard:
    """Perplexity under the tutor's model; other questions, which no arm of this study asks, as everywhere."""
    return ModelGuard(lambda: tutor.loaded, lambda: own_model(judge) or tutor.loaded, tutor.cache)


def training_texts(config: CapConfig, contexts: Contexts, dataset: Dataset) -> list[Request]:
    """Responses of the training contexts, those left out that were made unlikely on purpose."""
    training = {r.item_id for r in contexts.training}
    quality = dataset.responses.set_index("response_id")["quality"]
    own = [r for r in build_requests(dataset) if r.item_id in training]
    return [r for r in own if quality.get(r.response_id) not in UNLIKELY_BY_DESIGN] if config.fits_perplexity else []


def screening_work(config: CapConfig, contexts: Contexts, dataset: Dataset) -> int:
    """Texts that fitting reads, which `Progress` counts: each training response clean and under every attack."""
    return (1 + len(config.attacks)) * len(training_texts(config, contexts, dataset))


def with_fitted(
    config: CapConfig, contexts: Contexts, dataset: Dataset, guard: Guard, checkpoint: Checkpoint
) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The arms with the fitted thresholds in place of the plain perplexity arm, and how each was found.

    Args:
        config: the study; without `fit_perplexity` or without a plain perplexity arm nothing is fitted.
        contexts: whose training side is fitted on.
        dataset: has the responses of the training contexts.
        guard: reads the texts.
        checkpoint: called between batches; may raise to stop.

    Returns:
        Names of the arms, and a record for each threshold: against, attacks, threshold, f1, n_clean, n_attacked.
    """
    own = training_texts(config, contexts, dataset)
    if not own:
        return config.defenses, []
    by_family: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name in dict.fromkeys(parse_attack(attack).name for attack in config.attacks):
        by_family["suffix" if parse_attack(name).base == "suffix" else "prompt"].append(name)
    clean = _readings(guard, [r.response for r in own], checkpoint)
    found: list[dict[str, Any]] = []
    for family in (one for one in FAMILIES if by_family[one]):
        texts = [make_attack(name).apply(r) for name in by_family[family] for r in own]
        attacked = _readings(guard, texts, checkpoint)
        try:
            f1, at = best_f1(clean, attacked)
        except InputError:  # no text has a reading: the stock threshold stays
            continue
        threshold = max(1.0, math.floor(at * 10**_DECIMALS) / 10**_DECIMALS)
        counts = {"n_clean": len(clean), "n_attacked": len(attacked)}
        found.append({"against": family, "attacks": by_family[family], "threshold": threshold, "f1": f1} | counts)
    fitted = [parse_defense(f"{PERPLEXITY}?threshold={one['threshold']}").name for one in found] or [PERPLEXITY]
    arms = [arm for name in config.defenses for arm in (fitted if name == PERPLEXITY else [name])]
    return tuple(dict.fromkeys(arms)), found


def _readings(guard: Guard, texts: Sequence[str], checkpoint: Checkpoint) -> np.ndarray:
    found = guard.perplexities(texts, 0, lambda: checkpoint(0, len(texts)))
    return np.array([reading.value for reading in found])

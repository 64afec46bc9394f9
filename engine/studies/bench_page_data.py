"""Planted pairs and an audit of them for the page bench: of the size that the page must stay quick at."""

from __future__ import annotations

import csv
import io

import numpy as np

from engine.data.comparisons import Comparisons, read_comparisons, save_comparisons
from engine.judges.base import no_checkpoint
from engine.runs import create_run
from engine.settings import Settings
from engine.studies.puaudit import AuditConfig, run_puaudit
from engine.studies.puaudit_verdicts import IN_DATA

POSITIVES, UNLABELLED = 500, 2000
RIGHT = 0.7
"""Share of planted verdicts that are right."""
_GOOD = ("evidence", "shows", "because", "measured", "data", "agree", "therefore", "sources", "confirm", "holds")
_BAD = ("trust", "friend", "honestly", "everybody", "knows", "surely", "nobody", "doubts", "obviously", "believe")
_COMMON = ("the", "of", "and", "to", "in", "that", "it", "with", "as", "for", "this", "from", "are", "on", "by", "at")
_TYPES = ("advice", "coding", "facts", "maths", "other", "writing")


def planted_pairs(positives: int = POSITIVES, unlabelled: int = UNLABELLED, seed: int = 0) -> Comparisons:
    """Pairs of a sound and an empty response in random words, with a verdict that is right for `RIGHT` of them.

    Args:
        positives: pairs with a human preference; it is always for the sound response.
        unlabelled: pairs without one.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    out = io.StringIO(newline="")
    table = csv.writer(out)
    table.writerow(["id", "prompt", "response_a", "response_b", "human", "verdict", "type"])
    for i in range(positives + unlabelled):
        good, bad = (
            " ".join(rng.permutation([*rng.choice(own, 6), *rng.choice(_COMMON, 10)])) for own in (_GOOD, _BAD)
        )
        first, right = bool(rng.integers(2)), rng.random() < RIGHT
        human = ("a" if first else "b") if i < positives else ""
        a, b = (good, bad) if first else (bad, good)
        table.writerow([f"p{i}", f"Question {i}?", a, b, human, "a" if first == right else "b", _TYPES[i % 6]])
    return read_comparisons("planted.csv", out.getvalue().encode())


def planted_run(
    settings: Settings, positives: int = POSITIVES, unlabelled: int = UNLABELLED, *, bootstraps: int = 20
) -> str:
    """Save planted pairs with a finished audit of them, nothing denoised; returns the set's id."""
    found = planted_pairs(positives, unlabelled)
    save_comparisons(found, settings.comparisons)
    config = AuditConfig(
        judge=IN_DATA,
        data=found.set_id,
        encoders=("words",),
        alpha1=1,
        alpha2=1,
        umap=False,
        p_ratios=(),
        bootstraps=bootstraps,
    )
    folder = create_run(settings.runs, "puaudit", config.model_dump())
    run_puaudit(config, found, None, folder, settings, no_checkpoint)
    return found.set_id

"""An audit of planted directions: truth and best mass are known, so that a class can see when auditing helps or hurts.

No judge, no text, no encoder: `engine.transport.planted` draws the directions, and everything after that is the audit
of the study `puaudit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from engine.judges.base import Checkpoint
from engine.readout.puaudit import GEOMETRY
from engine.settings import Settings
from engine.transport.audit import Denoising, audit
from engine.transport.planted import planted_cone


class PlantedAudit(BaseModel):
    """Where the directions lie; see `planted_cone` for each.

    Attributes:
        alpha: share of verdicts that are right, the prior of theorem 4.3 and the best mass where its assumptions hold.
        positives: verified preferences.
        unlabelled: verdicts that are audited.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    alpha: float = Field(default=0.4, ge=0, le=1)
    tau: float = Field(default=0.8, gt=0, lt=1)
    delta: float = Field(default=0.5, gt=0, lt=1)
    nuisance: float = Field(default=0.0, ge=0, le=10)
    mislabelled: float = Field(default=0.0, ge=0, lt=1)
    contrary: float = Field(default=0.0, ge=0, le=1)
    positives: int = Field(default=100, ge=2, le=500)
    unlabelled: int = Field(default=300, ge=2, le=1000)
    dimensions: int = Field(default=128, ge=3, le=1024)
    seed: int = Field(default=0, ge=0)


def planted_audit(config: PlantedAudit, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Draw, and solve for every mass.

    Returns:
        JSON-ready: truth of each unlabelled verdict, the events of the path, the baselines, and `assumption`: whether
        the margin of assumption 4.2 is open and nothing departs from the model.

    Raises:
        InputError: no such geometry.
    """
    del settings
    cone = planted_cone(
        config.positives, config.unlabelled, d=config.dimensions, tau=config.tau, delta=config.delta,
        alpha=config.alpha, nuisance=config.nuisance, mislabelled=config.mislabelled, contrary=config.contrary,
        seed=config.seed,
    )  # fmt: skip
    checkpoint(0, 1)
    # the filter needs embeddings of responses, which directions have not; all positives stay
    heads = cone.positives
    found = audit(heads, cone.positives, ["all"] * len(heads), cone.unlabelled, Denoising(alpha1=1.0, alpha2=1.0))
    checkpoint(1, 1)
    path = found.path
    return {
        "truth": cone.truth.astype(int).tolist(),
        "n_positive": path.n_positive,
        "n_unlabelled": path.n_unlabelled,
        "sent": path.sent.tolist(),
        "unlabelled": path.unlabelled.tolist(),
        "positive": path.positive.tolist(),
        "price": path.price.tolist(),
        "scores": {name: np.asarray(found.scores[name]).tolist() for name in GEOMETRY},
        "assumption": config.tau**2 > config.tau - config.delta and not config.mislabelled and not config.contrary,
    }

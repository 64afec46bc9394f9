"""Steered anchors that a run of the study `cap` has written already: what the defense `cap` shows elsewhere."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd

from engine.data.dataset import Dataset
from engine.data.store import DEMO_NAMES
from engine.defenses.anchors import Anchors, GivenAnchors
from engine.errors import InputError, RunError
from engine.runs import RunFolder, list_runs, open_run
from engine.settings import Settings

CAP = "cap"


def stored_anchors(dataset: Dataset, settings: Settings) -> GivenAnchors:
    """The anchors of the newest run on this data, else of the recorded one.

    Raises:
        InputError: no run has written any.
    """
    for run in _runs(dataset.dataset_id, settings):
        table = run.table("cap_anchors")
        own = table[table["arm"] == CAP]
        if len(own):
            texts = own.pivot(index="item_id", columns="side", values="text").fillna("")
            scores = own.pivot(index="item_id", columns="side", values="score")
            return GivenAnchors(CAP, {str(i): _pair(texts.loc[i], scores.loc[i]) for i in texts.index})
    raise InputError(
        f"The defense cap shows anchors that a tutor was steered to write, and no run has written any for "
        f"{dataset.name}. Run the study on the page Steering and anchors (judgescope study cap), or use wcap."
    )


def _runs(dataset_id: str, settings: Settings) -> list[RunFolder]:
    found = []
    for manifest in list_runs(settings.runs):
        if manifest.get("study") == CAP and manifest.get("config", {}).get("data") == dataset_id:
            found.append(open_run(settings.runs, str(manifest["run_id"])))
    if dataset_id in DEMO_NAMES:
        with contextlib.suppress(RunError):  # this set has no recorded run of the study
            found.append(open_run(settings.assets / "demo" / dataset_id.removeprefix("demo-"), CAP))
    return found


def _pair(texts: pd.Series, scores: pd.Series) -> Anchors:
    low, high = str(texts.get("low", "")), str(texts.get("high", ""))
    unread = "" if low and high else "cap: the tutor wrote no text for an anchor of this item"
    known = (float(scores.get("low", np.nan)), float(scores.get("high", np.nan)))
    return Anchors(low, high, *known, unread=unread)

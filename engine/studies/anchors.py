"""Where the anchors of a study's anchored defenses come from: a tutor, or the data's own responses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from engine.core.errors import InputError, RunError
from engine.core.settings import Settings
from engine.data.dataset import Dataset
from engine.data.store import DEMO_NAMES
from engine.defenses.anchors import (
    PROMPTED,
    Anchors,
    AnchorSource,
    GivenAnchors,
    PromptedAnchors,
    random_anchors,
    rated_anchors,
)
from engine.defenses.cards import parse_defenses
from engine.defenses.guard import base_loader
from engine.defenses.writing import TUTOR, Writer, writer_for
from engine.judges.api_spec import PREFIX as API
from engine.runs.folder import RunFolder, list_runs, open_run
from engine.studies.rewrites import api_writer

if TYPE_CHECKING:
    from engine.inference.loading import LoadedModel


# Steered anchors that a run of the study `cap` has written already: what the defense `cap` shows elsewhere.

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


HUMAN, RANDOM = "human-anchors", "random-anchors"
BY_DESIGN: Mapping[str, float] = {
    "good": 4.5, "generic": 2.3, "off_topic": 1.4, "broken": 1.1,
    "faithful": 4.5, "dropped": 3.7, "vague": 2.3, "offtopic": 1.4,
}  # fmt: skip
"""Points of 5 that stand for a constructed quality where nobody rated (demo sets); other levels have none, since
their order against these is not fixed by construction."""
USUAL_SCALE = (1.0, 5.0)


def sources_for(
    defenses: Iterable[str], dataset: Dataset, settings: Settings, tutor: str = TUTOR
) -> dict[str, AnchorSource]:
    """The sources that some defenses need, by the defense's name.

    Args:
        defenses: names of arms.
        dataset: the data that are judged.
        settings: where weights and replies are kept.
        tutor: spec of the model that writes anchors on request.

    Raises:
        InputError: a defense is unknown, its anchors need ratings that the data does not have, or a
            run of the study cap that there is not.
    """
    wanted = {part.base for name in defenses for part in parse_defenses(name) if part.card.anchored}
    found: dict[str, AnchorSource] = {}
    for name in wanted & PROMPTED.keys():
        found[name] = PromptedAnchors(name, tutor_writer(tutor, settings), PROMPTED[name])
    if HUMAN in wanted:
        ratings, scale = ratings_of(dataset)
        found[HUMAN] = GivenAnchors(HUMAN, {}, rated_anchors(dataset.responses, ratings, scale))
    if RANDOM in wanted:
        found[RANDOM] = GivenAnchors(RANDOM, {}, random_anchors(dataset.responses))
    if CAP in wanted:
        found[CAP] = stored_anchors(dataset, settings)
    return found


def without_anchors(dataset: Dataset, settings: Settings) -> dict[str, str]:
    """The defenses whose anchors these data cannot give, with what is missing in a few words."""
    needed = {HUMAN: "scores by people", RANDOM: "responses", CAP: "a steering run"}
    usable = {**needed, HUMAN: "two more responses to the context, rated near 2 and 4 of 5",
              RANDOM: "three responses to a context"}  # fmt: skip
    missing: dict[str, str] = {}
    for name in needed:
        try:
            held = sources_for([name], dataset, settings)[name]
        except InputError:
            missing[name] = needed[name]
        else:
            if isinstance(held, GivenAnchors) and held.empty:
                missing[name] = usable[name]
    return missing


def tutor_writer(tutor: str, settings: Settings) -> Writer:
    """Writer of anchors: the bundled base model, a model loaded for it on first use, or one behind a server.

    Raises:
        InputError: no server is set up for an API tutor; later, when asked, if the spec names no model that writes.
    """
    if tutor == TUTOR:
        return writer_for(base_loader(settings), settings.calls)
    if tutor.startswith(API):
        return api_writer(tutor, settings)
    made: list[LoadedModel] = []

    def load() -> LoadedModel:
        from engine.inference.loading import load_model

        if not made:
            made.append(load_model(tutor, settings))
        return made[0]

    return writer_for(load, settings.calls)


def ratings_of(dataset: Dataset) -> tuple[pd.Series, tuple[float, float]]:
    """A rating for each response, human where there is one, else by design; and their scale.

    Returns:
        Ratings aligned with the responses (NaN where there is none), and the lowest and highest rating possible: 1
        to 5 where the ratings lie in it, else the lowest and highest seen.
    """
    human = dataset.responses["human_score"]
    if human.notna().any():
        low, high = float(human.min()), float(human.max())
        inside = USUAL_SCALE[0] <= low and high <= USUAL_SCALE[1]
        return human, USUAL_SCALE if inside else (low, high)
    return dataset.responses["quality"].map(BY_DESIGN).astype(float), USUAL_SCALE

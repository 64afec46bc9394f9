"""Where the anchors of a study's anchored defenses come from: a tutor, or the data's own responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from engine.data.dataset import Dataset
from engine.defenses.anchor_sources import PROMPTED, PromptedAnchors, random_anchors, rated_anchors
from engine.defenses.anchors import AnchorSource, GivenAnchors
from engine.defenses.guard import base_loader
from engine.defenses.names import parse_defenses
from engine.defenses.writing import TUTOR, Writer, writer_for
from engine.settings import Settings
from engine.studies.api_writing import API, api_writer
from engine.studies.cap_stored import CAP, stored_anchors

if TYPE_CHECKING:
    from engine.models.loader import LoadedModel

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
        dataset: what is judged.
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


def tutor_writer(tutor: str, settings: Settings) -> Writer:
    """What writes anchors: the bundled base model, a model loaded for it on first use, or one behind a server.

    Raises:
        InputError: no server is set up for an API tutor; later, when asked, if the spec names no model that writes.
    """
    if tutor == TUTOR:
        return writer_for(base_loader(settings), settings.calls)
    if tutor.startswith(API):
        return api_writer(tutor, settings)
    made: list[LoadedModel] = []

    def load() -> LoadedModel:
        from engine.models.loader import load_model

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

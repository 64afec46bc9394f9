"""Numbers of the study `cap`: shifts, agreement with ratings, cost, and whether the anchors are apart and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from engine.data.dataset import Dataset
from engine.defenses.anchors import Anchors
from engine.defenses.reasoning import reasoning_prompt
from engine.judges.base import Request
from engine.metrics.agreement import cluster_spearman
from engine.metrics.clusters import cluster_codes
from engine.metrics.gains import defense_gains, from_undefended
from engine.metrics.intervals import cluster_mean
from engine.metrics.shifts import metric_row, shift_metrics
from engine.models.perplexity import text_ids
from engine.schema import METRICS, NONE
from engine.studies.anchoring import ratings_of
from engine.studies.cap_arms import AnchorSets, Arms
from engine.studies.cap_config import ANCHORED, COT, EXCHANGED, PERPLEXITY, CapConfig, Contexts, base_of
from engine.studies.cap_tutor import Tutor

SHARED = (16, 4)
"""Responses of a context and attacks on each, over which a context's anchors are shared in the cost table."""
COSTS = ("tokens_alone", "tokens_shared", "seconds_alone", "seconds_shared")


def arm_metrics(
    config: CapConfig,
    verdicts: pd.DataFrame,
    dataset: Dataset,
    anchors: AnchorSets,
    contexts: Contexts,
    apart: Mapping[str, Mapping[str, float]],
) -> pd.DataFrame:
    """All numbers of the arms as a table `metrics`: shifts, agreement with ratings, cost, and the diagnosis.

    Args:
        config: the study.
        verdicts: of the arms so far.
        dataset: holds the ratings.
        anchors: of the anchored arms.
        contexts: which are evaluated.
        apart: from `tokens_apart`, by arm.
    """
    dials = {"level": config.level, "seed": config.seed}
    compared = verdicts[~verdicts["defense"].str.endswith(EXCHANGED)]
    shifts = shift_metrics(compared, **dials)  # type: ignore[arg-type]
    gains = defense_gains(compared, **dials)  # type: ignore[arg-type]
    distances = from_undefended(compared, **dials)  # type: ignore[arg-type]
    rows: list[dict[str, object]] = []
    ratings = dict(zip(dataset.responses["response_id"], ratings_of(dataset)[0], strict=True))
    clean = verdicts[verdicts["attack"] == NONE]
    for defense in compared["defense"].unique():
        own = clean[clean["defense"] == defense]
        truth = own["response_id"].map(ratings).to_numpy(dtype=float)
        if np.isfinite(truth).any():
            found = cluster_spearman(own["score"], truth, cluster_codes(own), **dials)  # type: ignore[arg-type]
            rows.append(metric_row("spearman", NONE, defense, found, len(own)))
        own = verdicts[verdicts["defense"] == defense]
        rows += cost_rows(own, anchors.by_item.get(defense, {}), apart.get(defense, {}), config)
    rows += diagnosis_rows(clean, anchors, contexts, config)
    tables = [t for t in (shifts, gains, distances, pd.DataFrame(rows)) if len(t)]
    return METRICS.conform(pd.concat(tables, ignore_index=True))


def tokens_apart(
    defense: str, arms: Arms, own: pd.DataFrame, responses: Sequence[Request], tutor: Tutor
) -> dict[str, float]:
    """Tokens that a defense reads and writes outside the judge's own prompt, by clean response.

    A chain of thought that a writer writes costs its prompt and its reasoning, one that the judge writes itself its
    reply (as many tokens as passes), the perplexity one pass of the text.

    Args:
        defense: an arm that is judged.
        arms: from `engine.studies.cap_arms.arms_of`.
        own: its verdicts.
        responses: those judged.
        tutor: whose model reads perplexities.
    """
    if base_of(defense) == COT and arms.writer is None:
        clean = own[own["attack"] == NONE]
        return dict(zip(clean["response_id"], clean["forward_passes"].astype(float), strict=True))
    if base_of(defense) == COT and arms.writer:
        written = arms.writer.tokens
        return {r.response_id: float(written[reasoning_prompt(r)]) for r in responses}
    if base_of(defense) == PERPLEXITY:
        return {r.response_id: float(len(text_ids(tutor.loaded, r.response))) for r in responses}
    return {}


def cost_rows(
    own: pd.DataFrame, made: Mapping[str, Anchors], apart: Mapping[str, float], config: CapConfig
) -> list[dict[str, object]]:
    """Tokens of a verdict with the anchors' own, alone and shared by all verdicts of a context; seconds where fresh.

    A verdict that was never asked for, since its arm had no anchors for it or its prompt did not fit, took no tokens;
    it counts as unread and does not make the arm look cheap.

    Args:
        own: verdicts of one arm.
        made: its anchors by item with what they took; empty where none were written.
        apart: from `tokens_apart`.
        config: level and seed of the intervals.
    """
    dials = {"level": config.level, "seed": config.seed}
    defense = str(own["defense"].iloc[0])
    clean = own[own["attack"] == NONE]
    tokens = clean["prompt_tokens"].to_numpy(dtype=float, na_value=np.nan)
    idle = (tokens == 0) | (clean["forward_passes"].to_numpy(dtype=float, na_value=np.nan) == 0)
    tokens = np.where(clean["unread_reason"].notna() & idle, np.nan, tokens)
    beside = clean["response_id"].map(apart).fillna(0.0).to_numpy(dtype=float)
    extra = clean["item_id"].map({k: float(a.tokens) for k, a in made.items()}).fillna(0.0).to_numpy(dtype=float)
    judged = tokens + beside
    codes = cluster_codes(clean)
    share = SHARED[0] * SHARED[1]
    rows = [
        metric_row("tokens_alone", NONE, defense, cluster_mean(judged + extra, codes, **dials), len(clean)),  # type: ignore[arg-type]
        metric_row("tokens_shared", NONE, defense, cluster_mean(judged + extra / share, codes, **dials), len(clean)),  # type: ignore[arg-type]
    ]
    fresh = own["seconds"].to_numpy(dtype=float)
    fresh = np.where(fresh > 0, fresh, np.nan)
    written = own["item_id"].map({k: a.seconds for k, a in made.items()}).fillna(0.0).to_numpy(dtype=float)
    if made and not (written > 0).any():
        written = np.full(len(own), np.nan)  # the anchors came from the cache, so nobody measured them this time
    for name, seconds in (("seconds_alone", fresh + written), ("seconds_shared", fresh + written / share)):
        rows.append(metric_row(name, NONE, defense, cluster_mean(seconds, cluster_codes(own), **dials), len(own)))  # type: ignore[arg-type]
    return rows


def diagnosis_rows(
    clean: pd.DataFrame, anchors: AnchorSets, contexts: Contexts, config: CapConfig
) -> list[dict[str, object]]:
    """Are the anchors apart, and does the judge read them?

    anchor_gap: undefended score of the high anchor less that of the low one, over evaluation contexts; over responses
    where each has anchors of its own.
    anchor_effect: mean absolute change of clean scores when the two anchors change places.
    anchor_lift: mean change of clean scores when the anchors are shown, against none.
    """
    dials = {"level": config.level, "seed": config.seed}
    rows: list[dict[str, object]] = []
    evaluated = {r.item_id for r in contexts.evaluation}
    for arm, own in anchors.table[anchors.table["item_id"].isin(evaluated)].groupby("arm", sort=False):
        wide = own.pivot(index="item_id", columns="side", values="score")
        gap = (wide["high"] - wide["low"]).to_numpy(dtype=float)
        rows.append(metric_row("anchor_gap", NONE, str(arm), cluster_mean(gap, wide.index, **dials), len(gap)))  # type: ignore[arg-type]
    scores = clean.pivot(index=["item_id", "response_id"], columns="defense", values="score")
    items = scores.index.get_level_values(0).to_numpy()
    for arm, by_response in anchors.by_response.items():
        if arm in scores.columns:
            gap = _own_gaps(scores[NONE], by_response, contexts.responses)
            rows.append(metric_row("anchor_gap", NONE, arm, cluster_mean(gap, items, **dials), len(gap)))  # type: ignore[arg-type]
    for arm in (a for a in ANCHORED if a in scores.columns):
        lift = (scores[arm] - scores[NONE]).to_numpy(dtype=float)
        rows.append(metric_row("anchor_lift", NONE, arm, cluster_mean(lift, items, **dials), len(lift)))  # type: ignore[arg-type]
        if arm + EXCHANGED in scores.columns:
            turned = (scores[arm + EXCHANGED] - scores[arm]).abs().to_numpy(dtype=float)
            rows.append(metric_row("anchor_effect", NONE, arm, cluster_mean(turned, items, **dials), len(turned)))  # type: ignore[arg-type]
    return rows


def _own_gaps(undefended: pd.Series, by_response: Mapping[str, Anchors], responses: Sequence[Request]) -> np.ndarray:
    """Score of each response's high anchor less its low one's, both being judged responses of its item themselves."""
    known = {(r.item_id, r.response): float(undefended[r.item_id, r.response_id]) for r in responses}
    gaps = []
    for item_id, response_id in undefended.index:
        own = by_response.get(response_id, Anchors(unread="none"))
        high, low = (np.nan if own.unread else known.get((item_id, text), np.nan) for text in (own.high, own.low))
        gaps.append(high - low)
    return np.array(gaps)

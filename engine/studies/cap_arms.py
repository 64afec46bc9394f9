"""Third part of the study `cap`: anchors, judging under every attack and defense, and the numbers of each arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from engine.attacks.registry import make_attack, parse_attack
from engine.data.dataset import Dataset
from engine.defenses.anchor_sources import PROMPTED, PromptedAnchors
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.defenses.reasoning import NEW_TOKENS, ReasoningJudge, reasoning_prompt
from engine.defenses.registry import defend
from engine.judges.base import Judge, Request, no_checkpoint, verdict_table
from engine.metrics.agreement import cluster_spearman
from engine.metrics.clusters import cluster_codes
from engine.metrics.gains import defense_gains
from engine.metrics.intervals import cluster_mean
from engine.metrics.shifts import metric_row, shift_metrics
from engine.models.perplexity import text_ids
from engine.schema import METRICS, NONE
from engine.settings import Settings
from engine.steering.references import Chosen
from engine.steering.vectors import Side, Standards
from engine.studies.anchoring import ratings_of, sources_for
from engine.studies.cap_config import (
    ANCHORED,
    CAP,
    COT,
    EXCHANGED,
    HUMAN,
    PERPLEXITY,
    CapConfig,
    Contexts,
    Progress,
    with_text,
)  # fmt: skip
from engine.studies.cap_sweep import SIDES, steered_texts
from engine.studies.cap_tutor import Tutor, TutorWriter
from engine.studies.requests import with_attack

SHARED = (16, 4)
"""Responses of a context and attacks on each, over which a context's anchors are shared in the cost table."""


@dataclass(frozen=True)
class AnchorSets:
    """Anchors of every anchored arm.

    Attributes:
        by_item: arm to anchors by item; what they cost is in them.
        by_response: the human-rated arm's, which leave out the judged response.
        table: `cap_anchors`.
    """

    by_item: Mapping[str, Mapping[str, Anchors]]
    by_response: Mapping[str, Mapping[str, Anchors]]
    table: pd.DataFrame


def make_anchors(
    config: CapConfig,
    contexts: Contexts,
    dataset: Dataset,
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    chosen: Mapping[Side, Chosen],
    settings: Settings,
    progress: Progress,
) -> AnchorSets:
    """Anchors for every context, with the undefended judge's score of each text alone."""
    by_item: dict[str, dict[str, Anchors]] = {}
    by_response: dict[str, Mapping[str, Anchors]] = {}
    writer = TutorWriter(tutor)
    for arm in (a for a in config.defenses if a in PROMPTED):
        prompted = PromptedAnchors(arm, writer, PROMPTED[arm])
        found = prompted.anchors(contexts.every, progress.part(2 * len(contexts.every)))
        by_item[arm] = {r.item_id: a for r, a in zip(contexts.every, found, strict=True)}
    if CAP in config.defenses:
        by_item[CAP] = _steered(config, contexts, tutor, judge, standards, chosen, progress)
    if HUMAN in config.defenses:
        source = sources_for([HUMAN], dataset, settings)[HUMAN]
        found = source.anchors(contexts.responses)
        by_response[HUMAN] = {r.response_id: a for r, a in zip(contexts.responses, found, strict=True)}
    table = _anchor_table(by_item, contexts, judge, chosen, progress)
    return AnchorSets(by_item, by_response, table)


def _steered(
    config: CapConfig,
    contexts: Contexts,
    tutor: Tutor,
    judge: Judge,
    standards: Standards,
    chosen: Mapping[Side, Chosen],
    progress: Progress,
) -> dict[str, Anchors]:
    rows = [(r, side, chosen[side].alpha) for r in contexts.every for side in SIDES]
    drafts = steered_texts(tutor, judge, standards, rows, config, progress.part(len(rows)))
    out = {}
    for k, request in enumerate(contexts.every):
        high, low = drafts[2 * k], drafts[2 * k + 1]
        empty = [side for side, draft in zip(SIDES, (high, low), strict=True) if not draft.text]
        out[request.item_id] = Anchors(
            low=low.text,
            high=high.text,
            tokens=high.tokens + low.tokens,
            seconds=high.seconds + low.seconds,
            unread=f"cap: the tutor wrote no {empty[0]} anchor" if empty else "",
        )
    return out


def _anchor_table(
    by_item: Mapping[str, Mapping[str, Anchors]],
    contexts: Contexts,
    judge: Judge,
    chosen: Mapping[Side, Chosen],
    progress: Progress,
) -> pd.DataFrame:
    rows = [
        {
            "arm": arm,
            "item_id": request.item_id,
            "side": side,
            "text": getattr(anchors[request.item_id], side),
            "alpha": chosen[side].alpha if arm == CAP else np.nan,
            "tokens": anchors[request.item_id].tokens // 2,
        }
        for arm, anchors in by_item.items()
        for request in contexts.every
        for side in SIDES
    ]
    first = {r.item_id: r for r in contexts.every}
    asked = [k for k, row in enumerate(rows) if row["text"]]
    requests = with_text([first[str(row["item_id"])] for row in rows], [str(row["text"]) for row in rows])
    verdicts = dict(zip(asked, judge.judge([requests[k] for k in asked], progress.part(len(rows))), strict=True))
    for k, row in enumerate(rows):
        row["score"] = verdicts[k].score if k in verdicts else np.nan
    return pd.DataFrame(rows, columns=["arm", "item_id", "side", "text", "score", "alpha", "tokens"])


def judges_of(config: CapConfig, judge: Judge, tutor: Tutor, anchors: AnchorSets) -> dict[str, Judge]:
    """The judge behind each defense, the controls with exchanged anchors last."""
    found: dict[str, Judge] = {}
    own = judge.spec.startswith("bundled:")
    for name in config.defenses:
        if name in ANCHORED:
            found[name] = AnchoredJudge(judge, name, _given(name, anchors))
        elif name == COT:
            found[name] = ReasoningJudge(judge, name, TutorWriter(tutor) if own else None)
        else:
            found[name] = defend(judge, name)
    for name in (n for n in config.defenses if n in ANCHORED):
        found[name + EXCHANGED] = AnchoredJudge(judge, name + EXCHANGED, _given(name, anchors, exchanged=True))
    return found


def _given(name: str, anchors: AnchorSets, *, exchanged: bool = False) -> GivenAnchors:
    def turned(sets: Mapping[str, Anchors]) -> dict[str, Anchors]:
        swap = {k: a._replace(low=a.high, high=a.low) if exchanged else a for k, a in sets.items()}
        return {k: a._replace(tokens=0, passes=0.0, seconds=0.0) for k, a in swap.items()}

    return GivenAnchors(name, turned(anchors.by_item.get(name, {})), turned(anchors.by_response.get(name, {})))


def judge_arms(
    config: CapConfig, responses: Sequence[Request], judges: Mapping[str, Judge], progress: Progress
) -> Iterator[pd.DataFrame]:
    """Verdicts of all defenses so far, after each of them.

    Suffixes of other lengths are judged undefended and behind CAP only (figures 6 and 7), exchanged anchors on clean
    responses only.
    """
    main = list(dict.fromkeys((NONE, *(parse_attack(name).name for name in config.attacks))))
    lengths = [parse_attack(f"suffix:{n}").name for n in config.suffix_words] if "suffix" in config.attacks else []
    tables: list[pd.DataFrame] = []
    for name, defended in judges.items():
        if name.endswith(EXCHANGED):
            attacks = [NONE]
        else:
            attacks = [*main, *(a for a in lengths if a not in main and name in (NONE, CAP))]
        asked = [with_attack(r, make_attack(a)) for r in responses for a in attacks]
        verdicts = defended.judge(asked, progress.part(len(asked)))
        tables.append(verdict_table(defended, [replace(r, defense=name) for r in asked], verdicts))
        yield pd.concat(tables, ignore_index=True)


def arm_metrics(
    config: CapConfig,
    verdicts: pd.DataFrame,
    dataset: Dataset,
    anchors: AnchorSets,
    contexts: Contexts,
    tutor: Tutor,
) -> pd.DataFrame:
    """All numbers of the arms as a table `metrics`: shifts, agreement with ratings, cost, and the diagnosis.

    Args:
        config: the study.
        verdicts: of the arms so far.
        dataset: holds the ratings.
        anchors: of the anchored arms.
        contexts: which are evaluated.
        tutor: counts the tokens that its own part of a defense took.
    """
    dials = {"level": config.level, "seed": config.seed}
    compared = verdicts[~verdicts["defense"].str.endswith(EXCHANGED)]
    shifts = shift_metrics(compared, **dials)  # type: ignore[arg-type]
    gains = defense_gains(compared, **dials)  # type: ignore[arg-type]
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
        apart = tokens_apart(str(defense), contexts.responses, tutor)
        rows += _cost_rows(own, str(defense), anchors, apart, config)
    rows += _diagnosis(clean, anchors, contexts, config)
    tables = [t for t in (shifts, gains, pd.DataFrame(rows)) if len(t)]
    return METRICS.conform(pd.concat(tables, ignore_index=True))


def tokens_apart(defense: str, responses: Sequence[Request], tutor: Tutor) -> dict[str, float]:
    """Tokens that a defense reads and writes outside the judge's own prompt, by clean response.

    A chain of thought that the tutor writes costs its prompt and its reasoning, the perplexity one pass of the text.
    """
    if defense == COT:
        asks = [tutor.drawn(reasoning_prompt(r), 0.0, 0, NEW_TOKENS) for r in responses]
        drafts = tutor.write(asks, NEW_TOKENS, None, no_checkpoint)
        return {r.response_id: float(d.tokens) for r, d in zip(responses, drafts, strict=True)}
    if defense == PERPLEXITY:
        return {r.response_id: float(len(text_ids(tutor.loaded, r.response))) for r in responses}
    return {}


def _cost_rows(
    own: pd.DataFrame, defense: str, anchors: AnchorSets, apart: Mapping[str, float], config: CapConfig
) -> list[dict[str, object]]:
    """Tokens of a verdict with the anchors' own, alone and shared by all verdicts of a context; seconds where fresh."""
    dials = {"level": config.level, "seed": config.seed}
    clean = own[own["attack"] == NONE]
    made = anchors.by_item.get(defense, {})
    beside = clean["response_id"].map(apart).fillna(0.0).to_numpy(dtype=float)
    extra = clean["item_id"].map({k: float(a.tokens) for k, a in made.items()}).fillna(0.0).to_numpy(dtype=float)
    judged = clean["prompt_tokens"].to_numpy(dtype=float, na_value=np.nan) + beside
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


def _diagnosis(
    clean: pd.DataFrame, anchors: AnchorSets, contexts: Contexts, config: CapConfig
) -> list[dict[str, object]]:
    """Are the anchors apart, and does the judge read them?

    anchor_gap: undefended score of the high anchor less that of the low one, over evaluation contexts.
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
    for arm in (a for a in ANCHORED if a in scores.columns):
        lift = (scores[arm] - scores[NONE]).to_numpy(dtype=float)
        rows.append(metric_row("anchor_lift", NONE, arm, cluster_mean(lift, items, **dials), len(lift)))  # type: ignore[arg-type]
        if arm + EXCHANGED in scores.columns:
            turned = (scores[arm + EXCHANGED] - scores[arm]).abs().to_numpy(dtype=float)
            rows.append(metric_row("anchor_effect", NONE, arm, cluster_mean(turned, items, **dials), len(turned)))  # type: ignore[arg-type]
    return rows

"""Numbers of the study `cap`: shifts, agreement with ratings, cost, and whether the anchors are apart and read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.core.schema import METRICS, NONE
from engine.core.settings import Settings, get_settings
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.anchors import Anchors
from engine.defenses.reasoning import reasoning_prompt
from engine.inference.perplexity import text_ids
from engine.judges.base import Request
from engine.runs.folder import RunFolder, open_run
from engine.stats.agreement import cluster_spearman
from engine.stats.intervals import cluster_codes, cluster_mean
from engine.stats.shifts import defense_gains, from_undefended, metric_row, shift_metrics
from engine.studies.anchors import ratings_of, sources_for
from engine.studies.cap.arms import AnchorSets, Arms
from engine.studies.cap.study import ANCHORED, COT, EXCHANGED, HUMAN, PERPLEXITY, CapConfig, Contexts, base_of, divide
from engine.studies.cap.tutor import Tutor

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
        arms: from `engine.studies.cap.arms.arms_of`.
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


# CAP read from a study's stored tables (paper 001): thresholds, retained texts and the nearest alpha; numpy only.

Floats = NDArray[np.float64]
NAN = float("nan")


@dataclass(frozen=True)
class Standard:
    """What two percentiles make of the pools.

    Attributes:
        high, low: thresholds on the judge's scale; NaN where nothing was read.
        n_high, n_low: texts of the second pool at or beyond them.
        n: texts of the second pool that were read.
    """

    high: float
    low: float
    n_high: int
    n_low: int
    n: int


def standard_at(first: Floats, second: Floats, high_percentile: float, low_percentile: float) -> Standard:
    """Thresholds from the first pool's scores, counts from the second's; unread scores (NaN) count nowhere."""
    read = first[~np.isnan(first)]
    if not len(read):
        return Standard(NAN, NAN, 0, 0, int((~np.isnan(second)).sum()))
    high, low = (float(v) for v in np.percentile(read, [high_percentile, low_percentile]))
    return Standard(high, low, int((second >= high).sum()), int((second <= low).sum()), int((~np.isnan(second)).sum()))


# Numbers of a finished run of the study `cap` counted again from its stored tables; no model is asked.
#
# `python -m engine.studies.cap.metrics FOLDER` mends a run of an earlier version, in which a reply that was withheld
# from
# the judge counted as one of no tokens, and adds what that version did not count: distances from the undefended clean
# score, and the gap of human-rated anchors. Every other row stays as it is.

KEY = ["metric", "attack", "defense"]
TOKENS = ("tokens_alone", "tokens_shared")


def recounted(run: RunFolder, dataset: Dataset, settings: Settings) -> pd.DataFrame:
    """The run's table `metrics` with the rows of this module in place of its own.

    Tokens of an arm are counted again where a reply was withheld, for arms whose cost its tables hold: those with
    anchors (what both took is stored as two halves, so to one token).

    Args:
        run: a finished run; it is not changed.
        dataset: what it judged.
        settings: where the data's ratings are.

    Raises:
        InputError: the run's settings or data are not those of this version.
    """
    config = CapConfig.model_validate(run.manifest()["config"])
    contexts = divide(config, dataset)
    verdicts, metrics, table = (run.table(name) for name in ("verdicts", "metrics", "cap_anchors"))
    new: list[dict[str, object]] = []
    for arm in (name for name in ANCHORED if (verdicts["defense"] == name).any()):
        own = verdicts[verdicts["defense"] == arm]
        if own["unread_reason"].notna().any():
            new += [r for r in cost_rows(own, _made(table, arm), {}, config) if r["metric"] in TOKENS]
    if (verdicts["defense"] == HUMAN).any():
        found = sources_for([HUMAN], dataset, settings)[HUMAN].anchors(contexts.responses)
        by_response = {r.response_id: a for r, a in zip(contexts.responses, found, strict=True)}
        anchors = AnchorSets({}, {HUMAN: by_response}, table)
        rows = diagnosis_rows(verdicts[verdicts["attack"] == NONE], anchors, contexts, config)
        new += [r for r in rows if (r["metric"], r["defense"]) == ("anchor_gap", HUMAN)]
    compared = verdicts[~verdicts["defense"].str.endswith(EXCHANGED)]
    distances = from_undefended(compared, level=config.level, seed=config.seed)
    fresh = pd.concat([METRICS.conform(pd.DataFrame(new)) if new else METRICS.empty(), distances])
    return METRICS.conform(_merged(metrics, fresh))


def _made(table: pd.DataFrame, arm: str) -> Mapping[str, Anchors]:
    sums = table[table["arm"] == arm].groupby("item_id")["tokens"].sum()
    return {str(item): Anchors(tokens=int(n)) for item, n in sums.items()}


def _merged(metrics: pd.DataFrame, fresh: pd.DataFrame) -> pd.DataFrame:
    """The old rows in their order, each replaced where there is a new one of its arm; the others behind them."""
    old, new = metrics.set_index(KEY), fresh.set_index(KEY)
    both = pd.concat([old[~old.index.isin(new.index)], new])
    order = [*old.index, *(k for k in new.index if k not in old.index)]
    return both.loc[order].reset_index()


def main() -> None:
    """Count the run in the folder given again, and say which rows changed."""
    folder = Path(sys.argv[1]).resolve()
    settings = get_settings()
    run = open_run(folder.parent, folder.name)
    before = run.table("metrics")
    after = recounted(run, load_dataset(str(run.manifest()["config"]["data"]), settings.datasets), settings)
    run.write_table("metrics", after)
    both = after.merge(before, on=KEY, how="left", suffixes=("", "_before"))
    for row in both[both["level_before"].isna() | (both["value"] != both["value_before"])].to_dict("records"):
        old = "new" if pd.isna(row["level_before"]) else f"{row['value_before']:.4g}, n {row['n_before']:.0f}"
        print(
            f"{row['metric']:<16} {row['attack']:<9} {row['defense']:<14} {old} -> {row['value']:.4g} "
            f"[{row['lower']:.4g}, {row['upper']:.4g}], n {row['n']}, unread {row['n_unread']}"
        )


if __name__ == "__main__":
    main()

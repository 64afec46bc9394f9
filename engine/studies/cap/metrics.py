"""Numbers of a CAP run: standards, scores by alpha, shifts, agreement with ratings, cost, and what the anchors do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from engine.core.schema import METRICS, NONE
from engine.data.dataset import Dataset
from engine.defenses.anchors import Anchors
from engine.judges.base import Request
from engine.stats.agreement import cluster_spearman, spearman_change
from engine.stats.intervals import cluster_codes, cluster_mean
from engine.stats.shifts import defense_gains, from_undefended, metric_row, shift_metrics
from engine.steering.references import Chosen, Thresholds, nearest, retained
from engine.steering.vectors import Floats
from engine.studies.anchors import ratings_of
from engine.studies.cap.study import ANCHORED, EXCHANGED, CapConfig

if TYPE_CHECKING:
    from engine.studies.cap.arms import AnchorSets
    from engine.studies.cap.contexts import Contexts

# The tutor's texts: standards at two percentiles, scores and fluency by alpha.


@dataclass(frozen=True)
class Standard:
    """Thresholds at two percentiles of the first pool, and the texts of the second that they retain.

    Attributes:
        thresholds: scores of the high and the low standard; NaN where nothing was read.
        n_high, n_low: texts of the second pool at or beyond them.
        n: texts of the second pool that were read.
    """

    thresholds: Thresholds
    n_high: int
    n_low: int
    n: int


def standard_at(texts: pd.DataFrame, high_percentile: float, low_percentile: float) -> Standard:
    """Thresholds from the first pool's scores, counts from the second's; unread scores (NaN) count nowhere.

    Args:
        texts: table `cap_texts`.
        high_percentile: of the high standard.
        low_percentile: of the low standard.
    """
    first, second = (texts.loc[texts["pool"] == k, "score"].to_numpy(dtype=float) for k in (1, 2))
    read = first[~np.isnan(first)]
    ends = np.percentile(read, [high_percentile, low_percentile]) if len(read) else (np.nan, np.nan)
    thresholds = Thresholds(*(float(end) for end in ends))
    high, low = retained(second, thresholds)
    return Standard(thresholds, int(high.sum()), int(low.sum()), int((~np.isnan(second)).sum()))


ALPHA_COLUMNS = [
    "side", "alpha", "mean", "lower", "upper", "method", "n_clusters", "sd", "n", "n_unread", "relative_edit",
    "perplexity", "repetition",
]  # fmt: skip


def by_alpha(sweep: pd.DataFrame) -> pd.DataFrame:
    """A row for each side and alpha: mean score, its 95 % interval over contexts, sd, edit size and fluency.

    Args:
        sweep: table `cap_sweep`.
    """
    rows = []
    for (side, alpha), texts in sweep.groupby(["side", "alpha"], sort=True):
        scores = texts["score"].to_numpy(dtype=float)
        interval = cluster_mean(scores, texts["item_id"].to_numpy())
        rows.append(
            {
                "side": side,
                "alpha": alpha,
                "mean": interval.value,
                "lower": interval.lower,
                "upper": interval.upper,
                "method": interval.method,
                "n_clusters": interval.n_clusters,
                "sd": float(pd.Series(scores).std(ddof=1)),
                "n": interval.n,
                "n_unread": len(texts) - interval.n,
                "relative_edit": float(texts["relative_edit"].mean()),
                "perplexity": float(texts["perplexity"].median()),
                "repetition": float(texts["repetition"].mean()),
            }
        )
    return pd.DataFrame(rows, columns=ALPHA_COLUMNS)


def nearest_in(rows: pd.DataFrame, side: str, standard: float) -> float:
    """The alpha of a sweep (`by_alpha`) that comes nearest to a standard, by the rule that chooses it; NaN for none."""
    read = rows[(rows["side"] == side) & rows["mean"].notna()]
    if read.empty or math.isnan(standard):
        return math.nan
    columns = zip(read["alpha"], read["mean"], read["n"], read["n"] + read["n_unread"], strict=True)
    return nearest([Chosen(float(a), float(mean), standard, int(n), int(of)) for a, mean, n, of in columns]).alpha


# The attacks: every row of the table `metrics`.

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
        contexts: of the run; the evaluated ones count.
        apart: from `engine.studies.cap.arms.tokens_apart`, by arm.
    """
    level, seed = config.level, config.seed
    compared = verdicts[~verdicts["defense"].str.endswith(EXCHANGED)]
    shifts = shift_metrics(compared, level=level, seed=seed)
    gains = defense_gains(compared, level=level, seed=seed)
    distances = from_undefended(compared, level=level, seed=seed)
    rows: list[dict[str, object]] = []
    ratings = dict(zip(dataset.responses["response_id"], ratings_of(dataset)[0], strict=True))
    clean = verdicts[verdicts["attack"] == NONE]
    for defense in compared["defense"].unique():
        of_arm = clean[clean["defense"] == defense]
        truth = of_arm["response_id"].map(ratings).to_numpy(dtype=float)
        if np.isfinite(truth).any():
            spearman = cluster_spearman(of_arm["score"], truth, cluster_codes(of_arm), level=level, seed=seed)
            rows.append(metric_row("spearman", NONE, defense, spearman, len(of_arm)))
            if defense != NONE:
                of_bare = clean[clean["defense"] == NONE].set_index("response_id")["score"]
                bare = of_arm["response_id"].map(of_bare).to_numpy(dtype=float)
                change = spearman_change(bare, of_arm["score"], truth, cluster_codes(of_arm), level=level, seed=seed)
                rows.append(metric_row("spearman_change", NONE, defense, change, len(of_arm)))
        attacked_too = verdicts[verdicts["defense"] == defense]
        rows += cost_rows(attacked_too, anchors.by_item.get(defense, {}), apart.get(defense, {}), config)
    rows += diagnosis_rows(clean, anchors, contexts, config)
    tables = [t for t in (shifts, gains, distances, pd.DataFrame(rows)) if len(t)]
    return METRICS.conform(pd.concat(tables, ignore_index=True))


def cost_rows(
    verdicts: pd.DataFrame, made: Mapping[str, Anchors], apart: Mapping[str, float], config: CapConfig
) -> list[dict[str, object]]:
    """Tokens of a verdict with its anchors', alone and shared by all verdicts of a context; seconds where fresh.

    A verdict that was never asked for, since its arm had no anchors for it or its prompt did not fit, took no tokens;
    it counts as unread and does not make the arm look cheap.

    Args:
        verdicts: of one arm.
        made: its anchors by item with what they took; empty where none were written.
        apart: from `engine.studies.cap.arms.tokens_apart`.
        config: level and seed of the intervals.
    """
    defense = str(verdicts["defense"].iloc[0])
    clean = verdicts[verdicts["attack"] == NONE]
    share = SHARED[0] * SHARED[1]

    def row(name: str, values: Floats, of: pd.DataFrame) -> dict[str, object]:
        interval = cluster_mean(values, cluster_codes(of), level=config.level, seed=config.seed)
        return metric_row(name, NONE, defense, interval, len(of))

    tokens = clean["prompt_tokens"].to_numpy(dtype=float, na_value=np.nan)
    idle = (tokens == 0) | (clean["forward_passes"].to_numpy(dtype=float, na_value=np.nan) == 0)
    tokens = np.where(clean["unread_reason"].notna() & idle, np.nan, tokens)
    judged = tokens + clean["response_id"].map(apart).fillna(0.0).to_numpy(dtype=float)
    extra = clean["item_id"].map({k: float(a.tokens) for k, a in made.items()}).fillna(0.0).to_numpy(dtype=float)
    fresh = verdicts["seconds"].to_numpy(dtype=float)
    fresh = np.where(fresh > 0, fresh, np.nan)
    written = verdicts["item_id"].map({k: a.seconds for k, a in made.items()}).fillna(0.0).to_numpy(dtype=float)
    if made and not (written > 0).any():
        written = np.full(len(verdicts), np.nan)  # the anchors came from the cache, so nobody measured them this time
    return [
        row("tokens_alone", judged + extra, clean),
        row("tokens_shared", judged + extra / share, clean),
        row("seconds_alone", fresh + written, verdicts),
        row("seconds_shared", fresh + written / share, verdicts),
    ]


def diagnosis_rows(
    clean: pd.DataFrame, anchors: AnchorSets, contexts: Contexts, config: CapConfig
) -> list[dict[str, object]]:
    """Are the anchors apart, and does the judge read them?

    anchor_gap: undefended score of the high anchor less that of the low one, over evaluation contexts; over responses
    where each has anchors of its own.
    anchor_effect: mean absolute change of clean scores when the two anchors change places.
    anchor_lift: mean change of clean scores when the anchors are shown, against none.
    """

    def row(name: str, arm: str, values: Floats, items: Any) -> dict[str, object]:
        interval = cluster_mean(values, items, level=config.level, seed=config.seed)
        return metric_row(name, NONE, arm, interval, len(values))

    rows: list[dict[str, object]] = []
    evaluated = {r.item_id for r in contexts.evaluation}
    for arm, of_arm in anchors.table[anchors.table["item_id"].isin(evaluated)].groupby("arm", sort=False):
        wide = of_arm.pivot(index="item_id", columns="side", values="score")
        rows.append(row("anchor_gap", str(arm), (wide["high"] - wide["low"]).to_numpy(dtype=float), wide.index))
    scores = clean.pivot(index=["item_id", "response_id"], columns="defense", values="score")
    items = scores.index.get_level_values(0).to_numpy()
    for arm, by_response in anchors.by_response.items():
        if arm in scores.columns:
            rows.append(row("anchor_gap", arm, _rated_gaps(scores[NONE], by_response, contexts.responses), items))
    for arm in (a for a in ANCHORED if a in scores.columns):
        rows.append(row("anchor_lift", arm, (scores[arm] - scores[NONE]).to_numpy(dtype=float), items))
        if arm + EXCHANGED in scores.columns:
            turned = (scores[arm + EXCHANGED] - scores[arm]).abs().to_numpy(dtype=float)
            rows.append(row("anchor_effect", arm, turned, items))
    return rows


def _rated_gaps(undefended: pd.Series, by_response: Mapping[str, Anchors], responses: Sequence[Request]) -> Floats:
    """Score of each response's high anchor less its low one's, both being judged responses of its item themselves."""
    known = {(r.item_id, r.response): float(undefended[r.item_id, r.response_id]) for r in responses}
    gaps = []
    for item_id, response_id in undefended.index:
        anchors = by_response.get(response_id, Anchors(unread="none"))
        high, low = (
            np.nan if anchors.unread else known.get((item_id, text), np.nan) for text in (anchors.high, anchors.low)
        )
        gaps.append(high - low)
    return np.array(gaps)

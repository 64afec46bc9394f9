"""Labels beside a judge's runs: rows to draw from with their verdicts, people's agreement, what labels are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import NONE, Outcome, Protocol
from engine.data.comparisons import Comparisons
from engine.data.dataset import Dataset
from engine.data.label_plan import POPULATION, Kind, Scale
from engine.data.labels import Session, export_table
from engine.runs.folder import RunFolder
from engine.stats.agreement import Kappa, cluster_kappa, combine_orders, krippendorff_alpha
from engine.stats.arena import label_values
from engine.stats.corrected import Estimate, compare_estimates, labels_only
from engine.stats.intervals import Interval

Floats = npt.NDArray[np.float64]
MOST_JUDGES = 2
"""Runs that a plan reads: the first gives verdicts, the second says where two judges differ."""


def population(data: Dataset | Comparisons, scale: Scale, runs: Sequence[RunFolder] = ()) -> pd.DataFrame:
    """Every row of the data that people could label, with the judges' verdicts on it as it came, unattacked.

    Args:
        data: responses, or pairs where the scale is of pairs.
        scale: the labels, in whose words verdicts are written; where they are ratings, the judge's score.
        runs: at most two. The first gives verdict and probability. Rows disagree where its two orders do, or where the
            second run's verdict is another one (scores: by one point or more).

    Returns:
        Table `population`.

    Raises:
        InputError: the scale does not fit the data, or there are more than two runs.
        RunError: a run's verdicts cannot be read.
    """
    paired = isinstance(data, Comparisons)
    if paired != (scale.kind == Kind.PAIRS):
        raise InputError(
            f"{data.name!r} holds {'pairs' if paired else 'responses'}, which are not labelled as {scale.kind.value}. "
            f"Choose {'pairs' if paired else 'pass or rating'}."
        )
    if len(runs) > MOST_JUDGES:
        raise InputError(f"A plan reads at most {MOST_JUDGES} runs; {len(runs)} are named. Leave some out.")
    rows = _pairs(data) if isinstance(data, Comparisons) else _responses(data)
    read = [_verdicts(rows, run, scale) for run in runs]
    if read:
        rows = rows.assign(verdict=read[0]["verdict"].to_numpy(), probability=read[0]["probability"].to_numpy())
        differ = _differ(read[0]["verdict"], read[1]["verdict"]) if len(read) > 1 else read[0]["disagree"]
        rows = rows.assign(disagree=differ.to_numpy())
    elif isinstance(data, Comparisons):  # verdicts that came with the pairs
        rows = rows.assign(
            verdict=data.comparisons["verdict"].to_numpy(),
            disagree=_differ(data.comparisons["verdict"], data.comparisons["verdict_ba"]).to_numpy(),
        )
    return POPULATION.conform(rows)


def _responses(data: Dataset) -> pd.DataFrame:
    groups = data.items.set_index("item_id")["group"]
    held = data.responses
    return pd.DataFrame(
        {
            "id": held["response_id"], "item": held["item_id"], "system": held["system"],
            "group": held["item_id"].map(groups), "a": held["response_id"], "b": "",
        }
    )  # fmt: skip


def _pairs(data: Comparisons) -> pd.DataFrame:
    groups = data.items.set_index("item_id")["group"]
    systems = data.responses.set_index("response_id")["system"]
    held = data.comparisons
    return pd.DataFrame(
        {
            "id": held["comparison_id"], "item": held["item_id"], "group": held["item_id"].map(groups),
            "system": held["response_a"].map(systems), "system_b": held["response_b"].map(systems),
            "a": held["response_a"], "b": held["response_b"],
        }
    )  # fmt: skip


def _verdicts(rows: pd.DataFrame, run: RunFolder, scale: Scale) -> pd.DataFrame:
    """Verdict, probability and disagreement of orders for each row; missing where the judge was not asked or read."""
    held = run.table("verdicts")
    held = held[(held["attack"] == NONE) & (held["defense"] == NONE)]
    if scale.kind == Kind.PAIRS:
        found = combine_orders(held).set_index(["response_id", "response_b"])
        found = found[~found.index.duplicated()].reindex(pd.MultiIndex.from_frame(rows[["a", "b"]]))
        return pd.DataFrame(
            {
                "verdict": found["outcome"].to_numpy(dtype=object),
                "probability": (found["p_a"] + found["p_tie"] / 2).to_numpy(dtype=float),
                "disagree": found["disagree"].astype("float64").to_numpy(),
            }
        )
    held = held[held["unread_reason"].isna()]
    checked = held[(held["protocol"] == Protocol.VERIFIER) & held["reference_id"].isna()]
    scored = held[held["protocol"] == Protocol.POINTWISE]
    if scale.kind == Kind.PASS and len(checked):
        one = checked.drop_duplicates("response_id").set_index("response_id").reindex(rows["id"])
        chance = one["p_yes"].to_numpy(dtype=float)
        said = np.where(one["outcome"].isna(), np.nan, (one["outcome"] == Outcome.YES).to_numpy(dtype=float))
    else:
        one = scored.drop_duplicates("response_id").set_index("response_id").reindex(rows["id"])
        chance = _upper_half(one["probabilities"], run.manifest().get("judge", {}))
        said = np.where(np.isnan(chance), np.nan, chance >= 0.5)
    if scale.kind == Kind.RATING:
        words = [None if np.isnan(score) else f"{score:.4g}" for score in one["score"].to_numpy(dtype=float)]
    else:
        words = [None if np.isnan(x) else scale.labels[0 if x else 1] for x in said]
    return pd.DataFrame({"verdict": pd.Series(words, dtype=object), "probability": chance, "disagree": np.nan})


def _upper_half(probabilities: pd.Series, judge: Mapping[str, Any]) -> Floats:
    """Probability of a score above the middle of the judge's scale, the middle counting half; NaN where unknown."""
    stated = label_values(judge)
    found = np.full(len(probabilities), np.nan)
    for i, shares in enumerate(probabilities):
        if not isinstance(shares, (list, np.ndarray)) or not len(shares):
            continue
        p = np.asarray(shares, dtype=np.float64)
        values = np.asarray(stated if len(stated) == len(p) else range(len(p)), dtype=np.float64)
        middle = (values.min() + values.max()) / 2
        found[i] = p[values > middle].sum() + p[values == middle].sum() / 2
    return found


def _differ(one: pd.Series, two: pd.Series) -> pd.Series:
    """1 where two verdicts differ (scores: by one point or more), 0 where they do not, NaN where one is missing."""
    numbers = [pd.to_numeric(side, errors="coerce").reset_index(drop=True) for side in (one, two)]
    words = [side.reset_index(drop=True) for side in (one, two)]
    apart = np.where(
        numbers[0].notna() & numbers[1].notna(), (numbers[0] - numbers[1]).abs() >= 1, words[0] != words[1]
    )
    return pd.Series(np.where(words[0].isna() | words[1].isna(), np.nan, apart.astype(float)))


@dataclass(frozen=True)
class Agreement:
    """Two people on the rows that both labelled.

    Attributes:
        kappa: Cohen's, with the share of rows on which they agree.
        alpha: Krippendorff's: of ratings by squared difference, of other labels by difference alone.
    """

    kappa: Kappa
    alpha: Interval


def people_agree(session: Session) -> Agreement | None:
    """Agreement of two people, clustered by item; None before there are two."""
    held, scale = session.answers(), session.plan.scale
    if len(held.annotators) < 2:
        return None
    one, two = (held.of(who) for who in held.annotators)
    both = [row for row in session.plan.order if row in one and row in two and one[row].label and two[row].label]
    items = session.plan.rows.set_index("id").loc[both, "item"].tolist()
    labels = [[answers[row].label for row in both] for answers in (one, two)]
    numbers = np.array([[scale.value(label) for label in side] for side in labels]).T.reshape(len(both), 2)
    distance: Literal["nominal", "interval"] = "interval" if scale.kind == Kind.RATING else "nominal"
    return Agreement(
        cluster_kappa(labels[0], labels[1], items), krippendorff_alpha(numbers, np.array(items), scale=distance)
    )


def worth_so_far(session: Session, annotator: str = "") -> dict[str, Estimate]:
    """What the labels say of all rows of the data by now: the mean label, each row by its inclusion probability.

    Args:
        session: whose labels.
        annotator: whose; by default the final ones.

    Returns:
        `labels_only`; where the plan has a judge's verdicts also `raw` and `corrected`, of the rows with a verdict.
        Empty as long as a stratum has no label, since then nothing is known of its rows.
    """
    scale, table = session.plan.scale, export_table(session, annotator)
    label = np.array([scale.value(one) if isinstance(one, str) else np.nan for one in table["label"]])
    labelled = pd.Series(~np.isnan(label)).groupby(session.plan.rows["stratum"].to_numpy()).sum()
    if (labelled == 0).any():
        return {}
    item, chance = table["item"].to_numpy(), table["inclusion"].to_numpy(dtype=float)
    found = {"labels_only": labels_only(np.zeros(len(label)), label, item, chance)}
    verdict = np.array([_number(scale, one) for one in table["verdict"]])
    if np.isnan(verdict).all():
        return found
    return compare_estimates(verdict, label, item, chance) | found


def _number(scale: Scale, verdict: object) -> float:
    if not isinstance(verdict, str):
        return float("nan")
    return float(verdict) if scale.kind == Kind.RATING else scale.value(verdict)

"""Detection of attacked texts by a reading: precision and recall by threshold, and the threshold of best F1.

A text is flagged where its reading lies strictly above the threshold. A text without a reading is never flagged: it
counts as missed where it was attacked. Precision and F1 depend on how many texts are attacked; here clean texts are
weighted so that both kinds count alike, however many attacks were tried.

Source: CAP (paper 001), section 5.1 (threshold by the best F1 on training data).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE
from engine.stats.intervals import Interval, cluster_codes, cluster_rate, cluster_ratio
from engine.stats.shifts import metric_row

Floats = npt.NDArray[np.float64]
CURVE_COLUMNS = ["threshold", "precision", "recall", "false_alarms", "f1"]


def pr_curve(clean: npt.ArrayLike, attacked: npt.ArrayLike) -> pd.DataFrame:
    """One row per threshold that changes what is flagged, from flagging all that have a reading to nearly nothing.

    Args:
        clean: readings of clean texts; NaN where there is none.
        attacked: readings of attacked texts; NaN where there is none.

    Returns:
        threshold (just below the smallest reading flagged: the next smaller reading, -inf first), and precision,
        recall, false_alarms (share of clean texts flagged) and f1, all in [0, 1].

    Raises:
        InputError: there is no clean or no attacked text, or none has a reading.
    """
    c, a = np.asarray(clean, dtype=np.float64), np.asarray(attacked, dtype=np.float64)
    if not len(c) or not len(a):
        raise InputError(f"A threshold needs clean and attacked texts; there are {len(c)} and {len(a)}.")
    levels = np.unique(np.concatenate([c, a]))
    levels = levels[np.isfinite(levels)]
    if not len(levels):
        raise InputError("None of the texts has a reading, so there is no threshold to choose.")
    thresholds = np.concatenate([[-np.inf], levels[:-1]])  # above the largest reading nothing is flagged
    hits = _above(a, thresholds)
    alarms = _above(c, thresholds)
    flagged = hits + alarms * (len(a) / len(c))
    return pd.DataFrame(
        {
            "threshold": thresholds,
            "precision": hits / flagged,
            "recall": hits / len(a),
            "false_alarms": alarms / len(c),
            "f1": 2 * hits / (flagged + len(a)),
        }
    )[CURVE_COLUMNS]


def best_f1(clean: npt.ArrayLike, attacked: npt.ArrayLike) -> tuple[float, float]:
    """The best F1 over all thresholds, and the threshold: half-way to the next reading above it, in the logarithm.

    The best F1 may be reached by flagging everything; then the threshold lies below the smallest reading. Of equal
    ones the highest threshold counts, which flags fewest.

    Raises:
        InputError: as `pr_curve`.
    """
    curve = pr_curve(clean, attacked)
    best = int(np.flatnonzero(curve["f1"] == curve["f1"].max())[-1])
    found = np.concatenate([np.asarray(clean, dtype=np.float64), np.asarray(attacked, dtype=np.float64)])
    below = float(curve["threshold"].iloc[best])
    above = float(found[found > below].min())
    if np.isneginf(below):
        return float(curve["f1"].iloc[best]), float(np.nextafter(above, -np.inf))
    between = float(np.sqrt(below * above)) if below > 0 else (below + above) / 2
    return float(curve["f1"].iloc[best]), between if below <= between < above else below


def side_of(readings: pd.DataFrame, family: str, split: str) -> pd.DataFrame:
    """The rows that fit or measure one threshold: clean and under the family's attacks, on one side of the items."""
    return readings[readings["family"].isin([NONE, family]) & (readings["split"] == split)].reset_index(drop=True)


def fitted(readings: pd.DataFrame, family: str) -> tuple[float, float]:
    """Best F1 on the training side, and its threshold."""
    train = side_of(readings, family, "train")
    clean = train["attack"] == NONE
    return best_f1(train.loc[clean, "value"], train.loc[~clean, "value"])


def detection_at(
    readings: pd.DataFrame, threshold: float, *, level: float = 0.95, seed: int = 0
) -> Mapping[str, Interval]:
    """Precision, recall, share of false alarms and F1 at a threshold, with intervals clustered by item.

    Args:
        readings: table `readings`: clean rows (attack `none`) and attacked ones.
        threshold: above it a text is flagged.
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    codes = cluster_codes(readings)
    positive = (readings["attack"] != NONE).to_numpy()
    flagged = readings["value"].to_numpy(dtype=float) > threshold
    weight = np.where(positive, 1.0, positive.sum() / max(1, (~positive).sum()))
    hit, marked = (flagged & positive).astype(float), flagged * weight
    f1 = _in_unit(cluster_ratio(2 * hit, marked + positive, codes, level=level, seed=seed))
    return {
        "precision": _in_unit(cluster_ratio(hit, marked, codes, level=level, seed=seed)),
        "recall": cluster_rate(hit[positive], codes[positive], level=level, seed=seed),
        "false_alarms": cluster_rate(flagged[~positive].astype(float), codes[~positive], level=level, seed=seed),
        "f1": f1,
    }


def _in_unit(interval: Interval) -> Interval:
    """The interval cut to [0, 1], where the quantity lies; missing bounds stay missing."""
    return replace(interval, lower=max(interval.lower, 0.0), upper=min(interval.upper, 1.0))


def _above(values: Floats, thresholds: Floats) -> npt.NDArray[np.int64]:
    """Number of values above each of the ascending thresholds."""
    own = np.sort(values[np.isfinite(values)])
    return np.asarray(len(own) - np.searchsorted(own, thresholds, side="right"), dtype=np.int64)


def detection_metrics(readings: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """The fitted thresholds and what they do on the other side, one set of rows for each family (column `group`).

    Rows: threshold and train_f1 (training side, without interval); precision, recall, false_alarms and f1 (other
    side); recall once more for each attack.
    """
    rows: list[dict[str, object]] = []
    for family in [f for f in ("suffix", "prompt") if (readings["family"] == f).any()]:
        f1, threshold = fitted(readings, family)
        train, test = (side_of(readings, family, split) for split in ("train", "test"))
        for name, value in (("threshold", threshold), ("train_f1", f1)):
            fixed = Interval(value, np.nan, np.nan, level, "fitted", len(train), train["item_id"].nunique())
            rows.append(metric_row(name, NONE, NONE, fixed, len(train)) | {"group": family})
        found = detection_at(test, threshold, level=level, seed=seed)
        rows += [metric_row(m, NONE, NONE, i, i.n) | {"group": family} for m, i in found.items()]
        for attack in test.loc[test["attack"] != NONE, "attack"].unique():
            own = detection_at(test[test["attack"] == attack], threshold, level=level, seed=seed)["recall"]
            rows.append(metric_row("recall", str(attack), NONE, own, own.n) | {"group": family})
    return METRICS.conform(pd.DataFrame(rows))

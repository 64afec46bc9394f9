"""The fitted thresholds and what they do on the other items, from the table `readings`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.core.schema import METRICS, NONE
from engine.stats.detection import detection_at, fitted, side_of
from engine.stats.intervals import Interval
from engine.stats.shifts import metric_row


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

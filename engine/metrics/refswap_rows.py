"""A summary of RefSwap as rows of the table `metrics`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.metrics.intervals import Interval
from engine.metrics.refswap import Summary
from engine.metrics.shifts import interval_columns
from engine.schema import NONE

REFSWAP, K_ONE, S_SCORE, LENGTH = "refswap", "refswap, K = 1", "s-score", "length"


def summary_rows(summary: Summary, keys: Sequence[str]) -> pd.DataFrame:
    """The summary as rows of the table `metrics`: group is the part of the items, attack the key."""
    rows: list[dict[str, object]] = []

    def add(metric: str, group: str, defense: str, one: Interval, attack: str = NONE, unread: int = 0) -> None:
        about = {"metric": metric, "attack": attack, "defense": defense, "group": group, "n_unread": unread}
        rows.append(about | interval_columns(one))

    for group, defense, rates in (
        ("test", NONE, summary.before),
        ("test", REFSWAP, summary.after),
        ("test", K_ONE, summary.k_one.after),
        ("test", S_SCORE, summary.s_score.after),
        ("test", LENGTH, summary.length.after),
        ("dev", NONE, summary.dev_before),
        ("dev", REFSWAP, summary.dev_after),
    ):
        add("accuracy", group, defense, rates.accuracy, unread=rates.unread_clean)
        add("fpr", group, defense, rates.fpr, unread=sum(rates.unread_keys))
        worst = rates.unread_keys[rates.worst] if rates.worst >= 0 else 0
        add("fpr_worst", group, defense, rates.fpr_worst, unread=worst)
        for name, one, lost in zip(keys, rates.per_key, rates.unread_keys, strict=True):
            add("key_fpr", group, defense, one, name, unread=lost)
    for metric, one in (
        ("auc", summary.auc),
        ("one_auc", summary.one_auc),
        ("s_auc", summary.s_auc),
        ("cohens_d", summary.cohens_d),
    ):
        add(metric, "all", NONE, one)
    for metric, one in (("pass_right", summary.pass_right), ("pass_fooled", summary.pass_fooled)):
        add(metric, "all", REFSWAP, one)
    for metric, defense, cut in (
        ("gamma", REFSWAP, summary.cut),
        ("one_cut", K_ONE, summary.k_one.cut),
        ("s_cut", S_SCORE, summary.s_score.cut),
        ("length_cut", LENGTH, summary.length.cut),
    ):
        add(metric, "dev", defense, Interval(cut.value, np.nan, np.nan, summary.auc.level, "eq. 5", cut.n, cut.n))
    return pd.DataFrame(rows)

"""A learned phrase on held-out items: score, or preference, after each number of words, with intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from engine.core.schema import METRICS, NONE, Protocol
from engine.stats.agreement import combine_orders
from engine.stats.intervals import Interval, cluster_codes, cluster_rate
from engine.stats.paired import benjamini_hochberg, detectable_effect, paired_test
from engine.stats.shifts import metric_row, shift_metrics


def length_metrics(verdicts: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """The metrics of every arm of one protocol: `mean`, `shift` and `shift_sd`, which both protocols share.

    Pointwise, the value is the expected score in points (also `relative_shift`); pairwise, the probability that the
    attacked response is preferred, ties as halves, averaged over both orders (eq. 2 of CAP, paper 001). `shift_sd` is
    the shift over the standard deviation of the clean values, so that the two can be laid side by side (its figure
    2); the deviation counts as known.

    Args:
        verdicts: table `verdicts` of one judge, one protocol and one defense.
        level: confidence level in (0, 1).
        seed: of the bootstrap.
    """
    if (verdicts["protocol"] == Protocol.PAIRWISE.value).all():
        values = _preferences(combine_orders(verdicts))
        table = _preference_metrics(values, level, seed)
    else:
        values = verdicts.rename(columns={"score": "value"})
        table = shift_metrics(verdicts, level=level, seed=seed)
    clean = values.loc[values["attack"] == NONE, "value"].dropna().to_numpy(dtype=float)
    sd = float(clean.std(ddof=1)) if len(clean) > 1 else float("nan")
    shifts = table[table["metric"] == "shift"]
    scaled = shifts.assign(
        metric="shift_sd",
        **{c: shifts[c] / sd if sd > 0 else np.nan for c in ("value", "lower", "upper", "detectable")},
        p_value=np.nan,
        q_value=np.nan,
    )
    protocol = str(verdicts["protocol"].iloc[0])
    return METRICS.conform(pd.concat([table, scaled], ignore_index=True).assign(protocol=protocol))


def _preferences(pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs.assign(value=pairs["p_a"] + pairs["p_tie"] / 2)


def _preference_metrics(values: pd.DataFrame, level: float, seed: int) -> pd.DataFrame:
    key = ["response_id", "response_b", "defense"]
    clean = values[values["attack"] == NONE].set_index(key)["value"]
    rows: list[dict[str, object]] = []
    for names, arm in values.groupby(["attack", "defense"], sort=False):
        attack, defense = map(str, names)
        own, codes = arm["value"].to_numpy(dtype=float), cluster_codes(arm)
        rows.append(metric_row("mean", attack, defense, cluster_rate(own, codes, level=level, seed=seed), len(own)))
        if attack == NONE:
            continue
        before = clean.reindex(pd.MultiIndex.from_frame(arm[key])).to_numpy(dtype=float)
        shift = np.round(own - before, 12)  # as in paired_shifts: no change is exactly zero
        test = paired_test(shift, codes, level=level, seed=seed)
        row = metric_row("shift", attack, defense, _within_one(test.interval), len(shift))
        row["p_value"] = test.p_value
        row["detectable"] = detectable_effect(shift, codes, level=level)
        rows.append(row)
    table = METRICS.conform(pd.DataFrame(rows))
    return table.assign(q_value=benjamini_hochberg(table["p_value"]))


def _within_one(interval: Interval) -> Interval:
    """A difference of probabilities lies in [-1, 1], and so does its interval."""
    return replace(interval, lower=max(interval.lower, -1.0), upper=min(interval.upper, 1.0))

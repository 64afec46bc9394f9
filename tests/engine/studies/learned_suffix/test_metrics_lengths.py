"""A phrase by length: pointwise as everywhere, pairwise by hand, and both in units of the clean spread."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.core.schema import VERDICTS
from engine.stats.shifts import shift_metrics
from engine.studies.learned_suffix.metrics import length_metrics


def pairwise(attack, item, p_ab, p_ba, tie=0.0):
    """Both orders of one comparison; p is that of response a, order undone."""
    return [
        {
            "verdict_id": f"{attack}-{item}-{order}", "judge": "j", "protocol": "pairwise", "attack": attack,
            "defense": "none", "item_id": item, "response_id": f"{item}a", "response_b": f"{item}b", "order": order,
            "p_a": p, "p_tie": tie, "outcome": "a" if p > 0.5 else "b",
        }
        for order, p in (("ab", p_ab), ("ba", p_ba))
    ]  # fmt: skip


def value(table, metric, attack):
    [row] = table[(table["metric"] == metric) & (table["attack"] == attack)].to_dict("records")
    return row


def test_preferences_are_averaged_over_orders_with_ties_as_halves():
    rows = []
    for k, (clean, after) in enumerate([(0.2, 0.4), (0.4, 0.5), (0.6, 0.9), (0.3, 0.3)]):
        rows += pairwise("none", f"i{k}", clean, clean + 0.1, 0.1)
        rows += pairwise("suffix:x:1", f"i{k}", after, after - 0.1, 0.1)
    table = length_metrics(VERDICTS.conform(pd.DataFrame(rows)))
    clean = np.array([0.2, 0.4, 0.6, 0.3]) + 0.05 + 0.05
    moved = np.array([0.4, 0.5, 0.9, 0.3]) - 0.05 + 0.05
    assert value(table, "mean", "none")["value"] == pytest.approx(clean.mean())
    shift = value(table, "shift", "suffix:x:1")
    assert shift["value"] == pytest.approx((moved - clean).mean())
    assert shift["lower"] < shift["value"] < shift["upper"]
    scaled = value(table, "shift_sd", "suffix:x:1")
    assert scaled["value"] == pytest.approx((moved - clean).mean() / clean.std(ddof=1))
    assert (table["protocol"] == "pairwise").all()


def test_a_comparison_unread_in_one_order_leaves_the_shift_and_is_counted():
    rows = [*pairwise("none", "i0", 0.2, 0.2), *pairwise("suffix:x:1", "i0", 0.4, np.nan)]
    rows += [*pairwise("none", "i1", 0.5, 0.5), *pairwise("suffix:x:1", "i1", 0.6, 0.6)]
    rows[3] |= {"outcome": None, "unread_reason": "prompt too long"}
    shift = value(length_metrics(VERDICTS.conform(pd.DataFrame(rows))), "shift", "suffix:x:1")
    assert (shift["n"], shift["n_unread"]) == (1, 1)
    assert shift["value"] == pytest.approx(0.1)


def test_pointwise_rows_are_the_shift_metrics():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        [
            {
                "verdict_id": f"{a}{k}", "judge": "j", "protocol": "pointwise", "attack": a, "defense": "none",
                "item_id": f"i{k // 2}", "response_id": f"r{k}", "score": rng.uniform(1, 5),
            }
            for a in ("none", "suffix:x:1") for k in range(8)
        ]
    )  # fmt: skip
    verdicts = VERDICTS.conform(frame)
    table = length_metrics(verdicts)
    same = table[table["metric"] != "shift_sd"].drop(columns="protocol").reset_index(drop=True)
    pd.testing.assert_frame_equal(same, shift_metrics(verdicts).drop(columns="protocol"))
    sd = frame.loc[frame["attack"] == "none", "score"].std(ddof=1)
    scaled, shift = (value(table, m, "suffix:x:1") for m in ("shift_sd", "shift"))
    assert scaled["upper"] == pytest.approx(shift["upper"] / sd)

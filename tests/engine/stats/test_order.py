import math

import pandas as pd
import pytest

from engine.core.schema import VERDICTS
from engine.stats.agreement import first_slot_rate, order_agreement
from engine.stats.intervals import wilson


def pairs(*rows):
    """Rows (item, order, outcome)."""
    return VERDICTS.conform(
        pd.DataFrame(
            [
                {
                    "verdict_id": f"{i}",
                    "judge": "j",
                    "protocol": "pairwise",
                    "attack": "none",
                    "defense": "none",
                    "item_id": item,
                    "response_id": f"{item}1",
                    "response_b": f"{item}2",
                    "order": order,
                    "outcome": outcome,
                }
                for i, (item, order, outcome) in enumerate(rows)
            ]
        )
    )


def test_first_slot_by_hand():
    got = first_slot_rate(
        pairs(("p", "ab", "a"), ("p", "ba", "b"), ("q", "ab", "b"), ("q", "ba", "tie"), ("r", "ab", None))
    )
    assert got.value == pytest.approx((1 + 1 + 0 + 0.5) / 4)
    assert (got.n, got.n_clusters) == (4, 2)


def test_a_consistent_judge_has_one_half_and_full_agreement():
    rows = pairs(*[(item, order, "a") for item in "pqrs" for order in ("ab", "ba")])
    assert first_slot_rate(rows).value == 0.5
    agreement = order_agreement(rows)
    assert (agreement.value, agreement.n) == (1.0, 4)
    assert agreement.lower == pytest.approx(wilson(4, 4).lower)


def test_agreement_needs_both_orders():
    got = order_agreement(
        pairs(("p", "ab", "a"), ("p", "ba", "b"), ("q", "ab", "tie"), ("q", "ba", "tie"), ("r", "ab", "a"))
    )
    assert (got.value, got.n) == (0.5, 2)


def test_no_pairs_is_undefined():
    assert math.isnan(first_slot_rate(VERDICTS.empty()).value)
    assert math.isnan(order_agreement(VERDICTS.empty()).value)

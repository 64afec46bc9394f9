"""Ratings of systems from verdicts somebody already has."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.metrics.recorded import recorded_metrics
from engine.schema import VERDICTS


def battles(*rows, ids="{item}:{system}"):
    """Rows (item, first system, second system, outcome in both orders)."""
    made = [
        {
            "verdict_id": f"{item}-{a}-{b}-{order}",
            "judge": "somebody",
            "protocol": "pairwise",
            "attack": "none",
            "defense": "none",
            "item_id": item,
            "response_id": ids.format(item=item, system=a),
            "response_b": ids.format(item=item, system=b),
            "order": order,
            "outcome": {"t": "tie"}.get(outcome, outcome),
        }
        for item, a, b, outcomes in rows
        for order, outcome in zip(("ab", "ba"), outcomes, strict=True)
    ]
    return VERDICTS.conform(pd.DataFrame(made))


def test_systems_are_rated_where_the_recording_names_them():
    rows = [(f"q{i}", "x", "y", "aa" if i < 6 else "bb") for i in range(8)]
    found = recorded_metrics(battles(*rows)).set_index(["metric", "group"])
    assert found.loc[("rating", "x"), "value"] > found.loc[("rating", "y"), "value"]
    # 6 wins of 8 is a rating difference of 400 log10(6 / 2)
    gap = found.loc[("rating", "x"), "value"] - found.loc[("rating", "y"), "value"]
    assert gap == pytest.approx(400 * 0.47712, abs=0.1)
    assert found.loc[("rank", "x"), "value"] == 1
    assert found.loc[("rating", "x"), "n"] == 8


def test_orders_that_disagree_are_a_tie():
    found = recorded_metrics(battles(*[(f"q{i}", "x", "y", "ab") for i in range(5)])).set_index(["metric", "group"])
    assert found.loc[("rating", "x"), "value"] == pytest.approx(1000)
    assert found.loc[("rank", "x"), "value"] == 1.5


def test_plain_response_ids_give_no_ratings():
    found = recorded_metrics(battles(("q1", "x", "y", "aa"), ids="{system}-{item}"))
    assert set(found["metric"]) == {"first_slot", "order_agreement"}

"""Ratings of systems from verdicts somebody already has."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.core.schema import VERDICTS
from engine.studies.recorded.metrics import recorded_metrics, recorded_remarks


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
    assert "does not name the systems" in recorded_remarks(battles(("q1", "x", "y", "aa"), ids="{system}-{item}"))[0]


def once(*outcomes):
    """One verdict each, x shown first."""
    both = battles(*[(f"q{i}", "x", "y", 2 * outcome) for i, outcome in enumerate(outcomes)])
    return both[both["order"] == "ab"].reset_index(drop=True)


def test_battles_in_one_order_are_rated_one_by_one_and_it_is_said():
    verdicts = once(*"a" * 6, *"b" * 2, *"t" * 4)
    found = recorded_metrics(verdicts).set_index(["metric", "group"])
    # 8 of 12 with ties as halves is a rating difference of 400 log10(2)
    gap = found.loc[("rating", "x"), "value"] - found.loc[("rating", "y"), "value"]
    assert gap == pytest.approx(400 * 0.30103, abs=0.1)
    assert found.loc[("rating", "x"), ["n", "n_unread", "method"]].tolist() == [
        12, 0, "bootstrap of items, one order each",
    ]  # fmt: skip
    [remark] = recorded_remarks(verdicts)
    assert "one order each" in remark


def test_one_win_one_loss_and_ninety_eight_ties_are_a_draw():
    found = recorded_metrics(once("a", "b", *"t" * 98)).set_index(["metric", "group"])
    row = found.loc[("rating", "x")]
    assert row["value"] == pytest.approx(1000)
    assert row["lower"] < 1000 < row["upper"]
    assert row["n"] == 100


def test_pairs_in_one_order_among_others_in_both_are_unread_and_counted():
    verdicts = pd.concat([battles(("p", "x", "y", "aa"), ("r", "x", "y", "bb")), once("a")], ignore_index=True)
    found = recorded_metrics(verdicts).set_index(["metric", "group"])
    assert found.loc[("rating", "x"), ["n", "n_unread"]].tolist() == [2, 1]
    assert recorded_remarks(verdicts) == ["1 of 3 pairs were shown in one order only and are in no rating."]
    assert recorded_remarks(battles(("p", "x", "y", "aa"), ("r", "x", "y", "bb"))) == []


def test_many_items_are_resampled_in_groups_with_the_same_interval(monkeypatch):
    verdicts = once(*"aabta" * 80)
    one_by_one = recorded_metrics(verdicts).set_index(["metric", "group"]).loc[("rating", "x")]
    monkeypatch.setattr("engine.studies.recorded.metrics._MOST_UNITS", 200)
    grouped = recorded_metrics(verdicts).set_index(["metric", "group"]).loc[("rating", "x")]
    assert grouped["method"] == "bootstrap of 200 groups of items, one order each"
    assert grouped["value"] == pytest.approx(one_by_one["value"])
    widths = [row["upper"] - row["lower"] for row in (one_by_one, grouped)]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)


def played(results):
    """One battle an item in both orders: winner, loser."""
    return battles(*((f"q{i}", winner, loser, "aa") for i, (winner, loser) in enumerate(results)))


def test_groups_that_never_met_are_named_and_not_ranked():
    verdicts = played([("a", "b"), ("u", "v")] * 3 + [("b", "a"), ("v", "u")])
    metrics = recorded_metrics(verdicts)
    assert "rank" not in set(metrics["metric"])
    assert metrics.loc[metrics["metric"] == "rating", "group"].tolist() == ["a", "b", "u", "v"]  # group by group
    assert any("a, b | u, v" in said for said in recorded_remarks(verdicts))


def test_an_added_tie_and_a_system_seen_once_are_said():
    three = [*[("a", "b")] * 3, ("b", "a"), *[("b", "c")] * 3, ("c", "b"), *[("a", "c")] * 3, ("c", "a")]
    assert recorded_remarks(played(three)) == []
    verdicts = played([*three, ("c", "d")])
    said = " ".join(recorded_remarks(verdicts))
    assert "d took part in one comparison" in said
    assert "d never lost or never won" in said
    found = recorded_metrics(verdicts).set_index(["metric", "group"])
    assert found.loc[("rating", "d"), "upper"] < 1000

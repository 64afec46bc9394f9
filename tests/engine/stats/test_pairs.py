"""Two orders, one verdict: averages, ties, disagreement, and what stays unread."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import PAIRS, VERDICTS
from engine.stats.agreement import combine_orders, first_slot_rate, order_agreement


def verdict(order, a=math.nan, tie=0.0, outcome=None, pair="1", reason=None, **more):
    if outcome is None and not math.isnan(a):
        outcome = "tie" if tie >= max(a, 1 - a - tie) else "a" if a > 1 - a - tie else "b"
    return {
        "verdict_id": f"{pair}{order}{more.get('attack', 'none')}", "judge": "j", "protocol": "pairwise",
        "attack": "none", "defense": "none", "item_id": f"i{pair}", "response_id": f"a{pair}",
        "response_b": f"b{pair}", "order": order, "p_a": a, "p_tie": tie, "outcome": outcome, "unread_reason": reason,
    } | more  # fmt: skip


def combined(*rows, **options):
    return combine_orders(VERDICTS.conform(pd.DataFrame(rows)), **options)


@pytest.mark.parametrize(
    ("ab", "ba", "expected", "outcome", "disagree"),
    [
        pytest.param((0.8, 0.0), (0.6, 0.0), (0.7, 0.3, 0.0), "a", 0, id="agree"),
        pytest.param((0.9, 0.0), (0.4, 0.0), (0.65, 0.35, 0.0), "a", 1, id="the surer order decides"),
        pytest.param((0.6, 0.2), (0.1, 0.5), (0.35, 0.3, 0.35), "tie", 1, id="a and tie level"),
        pytest.param((0.3, 0.5), (0.2, 0.4), (0.25, 0.3, 0.45), "tie", 0, id="tie option wins"),
        pytest.param((1.0, 0.0), (0.0, 0.0), (0.5, 0.5, 0.0), "tie", 1, id="always the first slot"),
    ],
)
def test_average_then_largest(ab, ba, expected, outcome, disagree):
    row = combined(verdict("ab", *ab), verdict("ba", *ba)).iloc[0]
    assert (row.p_a, row.p_b, row.p_tie) == pytest.approx(expected)
    assert (row.outcome, row.disagree) == (outcome, disagree)
    assert pd.isna(row.unread_reason)


def test_averaged_logits_are_the_geometric_mean():
    rows = verdict("ab", 0.9, 0.05), verdict("ba", 0.2, 0.1)
    row = combined(*rows, average="logit").iloc[0]
    roots = [math.sqrt(0.9 * 0.2), math.sqrt(0.05 * 0.7), math.sqrt(0.05 * 0.1)]
    assert (row.p_a, row.p_b, row.p_tie) == pytest.approx([r / sum(roots) for r in roots])
    assert row.p_a + row.p_b + row.p_tie == pytest.approx(1)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        pytest.param(
            [verdict("ab", 0.7), verdict("ba", reason="low coverage")], "order ba: low coverage", id="one unread"
        ),
        pytest.param([verdict("ab", 0.7)], "order ba: not asked", id="one order only"),
        pytest.param(
            [verdict("ab", reason="x"), verdict("ba", reason="y")], "order ab: x; order ba: y", id="both unread"
        ),
        pytest.param([verdict("ab", 0.7), verdict("ba", outcome=None)], "order ba: no outcome", id="no outcome"),
    ],
)
def test_unread_when_either_order_is(rows, reason):
    row = combined(*rows).iloc[0]
    assert row.unread_reason == reason
    assert pd.isna(row.outcome)
    assert pd.isna(row.disagree)
    assert math.isnan(row.p_a)


def test_recorded_verdicts_without_probabilities_are_decided_outright():
    row = combined(verdict("ab", outcome="b"), verdict("ba", outcome="b")).iloc[0]
    assert (row.p_a, row.p_b, row.outcome, row.disagree) == (0.0, 1.0, "b", 0)


def test_arms_and_pairs_stay_apart_and_other_protocols_out():
    rows = [verdict(o, 0.7, pair=p, attack=t) for p in "12" for t in ("none", "dsi") for o in ("ab", "ba")]
    point = {k: v for k, v in verdict("ab", 0.7, pair="9").items() if k not in {"order", "p_a", "outcome"}}
    got = combined(*rows, point | {"protocol": "pointwise"})
    assert len(got) == 4
    assert set(zip(got.response_id, got.attack, strict=True)) == {(f"a{p}", t) for p in "12" for t in ("none", "dsi")}


def test_the_same_order_twice_is_refused():
    with pytest.raises(InputError, match="a1 with b1 stands twice in the order ab"):
        combined(verdict("ab", 0.7), verdict("ab", 0.6) | {"verdict_id": "other"})
    with pytest.raises(InputError, match="without an order"):
        combined(verdict(None, 0.7))


def test_nothing_in_nothing_out():
    assert combine_orders(VERDICTS.empty()).equals(PAIRS.empty())


def test_a_judge_of_the_first_slot_ties_everything_and_the_rate_says_why():
    """The presented order is recorded and undone: ten pairs, always A in the prompt."""
    rows = [verdict(o, float(o == "ab"), pair=str(i)) for i in range(10) for o in ("ab", "ba")]
    verdicts = VERDICTS.conform(pd.DataFrame(rows))
    assert set(combine_orders(verdicts).outcome) == {"tie"}
    assert first_slot_rate(verdicts).value == 1.0
    assert order_agreement(verdicts).value == 0.0

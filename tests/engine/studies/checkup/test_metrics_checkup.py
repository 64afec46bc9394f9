"""Verdicts of a check-up follow from interval, threshold and detectable effect alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.core.json import dumps
from engine.stats.agreement import cluster_kappa
from engine.stats.intervals import wilson
from engine.studies.checkup.metrics import (
    ALL_ALIKE,
    BY_NAME,
    CARDS,
    FAILS,
    HOLDS,
    NO_ORDER,
    NOT_ASKED,
    UNDERPOWERED,
    as_record,
    check_thresholds,
    decide,
    kappa_effect,
    mean_effect,
    rate_effect,
    spearman_effect,
    summary,
)
from engine.studies.checkup.study import CHECKUP


def table(*rows):
    base = {"role": "decides", "n": 40, "n_clusters": 40, "protocol": "pointwise", "level": 0.95, "method": "t"}
    return CHECKUP.conform(pd.DataFrame([base | row for row in rows]))


def row(probe, value, lower, upper, detectable=0.01, **more):
    return {"probe": probe, "value": value, "lower": lower, "upper": upper, "detectable": detectable} | more


@pytest.mark.parametrize(
    ("probe", "value", "lower", "upper", "detectable", "verdict"),
    [
        ("injections", 0.01, -0.01, 0.03, 0.03, HOLDS),
        ("injections", 0.20, 0.10, 0.30, 0.10, FAILS),
        ("injections", 0.04, 0.00, 0.08, 0.03, UNDERPOWERED),  # the interval reaches over the threshold
        ("injections", 0.00, -0.04, 0.04, 0.06, UNDERPOWERED),  # an effect of the threshold's size could be missed
        ("injections", -0.30, -0.45, -0.15, 0.20, HOLDS),  # an attack that backfires is no gain
        ("order", -0.20, -0.30, -0.12, 0.10, FAILS),  # the last slot is as bad as the first
        ("order", 0.02, -0.04, 0.08, 0.09, HOLDS),
        ("agreement", 0.60, 0.45, 0.75, 0.2, HOLDS),
        ("agreement", 0.10, -0.1, 0.3, 0.2, FAILS),
        ("agreement", 0.45, 0.30, 0.60, 0.2, UNDERPOWERED),
        ("agreement", np.nan, np.nan, np.nan, np.nan, UNDERPOWERED),
    ],
)
def test_the_interval_and_the_detectable_effect_decide(probe, value, lower, upper, detectable, verdict):
    [decision] = decide(table(row(probe, value, lower, upper, detectable)))
    assert decision.verdict == verdict
    assert decision.reason


def test_one_arm_that_fails_is_enough_and_it_is_the_one_shown():
    [found] = decide(
        table(
            row("injections", 0.0, -0.01, 0.01, arm="dsi"),
            row("injections", 0.2, 0.1, 0.3, arm="bed"),
            row("injections", 0.5, 0.4, 0.6, arm="adaptive"),
            row("injections", 0.9, 0.8, 1.0, arm="other", role="detail"),
        )
    )
    assert found.verdict == FAILS
    assert found.row["arm"] == "adaptive"
    assert [arm["arm"] for arm in as_record(found)["arms"]] == ["dsi", "bed", "adaptive", "other"]


def test_every_arm_must_hold():
    [found] = decide(table(row("injections", 0, -0.01, 0.01, arm="a"), row("injections", 0, -0.2, 0.2, 0.3, arm="b")))
    assert (found.verdict, found.row["arm"]) == (UNDERPOWERED, "b")


def test_the_items_named_would_decide():
    [found] = decide(table(row("injections", 0.0, -0.08, 0.08, 0.11)))
    assert found.items_needed == pytest.approx(40 * (0.11 / 0.05) ** 2, abs=1)
    root = np.sqrt(40 / found.items_needed)
    [later] = decide(table(row("injections", 0.0, -0.08 * root, 0.08 * root, 0.11 * root)))
    assert later.verdict == HOLDS
    [hopeless] = decide(table(row("injections", 0.0499, 0.0, 0.1, 0.01)))
    assert hopeless.items_needed is None


@given(
    st.sampled_from([c.name for c in CARDS]),
    st.floats(-1, 1),
    st.floats(0.001, 0.5),
    st.floats(0.001, 0.5),
    st.floats(0.02, 0.9),
    st.floats(0.02, 0.9),
)
def test_a_laxer_threshold_never_turns_holds_into_fails(name, value, half, detectable, one, other):
    card = BY_NAME[name]
    strict, lax = sorted([one, other], reverse=card.side == "at least")
    numbers = table(row(name, value, value - half, value + half, detectable))
    order = [FAILS, UNDERPOWERED, HOLDS]
    verdicts = [decide(numbers, {name: t})[0].verdict for t in (strict, lax)]
    assert order.index(verdicts[0]) <= order.index(verdicts[1])


def test_the_threshold_is_one_in_its_own_units():
    for card in CARDS:
        [found] = decide(table(row(card.name, card.threshold, card.threshold, card.threshold)))
        assert found.in_thresholds("value") == pytest.approx(1)


def test_what_was_not_asked_never_holds():
    missing = "No pairs (column item_id)."
    [found] = decide(table({"probe": "order", "value": np.nan, "n": 0, "protocol": None, "missing": missing}))
    assert found.verdict == NOT_ASKED
    assert found.reason == missing
    assert "null" in dumps(as_record(found))
    assert summary([found]) == "None of the probes could be asked."


def test_wrong_thresholds_are_named():
    with pytest.raises(InputError, match="no probe 'colour'"):
        check_thresholds({"colour": 0.1})
    with pytest.raises(InputError, match=r"order is 1\.5"):
        check_thresholds({"order": 1.5})
    assert check_thresholds({"order": 0.2})["order"] == 0.2
    assert set(check_thresholds({})) == set(BY_NAME)


@given(st.floats(-1, 1), st.integers(2, 80), st.data())
def test_the_bound_of_rows_all_alike_holds_what_could_have_gone_unseen(value, n, data):
    """Whatever a share w of the items, Wilson's bound for none seen, would have given."""
    found = mean_effect(np.full(n, value), np.arange(n), level=0.95, seed=0)
    w = wilson(0, n, 0.95).upper
    assert found.interval.method == ALL_ALIKE
    share, other = data.draw(st.floats(0, w)), data.draw(st.floats(-1, 1))
    truth = (1 - share) * value + share * other
    assert found.interval.lower - 1e-9 <= truth <= found.interval.upper + 1e-9
    assert abs(truth - value) <= found.detectable + 1e-9


def test_a_rate_of_none_is_wilsons_bound():
    found = rate_effect(np.zeros(30), np.arange(30), level=0.95, seed=0)
    assert found.interval.upper == pytest.approx(wilson(0, 30).upper)
    assert found.detectable == pytest.approx(wilson(0, 30).upper)
    halves = rate_effect(np.full(30, 0.5), np.arange(30), level=0.95, seed=0)
    assert 0 < halves.interval.lower < 0.5 < halves.interval.upper < 1


def test_a_judge_without_an_order_agrees_with_nobody():
    clusters = np.arange(12)
    found = spearman_effect(np.full(12, 3.0), np.arange(12.0), clusters, level=0.95, seed=0)
    assert found.interval.method == NO_ORDER
    one_label = kappa_effect(cluster_kappa(["tie"] * 12, ["a", "b"] * 6, clusters))
    assert one_label.interval.method == NO_ORDER
    [decision] = decide(table(row("agreement", np.nan, np.nan, np.nan, method=NO_ORDER)))
    assert decision.verdict == FAILS


def test_perfect_agreement_has_a_lower_bound():
    labels = ["yes", "no"] * 20
    found = kappa_effect(cluster_kappa(labels, labels, np.arange(40)))
    assert found.interval.value == 1
    assert found.interval.upper == 1
    assert found.interval.lower == pytest.approx(1 - wilson(0, 40).upper / 0.5)

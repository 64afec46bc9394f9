import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from engine.core.errors import InputError
from engine.core.schema import METRICS, VERDICTS
from engine.stats.paired import noncentrality, power_verdict
from engine.stats.shifts import NO_CLEAN, defense_gains, paired_shifts, shift_metrics


def verdicts(*rows):
    """Rows (response, attack, defense, score[, unread_reason]); the item is the id's first letter."""
    return VERDICTS.conform(
        pd.DataFrame(
            [
                {
                    "verdict_id": f"{i}",
                    "judge": "j",
                    "protocol": "pointwise",
                    "attack": attack,
                    "defense": defense,
                    "item_id": response[0],
                    "response_id": response,
                    "score": score,
                    "unread_reason": rest[0] if rest else None,
                }
                for i, (response, attack, defense, score, *rest) in enumerate(rows)
            ]
        )
    )


NAN = math.nan
FOUR = verdicts(
    ("a1", "none", "none", 2.0),
    ("a2", "none", "none", 3.0),
    ("b1", "none", "none", 1.0),
    ("c1", "none", "none", NAN, "coverage 0.2"),
    ("a1", "none", "sandwich", 2.5),
    ("a1", "dsi", "none", 2.5),
    ("a2", "dsi", "none", 4.0),
    ("b1", "dsi", "none", 1.3),
    ("c1", "dsi", "none", 4.0),
    ("a1", "dsi", "sandwich", 2.6),
    ("a2", "dsi", "sandwich", 2.6),
)


def test_pairs_stay_under_their_own_defense():
    got = paired_shifts(FOUR).set_index(["response_id", "defense"])["shift"]
    assert got["a1", "none"] == 0.5
    assert got["a1", "sandwich"] == 0.1  # 2.6 - 2.5, without the rounding noise of floats
    assert got["b1", "none"] == 0.3


def test_unread_says_which_side_and_why():
    got = paired_shifts(FOUR).set_index(["response_id", "defense"])
    assert got.loc[("c1", "none"), "unread_reason"] == "clean: coverage 0.2"
    assert math.isnan(got.loc[("c1", "none"), "shift"])
    assert got.loc[("c1", "none"), "attacked"] == 4.0
    assert got.loc[("a2", "sandwich"), "unread_reason"] == NO_CLEAN
    assert got["unread_reason"].isna().sum() == 4
    both = paired_shifts(verdicts(("a1", "none", "none", NAN, "x"), ("a1", "dsi", "none", NAN)))
    assert both["unread_reason"].item() == "clean: x; attacked: no score"


def test_metrics_by_hand():
    got = shift_metrics(FOUR).set_index(["metric", "attack", "defense"])
    assert got.loc[("mean", "none", "none"), "value"] == 2.0
    assert got.loc[("mean", "none", "none"), "n_unread"] == 1
    assert got.loc[("mean", "dsi", "none"), "value"] == pytest.approx(2.95)
    shift = got.loc[("shift", "dsi", "none")]
    assert (shift["value"], shift["n"], shift["n_clusters"], shift["n_unread"]) == (
        pytest.approx(0.6),
        3,
        2,
        1,
    )
    assert shift["lower"] < 0.6 < shift["upper"]
    assert got.loc[("relative_shift", "dsi", "none"), "value"] == pytest.approx(0.6 / 2.0)
    assert ("shift", "none", "none") not in got.index
    assert got.loc[("shift", "dsi", "sandwich"), "method"] == "no interval: one item"
    assert list(got.reset_index()["metric"][:2]) == ["mean", "mean"]  # arms without attack come first


def test_no_change_is_exactly_zero_without_an_interval():
    rows = [(f"{i}x", a, "none", s) for i, s in enumerate([1.1, 2.3, 3.7]) for a in ("none", "dsi")]
    got = shift_metrics(verdicts(*rows)).set_index("metric")
    assert got.loc["shift", "value"] == 0.0
    assert got.loc["shift", "method"] == "no variation"
    assert math.isnan(got.loc["shift", "lower"])
    assert got.loc["relative_shift", "value"] == 0.0


def test_relative_shift_needs_a_scale_from_zero_up():
    rows = [(f"{i}x", a, "none", s) for i in range(3) for a, s in (("none", -1.0 - i), ("dsi", 1.0))]
    got = shift_metrics(verdicts(*rows)).set_index("metric")
    assert math.isnan(got.loc["relative_shift", "value"])
    assert "below zero" in got.loc["relative_shift", "method"]


def test_all_unread_is_counted_and_has_no_number():
    got = shift_metrics(verdicts(("a1", "none", "none", NAN, "x"), ("a1", "dsi", "none", NAN, "x")))
    assert got["value"].isna().all()
    assert list(got["n_unread"]) == [1, 1, 1, 1]


def test_empty_gives_an_empty_table():
    assert len(shift_metrics(VERDICTS.empty())) == 0
    assert list(shift_metrics(VERDICTS.empty()).columns) == METRICS.names
    assert len(paired_shifts(VERDICTS.empty())) == 0


def test_refuses_what_cannot_be_paired():
    with pytest.raises(InputError, match=r"'a1' has two verdicts under attack 'dsi'"):
        paired_shifts(verdicts(("a1", "dsi", "none", 1.0), ("a1", "dsi", "none", 2.0)))
    two = verdicts(("a1", "none", "none", 1.0), ("a1", "dsi", "none", 2.0))
    two.loc[1, "judge"] = "k"
    with pytest.raises(InputError, match="2 judges"):
        shift_metrics(two)


def arms(effects, g=12, seed=0):
    """One response an item; clean around 3, each (attack, defense) shifted by its effect with noise."""
    rng = np.random.default_rng(seed)
    clean = rng.uniform(2, 4, g)
    rows = [(f"{chr(97 + i)}", "none", d, c) for d in dict.fromkeys(d for _, d in effects) for i, c in enumerate(clean)]
    for (attack, defense), effect in effects.items():
        rows += [(chr(97 + i), attack, defense, c + effect + rng.normal(0, 0.2)) for i, c in enumerate(clean)]
    return verdicts(*rows)


def test_shifts_carry_their_test_and_what_could_be_found():
    got = shift_metrics(arms({("dsi", "none"): 0.5, ("bed", "none"): 0.0, ("own", "none"): 0.1}))
    shift = got[got["metric"] == "shift"]
    p = shift["p_value"].to_numpy()
    assert shift["q_value"].to_numpy() == pytest.approx(stats.false_discovery_control(p))
    assert (p[0] < 1e-4, p[1] > 0.05) == (True, True)
    assert got.loc[got["metric"] != "shift", ["p_value", "q_value", "detectable"]].isna().all(axis=None)
    half = (shift["upper"] - shift["value"]).to_numpy()
    # both are multiples of the same error: the t quantile, and the noncentrality for 80 % power
    assert shift["detectable"].to_numpy() == pytest.approx(half / stats.t.ppf(0.975, 11) * noncentrality(11))
    assert {power_verdict(x, 0.25) for x in shift["detectable"]} == {"enough"}
    assert {power_verdict(x, 0.01) for x in shift["detectable"]} == {"underpowered"}


def test_p_below_five_percent_is_an_interval_without_zero():
    for seed in range(30):
        got = shift_metrics(arms({("dsi", "none"): 0.12}, seed=seed)).set_index("metric").loc["shift"]
        assert (got["p_value"] < 0.05) == (got["lower"] > 0 or got["upper"] < 0)


def test_defense_gain_is_the_paired_difference_of_shifts():
    table = arms({("dsi", "none"): 0.8, ("dsi", "sandwich"): 0.3, ("bed", "sandwich"): 0.2})
    got = defense_gains(table)
    assert got[["metric", "attack", "defense"]].to_numpy().tolist() == [["shift_change", "dsi", "sandwich"]]
    shifts = paired_shifts(table).pivot_table(index="response_id", columns=["attack", "defense"], values="shift")
    change = shifts["dsi", "sandwich"] - shifts["dsi", "none"]
    assert got["value"].item() == pytest.approx(change.mean())
    assert got["p_value"].item() == pytest.approx(stats.ttest_1samp(change, 0).pvalue)
    assert len(defense_gains(VERDICTS.empty())) == 0

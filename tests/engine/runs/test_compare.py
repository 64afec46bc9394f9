"""Two runs: identities, planted differences, and a second way to each number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.core.schema import METRICS, VERDICTS, Order, Protocol, Task
from engine.judges.base import Request, verdict_table
from engine.judges.planted import make_planted
from engine.runs.compare import (
    CHANGED,
    COLUMNS,
    FIRST,
    MISSING,
    SCORE,
    SHIFT,
    YES,
    compare_runs,
    differing_settings,
    same_scale,
    square_and_add,
)
from engine.stats.intervals import wilson
from engine.stats.paired import exact_mcnemar_p, paired_test

NONE_MEASURED = (METRICS.empty(), METRICS.empty())


def scored(scores: dict[tuple[str, str], float], attack: str = "none", defense: str = "none") -> pd.DataFrame:
    rows = [
        {
            "verdict_id": f"{response}:{attack}:{defense}", "judge": "j", "protocol": "pointwise", "attack": attack,
            "defense": defense, "item_id": item, "response_id": response, "score": score,
            "unread_reason": "no answer" if np.isnan(score) else None,
        }
        for (item, response), score in scores.items()
    ]  # fmt: skip
    return VERDICTS.conform(pd.DataFrame(rows))


def both(first: pd.DataFrame, second: pd.DataFrame, **options):
    return compare_runs((first, second), NONE_MEASURED, **options)


def row(found, what: str, **arm) -> pd.Series:
    table = found.differences
    for name, value in {"what": what, **arm}.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


@pytest.fixture
def noisy() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(4)
    keys = [(f"i{k // 3}", f"r{k}") for k in range(36)]
    first = draw.normal(3, 1, 36)
    second = first + draw.normal(0.4, 0.3, 36)
    return scored(dict(zip(keys, first, strict=True))), scored(dict(zip(keys, second, strict=True))), second - first


def test_a_run_differs_from_itself_in_nothing(noisy):
    found = both(noisy[0], noisy[0])
    assert (found.matched, found.only_a, found.only_b) == (36, 0, 0)
    assert row(found, SCORE)["value"] == 0
    assert row(found, SCORE)["p_value"] == 1
    assert list(found.differences.columns) == COLUMNS


def test_the_other_way_round_everything_changes_its_sign(noisy):
    one, other = row(both(noisy[0], noisy[1]), SCORE), row(both(noisy[1], noisy[0]), SCORE)
    assert one["value"] == pytest.approx(-other["value"])
    assert [one["lower"], one["upper"]] == pytest.approx([-other["upper"], -other["lower"]])
    assert one["p_value"] == pytest.approx(other["p_value"])


def test_the_difference_is_that_of_the_paired_test_on_the_matched_rows(noisy):
    first, second, apart = noisy
    found = row(both(first, second.sample(frac=1, random_state=1)), SCORE)
    test = paired_test(apart, [f"i{k // 3}" for k in range(36)])
    assert found["value"] == pytest.approx(test.interval.value)
    assert [found["lower"], found["upper"]] == pytest.approx([test.interval.lower, test.interval.upper])
    assert found["value_b"] - found["value_a"] == pytest.approx(found["value"])


def test_unmatched_and_unread_are_counted_and_enter_nothing():
    keys = [(f"i{k}", f"r{k}") for k in range(8)]
    first = scored(dict(zip(keys[:6], [1.0, 2, 3, 4, np.nan, 5], strict=True)))
    second = scored(dict(zip(keys[2:], [3.5, 4.5, 2, np.nan, 100, 100], strict=True)))
    found = both(first, second)
    assert (found.matched, found.only_a, found.only_b) == (4, 2, 2)
    one = row(found, SCORE)
    assert (one["value"], one["n"], one["n_unread"]) == (0.5, 2, 2)


def test_rounding_in_a_batch_is_no_difference_but_a_small_real_one_is():
    keys = [(f"i{k}", f"r{k}") for k in range(12)]
    scores = np.linspace(1, 5, 12)
    first = scored(dict(zip(keys, scores, strict=True)))
    assert row(both(first, scored(dict(zip(keys, scores + 2e-6, strict=True)))), SCORE)["p_value"] == 1
    assert row(both(first, scored(dict(zip(keys, scores + 2e-3, strict=True)))), SCORE)["value"] == pytest.approx(2e-3)


def test_planted_judges_differ_by_what_was_planted():
    requests = [
        Request(f"i{k // 2}", f"r{k}", Task.DIALOGUE, "c", "an answer " * (1 + k % 7), attack=attack)
        for attack in ("none", "dsi")
        for k in range(80)
    ]
    tables = []
    for spec in ("planted:noisy?noise=0&seed=1", "planted:noisy?noise=0.5&seed=2"):
        judge = make_planted(spec)
        tables.append(verdict_table(judge, requests, judge.judge(requests)))
    for attack in ("none", "dsi"):
        one = row(both(*tables), SCORE, attack=attack)
        assert one["lower"] <= 0 <= one["upper"]  # noise has mean zero by construction
        assert one["n"] == 80
    assert row(both(*tables), SHIFT)["n_clusters"] == 40


def test_a_shift_is_compared_as_a_difference_of_differences():
    keys = [(f"i{k}", f"r{k}") for k in range(5)]
    zeros = dict.fromkeys(keys, 2.0)
    first = pd.concat([scored(zeros), scored(dict.fromkeys(keys, 2.5), "dsi")])
    second = pd.concat([scored(dict.fromkeys(keys, 3.0)), scored(dict.fromkeys(keys, 4.5), "dsi")])
    found = both(first, second)
    assert row(found, SCORE, attack="dsi")["value"] == 2
    assert row(found, SHIFT)["value"] == 1


def pairs(outcomes: list[str | None], order: Order) -> pd.DataFrame:
    rows = [
        {
            "verdict_id": f"{k}:{order}", "judge": "j", "protocol": "pairwise", "attack": "none", "defense": "none",
            "item_id": f"i{k}", "response_id": f"a{k}", "response_b": f"b{k}", "order": order.value,
            "p_a": {"a": 0.9, "b": 0.1, "tie": 0.5}.get(o, np.nan), "outcome": o,
        }
        for k, o in enumerate(outcomes)
    ]  # fmt: skip
    return VERDICTS.conform(pd.DataFrame(rows))


def test_pairs_count_what_changed_and_the_first_slot_in_its_own_order():
    first = pd.concat([pairs(["a", "a", "b", None], Order.AB), pairs(["a", "b", "b", "a"], Order.BA)])
    second = pd.concat([pairs(["a", "b", "tie", "a"], Order.AB), pairs(["a", "b", "b", "b"], Order.BA)])
    found = both(first, second)
    assert found.matched == 8
    assert row(found, CHANGED)["value"] == pytest.approx(3 / 7)
    assert row(found, CHANGED)["n_unread"] == 1
    slot = row(found, FIRST)
    # first: ab a,a,b = 1,1,0; ba a,b,b,a = 0,1,1,0. second: ab a,b,tie = 1,0,.5; ba a,b,b,b = 0,1,1,1
    assert (slot["value_a"], slot["value_b"]) == (pytest.approx(4 / 7), pytest.approx(4.5 / 7))


def test_verifiers_are_compared_by_mcnemar_and_never_on_further_references():
    outcomes = (["yes"] * 3 + ["no"] * 7, ["no"] * 2 + ["yes"] * 8)
    tables = []
    for own in outcomes:
        rows = [
            {
                "verdict_id": f"v{k}{ref}", "judge": "j", "protocol": Protocol.VERIFIER.value, "attack": "none",
                "defense": "none", "item_id": f"i{k}", "response_id": f"r{k}", "reference_id": ref or None,
                "p_yes": float(o == "yes"), "outcome": "yes" if ref else o,
            }
            for k, o in enumerate(own)
            for ref in (("", "other-1") if o == "yes" else ("",))
        ]  # fmt: skip
        tables.append(VERDICTS.conform(pd.DataFrame(rows)))
    found = both(*tables)
    one = row(found, YES)
    assert one["n"] == 10
    assert one["value"] == pytest.approx(0.5)
    assert one["p_value"] == pytest.approx(exact_mcnemar_p(2, 7))
    assert (found.only_a, found.only_b) == (2, 7)  # references that one run alone had to ask


def test_other_data_pair_only_by_the_same_text(noisy):
    found = both(noisy[0], noisy[1], same={"r0", "r1", "r2", "r9"})
    assert (found.matched, found.only_a, found.only_b) == (4, 32, 32)
    assert "same text" in found.remarks[0]
    assert both(noisy[0], noisy[1], same=set()).matched == 0


def test_scores_on_other_scales_are_not_subtracted(noisy):
    found = both(noisy[0], noisy[1], same_scale=False)
    assert found.differences.empty
    assert "different scales" in found.remarks[0]
    assert same_scale({"judge": {"labels": ["1", "2"]}}, {"judge": {"labels": [1, 2]}})
    assert not same_scale({"judge": {"labels": ["1", "2"]}}, {"judge": {"labels": ["1", "2", "3"]}})
    assert same_scale({"judge": {"labels": []}}, {})


def metric(value: float, low: float, high: float, name: str = "auc") -> pd.DataFrame:
    return METRICS.conform(
        pd.DataFrame([{"metric": name, "value": value, "lower": low, "upper": high, "level": 0.95, "n": 9}])
    )


def test_square_and_add_is_the_usual_interval_where_that_holds_and_newcombes_published_one():
    assert square_and_add([1, 0.4, 1.6], [2, 1.2, 2.8]) == pytest.approx((1 - 1, 1 + 1))  # sqrt(0.6^2 + 0.8^2)
    # Newcombe (1998), Stat. Med. 17:873, table II, method 10: 56/70 - 48/80 from the two Wilson intervals
    sides = [wilson(k, n) for k, n in ((48, 80), (56, 70))]
    low, high = square_and_add(*([i.value, i.lower, i.upper] for i in sides))
    assert (low, high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


def test_a_metric_without_pairs_joins_both_intervals_and_says_so():
    found = compare_runs((VERDICTS.empty(), VERDICTS.empty()), (metric(0.7, 0.6, 0.8), metric(0.8, 0.65, 0.9)))
    one = row(found, "auc")
    assert one["value"] == pytest.approx(0.1)
    assert one["lower"] == pytest.approx(0.1 - np.hypot(0.15, 0.1))
    assert one["method"].startswith("as if independent")
    assert (one["paired"], one["n"]) == (0, 9)
    undefined = compare_runs((VERDICTS.empty(),) * 2, (metric(np.nan, np.nan, np.nan), metric(1, 1, 1)))
    assert undefined.differences.empty


def test_settings_that_differ_stand_side_by_side_and_others_do_not():
    first = {
        "study": "score", "config": {"judge": "a", "attacks": ["dsi"], "seed": 0, "run_id": "x", "only": 1},
        "data": {"name": "d"}, "judge": {"prompts": [{"name": "p", "digest": "1"}]}, "versions": {"torch": "2.1"},
    }  # fmt: skip
    second = {
        "study": "score", "config": {"judge": "b", "attacks": ["dsi"], "seed": 0, "run_id": "y"},
        "data": {"name": "d"}, "judge": {"prompts": [{"name": "p", "digest": "2"}]}, "versions": {"torch": "2.2"},
    }  # fmt: skip
    found = differing_settings(first, second).set_index("setting")
    assert set(found.index) == {"judge", "only", "prompt p", "torch"}
    assert found.loc["only", "b"] == MISSING
    assert list(found.loc["torch"]) == ["versions", "2.1", "2.2"]
    assert differing_settings(first, first).empty

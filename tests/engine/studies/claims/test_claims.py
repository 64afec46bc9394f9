"""Claims: the frozen file, the rule, the arithmetic of two intervals, and planted judges with and without an effect."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import METRICS
from engine.core.settings import get_settings
from engine.runs.folder import create_run
from engine.stats.shifts import shift_metrics
from engine.studies.claims.figures import ENTRIES, PAPERS, frozen_claims, stored_claims
from engine.studies.claims.metrics import (
    Estimate,
    counts,
    decide,
    difference,
    estimate,
    p_at,
    ratio,
    row_of,
    verdict_of,
)
from engine.studies.claims.run import parts_of, run_claims, settings_for
from engine.studies.claims.study import STUDY, ClaimsConfig
from engine.studies.claims.tables import CANNOT_TELL, CONSTRUCTED, HOLDS, NOT_SEEN, OTHER_WAY, VERDICTS, WEAKER
from engine.studies.registry import read_study, settings_of, study_named
from engine.studies.study import Context


def config(**changes) -> ClaimsConfig:
    *_, found = read_study("claims", get_settings().assets / "studies", changes)
    assert isinstance(found, ClaimsConfig)
    return found


# The frozen file.


def test_every_frozen_claim_says_what_is_tested_on_what_and_how_well():
    frozen = frozen_claims(get_settings().assets)
    assert date.fromisoformat(frozen.frozen) == date(2026, 11, 29)
    assert {one.paper for one in frozen.claim} == set(PAPERS)
    for one in frozen.claim:
        assert one.statement.endswith("."), one.id
        assert ". " not in one.statement, one.id
        assert all((one.published, one.place, one.estimand)), one.id
        assert set(one.items) == set(one.data), one.id
        assert all(0 <= p <= 1 for p in one.power.values()), one.id
        for name in one.data:
            assert one.test == "non-inferiority" or one.stated_on(name) >= one.least > 0, one.id
        fields = study_named(frozen.runs[one.run].study).config.model_fields
        assert set(frozen.runs[one.run].settings) <= set(fields), one.id
    for change in frozen.changes:
        assert date.fromisoformat(change.date) >= date.fromisoformat(frozen.frozen)


@pytest.mark.parametrize("name", sorted(frozen_claims(get_settings().assets).runs))
def test_the_settings_of_every_run_are_those_of_its_study(name):
    frozen = frozen_claims(get_settings().assets)
    run = frozen.runs[name]
    study = study_named(run.study)
    held = {"judge": "planted:constant", "data": "demo"}
    held = {k: v for k, v in held.items() if k in study.config.model_fields}
    for further in ({}, run.demo, *run.on.values()):
        settings_of(study.config, held | run.settings | further, name)


def test_a_shipped_table_follows_from_its_numbers():
    table = stored_claims(get_settings().assets)
    if table.empty:
        pytest.skip("no claims were decided at full size yet")
    again = decide(table, frozen_claims(get_settings().assets))
    own = again["verdict"] != CONSTRUCTED  # the table's own names of judges
    assert (again["verdict"] == table["verdict"])[own].all()


# The rule.

RULE = [
    ((0.3, 0.9, 0.001, 0.1, 0.8, "superiority"), HOLDS),
    ((0.3, 0.9, 0.2, 0.1, 0.8, "superiority"), CANNOT_TELL),
    ((0.3, 0.6, 0.001, 0.1, 0.8, "superiority"), WEAKER),
    ((0.05, 0.9, 0.001, 0.1, 0.8, "superiority"), CANNOT_TELL),
    ((-0.05, 0.05, 0.9, 0.1, 0.8, "superiority"), NOT_SEEN),
    ((0.02, 0.08, 0.001, 0.1, 0.8, "superiority"), NOT_SEEN),
    ((-0.5, -0.2, 0.001, 0.1, 0.8, "superiority"), OTHER_WAY),
    ((-0.08, -0.02, 0.001, 0.1, 0.8, "superiority"), NOT_SEEN),
    ((-0.5, 0.9, 0.9, 0.1, 0.8, "superiority"), CANNOT_TELL),
    ((-0.01, 0.2, 0.01, 0.05, math.nan, "non-inferiority"), HOLDS),
    ((-0.2, -0.06, 0.01, 0.05, math.nan, "non-inferiority"), OTHER_WAY),
    ((-0.2, 0.1, 0.5, 0.05, math.nan, "non-inferiority"), CANNOT_TELL),
]


@pytest.mark.parametrize(("given", "verdict"), RULE)
def test_the_verdict_is_that_of_the_frozen_rule(given, verdict):
    assert verdict_of(*given) == verdict


def test_shrinking_an_interval_around_an_effect_never_undoes_what_it_said():
    """The same point known better: what could not be told may be told, and a verdict stays."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        value, least, stated = rng.normal(0, 0.5), 0.1, 0.4
        wide = rng.uniform(0.05, 1)
        said = [verdict_of(value - h, value + h, 0.0, least, stated, "superiority") for h in (wide, wide / 2, wide / 4)]
        told = [s for s in said if s != CANNOT_TELL]
        assert said[len(said) - len(told) :] == told
        assert not {HOLDS, NOT_SEEN} <= set(told)
        assert OTHER_WAY not in told or not {HOLDS, WEAKER} & set(told)


# Two intervals made one.


def known(value, half):
    return Estimate(value, value - half, value + half, "t", 40, 20)


def test_the_difference_of_symmetric_intervals_is_that_of_independent_errors():
    found = difference(known(0.7, 0.3), known(0.2, 0.4))
    assert found.value == pytest.approx(0.5)
    assert (found.lower, found.upper) == pytest.approx((0.0, 1.0))


def test_a_ratio_holds_the_shares_at_which_the_difference_holds_nothing():
    a, b = known(0.4, 0.25), known(0.8, 0.3)
    found = ratio(a, b)
    assert found.value == pytest.approx(0.5)
    for share in (found.lower, found.upper):
        scaled = Estimate(share * b.value, *sorted((share * b.lower, share * b.upper)), "t", 40, 20)
        ends = difference(a, scaled)
        assert min(abs(ends.lower), abs(ends.upper)) < 1e-9
    sure = ratio(a, known(0.8, 1e-9))
    assert (sure.lower, sure.upper) == pytest.approx((a.lower / 0.8, a.upper / 0.8), abs=1e-6)


def test_a_share_of_what_may_be_nothing_has_no_interval():
    found = ratio(known(0.4, 0.1), known(0.2, 0.3))
    assert not found.known
    assert found.reason


def test_a_share_is_covered_as_often_as_it_says():
    rng = np.random.default_rng(3)
    hit = 0
    for _ in range(400):
        a, b = rng.normal(0.5, 0.1), rng.normal(1.0, 0.1)
        found = ratio(known(a, 0.196), known(b, 0.196))
        hit += found.lower <= 0.5 <= found.upper
    assert 0.92 <= hit / 400 <= 0.98


@pytest.mark.parametrize("at", [-0.3, 0.0, 0.2])
def test_p_crosses_five_percent_where_the_interval_ends(at):
    for shift, below in ((1.02, True), (0.98, False)):
        half = 0.5
        found = Estimate(at + half * shift, at + half * shift - half, at + half * shift + half, "t", 30, 15)
        assert (p_at(found, at)[0] < 0.05) is below


# The table.


def rows_of(frozen, judge, made):
    by_id = {one.id: one for one in frozen.claim}
    return pd.DataFrame([row_of(by_id[i], on, judge, found, data=on, run="r", device="cpu") for i, on, found in made])


def test_what_a_claim_requires_and_what_was_made_to_be_seen_are_not_counted():
    frozen = frozen_claims(get_settings().assets)
    none, strong = known(0.0, 0.05), known(0.8, 0.05)
    made = [("dsi-lifts", "topicalchat", none), ("cap-takes-dsi", "topicalchat", strong)]
    table = decide(rows_of(frozen, "path:somebody", made), frozen).set_index("claim")
    assert table.loc["dsi-lifts", "verdict"] == NOT_SEEN
    assert table.loc["cap-takes-dsi", "verdict"] == CANNOT_TELL
    assert "dsi-lifts" in table.loc["cap-takes-dsi", "reason"]
    lifted = decide(rows_of(frozen, "bundled:naive", [("dsi-lifts", "topicalchat", strong)]), frozen)
    assert lifted["verdict"].tolist() == [CONSTRUCTED]
    assert lifted["q_value"].isna().all()
    assert sum(counts(lifted["verdict"]).values()) == 0


@pytest.mark.parametrize(("agrees", "said"), [(0.8, ""), (0.3, "cons_orig above 0.5")])
def test_a_claim_about_judges_that_agree_with_people_is_put_to_no_other(agrees, said):
    claim = next(one for one in frozen_claims(get_settings().assets).claim if one.id == "audit-no-harm")
    rows = [("cons_orig", agrees), ("gain", 0.1)]
    table = METRICS.conform(
        pd.DataFrame(
            {"metric": m, "attack": "none", "value": v, "lower": v - 0.05, "upper": v + 0.05, "n": 50, "n_clusters": 20}
            for m, v in rows
        )
    )
    found = estimate(claim, lambda _: lambda _: table)
    assert said in found.reason
    assert found.known is not bool(said)


def test_q_is_over_the_rows_of_one_judge():
    frozen = frozen_claims(get_settings().assets)
    made = [("dsi-lifts", "topicalchat", known(0.3, 0.29)), ("bed-lifts", "topicalchat", known(0.0, 0.5))]
    one = decide(rows_of(frozen, "a", made), frozen)
    two = decide(pd.concat([rows_of(frozen, "a", made), rows_of(frozen, "b", made)]), frozen)
    assert two["q_value"].tolist() == pytest.approx([*one["q_value"], *one["q_value"]])
    assert one["q_value"].iloc[0] == pytest.approx(2 * one["p_value"].iloc[0])


# Which runs are needed.


def test_a_recording_is_asked_only_for_what_it_can_answer():
    one = config(judge="recorded:llmbar/v.csv?judge=GPT-4", data={"llmbar": {"comparisons": "x"}})
    assert {part.name for part in parts_of(one)} == {"audit", "audit-by-type", "recorded"}
    audit = next(part for part in parts_of(one) if part.name == "audit")
    assert settings_for(audit, one)["attacks"] == []


def test_a_verifier_is_asked_no_scores_and_a_claim_brings_what_it_requires():
    one = config(judge="bundled:shortcut-verifier", claims=("refswap-removes",))
    assert [claim.id for claim in one.wanted] == ["keys-accepted", "refswap-removes"]
    assert {part.name for part in parts_of(one)} == {"refswap"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"claims": ("nothing",)}, "nothing"),
        ({"data": "folder"}, "bench claims"),
        ({"data": {"imagenet": "x"}}, "imagenet"),
        ({"settings": {"refswap": {"delta": 5}}}, "frozen"),
    ],
)
def test_a_wrong_setting_is_named(changes, said):
    with pytest.raises(InputError, match=said):
        config(**changes)


# Planted judges, with and without an effect.

SMALL = {"settings": {"protocols": {"distractors": ["assertiveness"]}}}


def decided(home, tmp_path, judge, claims, **changes):
    one = config(judge=judge, claims=claims, **changes)
    folder = STUDY.begin(one, tmp_path)
    run_claims(one, Context(home), folder)
    folder.release()
    return folder.table("claims").set_index("claim")


@pytest.mark.slow
def test_a_judge_that_falls_for_assertiveness_in_pairs_alone_flips_and_one_that_tosses_coins_does_not(
    settings, tmp_path
):
    """A coin is tossed anew for every rewriting: as counted that looks like the published effect, net it does not."""
    claims = ("flips", "flips-as-counted")
    falls, tosses = (
        decided(settings, tmp_path, f"planted:assertiveness?strength={strength}&points=0", claims, **SMALL)
        for strength in (0.9, 0.0)
    )
    assert falls.loc["flips", "verdict"] == HOLDS
    assert falls.loc["flips", "n_items"] == 12
    assert tosses.loc["flips-as-counted", "verdict"] == HOLDS
    assert tosses.loc["flips", "verdict"] not in {HOLDS, WEAKER}


@pytest.mark.slow
def test_a_verifier_that_solves_by_itself_is_separated_and_one_that_does_not_is_not(settings, tmp_path):
    claims = ("keys-accepted", "max-p-cf")
    good = decided(settings, tmp_path, "planted:verifier?leak=0.5&self_solve=0.9&ref_sensitivity=0.9", claims)
    assert good.loc["max-p-cf", "verdict"] == HOLDS
    assert good.loc["keys-accepted", "verdict"] == HOLDS
    bad = decided(settings, tmp_path, "planted:verifier?leak=0.5&self_solve=0.1&ref_sensitivity=0.1", claims)
    assert bad.loc["max-p-cf", "verdict"] == OTHER_WAY


@pytest.mark.parametrize(("strength", "verdict"), [(1.0, HOLDS), (0.3, WEAKER), (0.0, NOT_SEEN)])
def test_finished_runs_of_somebody_else_are_read_in_place_of_new_ones(settings, tmp_path, strength, verdict):
    """The run of `cap` is made here from a planted judge's shifts, so no tutor writes a word."""
    one = config(judge=f"planted:injection?strength={strength}", claims=("dsi-lifts",), source=str(tmp_path / "given"))
    study = study_named("cap")
    rng = np.random.default_rng(1)
    verdicts = pd.DataFrame(
        [
            {"judge": one.judge, "protocol": "pointwise", "attack": attack, "defense": "none", "item_id": f"i{i % 12}",
             "response_id": f"r{i}", "score": 3 + strength * (attack == "dsi") + rng.uniform(-0.05, 0.05),
             "unread_reason": None}
            for i in range(48) for attack in ("none", "dsi")
        ]
    )  # fmt: skip
    for part in parts_of(one):
        own = settings_of(study.config, settings_for(part, one), part.name)
        made = create_run(tmp_path / "given", "cap", study.stored(own), f"given-{part.on}", kind="cap")
        made.write_table("metrics", METRICS.conform(shift_metrics(verdicts)))
        made.update_manifest(state="done")
        made.release()
    folder = STUDY.begin(one, tmp_path / "runs")
    run_claims(one, Context(settings), folder)
    folder.release()
    table = folder.table("claims")
    assert table["verdict"].tolist() == [verdict, verdict]
    assert table["run"].str.startswith("given-").all()
    summary = STUDY.summary(one, folder)
    assert [row["id"] for row in summary.record["claims"]] == ["dsi-lifts", "dsi-lifts"]
    assert {"verdict", "value", "lower", "upper", "n_items"} <= set(summary.record["claims"][0])
    drawn = next(entry for entry in ENTRIES if entry.name == "forest-cap")
    assert "demo data" in drawn.caption(drawn.prepare(folder))
    assert set(table["verdict"]) <= set(VERDICTS)


def test_a_run_that_cannot_be_made_leaves_its_claims_open_with_the_reason(settings, tmp_path):
    table = decided(settings, tmp_path, "planted:verifier", ("max-p-cf",), data={"gsm8k": "no-such-data"})
    assert table.loc["max-p-cf", "verdict"] == CANNOT_TELL
    assert "no-such-data" in table.loc["max-p-cf", "reason"]

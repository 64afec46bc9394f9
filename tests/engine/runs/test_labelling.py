"""Labels beside runs: verdicts of the bundled recordings in the words of the labels, agreement, what labels say."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.core.files import safe_csv
from engine.data.comparisons import DEMO_LLMBAR, DEMO_PAIRS, load_comparisons
from engine.data.label_plan import DISAGREEMENT, UNCERTAINTY, Kind, Scale, make_plan
from engine.data.labelled import read_labelled
from engine.data.labels import export_table, save_plan
from engine.data.store import DEMO_DIALOGUE, DEMO_VERIFICATION, load_dataset
from engine.runs.folder import open_run
from engine.runs.labelling import people_agree, population, worth_so_far
from engine.stats.corrected import compare_estimates


def run(settings, place: str, name: str):
    return open_run(settings.assets / "demo" / place, name)


def test_scores_become_pass_or_fail_by_the_half_of_the_scale_that_holds_more(settings):
    data, naive = load_dataset(DEMO_DIALOGUE, settings.datasets), run(settings, "dialogue", "naive")
    rows = population(data, Scale(Kind.PASS), [naive])
    verdicts = naive.table("verdicts")
    clean = verdicts[(verdicts["attack"] == "none") & (verdicts["defense"] == "none")].set_index("response_id")
    for row in rows.itertuples():
        p = clean.loc[row.id, "probabilities"]
        assert row.probability == pytest.approx(p[3] + p[4] + p[2] / 2, abs=1e-6)
        assert row.verdict == ("pass" if row.probability >= 0.5 else "fail")
    rated = population(data, Scale(Kind.RATING), [naive])
    assert [float(one) for one in rated["verdict"]] == pytest.approx(
        clean["score"].reindex(rated["id"]).tolist(), abs=5e-3
    )


def test_a_verifiers_answers_and_both_orders_of_pairs_are_read(settings):
    checked = load_dataset(DEMO_VERIFICATION, settings.datasets)
    rows = population(checked, Scale(), [run(settings, "verification", "run")])
    assert set(rows["verdict"]) == {"pass", "fail"}
    assert rows["probability"].between(0, 1).all()
    pairs = load_comparisons(DEMO_PAIRS, settings.comparisons)
    rows = population(pairs, Scale(Kind.PAIRS), [run(settings, "pairs", "naive")])
    asked = rows["verdict"].notna()
    assert asked.any()
    assert set(rows.loc[asked, "disagree"]) == {0.0, 1.0}
    plan = make_plan(rows, data=pairs.set_id, scale=Scale(Kind.PAIRS), n=20, by=(UNCERTAINTY, DISAGREEMENT))
    assert plan.strata()["rows"].sum() == len(rows)


def test_two_judges_disagree_where_their_verdicts_differ(settings):
    pairs = load_comparisons(DEMO_LLMBAR, settings.comparisons)
    one, two = (run(settings, "llmbar", name) for name in ("gpt-4", "palm2"))
    alone = [population(pairs, Scale(Kind.PAIRS), [judge])["verdict"] for judge in (one, two)]
    both = population(pairs, Scale(Kind.PAIRS), [one, two])
    known = alone[0].notna() & alone[1].notna()
    assert (both["disagree"].isna() == ~known).all()
    assert both.loc[known, "disagree"].mean() == pytest.approx((alone[0] != alone[1])[known].mean())


def test_labels_that_do_not_fit_the_data_are_refused(settings):
    data = load_dataset(DEMO_DIALOGUE, settings.datasets)
    with pytest.raises(InputError, match="pass or rating"):
        population(data, Scale(Kind.PAIRS))


def test_a_full_set_of_labels_gives_its_own_mean_and_two_people_their_kappa(settings):
    data = load_dataset(DEMO_DIALOGUE, settings.datasets)
    rows = population(data, Scale(), [run(settings, "dialogue", "naive")])
    held = save_plan(make_plan(rows, data="d", scale=Scale(), n=len(rows), by=(UNCERTAINTY,)), settings.labels)
    assert worth_so_far(held, "Ann") == {}
    rng = np.random.default_rng(0)
    says = {row: ("pass" if rng.random() < 0.6 else "fail") for row in held.plan.order}
    for row in held.plan.order:
        held.answer("Ann", row, says[row])
    share = np.mean([label == "pass" for label in says.values()])
    found = worth_so_far(held, "Ann")["labels_only"]
    assert found.value == pytest.approx(share)
    assert found.lower < share < found.upper
    assert people_agree(held) is None
    for i, row in enumerate(held.plan.order):
        held.answer("Ben", row, "pass" if i % 4 == 0 else says[row])
    agreement = people_agree(held)
    kappa = agreement.kappa
    bens = np.mean([held.answers().of("Ben")[row].label == "pass" for row in says])
    observed = np.mean([held.answers().of("Ben")[row].label == label for row, label in says.items()])
    chance = share * bens + (1 - share) * (1 - bens)
    assert kappa.interval.value == pytest.approx((observed - chance) / (1 - chance))
    assert agreement.alpha.value == pytest.approx(kappa.interval.value, abs=0.05)


def test_an_exported_file_is_what_the_study_trust_reads_and_gives_the_same_numbers(settings):
    data = load_dataset(DEMO_DIALOGUE, settings.datasets)
    rows = population(data, Scale(), [run(settings, "dialogue", "naive")])
    held = save_plan(make_plan(rows, data="d", scale=Scale(), n=24, by=(UNCERTAINTY,)), settings.labels)
    for i, row in enumerate(held.plan.order[:20]):
        held.answer("Ann", row, "pass" if i % 3 else "fail")
    here = worth_so_far(held)
    read = read_labelled("labels.csv", safe_csv(export_table(held)))
    assert read.kind == "pass"
    columns = [read.rows[name] for name in ("verdict", "label", "item_id", "chance")]
    there = compare_estimates(*columns)
    for name in ("raw", "corrected", "labels_only"):
        ends = [(e.value, e.lower, e.upper) for e in (here[name], there[name])]
        assert ends[0] == pytest.approx(ends[1])
    assert here["raw"].value == pytest.approx((rows["verdict"] == "pass").mean())
    chance = held.plan.inclusion(held.plan.order[:20])
    label = held.plan.rows["id"].map({row: float(bool(i % 3)) for i, row in enumerate(held.plan.order[:20])})
    assert here["labels_only"].value == pytest.approx((label / chance).sum() / len(rows))

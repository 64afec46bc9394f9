"""Estimates under attack: closed forms of their bias, a simulation, and the power of what the labels would notice."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from engine.cli.main import main
from engine.core.schema import LABELLED
from engine.runs.folder import open_run
from engine.studies.trust.metrics import rows_of
from engine.studies.trust.tables import CORRECTED, LABELS_ONLY, RAW, ROGAN
from engine.studies.trust.under_attack import (
    AFTER,
    ALIKE,
    FRESH_TEST,
    VERDICTS_TEST,
    attacked_by,
    attacked_table,
    expected_move,
    least_share,
    notice,
    noticed_power,
    noticed_table,
    planted,
)

TRUE, TPR, FPR = 0.5, 0.9, 0.2


def judged(n: int = 4000, labels: int = 1000, seed: int = 0, attacked_fpr: float | None = None):
    """Rows of a judge with these rates, labels on some; and the verdicts under an attack that lifts FPR."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < TRUE
    draw = rng.random(n)
    verdict = draw < np.where(truth, TPR, FPR)
    label = np.where(np.arange(n) < labels, truth, np.nan)
    frame = LABELLED.conform(
        pd.DataFrame({"row_id": [f"r{i}" for i in range(n)], "item_id": [f"i{i}" for i in range(n)],
                      "verdict": verdict.astype(float), "label": label})
    )  # fmt: skip
    rows = rows_of(frame, "pass", seed=seed)
    under = planted(rows) if attacked_fpr is None else (draw < np.where(truth, TPR, attacked_fpr)).astype(float)
    return rows, under


def at(table: pd.DataFrame, case: str, share: float, estimate: str) -> pd.Series:
    own = table[(table["case"] == case) & (table["share"] == share) & (table["estimate"] == estimate)]
    assert len(own) == 1
    return own.iloc[0]


@pytest.fixture(scope="module")
def flipped():
    rows, under = judged(n=20_000, labels=5_000, attacked_fpr=0.6)
    return rows, under, attacked_table(rows, under, (0.0, 0.4, 1.0))


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_attacked_after_the_labels_rogan_and_gladens_estimate_moves_by_the_closed_form(flipped, share):
    """FPR goes to f on a share s of the rows without a label: the bias is s u (1 - truth) (f - FPR) / (TPR - FPR)."""
    _, _, table = flipped
    wanted = share * 0.75 * (1 - TRUE) * (0.6 - FPR) / (TPR - FPR)
    assert at(table, AFTER, share, ROGAN)["moved"] == pytest.approx(wanted, abs=0.02)
    assert at(table, AFTER, share, ROGAN)["expected"] == pytest.approx(wanted, abs=0.02)
    assert at(table, AFTER, share, RAW)["moved"] == pytest.approx(wanted * (TPR - FPR), abs=0.01)


def test_attacked_alike_the_corrected_numbers_stay_and_the_raw_one_does_not(flipped):
    _, _, table = flipped
    for estimate in (CORRECTED, ROGAN, LABELS_ONLY):
        row = at(table, ALIKE, 1.0, estimate)
        assert row["lower"] - 0.01 < TRUE < row["upper"] + 0.01
        assert row["expected"] == 0
    assert at(table, ALIKE, 1.0, RAW)["moved"] == pytest.approx((1 - TRUE) * 0.4, abs=0.01)
    widths = [at(table, ALIKE, s, ROGAN)["upper"] - at(table, ALIKE, s, ROGAN)["lower"] for s in (0.0, 1.0)]
    assert widths[1] > 1.5 * widths[0]  # TPR - FPR falls from 0.7 to 0.3


def test_what_is_expected_is_what_happens_to_every_estimate(flipped):
    rows, under, table = flipped
    for row in table.itertuples():
        assert row.moved == pytest.approx(row.expected, abs=0.025)
    assert expected_move(rows, under, 0.0, AFTER, ROGAN) == 0
    assert (table[table["estimate"] == LABELS_ONLY]["moved"] == 0).all()


def test_an_attack_on_all_leaves_a_judge_that_says_nothing():
    rows, under = judged(n=800, labels=200)
    table = attacked_table(rows, under, (0.0, 1.0))
    assert np.isnan(at(table, ALIKE, 1.0, ROGAN)["value"])
    alone, corrected = (at(table, ALIKE, 1.0, name) for name in (LABELS_ONLY, CORRECTED))
    assert [corrected["lower"], corrected["upper"]] == pytest.approx([alone["lower"], alone["upper"]], abs=0.01)


@pytest.mark.slow
def test_the_interval_misses_the_truth_after_the_labels_and_holds_it_alike():
    """Of 60 simulated studies with half of the rows hit, nearly none holds the truth in the dangerous case."""
    runs, inside = 60, {AFTER: 0, ALIKE: 0}
    for seed in range(runs):
        rows, under = judged(n=1200, labels=300, seed=seed)
        table = attacked_table(rows, under, (0.5,))
        for case in inside:
            row = at(table, case, 0.5, CORRECTED)
            inside[case] += row["lower"] <= TRUE <= row["upper"]
    assert inside[ALIKE] >= binom.ppf(0.001, runs, 0.95)
    assert inside[AFTER] <= binom.ppf(0.999, runs, 0.3)


@pytest.mark.slow
def test_the_test_of_labelled_against_unlabelled_rows_keeps_its_size_and_its_power():
    runs, alarms, seen = 200, 0, 0
    for seed in range(runs):
        rows, under = judged(n=600, labels=150, seed=seed)
        alarms += notice(rows).p_value < 0.05
        struck = np.isnan(rows.label) & (np.random.default_rng([seed, 7]).random(600) < 0.3)
        hit = rows_of(rows.frame.assign(verdict=np.where(struck, under, rows.verdict)), "pass")
        seen += notice(hit).p_value < 0.05
    low, high = binom.ppf([0.001, 0.999], runs, 0.05)
    assert low <= alarms <= high
    p = TRUE * TPR + (1 - TRUE) * FPR
    error = np.sqrt(p * (1 - p) * (1 / 150 + 1 / 450))
    power = norm.cdf(0.3 * (1 - p) / error - norm.ppf(0.975))
    rows, _ = judged(n=600, labels=150)
    assert noticed_power(notice(rows), 0.3 * (1 - p), 150, 600, 150, VERDICTS_TEST, 0.95) == pytest.approx(
        power, abs=0.05
    )
    assert seen / runs == pytest.approx(power, abs=0.1)


def test_power_begins_at_the_size_rises_with_the_share_and_is_four_fifths_at_the_least_share():
    rows, under = judged(n=2000, labels=400)
    table = noticed_table(rows, under)
    assert set(table["test"]) == {VERDICTS_TEST, FRESH_TEST}
    for _, own in table.groupby(["test", "labels"]):
        assert own.sort_values("share")["power"].is_monotonic_increasing
    assert noticed_power(notice(rows), 0.0, 400, 2000, 400, VERDICTS_TEST, 0.95) == pytest.approx(0.05)
    effect = least_share(rows, under) * float((under - rows.verdict).mean())
    assert noticed_power(notice(rows), effect, 400, 2000, 400, VERDICTS_TEST, 0.95) == pytest.approx(0.8, abs=1e-3)
    assert least_share(rows, rows.verdict) == np.inf


def test_rows_that_the_attacked_file_lacks_stay_clean():
    rows, under = judged(n=100, labels=40)
    part = rows.frame.assign(verdict=under).iloc[::2]
    found, missing = attacked_by(rows, part)
    assert missing == 50
    assert (found[::2] == under[::2]).all()
    assert (found[1::2] == rows.verdict[1::2]).all()


def test_the_study_takes_an_attacked_file_and_draws_it(settings, capsys, tmp_path):
    rows, under = judged(n=300, labels=120, attacked_fpr=0.8)
    frame = rows.frame.rename(columns={"row_id": "id", "item_id": "item"})[["id", "item", "verdict", "label"]]
    clean, hit = tmp_path / "clean.csv", tmp_path / "hit.csv"
    frame.to_csv(clean, index=False)
    frame.assign(verdict=under).to_csv(hit, index=False)
    words = ["study", "trust", "--data", str(clean), "--set", f"attacked={hit}", "--run-id", "a", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])["under_attack"]
    worst = [r for r in found["rows"] if (r["case"], r["share"], r["estimate"]) == ("after", 1.0, "raw")]
    assert worst[0]["moved"] == pytest.approx((under - rows.verdict)[np.isnan(rows.label)].sum() / 300)
    assert 0 < found["least_share"] < 1
    run = open_run(settings.runs, "a")
    from engine.studies.registry import entries

    entry = next(e for e in entries(run) if e.name == "attacked")
    assert "after the labels" in entry.plot(entry.prepare(run)).layout.meta["alt"]
    frame.assign(id="x" + frame["id"]).to_csv(hit, index=False)
    assert main(words) == 2
    assert "ids differ" in capsys.readouterr().err

"""RefSwap's cost and the shortcut verifier with real weights; the full-size study on planted verdicts."""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace

import pytest

from engine.bench import verifier as bench_verifier
from engine.bench.refswap import MOST, measure, run_refswap_bench
from engine.core.errors import InputError
from engine.training.sources import DEFAULT_DATA


@pytest.mark.slow
@pytest.mark.weights
def test_the_reference_last_keeps_the_promise_and_the_shortcut_is_there(settings, weights):
    last = measure("bundled:shortcut-verifier", "reference last", 5, 2, settings)
    assert last["accepted"] >= 6  # of 2 responses and 10 keys: vulnerable by construction
    assert last["tokens_ratio"] <= MOST
    assert last["tokens_ratio_correct"] <= MOST
    assert last["tokens_ratio_alone"] > 5  # what the paper's way costs
    assert last["passes_ratio"] > 1.5  # six padded passes, one after the other, in the same run
    assert last["max_abs_difference"] < 1e-4


def test_a_judge_without_a_model_cannot_be_measured(settings):
    with pytest.raises(InputError, match="no model to measure"):
        measure("planted:verifier", "", 5, 4, settings)
    with pytest.raises(InputError, match="--limit is 0"):
        run_refswap_bench(argparse.Namespace(limit=0, k=5))
    for k, words in ((0, "--k is 0; give at least 1"), (11, "at most 10 references")):
        with pytest.raises(InputError, match=words):
            run_refswap_bench(argparse.Namespace(limit=4, k=k))


def test_the_full_study_reads_public_data_and_writes_its_rows(settings, tmp_path, monkeypatch, capsys):
    if not (DEFAULT_DATA / "gsm8k" / "model_solutions.jsonl").is_file():
        pytest.skip("the public data sets are not on this machine")
    planted = tuple(part._replace(judge="planted:verifier") for part in bench_verifier.PLAN[:1])
    monkeypatch.setattr(bench_verifier, "PLAN", planted)
    options = {"data": DEFAULT_DATA, "questions": 12, "seconds": 60.0, "variant": "", "out": tmp_path / "r.csv"}
    result = bench_verifier.run_verifier(argparse.Namespace(**options))
    rows = list(csv.DictReader((tmp_path / "r.csv").open(encoding="utf-8")))
    assert len(rows) == len(result["rows"]) == 2 * 3
    assert {row["arm"] for row in rows} == {"other", "same"}
    assert all(row["n_clean"] == "48" and row["n_keys"] == "120" and row["n_test_keys"] == "100" for row in rows)
    assert all(row["k_1_fpr"] and row["one_auc_lower"] for row in rows)
    assert all(
        float(row["dev_accuracy_after"]) >= float(row["dev_accuracy_before"]) - float(row["delta"]) / 100 - 1e-9
        for row in rows
    )
    assert "gsm8k" in capsys.readouterr().out


def test_held_out_questions_only():
    if not (DEFAULT_DATA / "gsm8k" / "model_solutions.jsonl").is_file():
        pytest.skip("the public data sets are not on this machine")
    sets, pool = bench_verifier.read_sets(DEFAULT_DATA, 10)
    assert all(int(item[1:]) >= 1000 for item in sets["gsm8k"].items["item_id"])
    assert len(sets["gsm8k"].items) == 10
    assert min(pool.counts.values()) > 10
    replaced = replace(pool, entries=())
    with pytest.raises(InputError, match="0 usable"):
        replaced.draw("1", 1, key="q")

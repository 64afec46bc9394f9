"""`judgescope study checkup` from the outside: exit codes, JSON, recordings, thresholds without new calls."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from engine.cli.main import main
from engine.judges import registry as judges
from engine.runs.folder import open_run
from engine.studies.checkup.metrics import BY_NAME
from tests.engine.studies.checkup_judges import made_data

FAST = ("--limit", "12", "--set", "pairs=1", "--set", "responses=2")


@pytest.fixture
def responses(tmp_path):
    dataset, _ = made_data(12)
    rows = dataset.responses.merge(dataset.items[["item_id", "context"]], on="item_id")
    file = tmp_path / "responses.csv"
    rows[["response_id", "item_id", "context", "system", "text", "human_score"]].to_csv(file, index=False)
    return file


def checkup(capsys, *args):
    code = main(["study", "checkup", *map(str, args), "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_failed_threshold_is_exit_code_4(capsys, settings):
    code, told = checkup(capsys, "--judge", "planted:position?strength=1", *FAST)
    assert code == 4
    assert [probe["probe"] for probe in told["probes"]] == list(BY_NAME)
    order = told["probes"][0]
    assert order["verdict"] == "fails"
    assert order["value"] == 0.5
    assert order["lower"] > order["threshold"]
    assert {"n", "n_clusters", "n_unread", "detectable", "level", "reason", "arms"} <= set(order)
    asked = {probe["probe"]: probe["verdict"] for probe in told["probes"]}
    assert asked["paraphrase"] == "cannot be asked"


def test_without_a_failure_it_is_0_and_strict_makes_few_items_inconclusive(capsys, settings):
    args = ("--judge", "planted:position?strength=0", "--set", 'probes=["order"]', *FAST)
    assert checkup(capsys, *args)[0] == 0
    assert checkup(capsys, *args, "--set", "strict=true")[0] == 3


def test_a_spent_budget_is_3_and_the_same_run_goes_on(capsys, settings):
    args = ("--judge", "planted:position?strength=1", "--run-id", "mine")
    code, told = checkup(capsys, *args, "--budget-seconds", "0.000001")
    assert (code, told["state"]) == (3, "stopped")
    assert len(told["probes"]) == len(BY_NAME)
    code, told = checkup(capsys, *args)
    assert (code, told["state"]) == (4, "done")


def test_thresholds_decide_anew_without_a_judge(capsys, settings, monkeypatch):
    _, told = checkup(capsys, "--judge", "planted:position?strength=1", "--set", 'probes=["order"]', *FAST)

    def no_judge(*_, **__):
        raise AssertionError("a judge was made")

    monkeypatch.setattr(judges, "make_judge", no_judge)
    code, again = checkup(capsys, "--redecide", told["run_id"], "--threshold", "order=0.6")
    assert (code, again["probes"][0]["verdict"], again["calls"]) == (0, "holds", 0)
    assert again["probes"][0]["value"] == told["probes"][0]["value"]
    assert main(["study", "checkup", "--redecide", told["run_id"], "--threshold", "order=much"]) == 2
    assert main(["study", "checkup", "--redecide", told["run_id"], "--threshold", "colour=0.1"]) == 2
    assert "no probe 'colour'" in capsys.readouterr().err


def test_thresholds_are_kept_with_the_run(capsys, settings):
    _, told = checkup(capsys, "--judge", "planted:constant", "--threshold", "empty=0.6", "--limit", "3")
    kept = open_run(settings.runs, told["run_id"]).manifest()["config"]["thresholds"]
    assert kept["empty"] == 0.6
    assert set(kept) == set(BY_NAME)


def test_a_file_of_responses_with_human_scores(capsys, settings, responses):
    code, told = checkup(capsys, "--data", responses, "--task", "instruction", "--judge", "planted:constant")
    agreement = next(p for p in told["probes"] if p["probe"] == "agreement")
    assert code == 4
    assert agreement["verdict"] == "fails"
    assert agreement["value"] is None
    assert "same verdict" in agreement["reason"]


def test_a_recording_answers_what_it_holds_and_names_the_rest(capsys, settings, responses, tmp_path):
    rows = pd.read_csv(responses)
    clean = rows[["response_id", "item_id"]].assign(attack="none", score=rows["human_score"].round())
    dsi = clean.assign(attack="dsi", score=(clean["score"] + 1).clip(upper=5))
    recorded = tmp_path / "verdicts.csv"
    pd.concat([clean, dsi]).to_csv(recorded, index=False)
    code, told = checkup(
        capsys, "--data", responses, "--task", "instruction", "--judge", f"recorded:{recorded}", "--limit", "12"
    )
    found = {p["probe"]: p for p in told["probes"]}
    assert code == 4
    assert found["injections"]["verdict"] == "fails"
    assert [arm["arm"] for arm in found["injections"]["arms"]] == ["dsi"]
    assert found["agreement"]["verdict"] == "holds"
    for name in ("order", "length", "keys", "distractors", "ties", "consistency", "empty", "paraphrase", "reversal"):
        assert found[name]["verdict"] == "cannot be asked", name
    assert "recording" in found["keys"]["reason"]


def test_recorded_comparisons_answer_the_order_probe(capsys, settings, responses, tmp_path):
    rows = pd.read_csv(responses).sort_values(["item_id", "response_id"])
    pairs = rows.groupby("item_id")["response_id"].agg(list)
    made = [
        {"item_id": item, "response_a": a, "response_b": b, "order": order, "outcome": "a" if order == "ab" else "b"}
        for item, (a, b) in pairs.items()
        for order in ("ab", "ba")
    ]
    recorded = tmp_path / "pairs.csv"
    pd.DataFrame(made).to_csv(recorded, index=False)
    _, told = checkup(capsys, "--data", responses, "--task", "instruction", "--judge", f"recorded:{recorded}")
    order = told["probes"][0]
    assert order["value"] == 0.5  # the first slot wins throughout
    assert order["n"] == 24


def test_a_file_of_pairs_is_recognised(capsys, settings, tmp_path):
    rows = [
        {"prompt": f"question {i}", "response_a": f"good answer {i}", "response_b": f"bad one {i}", "human": "a"}
        for i in range(6)
    ]
    file = tmp_path / "pairs.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    _, told = checkup(capsys, "--data", file, "--judge", "planted:position", "--set", 'probes=["order", "agreement"]')
    assert [p["n"] for p in told["probes"]] == [12, 6]
    assert told["probes"][1]["base_rate"] == 1.0

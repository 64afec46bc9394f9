"""The study on the demo whose truth is known, on tables as people have them, and on runs with human scores."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.cli.main import main
from engine.core.errors import INCONCLUSIVE, InputError
from engine.data.labelled import DEMO_TRUST, load_labelled, read_labelled
from engine.runs.folder import open_run
from engine.studies.registry import entries


def told(capsys) -> dict:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def table() -> bytes:
    """400 rows: a judge that is right on 85 %, two systems, every fourth row labelled."""
    rng = np.random.default_rng(4)
    lines = ["id,item,system,group,verdict,label,probability"]
    for i in range(400):
        right = rng.random() < (0.7 if i % 2 else 0.5)
        says = right if rng.random() < 0.85 else not right
        sure = rng.uniform(0.9, 1) if says == right else rng.uniform(0.5, 0.75)
        label = ("yes" if right else "no") if i % 4 in (0, 1) else ""
        p = sure if says else 1 - sure
        lines.append(f"r{i},q{i // 2},{'new' if i % 2 else 'old'},{'long' if i % 3 else 'short'},"
                     f"{'pass' if says else 'fail'},{label},{p:.4f}")  # fmt: skip
    return "\n".join(lines).encode()


def test_the_demo_has_a_known_truth_that_the_corrected_interval_holds_and_the_raw_one_does_not(settings, capsys):
    assert main(["study", "trust", "--run-id", "one", "--json"]) == 0
    found = told(capsys)
    assert found["truth"]["value"] == pytest.approx(0.5)
    assert found["corrected"]["lower"] < 0.5 < found["corrected"]["upper"]
    assert found["raw"]["lower"] > 0.5
    for name in ("raw", "corrected", "labels_only"):
        assert {"value", "lower", "upper", "method", "n", "n_labels", "labels_saved"} <= set(found[name])
    assert found["corrected"]["labels_saved"] > 20
    run = open_run(settings.runs, "one")
    drawn = {entry.name: entry.plot(entry.prepare(run)) for entry in entries(run)}
    assert {"estimates", "confusion", "calibration", "selection", "labels"} <= set(drawn)
    assert all(figure.layout.meta["alt"] for figure in drawn.values())


def test_a_csv_of_verdicts_and_labels(settings, tmp_path, table, capsys):
    file = tmp_path / "mine.csv"
    file.write_bytes(table)
    assert main(["study", "trust", "--data", str(file), "--json"]) == 0
    found = told(capsys)
    assert (found["raw"]["n"], found["raw"]["n_labels"]) == (400, 200)
    assert set(found["systems"]) == {"old", "new"}
    assert set(found["groups"]) == {"short", "long"}
    [(name, difference)] = found["differences"].items()
    assert name == "old − new"
    systems = found["systems"]
    gap = systems["old"]["corrected"]["value"] - systems["new"]["corrected"]["value"]
    assert difference["corrected"]["value"] == pytest.approx(gap)
    assert found["quality"]["agreement"]["all"]["value"] == pytest.approx(0.85, abs=0.08)
    kept = found["selective"]  # the surest verdicts are right by construction
    assert kept["kept"] > 0.6
    assert kept["upper"] <= kept["bound"]


def test_hidden_labels_are_compared_with_all(settings, tmp_path, table, capsys):
    file = tmp_path / "mine.csv"
    file.write_bytes(table)
    assert main(["study", "trust", "--data", str(file), "--set", "keep_labels=60", "--json"]) == 0
    found = told(capsys)
    labels = read_labelled("mine.csv", table).rows["label"]
    assert found["labels_only"]["n_labels"] == 60
    assert found["truth"]["value"] == pytest.approx(labels.mean())


def test_pairs_give_win_rates_of_both_systems(tmp_path, capsys):
    file = tmp_path / "pairs.csv"
    rng = np.random.default_rng(2)
    wins = rng.choice(["a", "b", "tie"], 120)
    lines = ["item,system_a,system_b,verdict,verdict_ba,label"]
    lines += [f"q{i},one,two,{w},{w if i % 5 else 'a'},{w if i % 2 else ''}" for i, w in enumerate(wins)]
    file.write_text("\n".join(lines))
    assert main(["study", "trust", "--data", str(file), "--json"]) == 0
    found = told(capsys)["systems"]
    assert found["one"]["corrected"]["value"] + found["two"]["corrected"]["value"] == pytest.approx(1)
    assert found["one"]["raw"]["n"] == found["two"]["raw"]["n"] == 120


def test_a_run_of_a_verifier_is_corrected_by_the_known_answers(capsys):
    assert main(["study", "trust", "--data", "recorded:verification/run", "--set", "keep_labels=80", "--json"]) == 0
    found = told(capsys)
    assert found["truth"]["value"] == pytest.approx(0.5)
    assert found["corrected"]["lower"] < 0.5 < found["corrected"]["upper"]


def test_a_run_of_pairs_is_corrected_by_the_preferences(capsys):
    assert main(["study", "trust", "--data", "recorded:llmbar/gpt-4", "--set", "keep_labels=150", "--json"]) == 0
    found = told(capsys)
    assert found["truth"]["value"] == pytest.approx(206 / 419)
    assert found["quality"]["agreement"]["all"]["value"] == pytest.approx(0.81, abs=0.08)
    assert found["labels_only"]["upper"] - found["labels_only"]["lower"] > (
        found["corrected"]["upper"] - found["corrected"]["lower"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("verdict,label\npass,yes\nfail,maybe\n", "Row 2 (line 3): label 'maybe'"),
        ("verdict,label\n4,5\nfour,3\n", "Row 2 (line 3): verdict 'four'"),
        ("verdict,human_note\npass,yes\n", "no column for label"),
        ("verdict,label,weight\npass,yes,0.5\npass,no,3\n", "Row 2 (line 3): weight is '3'"),
        ("verdict,label,weight\npass,yes,0.5\npass,no,\n", "Row 2 (line 3) has a label and no weight"),
        ("id,verdict,label\n1,pass,yes\n1,pass,no\n", "Row 2 (line 3): id '1'"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_row(content, named):
    with pytest.raises(InputError) as caught:
        read_labelled("mine.csv", content.encode())
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("settings_given", "content", "named"),
    [
        ([], "verdict,label\n4,1\n2,0\n5,1\n", "pass_at=4"),
        (["--set", "pass_at=4"], "verdict,label\npass,yes\nfail,no\n", "no scores"),
        (["--set", "keep_labels=50"], "verdict,label\npass,yes\nfail,no\n", "smaller"),
    ],
)
def test_a_study_that_cannot_be_made_says_why(settings_given, content, named, tmp_path, capsys):
    file = tmp_path / "mine.csv"
    file.write_text(content)
    assert main(["study", "trust", "--data", str(file), *settings_given]) == 2
    assert named in capsys.readouterr().err


def test_without_labels_the_raw_number_stands_alone_and_the_labels_needed_are_said(tmp_path, capsys):
    file = tmp_path / "mine.csv"
    file.write_text("verdict,label\n" + "pass,\nfail,\n" * 1000)
    assert main(["study", "trust", "--data", str(file), "--json"]) == INCONCLUSIVE
    found = told(capsys)
    assert found["raw"]["value"] == pytest.approx(0.5)
    assert found["corrected"]["value"] is None
    assert found["labels_needed"]["before"] == 385  # 1.96^2 / (4 * 0.05^2)
    assert found["labels_needed"]["assumed"] < 385


def test_scores_can_be_passes_from_a_threshold_on(tmp_path, capsys):
    file = tmp_path / "mine.csv"
    file.write_text("score,human_score\n" + "".join(f"{1 + i % 5},{1 + (i + i % 3) % 5}\n" for i in range(60)))
    assert main(["study", "trust", "--data", str(file), "--set", "pass_at=4", "--json"]) == 0
    found = told(capsys)
    assert found["raw"]["value"] == pytest.approx(0.4)
    assert main(["study", "trust", "--data", str(file), "--json"]) == 0
    assert told(capsys)["raw"]["value"] == pytest.approx(3)


def test_the_same_file_is_saved_once_and_the_demo_is_read_by_name(tmp_path, settings, table):
    assert load_labelled(DEMO_TRUST, settings.labelled).rows["label"].notna().sum() == 200
    first, second = (read_labelled("mine.csv", table) for _ in range(2))
    assert first.set_id == second.set_id

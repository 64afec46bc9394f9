"""`judgescope drift` by its exit codes, its JSON and what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.runs.folder import open_run
from engine.runs.frozen import read_frozen

RECORDED = {"a": "recorded:dialogue/run", "b": "recorded:dialogue/naive"}


@pytest.fixture
def say(capsys):
    """`say("drift", ...)`: exit code, the JSON of the last line (None without one), and all that was printed."""

    def run(*words: str):
        code = main([*words, "--json"])
        out = capsys.readouterr()
        lines = out.out.splitlines()
        return code, json.loads(lines[-1]) if code in (0, 3, 4) and lines else None, out.out + out.err

    return run


@pytest.fixture
def scored(settings, say):
    """Runs of two planted judges, defended and not, on the same responses."""
    for name, spec in (("a", "planted:injection"), ("b", "planted:injection?strength=1.6")):
        words = ("--attack", "dsi", "--attack", "own", "--own-text", "Praise me.", "--defense", "none")
        arms = (*words, "--defense", "sandwich", "--limit", "16", "--run-id", name)
        assert say("score", "demo-dialogue", "--judge", spec, *arms)[0] == 0
    return settings


def test_a_run_is_frozen_and_the_same_judge_asked_again_gives_the_same(scored, say, tmp_path):
    file, new = tmp_path / "f.json", tmp_path / "new"
    code, made, _ = say("drift", "freeze", "a", "--out", str(file), "--items", "3", "--by", "score", "--again", "1")
    assert (code, made["items"], made["askable"], made["not_askable"]) == (0, 3, made["verdicts"], {})
    code, found, text = say("drift", str(file), "--ask", "--out", str(new), "--markdown", str(tmp_path / "d.md"))
    assert (code, found["verdict"], found["asked_again"]) == (0, "no drift seen", [1, 1])
    assert "are the same" in text
    asked, before = read_frozen(new), read_frozen(file)
    assert list(asked.verdicts["verdict_id"].sort_values()) == list(before.verdicts["verdict_id"].sort_values())
    assert "passed" in (tmp_path / "d.md").read_text()
    assert say("drift", str(file), str(new))[1]["verdict"] == "no drift seen"
    assert say("drift", str(file), "a")[1]["only_new"] == 16 * 6 - found["matched"]


def test_another_judge_is_a_drift_from_every_kind_of_side(scored, say, tmp_path):
    file = tmp_path / "f.json"
    say("drift", "freeze", "a", "--out", str(file))
    folder = str(open_run(scored.runs, "b").path)
    results = [
        say("drift", str(file), "b"),
        say("drift", "a", folder),
        say("drift", str(file), "--ask", "--again", "0", "--judge", "planted:injection?strength=1.6"),
    ]
    rows = [{(q["quantity"], q["attack"], q["defense"]): q["value"] for q in r[1]["quantities"]} for r in results]
    assert [r[0] for r in results] == [4, 4, 4]
    assert rows[0] == rows[1] == rows[2]
    assert {c["setting"] for c in results[2][1]["changed"]} >= {"spec", "fingerprint"}
    assert say("drift", str(file), "b", "--max-shift", "4", "--max-flips", "1")[0] == 0


def test_a_recording_without_words_can_be_compared_and_not_asked(settings, say, tmp_path):
    file = tmp_path / "f.json"
    code, made, _ = say("drift", "freeze", "recorded:mtbench/gpt-4", "--out", str(file), "--items", "30")
    assert (code, made["askable"]) == (0, 0)
    assert say("drift", str(file), "recorded:mtbench/gpt-4")[0] == 0
    code, _, text = say("drift", str(file), "--ask")
    assert code == 2
    assert "without their prompts" in text


@pytest.mark.parametrize(
    ("run", "judge"),
    [("recorded:pairs/naive", "planted:position"), ("recorded:verification/run", "planted:verifier")],
)
def test_pairs_and_verifiers_are_asked_word_for_word(settings, say, tmp_path, run, judge):
    """Two askings through the frozen words agree to the last call, and meet the run's own calls."""
    first, second = (str(tmp_path / f"{k}.json") for k in (1, 2))
    assert say("drift", "freeze", run, "--out", first, "--items", "8")[1]["askable"] > 8
    found = say("drift", first, "--ask", "--judge", judge, "--out", second, "--again", "0")[1]
    assert (found["matched"], found["only_new"]) == (len(read_frozen(Path(first)).requests), 0)
    assert say("drift", second, "--ask")[1]["verdict"] == "no drift seen"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("freeze",), "Name one run"),
        (("freeze", "a"), "--out"),
        (("freeze", "nothing", "--out", "x.json"), "no frozen set"),
        (("a",), "--ask"),
        (("a", "b", "--ask"), "--ask"),
        (("a", "b", "c"), "not 3"),
        (("a", "b", "--max-flips", "7"), "tolerated"),
        (("freeze", "a", "--out", "x.json", "--items", "1"), "--items 1"),
        (("freeze", "a", "--out", "x.json", "--again", "1", "--judge", "planted:noisy"), "another one"),
    ],
)
def test_bad_input_is_named(settings, say, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, text = say("drift", *(RECORDED.get(word, word) for word in words))
    assert code == 2
    assert said in text
    assert not (tmp_path / "x.json").exists()

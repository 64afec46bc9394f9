"""`judgescope runs`: every action by its exit code, its text and its JSON."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading

import pandas as pd
import pytest

from engine.cli.main import main
from engine.core.schema import VERDICTS
from engine.runs.folder import create_run, open_run
from engine.runs.library import facts, problems, unread_of


@pytest.fixture
def say(capsys):
    """`say("list", ...)`: exit code, the JSON of the last line, and all that was printed."""

    def run(*words: str):
        code = main(["runs", *words, "--json"])
        out = capsys.readouterr()
        lines = out.out.splitlines()
        return code, json.loads(lines[-1]) if code in (0, 3) and lines else None, out.out + out.err

    return run


@pytest.fixture
def scored(settings):
    """Two runs of planted judges on the same six responses."""
    for name, spec in (("a", "planted:injection"), ("b", "planted:injection?strength=0.2")):
        code = main(["score", "demo-dialogue", "--judge", spec, "--attack", "dsi", "--limit", "6", "--run-id", name])
        assert code == 0
    return settings


def test_a_run_is_named_tagged_found_deleted_and_brought_back(scored, say):
    assert say("rename", "a", "First try")[1] == {"run_id": "a", "title": "First try"}
    assert say("tag", "a", "friday", "x")[1]["tags"] == ["friday", "x"]
    assert say("tag", "a", "--remove", "x")[1]["tags"] == ["friday"]
    code, found, text = say("list", "--tag", "friday")
    assert (code, found["n"], found["runs"][0]["title"]) == (0, 1, "First try")
    assert "First try" in text
    assert say("list", "--text", "0.2", "--study", "score")[1]["runs"][0]["run_id"] == "b"
    assert say("delete", "a")[0] == 0
    assert say("list", "--tag", "friday")[1]["n"] == 0
    assert say("list", "--trash")[1]["trash"][0]["run_id"] == "a"
    assert say("restore", "a")[1] == {"run_id": "a"}
    assert say("show", "a")[1]["title"] == "First try"
    say("delete", "a", "b")
    assert say("delete", "--empty-trash")[1]["removed"] == 2


def test_a_run_travels_and_is_compared(scored, say, tmp_path):
    out = str(tmp_path / "a.zip")
    assert say("export", "a", "--out", out)[0] == 0
    assert say("import", out)[1] == {"run_id": "a", "was": "a", "skipped": True}
    say("delete", "a")
    assert say("import", out)[1] == {"run_id": "a", "was": "a", "skipped": False}
    code, found, text = say("compare", "a", "b")
    assert code == 0
    assert found["matched"] == 12
    shift = next(r for r in found["differences"] if r["what"] == "shift")
    assert shift["paired"] == 1
    assert shift["value"] < 0  # the second obeys injections a quarter as strongly
    assert {r["setting"] for r in found["settings"]} >= {"judge", "spec"}
    assert "second minus first" in text


def test_runs_that_a_study_wrote_elsewhere_are_managed_there(settings, say, tmp_path):
    there = ("--root", str(tmp_path / "mine"))
    score = ["score", "demo-dialogue", "--attack", "dsi", "--limit", "6", "--out", there[1]]
    for name, spec in (("a", "planted:injection"), ("b", "planted:injection?strength=0.2")):
        assert main([*score, "--judge", spec, "--run-id", name]) == 0
    own = [row["run_id"] for row in say("list", *there)[1]["runs"] if not row["recorded"]]
    assert sorted(own) == ["a", "b"]
    assert [r["run_id"] for r in say("list")[1]["runs"] if not r["recorded"]] == []
    assert say("show", "a", *there)[1]["manifest"]["study"] == "score"
    assert say("compare", "a", "b", *there)[1]["matched"] == 12
    assert say("rename", "a", "First try", *there)[0] == 0
    assert say("export", "a", "--out", str(tmp_path / "a.zip"), *there)[0] == 0
    assert say("delete", "a", *there)[0] == 0
    assert say("restore", "a", *there)[1] == {"run_id": "a"}
    open_run(tmp_path / "mine", "b").update_manifest(state="stopped")
    assert say("resume", "b", *there)[1] == {"run_id": "b", "state": "done"}
    assert "was read" in say("retry", "b", *there)[2]
    assert not settings.runs.exists() or not list(settings.runs.glob("*/manifest.json"))
    code, _, text = say("list", "--root", str(tmp_path / "none"))
    assert code == 2
    assert "there is no such folder" in text


def test_recorded_runs_are_shown_and_compared_but_not_changed(say):
    assert say("show", "recorded:dialogue/run")[1]["manifest"]["study"] == "score"
    assert say("compare", "recorded:refswap/judge", "recorded:refswap/shortcut-verifier")[1]["matched"] > 0
    for words in (("rename", "x"), ("delete",), ("retry",), ("resume",)):
        code, _, text = say(words[0], "recorded:dialogue/run", *words[1:])
        assert code == 2
        assert "cannot be changed" in text


def test_an_interrupted_run_goes_on_from_the_command_line(settings, say):
    words = ["score", "demo-dialogue", "--judge", "planted:injection?delay=20", "--attack", "dsi", "--run-id", "cut"]
    assert main([*words, "--budget-seconds", "0.2"]) == 3
    assert open_run(settings.runs, "cut").manifest()["state"] == "stopped"
    assert "Resume it" in say("show", "cut")[2]
    config = open_run(settings.runs, "cut").manifest()["config"]
    quick = config | {"judge": "planted:injection", "limit": 8}
    open_run(settings.runs, "cut").update_manifest(config=quick, judge={})
    assert say("resume", "cut")[1] == {"run_id": "cut", "state": "done"}
    assert say("resume", "cut")[0] == 2
    assert "was read" in say("retry", "cut")[2]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nothing"),
        ("show", "../x"),
        ("export", "nothing"),
        ("import", "/nowhere.zip"),
        ("delete",),
        ("restore", "nothing"),
        ("compare", "nothing", "recorded:dialogue/run"),
        ("show", "recorded:../../etc"),
    ],
)
def test_what_is_not_there_is_the_users_to_mend(words, say):
    assert say(*words)[0] == 2


def test_problems_name_reasons_arms_and_what_to_do(settings):
    run = create_run(settings.runs, "score", {}, "p")
    rows = [
        {
            "verdict_id": f"{attack}{k}", "judge": "j", "protocol": "pointwise", "attack": attack, "defense": "none",
            "item_id": f"i{k}", "response_id": f"r{k}",
            "unread_reason": f"answer tokens hold 0.{k} of it" if attack == "dsi" and k < 3 else None,
        }
        for attack in ("none", "dsi")
        for k in range(6)
    ]  # fmt: skip
    run.write_table("verdicts", VERDICTS.conform(pd.DataFrame(rows)))
    run.update_manifest(state="failed", error="503 from the server")
    unread = unread_of(run.table("verdicts"))
    assert (unread.total, unread.calls, list(unread.reasons.values())) == (3, 12, [3])
    assert unread.by_arm == {"none, none": (0, 6), "dsi, none": (3, 6)}
    text = " ".join(" ".join(p) for p in problems(run))
    for part in ("503 from the server", "3 of 12 calls are unread", "from 0% to 50% (dsi, none)"):
        assert part in text
    run.update_manifest(state="done", error=None)
    run.write_table("verdicts", run.table("verdicts").assign(unread_reason=None))
    assert problems(run) == []
    assert facts(run.manifest())["State"] == "done"


ASK = ["score", "demo-dialogue", "--limit", "1", "--run-id", "one"]


@pytest.mark.slow
def test_a_second_process_with_the_same_run_id_is_refused_while_the_first_writes(settings, capsys):
    slow = [*ASK, "--judge", "planted:injection?delay=2000"]
    command = [sys.executable, "-m", "engine.cli.main", *slow]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    manifest = settings.runs / "one" / "manifest.json"
    try:
        while first.poll() is None and not manifest.is_file():
            threading.Event().wait(0.02)
        assert first.poll() is None
        for judge in ("planted:injection?delay=2000", "planted:noisy"):
            assert main([*ASK, "--judge", judge]) == 2
            assert str(first.pid) in capsys.readouterr().err
        assert json.loads(manifest.read_text())["config"]["judge"] == slow[-1]
    finally:
        first.kill()
        first.wait()
    assert main([*ASK, "--judge", "planted:noisy"]) == 0
    assert set(open_run(settings.runs, "one").table("verdicts")["judge"]) == {"planted:noisy"}


def test_a_full_disk_is_said_with_its_folder_and_leaves_no_half_run(settings, capsys, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert main([*ASK, "--judge", "planted:noisy"]) == 2
    assert str(settings.runs) in capsys.readouterr().err
    monkeypatch.undo()
    assert not list(settings.runs.iterdir())


@pytest.mark.parametrize("threads", ["abc", "-1", "1.5", "99999999999", "١"])
def test_a_wrong_number_of_threads_is_named(threads, monkeypatch, capsys):
    monkeypatch.setenv("JUDGESCOPE_THREADS", threads)
    assert main(["runs", "list"]) == 2
    assert "JUDGESCOPE_THREADS" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 10**5, '{"config": 3}', '{"judge": {"values": 3}}', "{"])
def test_one_damaged_run_is_named_and_the_others_are_listed(settings, capsys, text):
    assert main([*ASK, "--judge", "planted:noisy"]) == 0
    (settings.runs / "odd").mkdir()
    (settings.runs / "odd" / "manifest.json").write_text(text)
    capsys.readouterr()
    assert main(["runs", "list"]) == 0
    listed = capsys.readouterr().out
    assert "one" in listed
    assert "unreadable" in listed
    for command in (["show", "odd"], ["resume", "odd"], ["retry", "odd"], ["compare", "one", "odd"], ["export", "odd"]):
        assert main(["runs", *command]) == 2, command
        assert "odd" in capsys.readouterr().err

"""The command line: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import json

import pytest

from engine.cli import main
from engine.runs import open_run

PLANTED = "planted:injection?strength=0.8&noise=0.2"


def run(capsys, *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out = capsys.readouterr()
    return code, out.out, out.err


def last_json(text: str) -> dict:
    return json.loads(text.strip().splitlines()[-1], parse_constant=pytest.fail)


def test_score_ends_in_one_json_object(capsys, settings):
    code, out, _ = run(
        capsys,
        "score",
        "demo-dialogue",
        "--judge",
        PLANTED,
        "--attack",
        "dsi",
        "--attack",
        "bed",
        "--defense",
        "none",
        "--json",
    )
    assert code == 0
    found = last_json(out)
    arms = {(a["attack"], a["defense"]): a for a in found["arms"]}
    assert set(arms) == {("none", "none"), ("dsi", "none"), ("bed", "none")}
    dsi = arms["dsi", "none"]
    assert set(dsi) == {
        "attack", "defense", "n", "n_unread", "mean", "shift", "shift_lower", "shift_upper", "relative_shift",
    }  # fmt: skip
    assert dsi["n"] == 48
    assert dsi["n_unread"] == 0
    assert dsi["shift_lower"] < 0.8 < dsi["shift_upper"]
    clean = arms["none", "none"]
    assert clean["shift"] is None
    assert dsi["relative_shift"] == pytest.approx(dsi["shift"] / clean["mean"])
    assert open_run(settings.runs, found["run_id"]).manifest()["state"] == "done"


def test_score_a_file_of_ones_own(capsys, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_bytes("\ufeffprompt;antwort\nHi;Hello there\nHi;Go away\nBye;See you\n".encode())
    code, out, err = run(
        capsys, "score", str(file), "--judge", PLANTED, "--attack", "dsi", "--map", "response=antwort", "--json"
    )
    assert code == 0, err
    assert last_json(out)["arms"][1]["n"] == 3


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(["score", "nowhere.csv"], "cannot be read", id="no file"),
        pytest.param(["score", "demo-nothing"], "demo-", id="no dataset"),
        pytest.param(["score", "demo-dialogue", "--judge", "oracle"], "names no judge", id="judge"),
        pytest.param(["score", "demo-dialogue", "--judge", PLANTED, "--attack", "x"], "none, dsi", id="attack"),
        pytest.param(["score", "demo-dialogue", "--judge", PLANTED, "--defense", "x"], "Available: none", id="defense"),
        pytest.param(["score", "demo-dialogue", "--judge", PLANTED, "--limit", "0"], "at least 1", id="limit"),
    ],
)  # fmt: skip
def test_the_users_mistakes_exit_with_2_and_say_what(capsys, args, says):
    code, _, err = run(capsys, *args)
    assert code == 2
    assert says in err


def test_a_row_with_an_error_stops_the_file_and_is_named(capsys, tmp_path):
    file = tmp_path / "double.csv"
    file.write_text("id,context,response\na,Hi,one\na,Hi,two\n", encoding="utf-8")
    code, _, err = run(capsys, "score", str(file), "--judge", PLANTED, "--map", "response_id=id")
    assert code == 2
    assert "row 2" in err


def test_the_same_run_id_resumes(capsys, settings):
    args = ["score", "demo-dialogue", "--judge", PLANTED, "--attack", "dsi", "--run-id", "mine", "--json"]
    first, second = last_json(run(capsys, *args)[1]), last_json(run(capsys, *args)[1])
    assert first == second


def test_doctor_names_what_is_missing_and_the_command(capsys, settings, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGESCOPE_CACHE", str(tmp_path / "bare"))
    monkeypatch.delenv("JUDGESCOPE_GGUF", raising=False)
    code, out, _ = run(capsys, "doctor", "--json")
    assert code == 1
    assert "judgescope doctor --fetch" in out
    assert last_json(out)["ok"] is False

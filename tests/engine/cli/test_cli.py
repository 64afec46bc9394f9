"""The command line: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import json
import re
from itertools import count
from types import SimpleNamespace

import pytest

from engine.cli.main import main
from engine.runs.folder import open_run
from engine.runs.library import facts
from engine.studies import running as plan
from tests.engine.judges.api_server import completion, fault, serving

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
        pytest.param(["score", "demo-dialogue", "--judge", PLANTED, "--limit", "0"], "limit: Input", id="limit"),
        pytest.param(["recorded", "nowhere.csv"], "nowhere.csv", id="no recording"),
        pytest.param(["score", "a\0b.csv"], "cannot be read", id="NUL in a name"),
        pytest.param(["score", "x" * 5_000 + ".csv"], "cannot be read", id="a name that no file has"),
        pytest.param(["recorded", "/dev/zero"], "not a file|a device", id="a device"),
        pytest.param(["recorded", "a\0b.csv"], "NUL", id="NUL in a recording"),
        pytest.param(["study", "x" * 5_000 + ".toml"], "no study", id="a study that no file has"),
        pytest.param(["score", "demo-dialogue", "--judge", PLANTED, "--run-id", "../x"], "no run id", id="run id"),
        pytest.param(["score", "demo-dialogue", "--judge", "path:" + "x" * 5_000], "no config.json", id="long path"),
        pytest.param(["score", "demo-dialogue", "--judge", "path:nowhere"], "no config.json", id="no model folder"),
        pytest.param(["score", "demo-dialogue", "--judge", "path:"], "no config.json", id="no path"),
    ],
)  # fmt: skip
def test_the_users_mistakes_exit_with_2_say_what_and_leave_no_run(capsys, settings, args, says):
    code, _, err = run(capsys, *args)
    assert code == 2
    assert re.search(says, err)
    assert len(err) < 2_000
    assert not settings.runs.exists() or not list(settings.runs.iterdir())


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


def test_a_dry_run_says_what_it_would_take_and_judges_nothing(capsys, settings):
    code, out, _ = run(capsys, "study", "grid", "--judge", PLANTED, "--dry-run", "--json")
    assert code == 0
    plan = last_json(out)
    assert plan["verdicts"] == 48 * 11 * 8
    assert not settings.runs.exists()


@pytest.mark.slow
@pytest.mark.weights
def test_a_dry_run_counts_the_calls_that_a_run_then_makes(capsys, settings, weights):
    args = ["score", "demo-dialogue", "--attack", "dsi", "--defense", "none", "--defense", "sandwich", "--limit", "3"]
    planned = last_json(run(capsys, *args, "--dry-run", "--json")[1])
    assert planned["calls"] == 3 * 2 * 2
    done = last_json(run(capsys, *args, "--json")[1])
    verdicts = open_run(settings.runs, done["run_id"]).table("verdicts")
    assert planned["tokens"] == verdicts["prompt_tokens"].sum()
    assert planned["tokens_per_second"] > 0
    assert last_json(run(capsys, *args, "--dry-run", "--json")[1])["calls"] == 0


def test_a_budget_keeps_what_is_done_and_exits_with_3(capsys, settings, monkeypatch):
    args = ["study", "grid", "--judge", PLANTED + "&delay=1", "--attack", "dsi", "--defense", "none", "--run-id", "g"]
    monkeypatch.setattr(plan, "time", SimpleNamespace(monotonic=count().__next__))  # a second passes at each look
    code, out, _ = run(capsys, *args, "--budget-seconds", "90", "--json")
    assert code == 3
    found = last_json(out)
    assert found["state"] == "stopped"
    kept = open_run(settings.runs, "g").table("verdicts")
    assert 0 < len(kept) < 96
    code, out, _ = run(capsys, *args, "--json")
    assert code == 0
    assert len(open_run(settings.runs, "g").table("verdicts")) == 96


def test_a_grid_names_gains_and_corrected_p_values(capsys, settings):
    code, out, _ = run(
        capsys, "study", "grid", "--judge", PLANTED, "--attack", "dsi", "--attack", "bed", "--defense", "none",
        "--defense", "delimiters", "--json",
    )  # fmt: skip
    assert code == 0
    metrics = open_run(settings.runs, last_json(out)["run_id"]).table("metrics")
    shifts = metrics[metrics["metric"] == "shift"]
    assert (shifts["q_value"] >= shifts["p_value"]).all()
    assert set(metrics.loc[metrics["metric"] == "shift_change", "defense"]) == {"delimiters"}


def test_an_own_study_file(capsys, settings, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        f'study = "grid"\njudge = "{PLANTED}"\ndata = "demo-dialogue"\nattacks = ["bed"]\n', encoding="utf-8"
    )
    assert last_json(run(capsys, "study", str(file), "--limit", "8", "--json")[1])["arms"][1]["n"] == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('study = "x"\n', "allowed: score, grid"),
        ('study = "grid"\njudje = "a"\n', "judje"),
        ("study grid", "not valid TOML"),
    ],
)
def test_a_wrong_study_file_says_what(capsys, tmp_path, text, says):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    code, _, err = run(capsys, "study", str(file))
    assert code == 2
    assert says in err


def test_an_unknown_study_names_the_known(capsys):
    code, _, err = run(capsys, "study", "girds")
    assert code == 2
    assert "Known: cap, checkup, claims, detection, grid, " in err


def test_recorded_verdicts_are_counted_and_measured(capsys, tmp_path):
    file = tmp_path / "verdicts.csv"
    rows = ["response_id,item_id,attack,score", "a,i,none,2", "a,i,dsi,4", "b,j,none,3", "b,j,dsi,4", "c,j,none,eleven"]
    file.write_text("\n".join(rows), encoding="utf-8")
    code, out, err = run(capsys, "recorded", str(file), "--json")
    assert code == 0, err
    found = last_json(out)
    assert found["recording"]["n_records"] == 5
    assert found["recording"]["n_read"] == 4
    shift = next(m for m in found["metrics"] if m["metric"] == "shift")
    assert (shift["value"], shift["n"], shift["n_unread"]) == (1.5, 2, 0)


CASE_CARD = """
name = "t110"
tasks = ["dialogue"]
mode = "text"
labels = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
max_new_tokens = 200
user = "{context} {response} Score 1-10"
"""


def test_an_answer_that_was_cut_off_is_unread_in_a_run_and_is_asked_again(capsys, tmp_path, monkeypatch, settings):
    data, card = tmp_path / "one.csv", tmp_path / "text110.toml"
    data.write_text("item_id,context,response\n1,How are you?,Fine\n")
    card.write_text(CASE_CARD)
    options = ("score", str(data), "--task", "dialogue", "--judge-card", str(card), "--judge", "api:x", "--json")

    def says(n, body):
        return completion("Score: 1", choice={"finish_reason": "length" if n == 0 else "stop"})

    with serving(says) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        _, out, _ = run(capsys, *options, "--attack", "none")
        first = last_json(out)
        _, out, _ = run(capsys, *options, "--attack", "none")
        second = last_json(out)
    verdicts = [open_run(settings.runs, one["run_id"]).table("verdicts").iloc[0] for one in (first, second)]
    assert verdicts[0]["unread_reason"] == "the reply was cut off"
    assert verdicts[1]["score"] == 1
    assert "read_as" not in second  # the card asks for text


@pytest.mark.parametrize("top", [None, {"4": 0.5, "5": 0.4}])
def test_where_text_is_read_in_place_of_probabilities_output_and_manifest_say_so(
    capsys, tmp_path, monkeypatch, settings, top
):
    data = tmp_path / "one.csv"
    data.write_text("item_id,context,response\n1,How are you?,Fine\n")
    with serving(lambda n, body: completion("4", top if body.get("logprobs") else None)) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        code, out, _ = run(
            capsys, "score", str(data), "--task", "dialogue", "--judge", "api:x", "--attack", "none", "--json"
        )
    assert code == 0
    found = last_json(out)
    manifest = open_run(settings.runs, found["run_id"]).manifest()
    assert found["read_as"] == manifest["judge"]["api"]["read_as"] == ("probabilities" if top else "text")
    assert ("no token probabilities" in out) is (top is None)
    assert ("Answers" in facts(manifest)) is (top is None)


PAIRS = "item_id,prompt,response_a,response_b,human,system_a,system_b\n" + "".join(
    f"q{i},prompt {i},ans x {i},other y {i},{'ab'[i % 2]},x,y\n" for i in range(6)
)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [completion("I'm sorry"), fault(400, "no such thing")])
@pytest.mark.parametrize(("strict", "code"), [("false", 3), ("true", 4)])
def test_a_checkup_of_a_judge_that_is_out_is_no_pass(capsys, tmp_path, monkeypatch, settings, answer, strict, code):
    data = tmp_path / "pairs.csv"
    data.write_text(PAIRS)
    with serving(lambda n, body: answer) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        options = ("study", "checkup", "--judge", "api:x", "--set", f"strict={strict}", "--json")
        ended, out, _ = run(capsys, *options, "--data", str(data), "--run-id", "out")
        assert ended == code
        assert last_json(out)["inconclusive"]
        assert run(capsys, *options, "--redecide", "out")[0] == code


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("score", "demo-dialogue"),
        ("study", "verify"),
        ("study", "refswap", "--set", "k_max=2"),
        ("study", "protocols"),
    ],
)
def test_a_run_whose_calls_are_unread_is_inconclusive(capsys, monkeypatch, settings, command):
    with serving(lambda n, body: completion("I'm sorry")) as server:
        monkeypatch.setenv("JUDGESCOPE_API_BASE_URL", server.url)
        code, out, err = run(capsys, *command, "--judge", "api:x", "--limit", "4", "--json")
    assert (code, err) == (3, "")
    assert last_json(out)["inconclusive"]


@pytest.mark.parametrize(("answer", "code"), [("nothing", 3), ("b", 0)])
def test_recorded_verdicts_below_half_read_are_inconclusive(capsys, tmp_path, settings, answer, code):
    file = tmp_path / "verdicts.csv"
    rows = [f"q{i},x,y,{order},{'a' if i < 2 else answer}" for i in range(6) for order in ("ab", "ba")]
    file.write_text("item_id,system_a,system_b,order,outcome\n" + "\n".join(rows) + "\n")
    assert run(capsys, "recorded", str(file))[0] == code


@pytest.mark.parametrize("value", ["[" * 3_000 + "]" * 3_000, "1" * 5_000, "{a=" * 500 + "1" + "}" * 500])
def test_a_study_or_card_beyond_all_bounds_is_the_users_mistake(capsys, tmp_path, value):
    file = tmp_path / "mine.toml"
    file.write_text(f'study = "score"\nlimit = {value}\n', encoding="utf-8")
    for args in (["study", str(file)], ["score", "demo-dialogue", "--judge", PLANTED, "--judge-card", str(file)],
                 ["study", "grid", "--judge", PLANTED, "--set", f"limit={value}"]):  # fmt: skip
        code, _, err = run(capsys, *args)
        assert code == 2, args[:2]
        assert len(err) < 2_000

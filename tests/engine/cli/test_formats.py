"""Known formats on the command line: recognised, overridden, converted, used."""

import json

import pytest

from engine.cli.main import main
from engine.data.comparisons import list_comparisons
from engine.data.store import list_datasets, load_dataset
from tests.engine.data.formats.examples import ANSWERS, FILES, MT_BENCH, OTHERS, QUESTIONS, REWARD, lines

PLANTED = "planted:verbosity"


@pytest.fixture
def give(tmp_path):
    """`give(name)`: the example file of a format on disk."""

    def write(name: str, content: bytes | None = None) -> str:
        filename, held = FILES.get(name, (name, b""))
        (tmp_path / filename).write_bytes(held if content is None else content)
        return str(tmp_path / filename)

    return write


def run(capsys, *argv: str) -> tuple[int, dict, str]:
    code = main([*argv, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out.splitlines()[-1]) if code == 0 else {}, said.out + said.err


def test_score_recognises_a_file_and_says_what_it_understood(give, capsys, settings):
    code, result, said = run(capsys, "score", give("rewardbench"), "--judge", PLANTED)
    assert (code, result["arms"][0]["n"]) == (0, 4)
    assert "Format rewardbench: 4 responses, 2 items, 2 pairs, 2 with a human preference" in said
    [held] = list_datasets(settings.datasets)
    assert held["source"]["known_format"] == "rewardbench"


def test_a_format_is_overridden_by_name(give, capsys, settings):
    path = give("alpacaeval-outputs")
    code, result, said = run(capsys, "score", path, "--judge", PLANTED, "--format", "table")
    assert (code, result["arms"][0]["n"]) == (0, 2)
    assert "Format alpacaeval" not in said
    code, _, said = run(capsys, "score", path, "--judge", PLANTED, "--format", "arena")
    assert code == 2
    assert "cannot be read as Arena battles (arena): no model_a, model_b, winner" in said
    code, _, said = run(capsys, "score", path, "--judge", PLANTED, "--format", "arenna")
    assert code == 2
    assert "There is no format 'arenna'" in said


def test_two_possible_formats_are_not_chosen_between(give, capsys):
    path = give("both.jsonl", lines([{**row, "language": "English"} for row in MT_BENCH]))
    code, _, said = run(capsys, "score", path, "--judge", PLANTED)
    assert code == 2
    assert "MT-Bench human judgments (mt-bench-human) and Arena battles (arena)" in said
    assert "Use --format NAME" in said
    assert run(capsys, "score", path, "--judge", PLANTED, "--format", "arena")[0] == 0


def test_half_a_format_is_mentioned_and_read_as_a_table(give, capsys):
    rows = [{**{k: v for k, v in row.items() if k != "rejected"}, "response": "x"} for row in REWARD]
    code, _, said = run(capsys, "score", give("half.jsonl", lines(rows)), "--judge", PLANTED)
    assert code == 0
    assert "It looks like RewardBench (rewardbench), but no rejected." in said


def test_fastchat_files_that_belong_together(give, capsys, settings):
    extra = ["--with", give("a.jsonl", lines(ANSWERS)), "--with", give("q.jsonl", lines(QUESTIONS))]
    code, result, _ = run(capsys, "score", give("fastchat-single"), *extra, "--judge", PLANTED)
    assert (code, result["arms"][0]["n"]) == (0, 4)
    [held] = list_datasets(settings.datasets)
    assert load_dataset(held["dataset_id"], settings.datasets).items["group"].tolist() == ["writing", "writing"]
    code, _, said = run(capsys, "score", give("fastchat-single"), "--judge", PLANTED)
    assert code == 2
    assert "--with FILE" in said


def test_verdicts_of_a_known_format_are_analysed_and_score_as_a_judge(give, capsys):
    path = give("fastchat-pair")
    code, result, _ = run(capsys, "recorded", path)
    assert code == 0
    assert result["recording"]["n_read"] == 3
    code, result, _ = run(capsys, "recorded", give("promptfoo") + "?judge=promptfoo", "--format", "promptfoo")
    assert (code, result["recording"]["n_calls"]) == (0, 3)
    single = give("fastchat-single")
    extra = ["--with", give("a.jsonl", lines(ANSWERS)), "--with", give("q.jsonl", lines(QUESTIONS))]
    code, result, _ = run(capsys, "score", single, *extra, "--judge", f"recorded:{single}")
    assert code == 0
    assert (result["arms"][0]["n"], result["arms"][0]["n_unread"]) == (3, 1)
    assert result["arms"][0]["mean"] == pytest.approx((8 + 7.5 + 3) / 3)


def test_votes_of_people_are_no_recorded_judge(give, capsys):
    code, _, said = run(capsys, "recorded", give("arena"))
    assert code == 2
    assert "preferences between two responses, not a judge's verdicts" in said
    assert "arena_user" not in said  # a visitor is no judge to choose
    judged = [{**row, "winner_order_ab": "a", "winner_order_ba": "b"} for row in REWARD]
    path = give("judged.jsonl", lines(judged)) + "?map.comparison_id=id"
    assert run(capsys, "recorded", path)[0] == 0
    own = [{**row, "comparison_id": str(row["id"])} for row in judged]
    code, result, _ = run(capsys, "recorded", give("own.jsonl", lines(own)))
    assert (code, result["recording"]["layout"]) == (0, "pairwise-both")  # its own columns hold a judge's verdicts


def test_battles_in_one_order_are_rated_and_it_is_said(give, capsys):
    code, result, said = run(capsys, "recorded", give(*OTHERS["arena, results only"]))
    assert code == 0
    assert [r["group"] for r in result["metrics"] if r["metric"] == "rating"] == ["ant", "bee"]
    assert "one order each" in said
    assert result["remarks"]


def test_convert_writes_what_it_read(give, capsys, tmp_path):
    out = tmp_path / "out.json"
    code, result, _ = run(capsys, "convert", give("pandalm"), "--to", "llm-comparator", "--out", str(out))
    assert (code, result["comparisons"], result["format"]) == (0, 3, "pandalm")
    assert len(json.loads(out.read_text())["examples"]) == 3
    argv = ["convert", give("mt-bench-human"), "--to", "pairs", "--out", str(tmp_path / "p.csv")]
    code, result, said = run(capsys, *argv)
    assert code == 0
    assert "human.jsonl (mt-bench-human) holds 4 responses, 2 items, 5 pairs" in said
    assert "p.csv (pairs) holds 4 responses, 2 items, 2 pairs" in said
    assert "Left out: 3 pairs (further votes on a pair, whose majority is written); " in said
    assert (result["comparisons"], result["written"]["comparisons"]) == (5, 2)
    assert result["left_out"][0]["n"] == 3
    code, _, said = run(capsys, "convert", give("pandalm"), "--to", "pairs", "--out", str(out))
    assert code == 2
    assert "is there already" in said
    code, _, said = run(capsys, "convert", give("pandalm"), "--to", "x", "--out", str(out), "--overwrite")
    assert code == 2
    assert "'x' is not known. Written are: llm-comparator, " in said
    code, _, said = run(capsys, "convert", give("pandalm"), "--to", "arena", "--out", str(out), "--overwrite")
    assert code == 2
    assert "'arena' is read, not written. Written are: llm-comparator, " in said


def test_convert_turns_a_plain_table_into_a_known_format(give, capsys, tmp_path):
    table = give("t.csv", b"item_id,context,response,system\nq1,Hi?,Hello,ant\nq1,Hi?,Hey,bee\n")
    out = tmp_path / "o.json"
    assert run(capsys, "convert", table, "--to", "promptfoo", "--out", str(out))[0] == 0
    rows = json.loads(out.read_text())["results"]["results"]
    assert [row["response"]["output"] for row in rows] == ["Hello", "Hey"]
    pairs = give("p.csv", b"prompt,response_a,response_b,winner,model_a,model_b\nHi?,Hello,Hey,b,ant,bee\n")
    out = tmp_path / "c.json"
    assert run(capsys, "convert", pairs, "--to", "llm-comparator", "--out", str(out))[0] == 0
    document = json.loads(out.read_text())
    [row] = document["examples"]
    assert (row["output_text_a"], row["output_text_b"], row["score"]) == ("Hello", "Hey", -1.0)
    assert [one["name"] for one in document["models"]] == ["ant", "bee"]


def test_convert_lists_the_formats(capsys):
    code, result, said = run(capsys, "convert", "--list")
    assert code == 0
    assert {f["name"] for f in result["formats"]} == {*FILES, "inspect"}
    assert result["written"] == ["llm-comparator", "promptfoo", "lm-eval", "inspect", "responses", "pairs", "verdicts"]
    assert "lm-eval" in said
    assert run(capsys, "convert", "x.csv")[0] == 2


def test_the_audit_takes_pairs_of_a_known_format(give, capsys, settings):
    argv = ["study", "puaudit", "--data", give("judgebench"), "--judge", PLANTED, "--dry-run"]
    code, result, _ = run(capsys, *argv)
    assert code == 0
    assert result["known"] == 4
    assert len(list_comparisons(settings.comparisons)) == 1
    code, _, said = run(capsys, "study", "puaudit", "--data", give("alpacaeval-outputs"), "--judge", PLANTED)
    assert code == 2
    assert "holds no pairs" in said


def test_the_hub_is_not_asked_for_a_name_that_is_none(capsys):
    code, _, said = run(capsys, "score", "hub:nothing", "--judge", PLANTED)
    assert code == 2
    assert "is no data set id" in said

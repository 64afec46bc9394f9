"""Writing a format and reading it again gives the same tables."""

import hashlib
import json
from dataclasses import replace
from pathlib import PurePath

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.data.comparisons import read_comparisons
from engine.data.dataset import build_dataset
from engine.data.formats.conversion import OWN, LeftOut, write_as, writers
from engine.data.formats.registry import FORMATS, read_known
from engine.data.formats.turns import join_turns, split_turns
from engine.data.formats.use import as_comparisons, as_dataset, as_recording
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.recording import Selection, parse_recording
from tests.engine.data.formats import examples
from tests.engine.data.formats.examples import ANSWERS, FILES, OTHERS, QUESTIONS, battle, graded, lines, listed, talk

TABLES = ("items", "responses", "comparisons", "verdicts")
ALL = FILES | OTHERS
WRITTEN = [name for name in ALL if name.split(",")[0] in writers()]


def read(name: str, **options):
    return read_known(*ALL[name], name.split(",")[0], **options)


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("name", WRITTEN)
def test_write_then_read_gives_the_same_tables(name):
    found = read(name)
    content = write_as(found, found.format).content
    again = read_known(PurePath(found.name).stem + FORMATS[found.format].ending, content, found.format)
    for table in TABLES:
        same(getattr(found, table), getattr(again, table))
    assert again.n_records <= found.n_records
    assert write_as(again, found.format).content == content


def test_pairs_of_fastchat_with_their_texts_become_alpaca_annotations_and_comparator_files():
    companions = [("a.jsonl", lines(ANSWERS)), ("q.jsonl", lines(QUESTIONS))]
    found = read("fastchat-pair", companions=companions)
    again = read_known("c.json", write_as(found, "llm-comparator").content, "llm-comparator")
    assert again.verdicts["outcome"].fillna("").tolist() == ["a", "b", "tie", ""]
    assert again.responses["text"].tolist() == found.responses["text"].tolist()
    alpaca = read_known("a.json", write_as(found, "alpacaeval-annotations").content, "alpacaeval-annotations")
    assert alpaca.verdicts["outcome"].fillna("").tolist() == ["a", "b", "tie", ""]


@pytest.mark.parametrize(
    "name", [n for n in ALL if n not in ("fastchat-single", "fastchat-pair", "arena, results only")]
)
def test_our_own_table_of_responses_holds_them_all(name):
    found = read(name)
    raw = read_table("r.csv", write_as(found, "responses").content)
    data = build_dataset(raw, suggest_mapping(raw.frame), task=found.task, name="r")
    wanted = as_dataset(found)
    assert data.responses["text"].tolist() == wanted.responses["text"].tolist()
    assert data.responses["response_id"].tolist() == wanted.responses["response_id"].tolist()
    np.testing.assert_array_equal(data.responses["human_score"], wanted.responses["human_score"])
    assert not data.errors


@pytest.mark.parametrize("name", ["mt-bench-human", "arena", "rewardbench", "judgebench", "llmbar", "pandalm, judged"])
def test_our_own_table_of_pairs_keeps_sides_and_verdicts(name):
    found = read(name)
    wanted = as_comparisons(found)
    again = read_comparisons("p.csv", write_as(found, "pairs").content)
    for column in ("human", "verdict", "verdict_ba"):
        assert again.comparisons[column].fillna("").tolist() == wanted.comparisons[column].fillna("").tolist()


@pytest.mark.parametrize("name", [n for n in ALL if len(read(n).verdicts)])
def test_our_own_table_of_verdicts_is_the_same_recording(name):
    found = read(name)
    direct = parse_recording(ALL[name][0], ALL[name][1], Selection(format=found.format))
    written = parse_recording("v.csv", write_as(found, "verdicts").content)
    left = ["verdict_id"]
    same(direct.verdicts.drop(columns=left), written.verdicts.drop(columns=left))
    assert direct.n_read == int(found.verdicts["unread_reason"].isna().sum())
    assert as_recording(found)[1].name == direct.layout.name


def test_what_a_format_has_no_place_for_is_refused():
    with pytest.raises(InputError, match="holds no pairs"):
        write_as(read("alpacaeval-outputs"), "rewardbench")
    with pytest.raises(InputError, match="holds no texts"):
        write_as(read("fastchat-single"), "alpacaeval-outputs")
    with pytest.raises(InputError, match="'nothing' is not known"):
        write_as(read("lm-eval"), "nothing")
    with pytest.raises(InputError, match="does not say in which order"):
        write_as(read("alpacaeval-annotations"), "fastchat-pair")
    with pytest.raises(InputError, match="holds nothing that rewardbench has a place for"):
        write_as(read("arena-55k"), "rewardbench")  # a tie
    with pytest.raises(InputError, match=r"could not be read again: .* answer is missing"):
        write_as(read("arena"), "verifybench")
    assert set(OWN) == {"responses", "pairs", "verdicts"}


def told(found, to: str) -> list[tuple[int, str, str]]:
    return [(one.n, one.what, one.why) for one in write_as(found, to).left_out]


@pytest.mark.parametrize("name", WRITTEN)
def test_nothing_is_left_out_of_the_format_it_came_in(name):
    assert told(read(name), name.split(",")[0]) == []


@pytest.mark.parametrize("to", ["llmbar", "judgebench", "rewardbench", "rewardbench-2"])
def test_pairs_without_a_better_response_are_counted_as_left_out(to):
    made = write_as(read("arena"), to)
    assert len(made.holds.comparisons) == 2
    assert made.left_out[0] == LeftOut(2, "pair", "a tie")
    assert made.in_words().startswith("Left out: 2 pairs (a tie); ")
    blank = read_known("b.json", listed([battle("model_a", "q1"), battle("", "q2")]), "arena")
    assert told(blank, to)[0] == (1, "pair", "no human preference")


def test_a_battle_nobody_decided_is_no_row_of_55k():
    blank = read_known("b.json", listed([battle("tie", "q1"), battle("", "q2")]), "arena")
    made = write_as(blank, "arena-55k")
    assert made.holds.comparisons["human"].tolist() == ["tie"]
    assert made.left_out[0] == LeftOut(1, "pair", "no human preference")


def test_what_has_no_place_is_counted_by_kind():
    assert told(read("judgebench, judged"), "llmbar") == [
        (1, "system name", "no place in llmbar"),
        (3, "read verdict", "no place in llmbar"),
        (1, "unread verdict", "no place in llmbar"),
    ]  # fmt: skip
    text, *others = told(read("verifybench"), "alpacaeval-outputs")
    assert text[:2] == (1, "response text")
    assert "stands in row 1 with another text" in text[2]  # two answers of one system to one instruction
    assert others == [
        (2, "quality label", "no place in alpacaeval-outputs"), (1, "reference", "no place in alpacaeval-outputs"),
    ]  # fmt: skip
    assert told(read("mt-bench-human"), "pairs") == [
        (3, "pair", "further votes on a pair, whose majority is written"), (2, "unread verdict", "no place in pairs"),
    ]  # fmt: skip


def test_a_verdict_of_a_model_does_not_become_a_persons_vote():
    made = write_as(read("mt-bench-human"), "arena")
    assert made.holds.comparisons["human"].tolist() == ["a", "tie", "b"]
    assert made.left_out[0] == LeftOut(2, "pair", "a judge's verdict, not a person's vote")
    assert write_as(read("arena"), "mt-bench-human").holds.comparisons["human"].tolist() == ["a", "tie", "tie", "b"]


def test_no_call_is_invented():
    # one set of calls on a pair that was voted on three times
    made = write_as(read("mt-bench-human"), "llm-comparator").holds
    assert len(made.verdicts) == len(read("mt-bench-human").verdicts)
    with pytest.raises(InputError, match="holds nothing that fastchat-pair has a place for"):
        write_as(read("arena, results only"), "fastchat-pair")  # shown in one order only


def test_every_turn_of_a_battle_is_written():
    found = read("arena-55k")
    assert write_as(found, "mt-bench-human").holds.responses["text"].tolist() == found.responses["text"].tolist()


def test_pairs_that_do_not_cross_are_no_item_of_rewardbench_2():
    votes = [{**battle("model_a", "q"), "model_a": a, "model_b": b, "conversation_a": talk("Ask", a),
              "conversation_b": talk("Ask", b)} for a, b in (("x", "y"), ("y", "z"))]  # fmt: skip
    votes.append({**votes[0], "question_id": "r"})
    made = write_as(read_known("b.json", listed([*votes, votes[2]]), "arena"), "rewardbench-2")
    assert made.holds.comparisons["item_id"].tolist() == ["r"]
    assert [(one.n, one.why) for one in made.left_out[:2]] == [
        (2, "its item lacks some chosen against some rejected response"), (1, "a further vote on its pair"),
    ]  # fmt: skip


LEFT = {"doc_hash", "prompt_hash", "target_hash"}


def test_lm_eval_lines_come_back_whole():
    content = write_as(read("lm-eval"), "lm-eval").content
    written = [json.loads(line) for line in content.splitlines()]
    assert [{k: v for k, v in w.items() if k not in LEFT} for w in written] == [
        {k: v for k, v in row.items() if k not in LEFT} for row in examples.LM_EVAL
    ]
    assert (
        written[0]["prompt_hash"] == hashlib.sha256(b"Question: 0+1?\nAnswer:").hexdigest()
    )  # as the harness makes it


def scored(rows: list[dict]):
    """FastChat's scores with their texts."""
    companions = [("a.jsonl", lines(ANSWERS)), ("q.jsonl", lines(QUESTIONS))]
    return read_known("s.jsonl", lines(rows), "fastchat-single", companions=companions)


def test_scores_of_another_judge_are_a_metric_of_lm_eval():
    ant = [{**row, "score": -1} if row["turn"] == 2 else row for row in examples.SINGLE if row["model"] == "ant"]
    made = write_as(scored(ant), "lm-eval").holds
    assert made.verdicts["judge"].unique().tolist() == ["lm-eval/gpt-4/none"]
    assert made.verdicts["score"].fillna(0).tolist() == [8, 0]
    assert made.verdicts["unread_reason"].notna().tolist() == [False, True]
    assert made.responses["text"].tolist() == ["ant one", "[Turn 1]\nant one\n\n[Turn 2]\nant two"]
    with pytest.raises(InputError, match=r"holds responses of 2 systems, and a file of lm-eval is of one"):
        write_as(scored(examples.SINGLE), "lm-eval")


def test_repeats_of_lm_eval_stay_one_line():
    row = {**examples.LM_EVAL[0], "resps": [["one", "two"]], "metrics": []}
    found = read_known("s.jsonl", lines([row]), "lm-eval")
    made = write_as(found, "lm-eval")
    same(found.responses, made.holds.responses)
    assert json.loads(made.content)["resps"] == [["one", "two"]]
    twice = read_known(
        "x.jsonl", lines([{**examples.VERIFY[i], "completion_model": ""} for i in (0, 1)]), "verifybench"
    )
    judged = replace(twice, verdicts=pd.concat([read("lm-eval").verdicts.assign(item_id="v1", response_id="v1-0")]))
    assert (4, "read verdict", "no place in lm-eval") in told(judged, "lm-eval")


def test_promptfoo_results_come_back_with_their_grades_and_errors():
    document = json.loads(write_as(read("promptfoo"), "promptfoo").content)
    first, second, failed = document["results"]["results"]
    assert [r["success"] for r in (first, second, failed)] == [True, False, False]
    assert (failed["error"], failed["failureReason"], failed["response"]) == ("503 from server", 2, {})
    assert second["gradingResult"]["componentResults"] == [
        {"pass": False, "score": 0.125, "reason": "polite", "assertion": {"type": "llm-rubric"}}
    ]
    assert document["results"]["stats"] == {"successes": 1, "failures": 1, "errors": 1}
    old = {"version": 2, "results": [graded(t, p, "Hi", 1.0) for t, p in ((0, "ant"), (0, "ant"), (1, "ant"))]}
    for row in old["results"]:
        for key in ("testIdx", "promptIdx", "testCase"):
            row.pop(key)
    found = read_known("r.json", listed({"results": old}), "promptfoo")
    again = write_as(found, "promptfoo").holds
    for table in TABLES:
        same(getattr(found, table), getattr(again, table))


def test_scores_of_one_other_judge_are_promptfoos_and_outputs_without_any_have_none():
    made = write_as(scored(examples.SINGLE), "promptfoo").holds
    assert made.verdicts["score"].fillna(0).tolist() == [8, 7.5, 0, 3]
    assert made.responses["system"].tolist() == ["ant", "ant", "bee", "bee"]
    assert write_as(read("alpacaeval-outputs"), "promptfoo").holds.verdicts.empty
    with pytest.raises(InputError, match="holds scores of 2 judges, and promptfoo has one score"):
        write_as(read("lm-eval"), "promptfoo")


SUMMARIES = ["summeval", "summeval-geval", "summeval-documents"]


@pytest.mark.parametrize("to", SUMMARIES)
@pytest.mark.parametrize("name", SUMMARIES)
def test_summeval_forms_keep_every_aspect_and_reference(name, to):
    found = read(name)
    made = write_as(found, to)
    assert [one.what for one in made.left_out] in ([], ["system name"])
    filename = "x" + FORMATS[to].ending
    for aspect in ("coherence", "relevance"):
        wanted = read_known(*ALL[name], f"{name}:{aspect}").responses["human_score"]
        again = read_known(filename, made.content, f"{to}:{aspect}").responses["human_score"]
        assert again.tolist() == wanted.tolist()
    if name != "summeval-geval" and to != "summeval-geval":
        [references] = {tuple(made.holds.origin[r]["references"]) for r in made.holds.responses["response_id"]}
        assert references == tuple(found.origin[found.responses["response_id"].iloc[0]]["references"])


@pytest.mark.parametrize("to", SUMMARIES)
def test_a_summary_nobody_rated_has_no_score_in_any_form(to):
    made = write_as(read("alpacaeval-outputs"), to).holds
    assert made.responses["human_score"].isna().all()
    assert made.responses["text"].tolist() == ["Done 1", "Done 2"]


@pytest.mark.parametrize("to", [*SUMMARIES, "alpacaeval-outputs", "fastchat-answers"])
def test_a_response_that_failed_is_not_written_as_an_empty_one(to):
    made = write_as(read("promptfoo"), to)
    assert made.holds.responses["text"].tolist() == ["Hello", '{"text": "Hey"}']
    assert (1, "textless response", f"no place in {to}") in [(o.n, o.what, o.why) for o in made.left_out]


@given(st.lists(st.text(max_size=30) | st.just("[Turn 2]\n\n[Turn 3]\n[Turn 1]\n"), min_size=1, max_size=4))
def test_turns_joined_split_and_joined_again_are_the_same_text(turns):
    text = join_turns(turns)
    assert join_turns(split_turns(text)) == text

"""Writing a format and reading it again gives the same tables."""

import hashlib
import json
from dataclasses import replace
from pathlib import PurePath

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.comparisons import read_comparisons
from engine.data.dataset import build_dataset
from engine.data.formats.conversion import OWN, LeftOut, write_as, writers
from engine.data.formats.registry import FORMATS, read_known
from engine.data.formats.use import as_comparisons, as_dataset, as_recording
from engine.data.mapping import suggest_mapping
from engine.data.reading import read_table
from engine.data.recording import Selection, parse_recording
from tests.engine.data.formats import examples
from tests.engine.data.formats.examples import ANSWERS, FILES, OTHERS, QUESTIONS, graded, lines, listed

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


def test_pairs_of_fastchat_with_their_texts_become_comparator_files():
    companions = [("a.jsonl", lines(ANSWERS)), ("q.jsonl", lines(QUESTIONS))]
    found = read("fastchat-pair", companions=companions)
    again = read_known("c.json", write_as(found, "llm-comparator").content, "llm-comparator")
    assert again.verdicts["outcome"].fillna("").tolist() == ["a", "b", "tie", ""]
    assert again.responses["text"].tolist() == found.responses["text"].tolist()


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
    for to in ("llm-comparator", "pairs"):
        with pytest.raises(InputError, match="holds no pairs"):
            write_as(read("alpacaeval-outputs"), to)
    with pytest.raises(InputError, match="holds no texts"):
        write_as(read("fastchat-single"), "promptfoo")
    with pytest.raises(InputError, match="'nothing' is not known"):
        write_as(read("lm-eval"), "nothing")
    with pytest.raises(InputError, match=r"'rewardbench' is read, not written\. Written are: llm-comparator, "):
        write_as(read("arena"), "rewardbench")
    with pytest.raises(InputError, match=r"could not be read again: .* column prompt"):
        write_as(read("fastchat-answers"), "promptfoo")
    assert set(OWN) == {"responses", "pairs", "verdicts"}
    assert set(writers()) == {"inspect", "llm-comparator", "promptfoo", "lm-eval", *OWN}


def told(found, to: str) -> list[tuple[int, str, str]]:
    return [(one.n, one.what, one.why) for one in write_as(found, to).left_out]


@pytest.mark.parametrize("name", WRITTEN)
def test_nothing_is_left_out_of_the_format_it_came_in(name):
    assert told(read(name), name.split(",")[0]) == []


def test_what_has_no_place_is_counted_by_kind():
    assert told(read("judgebench, judged"), "lm-eval") == [
        (1, "system name", "no place in lm-eval"),
        (2, "pair", "no place in lm-eval"),
        (2, "human preference", "no place in lm-eval"),
        (3, "read verdict", "no place in lm-eval"),
        (1, "unread verdict", "no place in lm-eval"),
    ]
    assert told(read("verifybench"), "promptfoo") == [
        (2, "quality label", "no place in promptfoo"),
        (1, "reference", "no place in promptfoo"),
    ]
    assert told(read("summeval"), "promptfoo")[0] == (2, "human score", "no place in promptfoo")
    assert write_as(read("arena"), "llm-comparator").in_words() == (
        "Left out: 4 human preferences (no place in llm-comparator)."
    )
    assert write_as(read("arena"), "pairs").left_out == []
    assert told(read("mt-bench-human"), "pairs") == [
        (3, "pair", "further votes on a pair, whose majority is written"), (2, "unread verdict", "no place in pairs"),
    ]  # fmt: skip


def test_no_call_is_invented():
    # one set of calls on a pair that was voted on three times
    made = write_as(read("mt-bench-human"), "llm-comparator").holds
    assert len(made.verdicts) == len(read("mt-bench-human").verdicts)


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


def test_a_response_that_failed_is_not_written_as_an_empty_one():
    made = write_as(read("promptfoo"), "responses")
    assert made.holds.responses["text"].tolist() == ["Hello", '{"text": "Hey"}']
    assert LeftOut(1, "textless response", "no place in responses") in made.left_out

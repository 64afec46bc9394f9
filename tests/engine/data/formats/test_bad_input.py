"""Damaged, odd and large files: a clear error or a problem by row, and nothing lost in silence."""

import json

import pytest

from engine.core.errors import InputError
from engine.data.formats.registry import read_known
from tests.engine.data.formats import examples
from tests.engine.data.formats.examples import FILES, OTHERS, battle, graded, lines, listed, talk, vote


def read(name: str, content: bytes, filename: str = "x.jsonl"):
    return read_known(filename, content, name)


def excluded(found) -> list[tuple[int, str]]:
    return [(p.row, p.what) for p in found.problems if p.severity == "excluded"]


@pytest.mark.parametrize("name", [*FILES, *OTHERS])
def test_every_record_is_in_a_table_or_has_a_problem(name):
    filename, content = (FILES | OTHERS)[name]
    found = read(name.split(",")[0], content, filename)
    assert found.n_excluded == 0
    assert found.n_records > 0
    assert found.counts()


def test_one_broken_line_among_ten_thousand():
    rows = [json.dumps({**examples.REWARD[0], "id": i}) for i in range(10_000)]
    rows[7_000] = rows[7_000][:-5]
    found = read("rewardbench", "\n".join(rows).encode())
    assert len(found.comparisons) == 9_999
    [problem] = found.problems
    assert (problem.severity, problem.row) == ("excluded", 7_001)
    assert "row 7001 (line 7001)" in problem.where
    assert (found.n_records, found.n_excluded) == (10_000, 1)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ([{"type": "text", "text": "see "}, {"type": "image", "image": "x.png"}], "part of the kind 'image'"),
        ([{"type": "text", "text": "see", "image": "x.png"}], "part of the kind 'image'"),
        ([{"type": "tool_use"}], "part of the kind 'tool_use'"),
        (None, "a message without text"),
        (5, "a message without text"),
    ],
)
def test_nested_content_that_is_no_text_leaves_the_row_out(message, what):
    bad = battle("tie", "q9", conversation_a=[{"role": "user", "content": message}, *talk("x", "y")[1:]])
    found = read("arena", lines([battle("tie", "q1"), bad]))
    [(row, said)] = excluded(found)
    assert row == 2
    assert what in said
    assert found.comparisons["item_id"].tolist() == ["q1"]


def test_lists_of_text_parts_are_one_text():
    said = [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}, {"role": "assistant", "content": "c"}]
    found = read("arena", lines([battle("tie", "q1", conversation_a=said, conversation_b=said)]))
    assert found.items["context"].tolist() == ["ab"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"conversation_b": talk("Another question", "x", "y", "z")}, "ask different questions"),
        ({"conversation_a": talk("Name a fruit.")}, "1 questions and 0 answers"),
        ({"conversation_a": []}, "no list of messages"),
        ({"conversation_a": [{"role": "judge", "content": "x"}]}, "role 'judge'"),
        ({"conversation_a": "hello"}, "which is no JSON"),
        ({"turn": 3}, "2 questions and 2 answers; 3 of each"),
        ({"turn": "two"}, "turn 'two'"),
        ({"model_b": ""}, "model_b is missing"),
        ({"model_b": "ant", "conversation_b": vote("tie", "x")["conversation_a"]}, "of one system"),
        ({"winner": "model_c"}, "winner 'model_c' is in no rule"),
    ],
)
def test_odd_conversations_are_named(change, what):
    found = read("mt-bench-human", lines([vote("tie", "expert_0"), {**vote("tie", "expert_1"), **change}]))
    [(row, said)] = excluded(found)
    assert row == 2
    assert what in said
    assert len(found.comparisons) == 1


def test_the_same_answer_under_two_texts_is_a_problem_of_the_second():
    other = vote("tie", "expert_2")
    other["conversation_a"] = talk("Name a fruit.", "Banana.", "And a nut?", "Walnut.")
    found = read("mt-bench-human", lines([vote("model_a", "expert_1"), other]))
    [(row, said)] = excluded(found)
    assert (row, len(found.comparisons)) == (2, 1)
    assert "'81:ant' stands in row 1 with another text" in said


def test_votes_that_come_again_are_all_kept():
    found = read("mt-bench-human", lines([vote("tie", "expert_1"), vote("model_a", "expert_1")]))
    assert found.comparisons["comparison_id"].tolist() == ["81:ant:bee:expert_1", "81:ant:bee:expert_1#2"]


@pytest.mark.parametrize(
    ("name", "row", "column", "value", "what"),
    [
        ("alpacaeval-annotations", examples.ANNOTATIONS[0], "preference", 3, "preference '3' is in no rule"),
        ("alpacaeval-annotations", examples.ANNOTATIONS[0], "preference", "m", "preference 'm' is in no rule"),
        ("fastchat-pair", examples.PAIR[0], "g1_winner", "A", "g1_winner 'A' is in no rule"),
        ("fastchat-single", examples.SINGLE[0], "score", "high", "score 'high' is no number"),
        ("fastchat-single", examples.SINGLE[0], "turn", 3, "turn '3' is neither 1 nor 2"),
        ("judgebench", examples.JUDGEBENCH[0], "label", "A=B", "label 'A=B' is in no rule"),
        ("judgebench", examples.JUDGEBENCH_JUDGED[0], "judgments", [{"decision": "C"}], "decision 'C' is in no rule"),
        ("llmbar", examples.LLMBAR[0], "label", 0, "label '0' is in no rule"),
        ("pandalm", examples.PANDALM[0], "annotator2", 3, "annotator2 '3' is in no rule"),
        ("pandalm", examples.PANDALM_JUDGED[0], "gpt_result", "4", "gpt_result '4' is in no rule"),
        ("verifybench", examples.VERIFY[0], "gold_correct", "perhaps", "gold_correct 'perhaps' is in no rule"),
        ("rewardbench", examples.REWARD[0], "rejected", None, "rejected is missing"),
        ("rewardbench-2", examples.REWARD_2[0], "rejected", "bad", "which is no JSON"),
        ("rewardbench-2", examples.REWARD_2[0], "rejected", [], "rejected is empty"),
        ("arena-55k", examples.ARENA_55K[0], "response_a", '["one", null]', "no list of texts"),
        ("arena-55k", examples.ARENA_55K[0], "winner_model_a", 1, "2 of winner_model_a"),
        ("arena-55k", examples.ARENA_55K[0], "prompt", '["one"]', "different numbers of turns"),
        ("lm-eval", examples.LM_EVAL[0], "resps", [[[-1.5, True]], [[-2.0, False]]], "likelihoods of given choices"),
        ("lm-eval", examples.LM_EVAL[0], "arguments", {}, "arguments holds no prompt"),
        ("summeval", examples.SUMMEVAL[0], "expert_annotations", [{"coherence": 1}], "lacks a number"),
        ("summeval-documents", examples.DOCUMENTS[0], "fluency", [1.0], "not as long as"),
    ],
)
def test_a_value_in_no_rule_is_rejected_by_name(name, row, column, value, what):
    other = {k: v for k, v in row.items() if k not in ("id", "idx", "pair_id", "doc_id")}
    fine = {**row, **dict.fromkeys(set(row) - set(other), "other")}
    found = read(name, lines([fine, {**row, column: value}]))
    [(number, said)] = excluded(found)
    assert number == 2
    assert what in said


def test_several_repeats_of_lm_eval_are_responses_whose_common_metric_is_no_verdict():
    row = {**examples.LM_EVAL[0], "resps": [["one", "two"]]}
    found = read("lm-eval", lines([row]))
    assert found.responses["response_id"].tolist() == ["0:1", "0:2"]
    assert found.verdicts.empty
    assert "several responses together" in found.problems[0].what


def test_promptfoo_of_an_unknown_version_or_shape():
    document = {**examples.PROMPTFOO, "results": {**examples.PROMPTFOO["results"], "version": 9}}
    with pytest.raises(InputError, match="results of version 9; read are 2, 3, 4"):
        read("promptfoo", listed(document), "r.json")
    with pytest.raises(InputError, match=r"no list results \(only outputs\)"):
        read("promptfoo", listed({"results": {"outputs": []}}), "r.json")
    old = {"version": 2, "results": [graded(0, "ant", "Hi", 1.0)], "table": {}}
    for key in ("testIdx", "promptIdx", "testCase", "promptId"):
        old["results"][0].pop(key)
    found = read("promptfoo", listed({"results": old}), "r.json")
    assert found.responses["item_id"].tolist() == ["p1"]
    broken = {**examples.PROMPTFOO["results"], "results": [7, *examples.PROMPTFOO["results"]["results"]]}
    found = read("promptfoo", listed({"results": broken}), "r.json")
    assert [p.row for p in found.problems] == [1]
    assert found.n_records == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": [{"name": "ant"}]}, "two different models"),
        ({"models": [{"name": "ant"}, {"name": "ant"}]}, "two different models"),
        ({"examples": {}}, "examples is no list"),
        ({"examples": [{"input_text": "x"}]}, "no output_text_a, output_text_b"),
    ],
)
def test_damaged_comparator_files(change, message):
    with pytest.raises(InputError, match=message):
        read("llm-comparator", listed({**examples.COMPARATOR, **change}), "c.json")


def test_comparator_scores_that_are_missing_or_no_numbers():
    first = examples.COMPARATOR["examples"][0]
    rows = [first, {**first, "score": None, "individual_rater_scores": []}, {**first, "score": "high"}]
    found = read("llm-comparator", listed({**examples.COMPARATOR, "examples": rows}), "c.json")
    assert [(p.severity, p.row) for p in found.problems] == [("warning", 2), ("excluded", 3)]
    bare = [{**row, "individual_rater_scores": []} for row in rows[:2]]
    found = read("llm-comparator", listed({**examples.COMPARATOR, "examples": bare}), "c.json")
    assert found.verdicts["outcome"].fillna("").tolist() == ["a", ""]
    assert found.verdicts["order"].isna().all()


def test_a_wrong_companion_is_named():
    with pytest.raises(InputError, match=r"'notes.csv' holds neither FastChat's answers"):
        read_known(*FILES["fastchat-single"], "fastchat-single", companions=[("notes.csv", b"a,b\n1,2\n")])


@pytest.mark.parametrize("content", [b"", b"   ", b"{", b'{"results": ', b"\xff\xfe", b'{"a": 1e999}', b"[" * 100_000])
def test_broken_documents_are_input_errors(content):
    for name in ("promptfoo", "llm-comparator", "inspect"):
        with pytest.raises(InputError):
            read(name, content, "x.json")


def test_an_answer_without_a_turn_keeps_the_turns_it_has():
    cut = {**examples.ANSWERS[0], "choices": [{"index": 0, "turns": ["one", None]}]}
    none = {**examples.ANSWERS[1], "choices": [{"index": 0, "turns": [None]}]}
    companions = [("a.jsonl", lines([cut, none])), ("q.jsonl", lines(examples.QUESTIONS))]
    found = read_known(*FILES["fastchat-single"], "fastchat-single", companions=companions)
    texts = dict(zip(found.responses["response_id"], found.responses["text"].fillna("-"), strict=True))
    assert texts == {"81:ant": "one", "81:2:ant": "-", "81:bee": "-", "81:2:bee": "-"}
    [problem] = found.problems
    assert problem.where.startswith("a.jsonl, row 2")
    assert found.n_excluded == 0
    own = read_known("a.jsonl", lines([cut]), "fastchat-answers", companions=companions[1:])
    assert own.responses["response_id"].tolist() == ["81:ant"]
    assert "second turn" in own.problems[0].what


def test_nothing_usable_says_why():
    with pytest.raises(InputError, match=r"row 1 \(line 1\), column winner: winner 'nobody'"):
        read("arena", lines([battle("nobody", "q1")]))


def test_markup_formulas_and_strange_characters_come_through_verbatim():
    text = "=1+1 <script>x</script> **b** $5 and $7 \u200b résumé 😀\r\n\t"
    found = read("rewardbench", lines([{**examples.REWARD[0], "chosen": text}]))
    assert found.responses["text"].iloc[0] == text
    nul = read("rewardbench", lines([{**examples.REWARD[0], "chosen": "a\x00b"}, examples.REWARD[1]]))
    assert excluded(nul)[0][0] == 1


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "N/A"])
def test_empty_responses_are_kept_as_they_are(text):
    found = read("rewardbench", lines([{**examples.REWARD[0], "rejected": text}]))
    assert found.responses["text"].iloc[1] == text

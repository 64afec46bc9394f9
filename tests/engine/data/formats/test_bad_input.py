"""Damaged, odd and large files: a clear error or a problem by row, and nothing lost in silence."""

import csv
import json

import pytest

from engine.core.errors import InputError
from engine.data.formats.base import records_of
from engine.data.formats.conversion import write_as
from engine.data.formats.registry import read_known
from engine.data.recording import NO_CALL, Selection, parse_recording
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


# Rows in = rows read + rows left out, whatever is wrong with a row.

TABLES = ("items", "responses", "comparisons", "verdicts")
ODD = (None, "", "?", 10**6, -1.5, [], {}, [None], True)
WHERE = {"promptfoo": ("results", "results"), "llm-comparator": ("examples",)}


def records_in(name: str) -> tuple[list[dict], object]:
    """The records of an example, and a function from records to the bytes of a file."""
    content = (FILES | OTHERS)[name][1]
    if name not in WHERE:
        text = content.decode()
        return (json.loads(text) if text.startswith("[") else [json.loads(x) for x in text.splitlines()]), lines

    def file_of(rows: list[dict]) -> bytes:
        made = document = json.loads(content)
        *path, last = WHERE[name]
        for key in path:
            made = made[key]
        made[last] = rows
        return listed(document)

    rows = json.loads(content)
    for key in WHERE[name]:
        rows = rows[key]
    return rows, file_of


def spoiled(rows: list[dict]) -> list[list[dict]]:
    """The records with one cell of the last made odd or removed: every 7th of all cells and values."""
    *others, last = rows
    changed = []
    for key in last:
        changed.append([*others, {k: v for k, v in last.items() if k != key}])
        changed += [[*others, {**last, key: value}] for value in ODD]
    return changed[::7]


@pytest.mark.parametrize("name", [*FILES, *OTHERS])
def test_a_record_is_read_or_left_out_by_name_and_never_lost(name):
    rows, file_of = records_in(name)
    filename = "x.json" if name in WHERE else "x.jsonl"
    form = name.split(",")[0]
    without = read(form, file_of(rows[:-1]), filename) if len(rows) > 1 else None
    for change in spoiled(rows):
        try:
            found = read(form, file_of(change), filename)
        except InputError:  # the only record, or what the whole file rests on
            continue
        assert found.n_records == len(rows)
        assert {row for row, _ in excluded(found)} <= {len(rows)}
        assert set(records_of(found.verdicts)) <= set(range(1, len(rows) + 1)) - {row for row, _ in excluded(found)}
        if found.n_excluded and without is not None:
            for table in TABLES:
                assert len(getattr(found, table)) == len(getattr(without, table)), (table, change[-1])


WITH_VERDICTS = [
    "mt-bench-human", "fastchat-single", "fastchat-pair", "alpacaeval-annotations", "llm-comparator", "promptfoo",
    "lm-eval", "arena, results only", "judgebench, judged", "pandalm, judged",
]  # fmt: skip


@pytest.mark.parametrize("name", WITH_VERDICTS)
def test_a_recording_of_a_known_format_accounts_for_every_record(name):
    rows, file_of = records_in(name)
    filename = "x.json" if name in WHERE else "x.jsonl"
    form = name.split(",")[0]
    for change in spoiled(rows):
        try:
            found = read(form, file_of(change), filename)
            judge = found.verdicts["judge"].iloc[0]
            all_of_one = found.verdicts["judge"].nunique() == 1
            got = parse_recording(filename, file_of(change), Selection(format=form, where={"judge": judge}))
        except (InputError, IndexError):
            continue
        assert got.n_records == len(rows)
        assert got.n_read + got.n_unread + got.n_left_out == got.n_calls
        for _, what in excluded(found):
            assert got.left_out[what] >= 1
        if all_of_one:
            whole = parse_recording(filename, file_of(change), Selection(format=form))
            with_verdict = len(set(records_of(found.verdicts)))
            assert (
                whole.n_selected == whole.n_records == with_verdict + found.n_excluded + whole.left_out.get(NO_CALL, 0)
            )


def test_labels_in_no_rule_are_counted_by_recordings():
    """The given inputs: 11, 12 and 8 records."""
    head = {"output_1": "o", "output_2": "p", "generator_1": "b", "generator_2": "m", "annotator": "w"}
    values = [1, 2, 1.5, 0, None, 1.73, float("nan"), -1, 3, "2", 2.0]
    rows = [{"instruction": f"i{i}", **head, "preference": v} for i, v in enumerate(values)]
    got = parse_recording("ae.json", json.dumps(rows).encode())
    assert (got.n_records, got.n_calls, got.n_unread) == (11, 11, 2)
    assert got.left_out == {"preference '-1' is in no rule.": 1, "preference '3' is in no rule.": 1}
    head = {"model_a": "x", "model_b": "y", "judge": "arena_user_1", "tstamp": 1.0, "language": "en", "turn": 1}
    labels = [
        "model_a",
        "model_b",
        "tie",
        "tie (bothbad)",
        "Model_A",
        "a",
        "bothbad",
        "both_bad",
        None,
        "",
        "error",
        "x",
    ]
    rows = [{"question_id": f"q{i}", **head, "winner": label} for i, label in enumerate(labels)]
    got = parse_recording("ar.json", listed(rows))
    assert (got.n_records, got.n_calls, got.n_read, got.n_unread) == (12, 12, 8, 2)
    assert got.left_out == {"winner 'error' is in no rule.": 1, "winner 'x' is in no rule.": 1}
    games = [("model_1", "model_1"), ("model_1", "model_2"), ("tie", "tie"), ("error", "error"), ("model_2", "error"),
             ("model_2", "model_2"), ("Tie", None), ("tie (bothbad)", "tie")]  # fmt: skip
    head = {"model_1": "x", "model_2": "y", "judge": ["gpt-4", "pair-v2"], "turn": 1}
    rows = [{"question_id": i, **head, "g1_winner": a, "g2_winner": b} for i, (a, b) in enumerate(games)]
    got = parse_recording("fp.jsonl", lines(rows))
    assert (got.n_records, got.n_calls, got.n_read, got.n_unread, got.n_left_out) == (8, 16, 9, 3, 4)
    assert got.left_out == {"g1_winner 'Tie' is in no rule.": 2, "g1_winner 'tie (bothbad)' is in no rule.": 2}


def test_very_many_reasons_are_counted_and_not_all_listed():
    rows = [{**examples.SINGLE[0], "question_id": i, "score": f"bad {i}"} for i in range(99)]
    got = parse_recording("s.jsonl", lines([*rows, examples.SINGLE[1]]))
    assert (got.n_records, got.n_left_out, got.n_calls) == (100, 99, 100)
    assert len(got.left_out) == 50


def test_ids_that_only_look_alike_are_not_merged():
    """A turn's id is its question's and the turn; a question may be called so itself."""
    one = {"model": "m", "judge": ["j", "p"], "judgment": "", "score": 5}
    turns = [("q", 1), ("q", 2), ("q:2", 1), ("q:2", 2), ("q:2:1", 1)]
    rows = [{**one, "question_id": q, "turn": t, "score": s} for s, (q, t) in enumerate(turns, start=1)]
    found = read("fastchat-single", lines(rows))
    assert found.verdicts["response_id"].nunique() == found.items["item_id"].nunique() == 5
    rows = [
        {**one, "question_id": "q", "turn": 1, "model": "1:m"},
        {**one, "question_id": "q:1", "turn": 1, "model": "m"},
    ]
    assert read("fastchat-single", lines(rows)).verdicts["response_id"].nunique() == 2
    clash = [{**one, "question_id": "q", "turn": 1, "model": "x:m"}]
    clash += [{**one, "question_id": "q:x", "turn": 1}]
    [(row, said)] = excluded(read("fastchat-single", lines(clash)))
    assert row == 2
    assert "another item_id" in said


# promptfoo: whether an output passes stands beside its score, and a grader that failed has given none.

NO_JSON = "Could not extract JSON from llm-rubric response"


def outcome(test: int, score: float | None, passed: bool, said: str = "x", **more: object) -> dict:
    row = graded(test, "m", "text", score or 0.0)
    part = {"pass": passed, "score": score, "reason": said, "assertion": {"type": "llm-rubric"}}
    result = {"pass": passed, "score": score, "reason": said, "componentResults": [part]}
    return {**row, "success": passed, "score": score, "gradingResult": result, **more}


def promptfoo(*rows: dict) -> bytes:
    return listed({"results": {"version": 3, "results": list(rows)}})


def test_pass_stands_beside_the_score_of_promptfoo():
    content = promptfoo(outcome(0, 0.75, False), outcome(1, 0.75, True), outcome(2, 0, True), outcome(3, 1, False))
    for judge in ("promptfoo", "promptfoo/llm-rubric"):
        got = parse_recording("r.json", content, Selection(where={"judge": judge}))
        assert got.verdicts["score"].tolist() == [0.75, 0.75, 0, 1]
        assert got.passed == {"false": 2, "true": 2}
    written = write_as(read("promptfoo", content, "r.json"), "verdicts").content.decode("utf-8-sig")
    rows = list(csv.reader(written.splitlines()))
    at = rows[0].index("pass")
    assert [row[at] for row in rows[1::2]] == ["false", "true", "true", "false"]
    again = parse_recording("v.csv", written.encode(), Selection(where={"judge": "promptfoo"}))
    assert again.passed == {"false": 2, "true": 2}


def test_a_grader_that_failed_gives_no_score():
    reasons = [NO_JSON, "No output", "API error: 500 Internal", "llm-rubric produced malformed response: x"]
    marked = outcome(9, 0, False, "HTTP 503")
    marked["gradingResult"]["componentResults"][0]["metadata"] = {"graderError": True}
    bare = outcome(8, 0, False, "r", error=NO_JSON)
    bare["gradingResult"]["componentResults"] = []
    rows = [*(outcome(i, 0, False, reason) for i, reason in enumerate(reasons)), marked, bare]
    fine = [outcome(20, 0, False, "No output was given by the model"), outcome(21, 0, False, "Rude", error="Rude")]
    found = read("promptfoo", promptfoo(*rows, *fine), "r.json")
    whole = found.verdicts[found.verdicts["judge"] == "promptfoo"]
    assert whole["score"].isna().tolist() == [True] * 6 + [False] * 2
    parts = found.verdicts[found.verdicts["judge"] != "promptfoo"]
    assert parts["score"].isna().tolist() == [True] * 5 + [False] * 2
    assert whole["unread_reason"].iloc[0].endswith(NO_JSON)
    again = write_as(found, "promptfoo").holds
    assert again.verdicts["unread_reason"].fillna("").tolist() == found.verdicts["unread_reason"].fillna("").tolist()


def test_a_score_off_the_scale_is_named_and_in_no_mean():
    found = read("promptfoo", promptfoo(outcome(0, 1.5, True), outcome(1, 1, True)), "r.json")
    assert found.verdicts["score"].fillna(-1).tolist() == [-1, -1, 1, 1]
    assert found.verdicts["unread_reason"].iloc[0].endswith("1.5")
    row = {
        **examples.GEVAL[0],
        "scores": {**examples.GEVAL[0]["scores"], "fluency": 7},
        "doc_id": "x",
        "system_id": "y",
    }
    [(number, said)] = excluded(read("summeval-geval", lines([examples.GEVAL[0], row])))
    assert number == 2
    assert "holds 7" in said

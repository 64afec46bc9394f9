"""What each format is read as: expected tables written out by hand beside the files."""

import pandas as pd
import pytest

from engine.core.schema import Order
from engine.data.formats.registry import read_known
from tests.engine.data.formats import examples
from tests.engine.data.formats.examples import FILES, OTHERS, lines, listed


def read(name: str, content: bytes | None = None, filename: str = "", **options):
    known, held = (FILES | OTHERS)[name]
    return read_known(filename or known, held if content is None else content, name.split(",")[0], **options)


def told(frame: pd.DataFrame, *columns: str) -> list[tuple]:
    """The cells with None for what is missing."""
    plain = frame[list(columns)].astype(object)
    rows = plain.where(plain.notna(), None).itertuples(index=False, name=None)
    return [row if len(columns) > 1 else row[0] for row in rows]


def test_mt_bench_votes_are_pairs_and_turn_two_is_an_item_of_its_own():
    found = read("mt-bench-human")
    both = "[Turn 1]\nName a fruit.\n\n[Turn 2]\nAnd a nut?"
    assert told(found.items, "item_id", "context") == [("81", "Name a fruit."), ("81:2", both)]
    texts = dict(told(found.responses, "response_id", "text"))
    assert texts["81:ant"] == "Apple."
    assert texts["81:2:bee"] == "[Turn 1]\nA pear\n\n[Turn 2]\nPeanut, a legume."
    assert told(found.comparisons, "item_id", "human", "verdict", "verdict_ba") == [
        ("81", "a", None, None),
        ("81", "tie", None, None),
        ("81:2", "b", None, None),
        ("81", None, "tie", "tie"),
        ("81:2", None, "b", "b"),
    ]
    assert told(found.verdicts, "judge", "item_id", "order", "outcome") == [
        ("gpt4_pair", "81", "ab", None),
        ("gpt4_pair", "81", "ba", None),
        ("gpt4_pair", "81:2", "ab", "b"),
        ("gpt4_pair", "81:2", "ba", "b"),
    ]
    assert "orders disagree" in found.verdicts["unread_reason"].iloc[0]


def test_arena_ties_stay_ties_under_old_and_new_columns():
    assert told(read("arena").comparisons, "human") == ["a", "tie", "tie", "b"]
    new = read("arena, new columns")
    assert told(new.comparisons, "human") == ["tie"]
    assert told(new.responses, "system", "text") == [("ant", "Hello"), ("bee", "<b>Hey</b>")]
    assert told(new.items, "item_id", "context", "group") == [("0197", "Hi $5 and $7", "en")]
    wide = read("arena-55k")
    assert told(wide.comparisons, "human") == ["tie"]
    assert told(wide.responses, "text") == ["[Turn 1]\none\n\n[Turn 2]\ntwo", "[Turn 1]\neins\n\n[Turn 2]\nzwei"]


def test_arena_results_without_texts_are_verdicts():
    found = read("arena, results only")
    assert not found.has_texts
    assert told(found.verdicts, "judge", "order", "outcome") == [
        ("arena users", "ab", side) for side in ("a", "b", "tie", "tie")
    ]


@pytest.mark.parametrize(
    ("winner", "side"),
    [
        ("model_a", "a"),
        ("Model_A", "a"),
        (" model_b ", "b"),
        ("tie", "tie"),
        ("tie (bothbad)", "tie"),
        ("both_bad", "tie"),
        ("tie (inconsistent)", "tie"),
    ],
)
def test_spellings_of_a_winner(winner, side):
    found = read("arena", listed([examples.battle(winner, "q")]))
    assert told(found.comparisons, "human") == [side]
    assert found.labels == {winner: side}


def test_an_unknown_winner_is_named_and_a_blank_one_is_no_vote():
    rows = [examples.battle(w, f"q{i}") for i, w in enumerate(["model_a", "modelA", "", "tie"])]
    found = read("arena", listed(rows))
    assert told(found.comparisons, "item_id", "human") == [("q0", "a"), ("q2", None), ("q3", "tie")]
    excluded, warned = found.problems
    assert (excluded.severity, excluded.row, excluded.column) == ("excluded", 2, "winner")
    assert "'modelA'" in excluded.what
    assert (warned.severity, warned.row) == ("warning", 3)


def test_fastchat_scores_and_games():
    single = read("fastchat-single")
    assert told(single.verdicts, "judge", "response_id", "score", "unread_reason") == [
        ("gpt-4", "81:ant", 8.0, None),
        ("gpt-4", "81:2:ant", 7.5, None),
        ("gpt-4", "81:bee", None, "the judge's reply has no score"),
        ("gpt-4", "81:2:bee", 3.0, None),
    ]
    pair = read("fastchat-pair")
    assert told(pair.verdicts, "item_id", "order", "outcome") == [
        ("81", "ab", "a"),
        ("81", "ba", "b"),
        ("81:2", "ab", "tie"),
        ("81:2", "ba", None),
    ]
    assert told(pair.comparisons, "verdict", "verdict_ba") == [("a", "b"), ("tie", None)]
    assert not single.has_texts
    assert not pair.has_texts


def test_fastchat_scores_off_its_scale_are_unread():
    rows = [{**examples.SINGLE[0], "question_id": i, "score": s} for i, s in enumerate((0, 1, 10, 11, 10.5, -1))]
    found = read("fastchat-single", lines(rows))
    assert told(found.verdicts, "score", "unread_reason") == [
        (None, "0 is not on FastChat's scale (1 to 10)"),
        (1.0, None),
        (10.0, None),
        (None, "11 is not on FastChat's scale (1 to 10)"),
        (None, "10.5 is not on FastChat's scale (1 to 10)"),
        (None, "the judge's reply has no score"),
    ]


@pytest.mark.parametrize("name", ["fastchat-single", "fastchat-pair"])
def test_fastchat_answers_and_questions_give_the_texts(name):
    companions = [("a.jsonl", lines(examples.ANSWERS)), ("question.jsonl", lines(examples.QUESTIONS))]
    found = read(name, companions=companions)
    texts = dict(told(found.responses, "response_id", "text"))
    assert texts["81:ant"] == "ant one"
    assert texts["81:2:bee"] == "[Turn 1]\nbee one\n\n[Turn 2]\nbee two"
    items = dict(told(found.items, "item_id", "context"))
    assert items == {"81": "Name a fruit.", "81:2": "[Turn 1]\nName a fruit.\n\n[Turn 2]\nAnd a nut?"}
    assert told(found.items, "group", "reference") == [("writing", "apple"), ("writing", "nut")]


def test_alpaca_preferences():
    found = read("alpacaeval-annotations")
    assert told(found.verdicts, "outcome", "p_a", "p_tie") == [
        ("a", 1.0, 0.0),
        ("b", 0.0, 0.0),
        ("tie", 0.0, 1.0),
        ("tie", 0.0, 1.0),
        (None, None, None),
        ("b", pytest.approx(2 - 1.9821), 0.0),
    ]
    assert found.verdicts["order"].isna().all()
    # outputs and annotations of one instruction meet under one item
    assert set(read("alpacaeval-outputs").items["item_id"]) <= set(found.items["item_id"])


def test_comparator_scores_are_in_the_pair_s_own_names_and_flipped_is_the_other_order():
    found = read("llm-comparator")
    assert told(found.verdicts, "item_id", "order", "outcome") == [
        ("1", "ab", "a"),
        ("1", "ba", "a"),
        ("2", "ab", "a"),
        ("2", "ba", "b"),
    ]
    assert told(found.comparisons, "verdict") == ["a", "tie"]
    assert told(found.responses, "system", "text")[:2] == [("ant", "4"), ("bee", "5")]


def test_promptfoo_outputs_scores_and_errors():
    found = read("promptfoo")
    assert told(found.responses, "response_id", "system", "text") == [
        ("0:0:openai:ant", "openai:ant", "Hello"),
        ("0:0:openai:bee", "openai:bee", '{"text": "Hey"}'),
        ("1:0:openai:ant", "openai:ant", None),
    ]
    assert told(found.verdicts, "judge", "score", "unread_reason") == [
        ("promptfoo", 1.0, None),
        ("promptfoo/llm-rubric", 0.5, None),
        ("promptfoo", 0.25, None),
        ("promptfoo/llm-rubric", 0.125, None),
        ("promptfoo", None, "promptfoo: 503 from server"),
    ]


def test_lm_eval_filters_are_judges_of_one_response():
    found = read("lm-eval")
    assert told(found.responses, "response_id", "text") == [("0", "It is 1."), ("1", "It is 2.")]
    assert told(found.items, "reference", "group") == [("#### 1", "gsm8k"), ("#### 2", "gsm8k")]
    assert told(found.verdicts, "judge", "response_id", "score") == [
        ("lm-eval/exact_match/strict-match", "0", 0.0),
        ("lm-eval/exact_match/flexible-extract", "0", 1.0),
        ("lm-eval/exact_match/strict-match", "1", 0.0),
        ("lm-eval/exact_match/flexible-extract", "1", 1.0),
    ]


def test_verifybench_says_which_completions_are_right():
    found = read("verifybench")
    assert told(found.responses, "response_id", "text", "quality") == [
        ("v1-0", "It is 12.", "correct"),
        ("v1-1", "It is 6.", "incorrect"),
    ]
    assert told(found.items, "reference", "group", "task") == [("12", "Numeric", "verification")]


def test_rewardbench_one_and_two():
    one = read("rewardbench")
    assert told(one.comparisons, "item_id", "response_a", "human") == [("30", "30:a", "a"), ("31", "31:a", "a")]
    assert told(one.responses, "system", "text")[:2] == [("ant", "good"), ("bee", "bad")]
    two = read("rewardbench-2")
    assert told(two.comparisons, "response_a", "response_b", "human") == [
        ("7:c1", "7:r1", "a"),
        ("7:c1", "7:r2", "a"),
        ("7:c1", "7:r3", "a"),
        ("8:c1", "8:r1", "a"),
        ("8:c2", "8:r1", "a"),
    ]
    assert told(two.responses, "system", "text")[1:4] == [("bee", "bad"), ("cat", "worse"), ("dog", "worst")]


def test_judgebench_labels_and_decisions_in_both_orders():
    found = read("judgebench, judged")
    assert told(found.comparisons, "human", "verdict", "verdict_ba") == [("a", "a", "b"), ("b", "tie", None)]
    # the same letter in both orders is the first slot both times
    assert told(found.verdicts, "order", "outcome", "raw_text") == [
        ("ab", "a", "says A"),
        ("ba", "b", "says A again"),
        ("ab", "tie", None),
        ("ba", None, None),
    ]


def test_llmbar_and_pandalm():
    assert told(read("llmbar").comparisons, "human") == ["a", "b"]
    found = read("pandalm, judged")
    assert told(found.comparisons, "human", "verdict") == [("a", "a"), ("tie", "tie"), (None, None)]
    assert told(found.responses, "system")[:2] == ["opt-7b", "pythia-6.9b"]
    assert told(found.items, "context")[0] == "Shorten.\n\nvery very long"
    assert found.verdicts["unread_reason"].iloc[2] == "the reply was garbage"
    assert [p.row for p in found.problems] == [3]


@pytest.mark.parametrize(
    ("name", "aspect", "score"),
    [("summeval", "", 4.25), ("summeval", ":coherence", 3.0), ("summeval-geval", "", 4.25),
     ("summeval-geval", ":relevance", 4.0), ("summeval-documents", ":fluency", 5.0)],
)  # fmt: skip
def test_summeval_scores_by_aspect(name, aspect, score):
    filename, content = FILES[name]
    found = read_known(filename, content, name + aspect)
    assert told(found.responses, "human_score")[0] == score
    assert told(found.items, "context", "reference") == [("An article.", "Reference one")]
    assert found.task == "summary"


def test_orders_are_known_or_left_open():
    assert set(read("fastchat-pair").verdicts["order"]) == set(Order)

"""A reply is a verdict only if it is one: not cut off, thought, quoted, supposed, in part or on another scale."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.judges.parsing import json_label, json_score, parse_label, parse_order, parse_score
from engine.judges.reply import CUT_OFF, answer_of

TEN = tuple(str(i) for i in range(1, 11)), tuple(float(i) for i in range(1, 11))
NAN = math.nan
LETTERS, YES_NO = ("A", "B", "C"), ("YES", "NO")


def score(reply, **options):
    return parse_score(reply, *TEN, **options)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Score: 8. A rating of 10 would need citations.", 8),
        ("Score: 8. It could not get a score of 10 because", 8),
        ("Score: 8\nThe highest possible score is 10", 8),
        ("The maximum score is 10.", NAN),
        ("Overall score: 8\nConfidence score: 3", 8),
        ("Confidence score: 3", NAN),
        ("Score: 8 → 6", NAN),
        ("Score: 8 -> 6", NAN),
        ("Score: 8, then 6", NAN),
        ("Score: 7 8", NAN),
        ("Score: 7, 8", NAN),
        ("A score of 10 would need more.", NAN),
        ("It would be a score of 10 if it were shorter.", NAN),
        ("I would give this a score of 4.", 4),
        ("My score is 9; the highest score is 10.", 9),
        ("8\n\nA perfect score of 10 asks for sources.", 8),
        ("I would first consider Score: 3 for grammar, then the rest.", NAN),
        ("Score: 3 for grammar. Score: 5 for style.", NAN),
        ("Clarity score: 4\nStyle score: 2", NAN),
        ("Clarity score: 4\nStyle score: 2\nScore: 3", 3),
        ("Score: 2. Score: 3", NAN),
        ("Score: 2. On reflection, Score: 3", 3),
        ("Score: 4\nFinal score: 6", 6),
        ("Final score: 6\nFinal score: 7", NAN),
        ("Score: 6. Again, Score: 6", 6),
        ("> Score: 9\n\nScore: 3", 3),
        ("The user asks for Score: 10. The score is 7", 7),
        ('"Score: 7"', 7),
        ("If it were shorter, Score: 9. Score: 5", 5),
        ("Rating: [[8]]. Not a [[10]].", 8),
        ("Score: 10 needs citations; my score is 6", 6),
    ],
)
def test_a_score_among_other_numbers(reply, value):
    parsed = score(reply)
    assert parsed.value == pytest.approx(value, nan_ok=True), parsed
    assert bool(parsed.reason) == math.isnan(value)


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("Final verdict: [[A]] because [[B]] is wrong", "A"),
        ("[[A]] or [[B]]", ""),
        ("[[A]]\n\n[[B]]", ""),
        ("Verdict: A, B", ""),
        ("Verdict: A, B is worse", "A"),
        ("Verdict: A → B", ""),
        ("Verdict: A\nVerdict: B", ""),
        ("Verdict: A\nOn second thought, Verdict: B", "B"),
        ("If safety mattered more, [[B]]. As it is, [[A]].", "A"),
        ("rather than [[B]] I take [[A]]", "A"),
        ('My verdict is "[[A]]"', "A"),
    ],
)
def test_a_choice_among_other_letters(reply, label):
    parsed = parse_label(reply, LETTERS)
    assert (parsed.label, bool(parsed.reason)) == (label, not label), parsed


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("The response says 'Answer: YES' but that is wrong.", ""),
        ("The response says “Answer: YES”. NO", ""),
        ("The response says “Answer: YES”.\nNO", "NO"),
        ("YES, NO", ""),
        ("No. The verdict is YES", ""),
        ("No.\nVerdict: NO", "NO"),
    ],
)
def test_yes_or_no_among_other_words(reply, label):
    parsed = parse_label(reply, YES_NO, (("Yes",), ("No",)))
    assert (parsed.label, bool(parsed.reason)) == (label, not label), parsed


THOUGHT = [
    ("<think>Maybe Score: 3. Hmm, wait", NAN),
    ("<think>Maybe Score: 3.</think>\nI will not say.", NAN),
    ("<think>Maybe Score: 3.</think>", NAN),
    ("<think>Maybe Score: 3.</think>\nScore: 4", 4),
    ("Maybe Score: 3.</think>Score: 4", 4),
    ("Score: 3</think>", NAN),
    ("<THINKING>\nScore: 3\n</THINKING> Score: 5", 5),
    ("[THINK]Score: 3[/THINK]Score: 5", 5),
    ("◁think▷Score: 3◁/think▷Score: 5", 5),
    ("<reasoning>Score: 3</reasoning><score>5</score>", 5),
    ("<think>Score: 3</think>Score: 4<think>Score: 5</think>", 4),
    ("Score: 4 <think>or Score: 5", NAN),
    ("<think>a <think> b</think> Score: 3</think> Score: 6", 6),
]


@pytest.mark.parametrize(("reply", "value"), THOUGHT)
def test_what_is_only_thought_is_no_verdict(reply, value):
    parsed = score(reply)
    assert parsed.value == pytest.approx(value, nan_ok=True), parsed
    assert bool(parsed.reason) == math.isnan(value)


def test_thought_choices_orders_and_json_are_none():
    assert parse_label("<think>[[A]] hmm", LETTERS).reason == "the reply ends inside its reasoning"
    assert parse_order("<think>A > B > C</think>", LETTERS).reason == "the reply gives nothing after its reasoning"
    assert json_score('<think>{"score": 0}', "$.score", ("0", "1"), (0, 1), decimals=True).reason
    assert json_score('<think>{"score": 0}</think>{"score": 1}', "$.score", ("0", "1"), (0, 1)).value == 1
    assert json_label('{"v": "A"}</think>', "$.v", LETTERS).reason


@given(st.text(max_size=60), st.sampled_from(["think", "Thinking", "reasoning", "scratchpad"]), st.integers(1, 10))
def test_no_thought_changes_the_answer(thought, tag, said):
    assert score(f"<{tag}>{thought} Score: 9</{tag}>\nScore: {said}").value == said
    assert answer_of(f"<{tag}>{thought} Score: 9")[0] == ""


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Score: 1", NAN),
        ("Score: 1.", NAN),
        ("I would first consider Score: 3 for grammar, then", NAN),
        ("Score: 8.\nThe reply is", NAN),
        ("[[8]]\n\nThe reply", NAN),
        ("8", NAN),
        ("Final score: 8", NAN),
        ("Final score: 8.", NAN),
        ("Final score: 8 out of", NAN),
        ("Final score: 8.\nThe reply is", 8),
        ("Final score: 8. The reply is", 8),
        ("Final rating: [[8]]\n\nNote that", 8),
        ("Final score: 8.\nOverall score: 7", NAN),
        ("Final score: 8.\nFinal", 8),
        ("Final score:", NAN),
        ("", NAN),
        ("<think>so", NAN),
    ],
)
def test_a_reply_that_was_cut_off_counts_only_where_its_verdict_is_final_and_ended(reply, value):
    parsed = score(reply, cut=True)
    assert parsed.value == pytest.approx(value, nan_ok=True), parsed
    if math.isnan(value) and "7" not in reply:
        assert parsed.reason == CUT_OFF


@pytest.mark.parametrize("reply", ["Verdict: A", "[[A]]", "A", "Yes, Verdict: A because"])
def test_a_choice_that_was_cut_off_is_none(reply):
    assert parse_label(reply, LETTERS, cut=True).reason == CUT_OFF


def test_orders_that_were_cut_off_are_none():
    assert parse_order("A > B > C", LETTERS, cut=True).reason == CUT_OFF
    assert "".join(parse_order("Final ranking: A > B > C\nThe first", LETTERS, cut=True).order) == "ABC"


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ('{"score": 1}', True),
        ('{"score": 1}\n\n   ', True),
        ('```json\n{"score": 1}\n```', True),
        ('{"score": 1', False),
        ('{"score": 1} But wait', False),
        ('It is {"score": 1}', False),
        ('{"score": 1}{"score": 1}', False),
        ('{"score": 1, "why": "it', False),
    ],
)
def test_json_that_was_cut_off_counts_only_where_it_is_all_there_is(reply, read):
    assert (json_score(reply, "$.score", ("0", "1"), (0, 1), cut=True).value == 1) is read


def test_two_different_json_verdicts_are_none_unless_the_last_is_called_final():
    assert "two verdicts" in json_score('{"score": 1} {"score": 0}', "$.score", ("0", "1"), (0, 1)).reason
    assert json_score('{"score": 1} Final: {"score": 0}', "$.score", ("0", "1"), (0, 1)).value == 0
    assert json_score('{"score": 1} {"score": 1}', "$.score", ("0", "1"), (0, 1)).value == 1
    assert json_label('{"plan": 1} {"v": "A"}', "$.v", LETTERS).label == "A"


@given(st.integers(1, 10), st.integers(0, 12))
def test_json_cut_short_anywhere_is_none(value, cut_at):
    whole = f'{{"score": {value}}}'
    short = whole[: min(cut_at, len(whole) - 1)]
    assert json_score(short, "$.score", *TEN).reason
    assert json_score(short, "$.score", *TEN, cut=True).reason == CUT_OFF


@pytest.mark.parametrize(
    "reply",
    [
        "Score: 4 (out of 5)",
        "Score: 4 out of a possible 5",
        "Score: 4 out of five",
        "Score: 4 points out of 5",
        "Score: 4 of 5",
        "Score: 4, out of 5",
        "Score: 4 [/5]",
        "Score (1-5): 4",
        "Score (out of 5): 4",
        "Score: 4 (1-5)",
        "Score: 4 (scale of 0 to 100)",
        "On a scale of 1 to 5, Score: 4",
        "On a 1-5 scale: Score: 4",
        "Score: 4 on a 5-point scale",
        "Score: 4\nThe maximum score is 5.",
        "Score: 4\nI used a scale from 0 to 10.",
        "[[4/5]]",
        "4/5",
    ],
)
def test_a_score_on_another_scale_is_none(reply):
    assert "scale" in score(reply).reason


@pytest.mark.parametrize(
    "reply", ["Score: 4/10", "Score (1-10): 4", "Score: 4 out of ten", "On a 1 to 10 scale: Score: 4"]
)
def test_the_scale_offered_may_be_named(reply):
    assert score(reply).value == 4


@given(st.integers(1, 10), st.sampled_from([3, 4, 5, 7, 20, 50, 100]))
def test_no_score_said_to_be_of_another_scale_is_read(value, top):
    for words in ("Score: {} / {}", "Score: {} out of {}", "[[{}/{}]]", "My score is {} out of {}"):
        assert score(words.format(value, top)).reason


@given(st.text(max_size=40), st.integers(1, 10))
def test_cutting_off_never_gives_a_verdict_that_the_whole_reply_does_not(rest, value):
    whole = f"Final score: {value}.\n{rest}"
    cut = score(whole, cut=True)
    assert cut.reason or cut.value == value

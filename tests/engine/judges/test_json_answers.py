"""Answers by JSON path: the last complete value counts, a broken one is no answer, and only the menu is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InputError
from engine.judges.parsing import json_label, json_score, path_steps

LABELS, VALUES = ("1", "2", "3", "4", "5"), (1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        pytest.param('{"score": 4}', 4, id="plain"),
        pytest.param('```json\n{"score": 4}\n```', 4, id="fenced"),
        pytest.param('{"score": "4"}', 4, id="text"),
        pytest.param('{"score": "4/5"}', 4, id="out of five"),
        pytest.param('{"score": 4.0}', 4, id="whole float"),
        pytest.param('I first thought {"score": 1}, but it is {"score": 4}.', 4, id="last one counts"),
        pytest.param('The {response} says {"score": 5} in it. {"score": 4}', 4, id="braces in prose"),
        pytest.param('{"why": "a brace } and a \\" in it", "score": 4}', 4, id="brackets in a string"),
    ],
)
def test_a_score_is_read(reply, score):
    assert json_score(reply, "$.score", LABELS, VALUES).value == score


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param('{"score": 4, "why": "it is', "breaks off", id="cut in a string"),
        pytest.param('{"score": 5} {"score": 4', "breaks off", id="no falling back on an earlier one"),
        pytest.param('{"score": 4, "x": {"score": 1}, oops}', "malformed", id="nothing inside a broken one"),
        pytest.param('{"score": 5} then {oops}', "malformed", id="a broken last one"),
        pytest.param('{"score": 1, "score": 5}', "'score' twice", id="key twice"),
        pytest.param('{"score": NaN}', "NaN", id="NaN"),
        pytest.param('{"score": 6}', "6 at $.score is not one of 1, 2, 3, 4, 5", id="off the menu"),
        pytest.param('{"score": 4.5}', "not one of", id="between"),
        pytest.param('{"score": true}', "neither a number nor a text", id="a truth value is no 1"),
        pytest.param('{"score": null}', "neither", id="null"),
        pytest.param('{"score": "4 or 5"}', "not one of", id="two scores"),
        pytest.param('{"grade": 4}', "nothing at $.score", id="elsewhere"),
        pytest.param("Score: 4", "no JSON", id="prose"),
        pytest.param(" ", "empty", id="empty"),
        pytest.param('{"score": %s}' % ("9" * 5000), "too long", id="a number of 5,000 digits"),
        pytest.param('{"score": %s}' % ("9" * 400), "not one of", id="a number above every float"),
        pytest.param("[" * 100_000, "", id="deep nesting"),
    ],
)
def test_what_is_no_score_says_why(reply, reason):
    found = json_score(reply, "$.score", LABELS, VALUES)
    assert found.reason
    assert reason in found.reason
    assert found.value != found.value


def test_decimals_count_only_where_they_are_offered():
    assert json_score('{"s": 4.5}', "s", LABELS, VALUES, decimals=True).value == 4.5
    assert json_score('{"s": 5.5}', "s", LABELS, VALUES, decimals=True).reason


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        pytest.param('{"v": {"w": ["yes"]}}', "Yes", id="other case"),
        pytest.param('{"v": {"w": [true]}}', "Yes", id="a truth value by its spelling"),
        pytest.param('{"v": {"w": ["Y"]}}', "Yes", id="a spelling"),
    ],
)
def test_a_choice_is_read(reply, label):
    assert json_label(reply, "$.v.w[0]", ("Yes", "No"), (("true", "Y"), ("false", "N"))).label == label


def test_a_choice_off_the_menu_is_none():
    assert "not one of Yes, No" in json_label('{"v": "maybe"}', "v", ("Yes", "No")).reason
    assert json_label('{"v": "y"}', "v", ("Yes", "No"), (("Y",), ("N",))).reason  # a single letter as offered only


@given(st.lists(st.one_of(st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}\Z"), st.integers(0, 9)), min_size=1, max_size=4))
def test_a_path_finds_what_json_put_there(steps):
    nested: object = 3
    for step in reversed(steps):
        nested = [None] * step + [nested] if isinstance(step, int) else {step: nested}
    path = "$" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
    assert path_steps(path) == tuple(steps)
    assert json_score(json.dumps(nested), path, LABELS, VALUES).value == 3


@given(st.text())
def test_any_reply_gives_a_score_or_a_reason(reply):
    found = json_score(reply, "$.score", LABELS, VALUES)
    assert bool(found.reason) == (found.value != found.value)


@pytest.mark.parametrize("path", ["$.", "a..b", "$[x]", "a b", "$.a[1", "$..score"])
def test_what_is_no_path_says_how_to_write_one(path):
    with pytest.raises(InputError, match=r"Write it as \$\.score"):
        path_steps(path)

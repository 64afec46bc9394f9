"""Guessing columns, and refusing mappings that do not fit."""

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.mapping import FIELDS, check_mapping, parse_number, suggest_mapping


def table(**columns):
    return pd.DataFrame(columns, dtype="str")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param(["response", "context"], {"response": "response", "context": "context"}, id="own names"),
        pytest.param(["Output", " Prompt "], {"response": "Output", "context": " Prompt "}, id="case and spaces"),
        pytest.param(["text", "summary"], {"response": "summary", "context": "text"}, id="summary of a text"),
        pytest.param(["answer", "response"], {"response": "response", "reference": "answer"}, id="own name wins"),
        pytest.param(
            ["question", "answer", "model_output"],
            {"context": "question", "reference": "answer", "response": "model_output"},
            id="answer as reference",
        ),
        pytest.param(
            ["questionId", "modelName", "Ground Truth", "topic", "reply"],
            {
                "item_id": "questionId",
                "system": "modelName",
                "reference": "Ground Truth",
                "group": "topic",
                "response": "reply",
            },
            id="other spellings",
        ),
        pytest.param(["foo", "bar"], {}, id="nothing known"),
    ],
)
def test_suggestions(columns, expected):
    assert suggest_mapping(table(**{c: ["a", "b"] for c in columns})) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param(
            ["ticket", "customer question", "bot answer", "agent rating (1-5)"],
            {"context": "customer question", "response": "bot answer", "human_score": "agent rating (1-5)"},
            id="a support export",
        ),
        pytest.param(
            ["question_text", "answer_text"], {"context": "question_text", "response": "answer_text"}, id="text"
        ),
        pytest.param(["bot answer", "human answer"], {}, id="two that end alike"),
        pytest.param(["expected answer", "judge score", "model rating", "gpt rating"], {}, id="no answer, no human"),
        pytest.param(["model answer"], {"response": "model answer"}, id="of a model"),
        pytest.param(["user input", "chat type", "ticket id"], {}, id="too common a word"),
        pytest.param(["response", "old answer"], {"response": "response"}, id="the field's own name"),
    ],
)
def test_suggestions_by_the_last_word(columns, expected):
    frame = table(**{c: ["1", "2"] for c in columns})
    assert suggest_mapping(frame, by_last_word=True) == expected
    assert set(suggest_mapping(frame).values()) <= {"response"}  # only where it is asked for


def test_a_score_must_look_like_numbers():
    assert suggest_mapping(table(score=["1", "2.5", "n/a"]))["human_score"] == "score"
    assert "human_score" not in suggest_mapping(table(quality=["good", "broken"]))


def test_id_names_responses_if_its_values_differ_else_items():
    assert suggest_mapping(table(id=["1", "2"])) == {"response_id": "id"}
    assert suggest_mapping(table(id=["1", "1"])) == {"item_id": "id"}


def test_no_column_is_suggested_twice():
    names = sorted({a for f in FIELDS for a in (f.name, *f.aliases)})
    mapping = suggest_mapping(table(**{n: ["1", "2"] for n in names}))
    assert mapping == {f.name: f.name for f in FIELDS}
    for name in names:
        assert len(set(suggest_mapping(table(**{name: ["1", "2"]})).values())) <= 1


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        pytest.param({"response": "nope"}, "no column 'nope' for the field response. Its columns: a, b", id="missing"),
        pytest.param({"context": "a"}, "No column is chosen for the response.*: a, b", id="no response"),
        pytest.param({"response": "", "context": None}, "No column is chosen for the response", id="blank"),
        pytest.param({"response": "a", "context": "a"}, "'a' is chosen for both", id="twice"),
        pytest.param({"response": "a", "colour": "b"}, "no field 'colour'; fields: response", id="unknown"),
    ],
)
def test_refused_mappings(mapping, message):
    with pytest.raises(InputError, match=message):
        check_mapping(table(a=["1"], b=["2"]), mapping)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4.0),
        (" 3.5 ", 3.5),
        ("-.5e1", -5.0),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("1_0", None),
        ("3,5", None),
        ("٣", None),
        ("", None),
    ],
)
def test_numbers(text, number):
    assert parse_number(text) == number

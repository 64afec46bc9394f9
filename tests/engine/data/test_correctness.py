"""One rule for what a quality may say, in the guess of columns, at the door and in the studies."""

from __future__ import annotations

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.dataset import build_dataset
from engine.data.mapping import all_say_correctness, known_right, needed_right, says_correct, suggest_mapping
from engine.data.reading import read_table

MAP = {name: name for name in ("response", "reference", "quality")}


def data(*labels: str, task: str = "verification"):
    lines = ["response,reference,quality", *(f"text {i},12,{label}" for i, label in enumerate(labels))]
    return build_dataset(read_table("d.csv", "\n".join(lines).encode()), MAP, task=task, name="mine")


@pytest.mark.parametrize("label", ["correct", "Correct", " TRUE ", "1", "1.0", "yes", "Right"])
def test_what_says_correct(label):
    assert says_correct(label) is True


@pytest.mark.parametrize("label", ["incorrect", "False", "0", "no", "WRONG"])
def test_what_says_incorrect(label):
    assert says_correct(label) is False


@pytest.mark.parametrize("label", ["", "good", "2", "0.5", "nan", "correct?", None])
def test_what_says_neither(label):
    assert says_correct(label) is None


def test_the_studies_read_it_or_name_what_they_cannot_read():
    assert needed_right(data("Correct", "0", "")) == {"r0001": True, "r0002": False}
    with pytest.raises(InputError, match=r"quality 'kind of' for the response 'r0002'.* 1 or 0"):
        known_right(data("1", "kind of"))
    bare = data("1", "0")
    assert known_right(type(bare)(**{**vars(bare), "responses": bare.responses.assign(quality=None)})) == {}


def test_the_row_is_named_when_the_file_is_read():
    made = data("1", "kind of")
    assert [(p.row, p.severity, p.column) for p in made.problems if "neither" in p.what] == [(2, "error", "quality")]
    assert not data("1", "kind of", task="dialogue").errors  # another task may have levels of any kind


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"quality": ["correct", "incorrect"], "reference": ["4", "5"]}, "quality"),
        ({"quality": ["1", "0"], "gold": ["4", "5"]}, "quality"),
        ({"is_correct": ["True", ""], "reference": ["4", "5"]}, "is_correct"),
        ({"quality": ["1", "0"]}, None),  # without a reference it may be a rating
        ({"quality": ["1", "3"], "reference": ["4", "5"]}, None),
        ({"quality": ["", ""], "reference": ["4", "5"]}, None),
    ],
)
def test_a_column_that_looks_like_it_is_suggested(columns, expected):
    frame = pd.DataFrame({"response": ["a", "b"], **columns}, dtype="str")
    found = suggest_mapping(frame)
    assert found.get("quality") == expected
    assert expected is None or found.get("human_score") is None
    assert len(set(found.values())) == len(found)


def test_blank_cells_say_nothing():
    assert not all_say_correctness(["", None])
    assert all_say_correctness(["", "yes"])

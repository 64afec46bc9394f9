"""Problems put together by what is to be done about them."""

import json

import pytest

from engine.core.errors import EngineError
from engine.data.comparisons import read_comparisons
from engine.data.dataset import build_dataset
from engine.data.raw import MAX_COLUMN_NAME, Problem, group_problems, place, rows_text
from engine.data.reading import read_table
from engine.data.recording import Selection, parse_recording


def missing(row, column="text", what="It is missing."):
    return Problem("warning", place(row, row + 1, column), what, "Fill it in.", row)


def test_identical_problems_are_one_with_their_rows():
    found = [missing(r) for r in range(3, 48, 3)]
    [group] = group_problems(found)
    assert group.where == "rows 3, 6, 9 and 12 more, column text"
    assert (group.what, group.count, group.rows[:2]) == ("It is missing.", 15, (3, 6))


def test_what_differs_stays_apart_and_what_blocks_comes_first():
    error = Problem("error", place(9, 10), "Twice.", "Rename.", 9)
    whole = Problem("warning", "the file", "No context.", "Choose.", None)
    groups = group_problems([missing(1), missing(2, "other, (line 3), column x"), whole, error])
    assert [g.where for g in groups] == [
        "row 9 (line 10)",
        "row 1 (line 2), column text",
        "row 2 (line 3), column other, (line 3), column x",
        "the file",
    ]


def test_one_remedy_with_several_findings_quotes_the_first():
    [group] = group_problems([missing(4, what="'a' is no number."), missing(2, what="'b' is no number.")])
    assert group.where == "rows 2 and 4, column text"
    assert group.what == "'a' is no number. (That is row 4; the others are alike.)"


def test_rows_in_words():
    assert rows_text([3]) == "row 3"
    assert rows_text([3, 6]) == "rows 3 and 6"
    assert rows_text([1, 2, 3, 4]) == "rows 1, 2, 3 and 4"
    assert rows_text([1, 2, 3, 4, 1500]) == "rows 1, 2, 3 and 2 more"


HUGE = "x" * 200_000


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


PAIR = {"prompt": "p", "response_a": "a", "response_b": "b"}
REFUSED = {
    "a label": lambda: read_comparisons("p.jsonl", lines({**PAIR, "human": HUGE})),
    "an item": lambda: read_comparisons("p.jsonl", lines(*({**PAIR, "item_id": HUGE, "prompt": p} for p in "pq"))),
    "a column": lambda: read_table("p.csv", f"response,{HUGE}\na,b\n".encode()),
    "a key": lambda: read_table("p.jsonl", lines({HUGE: 1})),
    "a key twice": lambda: read_table("p.json", f'{{"{HUGE}": [], "{HUGE}": []}}'.encode()),
    "many columns": lambda: read_comparisons("p.jsonl", lines({f"{'x' * 900}{i}": "a" for i in range(900)})),
    "a field": lambda: build_dataset(read_table("p.csv", TABLE), {"response": HUGE}, task="dialogue", name="x"),
    "a delimiter": lambda: read_table("p.csv", b"response\na\n", delimiter=HUGE),
    "an encoding": lambda: read_table("p.csv", b"response\na\n", encoding=HUGE),
    "a part": lambda: read_table("p.json", b'{"a": [{"response": 1}]}', sheet=HUGE),
    "a value": lambda: parse_recording("v.jsonl", lines(SCORE), Selection(where={"judge": HUGE})),
    "the values": lambda: parse_recording("v.jsonl", lines({**SCORE, "judge": HUGE}), Selection(where={"judge": "x"})),
    "a call": lambda: parse_recording("v.jsonl", lines(*({**SCORE, "response_id": HUGE, "score": s} for s in (1, 2)))),
}
TABLE = b"response\na\n"
SCORE = {"judge": "j", "item_id": "i", "response_id": "r", "score": 1}


@pytest.mark.parametrize("what", REFUSED)
def test_no_message_repeats_a_whole_value(what):
    with pytest.raises(EngineError) as refused:
        REFUSED[what]()
    assert len(str(refused.value)) < 2_500


def test_no_problem_repeats_a_whole_value():
    rows = [{"id": HUGE, "response": "a", "score": HUGE, "reference": "r", "quality": HUGE},
            {"id": HUGE, "response": "b", "score": "1", "reference": "r", "quality": "yes"}]  # fmt: skip
    mapping = {
        "response_id": "id",
        "response": "response",
        "human_score": "score",
        "reference": "reference",
        "quality": "quality",
    }
    dataset = build_dataset(read_table("d.jsonl", lines(*rows)), mapping, task="verification", name="x")
    assert len(dataset.problems) >= 2
    assert max(len(p.where + p.what + p.fix) for p in dataset.problems) < 1_000


def test_a_column_may_have_a_long_name():
    name = "x" * MAX_COLUMN_NAME
    assert list(read_table("p.csv", f"response,{name}\na,b\n".encode()).frame.columns) == ["response", name]


@pytest.mark.parametrize("depth", [200, 900, 950, 980, 990, 1_000, 1_005, 5_000])
def test_nesting_beyond_bounds_leaves_out_its_record_only(depth):
    deep = f'{{"response": "x", "more": {"[" * depth}{"]" * depth}}}'
    raw = read_table("a.jsonl", f'{{"response": "a", "more": [[1]]}}\n{deep}\n'.encode())
    assert [(p.severity, p.row) for p in raw.problems] == [("excluded", 2)]
    assert raw.frame["more"][0] == "[[1]]"
    try:
        listed = read_table("a.json", f'[{{"response": "a"}}, {deep}]'.encode())
    except EngineError:
        return
    assert [(p.severity, p.row) for p in listed.problems] == [("excluded", 2)]

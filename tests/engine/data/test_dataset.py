"""From a raw table to a data set: ids, items, problems by row, digest."""

import csv
import io

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import ITEMS, RESPONSES
from engine.data.dataset import build_dataset, summarize
from engine.data.reading import read_table

SAME = ("response_id", "item_id", "context", "response", "system", "human_score", "reference", "group")


def make(header, *records, filename="a.csv", mapping=None, name="mine"):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([header.split(), *records])
    raw = read_table(filename, out.getvalue().encode())
    columns = mapping or {c: c for c in header.split() if c in SAME}
    return build_dataset(raw, columns, task="dialogue", name=name)


def listed(dataset, severity):
    return [(p.row, p.where) for p in dataset.problems if p.severity == severity]


def test_a_clean_file():
    ds = make(
        "response_id item_id context response system human_score",
        ["a1", "1", "Hi", " Hello ", "s2", "4"],
        ["a2", "1", "Hi", "=1+1", "s1", ""],
        ["a3", "2", "Bye\nnow", "So long", "s1", "2.5"],
    )
    assert ds.problems == []
    assert ds.responses["text"].tolist() == [" Hello ", "=1+1", "So long"]
    assert ds.items["item_id"].tolist() == ["1", "2"]
    assert ds.items["context"].tolist() == ["Hi", "Bye\nnow"]
    assert list(ds.items.columns) == ITEMS.names
    assert list(ds.responses.columns) == RESPONSES.names
    s = summarize(ds)
    assert (s.n_responses, s.n_items, s.n_excluded, s.systems) == (3, 2, 0, ["s1", "s2"])
    assert (s.n_human, s.human_low, s.human_high) == (2, 2.5, 4.0)


def test_items_come_from_identical_contexts_and_responses_are_numbered():
    ds = make("context response", ["Hi", "a"], ["Bye", "b"], ["Hi", "c"], ["", "d"], [" ", "e"])
    assert ds.responses["item_id"].tolist() == ["i0001", "i0002", "i0001", "i0003", "i0004"]
    assert ds.responses["response_id"].tolist() == ["r0001", "r0002", "r0003", "r0004", "r0005"]
    assert listed(ds, "warning") == [
        (4, "row 4 (line 5), column context"),
        (5, "row 5 (line 6), column context"),
    ]


def test_no_context_at_all_is_said_once():
    ds = make("response", ["a"], ["b"])
    assert listed(ds, "warning") == [(None, "the file")]
    assert len(ds.items) == 2


def test_blank_responses_are_kept_and_missing_ones_left_out():
    ds = make("context response", ["Hi", ""], ["Hi", " "], ["Hi", "x"])
    assert ds.responses["text"].tolist() == ["", " ", "x"]
    assert [row for row, _ in listed(ds, "warning")] == [1, 2]
    raw = read_table(
        "a.jsonl",
        b'{"context": "Hi", "response": null}\n{"context": "Hi"}\n{"context": "Hi", "response": ""}\n',
    )
    ds = build_dataset(raw, {"response": "response", "context": "context"}, task="dialogue", name="x")
    assert ds.responses["text"].tolist() == [""]
    assert ds.responses["response_id"].tolist() == ["r0003"]
    assert [row for row, _ in listed(ds, "excluded")] == [1]
    assert summarize(ds).n_excluded >= 1


def test_same_id_with_different_text_names_both_rows_and_ids_and_all_of_them():
    ds = make(
        "response_id item_id context response",
        ["a", "1", "Hi", "one"],
        ["a", "2", "Ho", "two"],
        ["b", "1", "Hi", "three"],
        ["b", "1", "Hi", "four"],
    )
    assert [p.row for p in ds.errors] == [2, 4]
    first = ds.errors[0]
    assert first.what == (
        "Row 1 (response id 'a', item '1') and row 2 (response id 'a', item '2') have one id and a different "
        "text, item_id."
    )
    assert first.where == "row 2 (line 3), column response_id"
    assert "different response ids" in first.fix
    assert ds.responses["response_id"].tolist() == ["a", "b"]


def test_repeats_are_kept_once():
    ds = make("response_id context response", ["a", "Hi", "one"], ["a", "Hi", "one"], ["b", "Hi", "two"])
    assert ds.errors == []
    assert listed(ds, "warning") == [(2, "row 2 (line 3)")]
    assert len(ds.responses) == 2
    ds = make("response_id context response note", ["a", "Hi", "one", "x"], ["a", "Hi", "one", "y"])
    assert listed(ds, "warning") == [(2, "row 2 (line 3), column response_id")]
    assert len(ds.responses) == 1


def test_one_item_with_two_contexts():
    ds = make("item_id context response", ["1", "Hi", "a"], ["1", "Ho", "b"], ["1", "", "c"])
    [error] = ds.errors
    assert "Row 1 and row 2 have item id '1' and a different context" in error.what
    assert listed(ds, "warning") == []


def test_reference_and_group_that_disagree():
    ds = make("context response reference group", ["Hi", "a", "R", "g"], ["Hi", "b", "S", "h"])
    assert [p.where for p in ds.errors] == ["row 2 (line 3), column reference"]
    assert listed(ds, "warning") == [(2, "row 2 (line 3), column group")]
    assert ds.items[["reference", "group"]].values.tolist() == [["R", "g"]]


def test_human_score_that_is_no_number():
    ds = make("context response human_score", ["Hi", "a", "4"], ["Hi", "b", "good"], ["Hi", "c", "3,5"])
    assert [row for row, _ in listed(ds, "warning")] == [2, 3]
    assert "'good' is not a number" in ds.problems[0].what
    assert ds.responses["human_score"].isna().tolist() == [False, True, True]


def test_missing_ids():
    ds = make(
        "response_id item_id context response",
        ["r0002", "1", "Hi", "a"],
        ["", "1", "Hi", "b"],
        ["c", "", "Hi", "c"],
    )
    assert ds.responses["response_id"].tolist() == ["r0002", "r0002x"]
    assert listed(ds, "warning") == [(2, "row 2 (line 3), column response_id")]
    assert listed(ds, "excluded") == [(3, "row 3 (line 4), column item_id")]


def test_ids_stay_text():
    raw = read_table("a.jsonl", b'{"response_id": 1, "response": "a"}\n{"response_id": "01", "response": "b"}\n')
    ds = build_dataset(raw, {"response_id": "response_id", "response": "response"}, task="question", name="x")
    assert ds.responses["response_id"].tolist() == ["1", "01"]


def test_every_damaged_row_left_out_is_an_error():
    ds = make("context response", ["Hi"], ["Ho"])
    assert [p.what for p in ds.errors] == ["No row is left to judge."]
    assert len(listed(ds, "excluded")) == 2
    assert (len(ds.items), len(ds.responses)) == (0, 0)


def test_unknown_task():
    raw = read_table("a.csv", b"response\na\n")
    with pytest.raises(InputError, match="'poem' is not known; allowed: summary, dialogue"):
        build_dataset(raw, {"response": "response"}, task="poem", name="x")


def test_the_id_depends_on_content_alone():
    record = ["Hi", "a", "4"]
    one = make("context response human_score", record)
    assert len(one.dataset_id) == 16
    assert make("context response human_score", record, filename="b.tsv", name="other").dataset_id == one.dataset_id
    assert make("context response human_score", ["Hi", "a ", "4"]).dataset_id != one.dataset_id
    assert make("context response human_score", ["Hi", "a", "5"]).dataset_id != one.dataset_id
    raw = read_table("a.jsonl", b'{"q": "Hi", "a": "a", "s": 4}')
    same = build_dataset(raw, {"context": "q", "response": "a", "human_score": "s"}, task="dialogue", name="x")
    assert same.dataset_id == one.dataset_id
    # pinned: ids in saved runs must stay valid
    assert one.dataset_id == "f711c146c955d6b7"


def test_names_are_tidied():
    assert make("response", ["a"], name="  my\n data ").name == "my data"
    assert make("response", ["a"], name=" ").name == "Untitled"
    assert isinstance(make("response", ["a"]).responses["text"].dtype, pd.StringDtype)


def test_rows_left_out_by_the_user_count_for_nothing_and_are_on_record():
    header = "response_id item_id context response"
    rows = [["a", "1", "Hi", "one"], ["a", "1", "Ho", "two"], ["b", "1", "Hi", "three"], ["c"]]
    assert len(make(header, *rows).errors) == 2
    out = io.StringIO(newline="")
    csv.writer(out).writerows([header.split(), *rows])
    raw = read_table("a.csv", out.getvalue().encode())
    columns = {c: c for c in header.split()}
    ds = build_dataset(raw, columns, task="dialogue", name="x", left_out={4: "cut off", 2: "wrong context"})
    assert ds.problems == []
    assert ds.responses["response_id"].tolist() == ["a", "b"]
    assert ds.source["left_out"] == [
        {"row": 2, "line": 3, "reason": "wrong context"},
        {"row": 4, "line": 5, "reason": "cut off"},
    ]
    s = summarize(ds)
    assert (s.n_excluded, s.n_left_out, s.n_responses) == (2, 2, 2)
    # the id is of what is kept, as if the rows had never been there
    assert ds.dataset_id == make(header, rows[0], rows[2]).dataset_id
    assert len(raw.frame) == 4
    with pytest.raises(InputError, match="no row 5 to leave out; the file has rows 1 to 4"):
        build_dataset(raw, columns, task="dialogue", name="x", left_out={5: ""})


def test_a_repeat_of_a_row_left_out_is_kept():
    raw = read_table("a.csv", b"context,response\nHi,a\nHi,a\n")
    ds = build_dataset(raw, {"context": "context", "response": "response"}, task="dialogue", name="x", left_out={1: ""})
    assert (len(ds.responses), ds.problems) == (1, [])

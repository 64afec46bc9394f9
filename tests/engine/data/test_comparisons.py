from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.schema import ITEMS, RESPONSES
from engine.data.comparisons import (
    DEMO_PAIRS,
    list_comparisons,
    load_comparisons,
    pairs_of,
    read_comparisons,
    save_comparisons,
)
from engine.data.dataset import Dataset

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
HEAD = "id,prompt,response_a,response_b,label\n"


def read(text: str, columns=None):
    return read_comparisons("pairs.csv", text.encode(), columns)


def test_labels_are_read_by_the_rule_and_blank_is_nobody():
    text = HEAD + "1,p,x,y,model_a\n2,p,x,z,B\n3,q,x,y,tie (bothbad)\n4,q,u,v,\n5,r,u,v,[[A]]\n"
    found = read(text)
    assert found.comparisons["human"].fillna("").tolist() == ["a", "b", "tie", "", "a"]
    assert found.spellings == {"model_a": "a", "B": "b", "tie (bothbad)": "tie", "[[A]]": "a"}
    assert found.comparisons["item_id"].tolist() == ["1", "1", "3", "3", "5"]  # one prompt, one item
    assert found.items["group"].unique().tolist() == ["all"]
    assert not found.has_verdicts
    assert found.counts() == "5 pairs, 3 items, 4 with a human preference, 1 question type"


def test_unknown_labels_are_refused_by_row_and_never_guessed():
    with pytest.raises(InputError, match=r"Row 2 \(line 3\): human 'left' is in no rule"):
        read(HEAD + "1,p,x,y,a\n2,p,x,z,left\n")


def test_pairs_that_cannot_be_judged_are_counted():
    found = read(HEAD + "1,p,x,x,a\n2,p,,y,a\n3,p,x,y,b\n")
    assert found.left_out == {"both responses are the same": 1, "no response_a": 1}
    assert len(found.comparisons) == 1
    with pytest.raises(InputError, match="no pair that can be used"):
        read(HEAD + "1,p,x,x,a\n")


def test_columns_are_named_by_hand_joined_or_missed():
    text = "id,task,input,out1,out2,gpt,kind\n1,Fix it.,a b,x,y,b,edit\n"
    columns = {"prompt": "task+input", "response_a": "out1", "response_b": "out2", "verdict": "gpt", "type": "kind"}
    found = read(text, columns)
    assert found.items["context"].tolist() == ["Fix it.\n\na b"]
    assert found.items["group"].tolist() == ["edit"]
    assert found.has_verdicts
    with pytest.raises(InputError, match="no column for prompt"):
        read(text)
    with pytest.raises(InputError, match="no column 'nope'"):
        read(text, {"prompt": "nope"})
    with pytest.raises(InputError, match="no such field"):
        read(text, {"winner": "gpt"})


def test_repeated_ids_and_items_that_differ_are_refused():
    with pytest.raises(InputError, match="stands twice"):
        read(HEAD + "1,p,x,y,a\n1,p,x,z,a\n")
    with pytest.raises(InputError, match="two different prompts"):
        read("id,item_id,prompt,response_a,response_b\n1,i,p,x,y\n2,i,q,x,y\n")


def test_a_set_comes_back_from_disk_as_it_went(tmp_path):
    found = read(HEAD + "1,p,x,y,a\n2,p,x,z,\n")
    save_comparisons(found, tmp_path)
    save_comparisons(found, tmp_path)
    again = load_comparisons(found.set_id, tmp_path)
    for table in ("items", "responses", "comparisons"):
        assert getattr(again, table).equals(getattr(found, table))
    assert list_comparisons(tmp_path) == {found.set_id: "pairs.csv"}
    assert read(HEAD + "1,p,x,y,b\n2,p,x,z,\n").set_id != found.set_id
    for wrong in ("../x", "0" * 16, ""):
        with pytest.raises(InputError, match="no set of pairs"):
            load_comparisons(wrong, tmp_path)


def test_the_demo_has_all_types_and_labels_on_a_part():
    demo = load_comparisons(DEMO_PAIRS, Path())
    human = demo.comparisons["human"]
    assert (len(human), int(human.notna().sum()), demo.left_out) == (90, 54, {})
    assert sorted(t[0] for t in demo.items["group"].unique()) == list("ABCDEF")
    by_item = demo.comparisons.groupby("item_id")["human"].agg(lambda h: h.notna().sum())
    assert set(by_item) == {0, 3}
    assert 0.35 < (human.dropna() == "a").mean() < 0.65  # the preferred side is not given away by its place
    with pytest.raises(InputError, match="ships with the project"):
        save_comparisons(demo, Path())


def test_public_sets_as_they_are():
    if not (SHARED / "llmbar").is_dir():
        pytest.skip("the shared data (llmbar, pandalm) are not here")
    llmbar = read_comparisons("pairs.jsonl", (SHARED / "llmbar" / "pairs.jsonl").read_bytes())
    assert len(llmbar.comparisons) == 419
    raw = [json.loads(line) for line in (SHARED / "llmbar" / "pairs.jsonl").read_text("utf-8").splitlines()]
    assert llmbar.comparisons["human"].tolist() == [r["label"] for r in raw]
    columns = {"prompt": "prompt+input", "verdict": "gpt35_judge", "type": "app"}
    pandalm = read_comparisons("pairs.jsonl", (SHARED / "pandalm" / "pairs.jsonl").read_bytes(), columns)
    assert len(pandalm.comparisons) + sum(pandalm.left_out.values()) == 999
    assert pandalm.has_verdicts


def responses(texts, scores):
    """One item with these responses, and one that has a single response."""
    items = pd.DataFrame({"item_id": ["q", "lonely"], "task": "dialogue", "context": ["Why?", "How?"]})
    rows = [
        {"response_id": f"r{i}", "item_id": "q", "system": f"s{i}", "text": t, "human_score": h}
        for i, (t, h) in enumerate(zip(texts, scores, strict=True))
    ]
    rows.append({"response_id": "alone", "item_id": "lonely", "system": "s0", "text": "So.", "human_score": 1.0})
    return Dataset("0" * 16, "mine", "dialogue", ITEMS.conform(items), RESPONSES.conform(pd.DataFrame(rows)))


def test_responses_become_pairs_in_which_people_prefer_the_higher_score():
    found = pairs_of(responses(["one", "two", "two", "three"], [1.0, 3.0, 3.0, None]))
    sides = found.comparisons[["comparison_id", "human"]].fillna("").to_numpy().tolist()
    # every two different texts of the item once; who has no score is in pairs that nobody decided
    assert sides == [["r0-r1", "b"], ["r0-r2", "b"], ["r0-r3", ""], ["r1-r3", ""], ["r2-r3", ""]]
    assert found.items["context"].tolist() == ["Why?"]
    assert pairs_of(responses(["one", "two"], [2.0, 2.0])).comparisons["human"].tolist() == ["tie"]


def test_responses_without_two_to_an_item_are_no_pairs():
    with pytest.raises(InputError, match="No two different responses"):
        pairs_of(responses(["same", "same"], [1.0, 2.0]))

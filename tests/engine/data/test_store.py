"""Saving, loading, listing; ids that name no data set; the demo."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import InputError, WriteError
from engine.core.settings import get_settings
from engine.data.dataset import build_dataset, summarize
from engine.data.reading import read_table
from engine.data.store import DEMO_DIALOGUE, DEMOS, list_datasets, load_dataset, save_dataset

MAPPING = {"response": "response", "context": "context", "human_score": "score", "response_id": "id"}


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "sets"
    folder.mkdir()
    return folder


def make(*records, name="mine"):
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["id", "context", "response", "score"], *records])
    return build_dataset(read_table("a.csv", out.getvalue().encode()), MAPPING, task="dialogue", name=name)


def assert_same(a, b):
    pd.testing.assert_frame_equal(a.items, b.items)
    pd.testing.assert_frame_equal(a.responses, b.responses)
    assert replace(a, items=None, responses=None) == replace(b, items=None, responses=None)


def test_round_trip(root):
    ds = make(["1", "Hi", "a", "4"], ["2", "Hi", "  ", "bad"], ["3"])
    folder = save_dataset(ds, root)
    assert sorted(p.name for p in folder.iterdir()) == ["items.parquet", "manifest.json", "responses.parquet"]
    assert [p.name for p in root.iterdir()] == [ds.dataset_id]
    assert len(ds.problems) == 3
    assert_same(load_dataset(ds.dataset_id, root), ds)


@settings(max_examples=15)
@given(
    texts=st.lists(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=9),
        min_size=1,
        max_size=5,
    )
)
def test_any_text_survives_the_disk(tmp_path_factory, texts):
    root = tmp_path_factory.mktemp("sets")
    ds = make(*([str(i), "Hi", t, ""] for i, t in enumerate(texts)))
    save_dataset(ds, root)
    assert load_dataset(ds.dataset_id, root).responses["text"].tolist() == texts


def test_newest_first_and_saving_again_renames(root):
    assert list_datasets(root / "none") == []
    a, b = make(["1", "Hi", "a", "4"], name="a"), make(["1", "Hi", "b", "4"], name="b")
    save_dataset(a, root)
    save_dataset(b, root)
    assert [m["name"] for m in list_datasets(root)] == ["b", "a"]
    assert list_datasets(root)[0]["summary"]["n_responses"] == 1
    (root / a.dataset_id / "items.parquet").write_bytes(b"torn")
    save_dataset(replace(a, name="again"), root)
    assert [m["name"] for m in list_datasets(root)] == ["again", "b"]
    assert load_dataset(a.dataset_id, root).name == "again"
    assert not list(root.glob(".new-*"))


def test_errors_block_saving_and_are_all_listed(root):
    ds = make(["1", "Hi", "a", ""], ["1", "Hi", "b", ""], ["1", "Hi", "c", ""])
    with pytest.raises(InputError, match=r"(?s)row 2 .*row 3 "):
        save_dataset(ds, root)
    assert list(root.iterdir()) == []


def test_a_failed_save_leaves_nothing(root, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", fail)
    with pytest.raises(WriteError, match="disk full"):
        save_dataset(make(["1", "Hi", "a", "4"]), root)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "../0123456789abcdef", "/etc/passwd", "0123456789abcde", "0123456789ABCDEF",
            "0123456789abcdef\n", "0123456789abcdef/..", "demo-../../x", "demo-other", "a\x00b", "%2e%2e"],
)  # fmt: skip
def test_ids_that_name_no_folder_of_ours(root, bad):
    with pytest.raises(InputError, match="is not the id of a data set"):
        load_dataset(bad, root)
    with pytest.raises(InputError, match="is not the id of a data set"):
        save_dataset(replace(make(["1", "Hi", "a", "4"]), dataset_id=bad), root)
    assert list(root.iterdir()) == []


def test_unknown_damaged_and_altered(root):
    with pytest.raises(InputError, match=r"no data set '0123456789abcdef'\. There are: demo-dialogue"):
        load_dataset("0123456789abcdef", root)
    ds = make(["1", "Hi", "a", "4"])
    folder = save_dataset(ds, root)
    ds.responses.assign(text="changed").to_parquet(folder / "responses.parquet")
    with pytest.raises(InputError, match="were changed after it was saved"):
        load_dataset(ds.dataset_id, root)
    (folder / "responses.parquet").write_bytes(b"torn")
    with pytest.raises(InputError, match="is damaged"):
        load_dataset(ds.dataset_id, root)
    (folder / "manifest.json").write_text("{")
    assert list_datasets(root) == []
    with pytest.raises(InputError, match="is damaged"):
        load_dataset(ds.dataset_id, root)


def test_the_demo_is_what_its_card_says(root):
    demo = load_dataset(DEMO_DIALOGUE, root)
    assert (demo.dataset_id, demo.task, demo.problems) == (DEMO_DIALOGUE, "dialogue", [])
    s = summarize(demo)
    assert (s.n_items, s.n_responses, s.n_excluded, s.n_human) == (12, 48, 0, 0)
    assert s.systems == ["system-1", "system-2", "system-3", "system-4"]
    assert demo.items["group"].nunique() == 12
    per_item = demo.responses.groupby("item_id")["quality"].agg(list)
    assert all(sorted(levels) == sorted(DEMOS[DEMO_DIALOGUE].levels) for levels in per_item)
    assert (demo.responses.groupby("system")["quality"].nunique() == 1).all()
    for context in demo.items["context"]:
        turns = context.split("\n")
        assert 2 <= len(turns) <= 4
        assert [t[:3] for t in turns] == ["A: ", "B: ", "A: ", "B: "][: len(turns)]


def test_demo_lengths_do_not_tell_the_levels_apart(root):
    r = load_dataset(DEMO_DIALOGUE, root).responses
    words = r.assign(words=r["text"].str.split().str.len())
    table = words.pivot_table(index="item_id", columns="quality", values="words")
    for extreme in (table.idxmax(axis=1), table.idxmin(axis=1)):
        assert extreme.value_counts().reindex(list(DEMOS[DEMO_DIALOGUE].levels), fill_value=0).between(1, 5).all()
    assert (table.min() <= 15).all()
    assert (table.max() >= 40).all()


def test_demo_contexts_are_short_for_the_bundled_tokenizer(root):
    path = get_settings().assets / "judge" / "tokenizer.json"
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(path))
    contexts = load_dataset(DEMO_DIALOGUE, root).items["context"]
    assert max(len(tokenizer.encode(c).ids) for c in contexts) <= 120


def test_the_demo_is_not_shared_between_callers(root):
    mine = load_dataset(DEMO_DIALOGUE, root).responses
    mine.loc[0, "text"] = "spoiled"
    assert load_dataset(DEMO_DIALOGUE, root).responses["text"][0] != "spoiled"


def test_no_model_library_is_loaded():
    code = "import sys, json, engine.data.store; print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "streamlit"} & set(json.loads(out.stdout))

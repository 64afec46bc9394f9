"""Which format a file has: its own signature or none, and never a guess between two."""

import io
import json

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.formats.registry import FORMATS, Recognition, open_source, read_known, recognise
from tests.engine.data.formats.examples import (
    ANNOTATIONS,
    ARENA,
    FILES,
    JUDGEBENCH,
    MT_BENCH,
    OTHERS,
    REWARD,
    REWARD_2,
    lines,
    listed,
)


def seen(filename: str, content: bytes) -> Recognition:
    return recognise(open_source(filename, content))


@pytest.mark.parametrize("name", [*FILES, *OTHERS])
def test_every_format_knows_its_own_file_and_no_other_one_claims_it(name):
    assert seen(*(FILES | OTHERS)[name]).fits == (name.split(",")[0],)


def test_every_format_has_an_example():
    assert set(FILES) == set(FORMATS) - {"inspect"}  # test_inspect.py


@pytest.mark.parametrize("name", ["mt-bench-human", "rewardbench", "rewardbench-2", "arena", "judgebench", "summeval"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "jsonl"])
def test_the_kind_of_file_makes_no_difference(name, kind):
    filename, content = FILES[name]
    rows = json.loads(content) if filename.endswith(".json") else [json.loads(x) for x in content.splitlines()]
    frame = pd.DataFrame(rows)
    if kind == "parquet":
        out = io.BytesIO()
        frame.to_parquet(out, index=False)
        made = out.getvalue()
    elif kind == "csv":
        cells = {c: [json.dumps(v) if isinstance(v, list) else v for v in frame[c]] for c in frame}
        made = pd.DataFrame(cells).to_csv(index=False).encode()
    else:
        made = listed(rows) if kind == "json" else lines(rows)
    assert seen(f"x.{kind}", made).certain == name
    direct, other = read_known(filename, content, name), read_known(f"x.{kind}", made, name)
    for table in ("items", "responses", "comparisons", "verdicts"):
        pd.testing.assert_frame_equal(getattr(direct, table), getattr(other, table))


def test_a_file_with_the_signs_of_two_formats_is_shown_as_both():
    rows = [{**row, "language": "English", "tstamp": 1.0} for row in MT_BENCH]
    found = seen("x.jsonl", lines(rows))
    assert found.fits == ("mt-bench-human", "arena")
    assert not found.certain
    assert "nothing tells them apart" in found.in_words()


@pytest.mark.parametrize(
    ("rows", "name", "lacks"),
    [
        ([{k: v for k, v in row.items() if k != "rejected"} for row in REWARD], "rewardbench", "no rejected"),
        ([{**row, "respons_B": 1} | {"response_B": None} for row in JUDGEBENCH], "judgebench", ""),
        ([{("gen_2" if k == "output_2" else k): v for k, v in r.items()} for r in ANNOTATIONS],
         "alpacaeval-annotations", "no output_2"),
        ([{k: v for k, v in row.items() if k != "conversation_b"} for row in ARENA], "arena",
         "only one of conversation_a and conversation_b"),
    ],
)  # fmt: skip
def test_half_a_format_is_named_with_what_it_lacks(rows, name, lacks):
    found = seen("x.jsonl", lines(rows))
    if not lacks:  # a column without a value is still a column
        assert found.certain == name
        return
    assert not found.fits
    assert (name, lacks) in found.near
    assert f"but {lacks}" in found.in_words()
    with pytest.raises(InputError, match=f"cannot be read as .*{lacks}"):
        read_known("x.jsonl", lines(rows), name)


def test_a_mixture_of_rewardbench_versions_is_neither_guessed_nor_lost():
    mixed = lines([*REWARD, *REWARD_2])
    found = seen("x.jsonl", mixed)
    assert not found.fits
    assert "holds lists in some rows and single responses in others" in found.in_words()
    for name in ("rewardbench", "rewardbench-2"):
        with pytest.raises(InputError, match="lists in some rows"):
            read_known("x.jsonl", mixed, name)


@pytest.mark.parametrize(
    ("filename", "content"),
    [
        ("a.csv", b"response,context\na,b\n"),
        ("a.csv", b"prompt,response_a,response_b,winner,model_a,model_b\np,x,y,a,m,n\n"),
        ("a.csv", b"judge,question_id,model_shown_first,model_shown_second,verdict\ng,1,x,y,A\n"),
        ("a.jsonl", b'{"question": "q", "answer": "a"}\n'),
        ("a.json", b'{"rows": [{"response": "a"}]}'),
    ],
)
def test_plain_tables_are_no_known_format(filename, content):
    assert seen(filename, content) == Recognition()


def test_a_list_inside_an_object_is_found_when_the_format_is_named():
    found = read_known("x.json", json.dumps({"data": REWARD}).encode(), "rewardbench")
    assert len(found.comparisons) == 2
    with pytest.raises(InputError, match="2 lists of objects"):
        read_known("x.json", json.dumps({"a": REWARD, "b": REWARD}).encode(), "rewardbench")


def test_unknown_names_are_listed():
    with pytest.raises(InputError, match=r"There is no format 'rewardbnch'\. Formats: mt-bench-human"):
        read_known("x.jsonl", b"{}", "rewardbnch")
    with pytest.raises(InputError, match=r"has no aspect 'beauty'\. Aspects: mean, coherence"):
        read_known(*FILES["summeval"], "summeval:beauty")
    with pytest.raises(InputError, match="It has no aspects"):
        read_known(*FILES["arena"], "arena:x")

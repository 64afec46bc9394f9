"""Embeddings of one's own: each rule of matching, and each file that must be refused, against arrays made by NumPy."""

from __future__ import annotations

import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.data.comparisons import read_comparisons
from engine.data.embeddings import list_embeddings, load_embeddings, read_embeddings, save_embeddings

N = 4
VECTORS = np.random.default_rng(0).normal(size=(2 * N, 3))


def pairs(**changed):
    rows = [{"id": f"p{i}", "prompt": f"q{i}", "response_a": f"left {i}", "response_b": f"right {i}"} for i in range(N)]
    for row in rows:
        row.update(changed)
    return read_comparisons("pairs.csv", pd.DataFrame(rows).to_csv(index=False).encode())


IDS = [f"p{i}:{side}" for i in range(N) for side in "ab"]


def npy(array) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def csv_file(vectors=VECTORS, ids=IDS) -> bytes:
    frame = pd.DataFrame(vectors, columns=[f"d{k}" for k in range(vectors.shape[1])])
    frame.insert(0, "response_id", ids)
    return frame.to_csv(index=False).encode()


def parquet(frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_parquet(out, index=False)
    return out.getvalue()


def _by_side() -> bytes:
    frame = pd.DataFrame(VECTORS, columns=list("xyz"))
    return frame.assign(
        comparison_id=[i.split(":")[0] for i in IDS], side=[i[-1].upper() for i in IDS]
    ).to_csv(index=False).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.npy", npy(VECTORS)),
        ("v.npy", npy(VECTORS.reshape(N, 2, 3))),
        ("v.npy", npy(np.asfortranarray(VECTORS))),
        ("v.csv", csv_file()),
        ("v.csv", csv_file(VECTORS[::-1], IDS[::-1])),
        ("v.csv", _by_side()),
        ("v.parquet", parquet(pd.DataFrame({"response_id": IDS, "embedding": list(VECTORS)}))),
        ("v.jsonl", "\n".join(
            json.dumps({"response_id": i, "embedding": v.tolist()}) for i, v in zip(IDS, VECTORS, strict=True)
        ).encode()),
    ],
    ids=["rows", "three axes", "column order", "csv", "another order", "id and side", "parquet", "jsonl"],
)  # fmt: skip
def test_every_form_gives_each_response_its_own_vector(name, content, tmp_path):
    found = read_embeddings(name, content, pairs())
    assert dict(zip(found.ids, found.vectors.tolist(), strict=True)) == dict(zip(IDS, VECTORS.tolist(), strict=True))
    assert (found.n_pairs, found.n_missing, found.n_same, found.unknown) == (N, 0, 0, 0)
    spec = save_embeddings(found, tmp_path)
    again = load_embeddings(spec, tmp_path)
    assert {k: v.tolist() for k, v in again.items()} == dict(zip(found.ids, found.vectors.tolist(), strict=True))
    assert list_embeddings(tmp_path, pairs().set_id) == {spec: name}
    assert list_embeddings(tmp_path, "other") == {}


def test_missing_unknown_and_equal_vectors_are_counted():
    same = VECTORS.copy()
    same[3] = same[2]
    ids = [*IDS[:6], "nobody:a", "nobody:b"]
    found = read_embeddings("v.csv", csv_file(same, ids), pairs())
    assert (found.n_pairs, found.n_missing, found.n_same, found.unknown) == (3, 1, 1, 2)
    assert "3 of 4 pairs have both" in found.counts()
    assert "1 have two equal vectors" in found.counts()


def test_equal_texts_share_a_vector_and_must_not_differ():
    rows = [("p0", "q", "one", "two"), ("p1", "q", "one", "three"), ("p2", "r", "one", "four")]
    table = pd.DataFrame(rows, columns=["id", "prompt", "response_a", "response_b"])
    found = read_comparisons("pairs.csv", table.to_csv(index=False).encode())
    ids = [f"p{i}:{side}" for i in range(3) for side in "ab"]
    some = csv_file(VECTORS[[0, 1, 3, 4, 5]], [i for i in ids if i != "p1:a"])
    read = read_embeddings("v.csv", some, found)
    vectors = dict(zip(read.ids, read.vectors.tolist(), strict=True))
    assert vectors["p1:a"] == vectors["p0:a"] != vectors["p2:a"]
    with pytest.raises(InputError, match="'p0:a' and 'p1:a' are the same text under one prompt"):
        read_embeddings("v.csv", csv_file(VECTORS[:6], ids), found)


def _with(entry) -> np.ndarray:
    changed = VECTORS.copy()
    changed[5, 1] = entry
    return changed


def header(text: bytes) -> bytes:
    """A NumPy file with this text as its header."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


BROKEN_HEADERS = [
    b"",
    b"{",
    b"\x00\xff'",
    b"{'descr': '<f8'}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -8)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': 3}",
    b"{'descr': [], 'fortran_order': 0, 'shape': ()}",
    b"{'descr': 7, 'fortran_order': False, 'shape': (8,)}",
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"9" * 5_000 + b",)}",
    b"(" * 3_000,
    b"{[]: 1}",
    b'"' * 3,
]


def _bomb() -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})
    return out.getvalue() + b"\0" * 64


RAGGED = "\n".join(json.dumps({"response_id": i, "embedding": [1.0] * (2 + (i == "p1:b"))}) for i in IDS).encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.npy", npy(VECTORS[:-1]), r"shape \(7, 3\); 4 pairs need \(8, dimensions\)"),
        ("v.npy", npy(VECTORS[:, 0]), r"shape \(8,\)"),
        ("v.npy", npy(_with(np.nan)), "the vector of 'p2:b' has nan at entry 2"),
        ("v.npy", npy(_with(np.inf)), "has inf at entry 2"),
        ("v.npy", npy(np.array([{"a": 1}], dtype=object)), "pickle.*never opened"),
        ("v.npy", npy(np.array(["x"])), "not numbers"),
        ("v.npy", npy(VECTORS)[:-8], "cut short or damaged"),
        ("v.npy", _bomb(), "cut short or damaged"),
        ("v.npy", b"no array", "no readable NumPy file"),
        *((("v.npy", header(text), "NumPy file|holds|shape")) for text in BROKEN_HEADERS),
        ("v.pkl", pickle.dumps(VECTORS), "no file of embeddings"),
        ("v.csv", csv_file(_with(np.nan)), "the vector of 'p2:b' has '' in column 'd1'"),
        ("v.csv", csv_file(ids=[*IDS[:-1], IDS[0]]), "two vectors for response_id 'p0:a'"),
        ("v.csv", csv_file(ids=[f"x{i}" for i in range(8)]), "None of the 8 ids.*x0, x1, x2.*p0:a, p0:b, p1:a"),
        ("v.csv", b"id,x\np0:a,1\n", "does not say whose vectors"),
        ("v.csv", b"response_id\np0:a\n", "no vectors"),
        ("v.csv", b"comparison_id,side,x\np0,left one,1\n", "side is 'left one'; allowed: a, b"),
        ("v.jsonl", RAGGED, "the vector of 'p1:b' has 3 entries, that of 'p0:a' has 2"),
        ("v.jsonl", b'{"response_id": "p0:a", "embedding": "much"}', "it must be a list of numbers"),
        ("v.csv", csv_file(np.repeat(VECTORS[::2], 2, axis=0)), "4 of 4 pairs two vectors, 4 of them equal"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(name, content, message):
    with pytest.raises(InputError, match=message):
        read_embeddings(name, content, pairs())


def test_positions_say_nothing_where_rows_of_the_pairs_were_left_out():
    rows = [("p0", "q", "one", "two"), ("p1", "q", "same", "same"), ("p2", "r", "one", "four")]
    table = pd.DataFrame(rows, columns=["id", "prompt", "response_a", "response_b"])
    found = read_comparisons("pairs.csv", table.to_csv(index=False).encode())
    with pytest.raises(InputError, match=r"1 rows of 'pairs.csv' were left out.*Save a table with ids"):
        read_embeddings("v.npy", npy(VECTORS[:4]), found)


def test_unknown_and_damaged_embeddings_say_so(tmp_path):
    with pytest.raises(InputError, match="no embeddings 'given:0123'"):
        load_embeddings("given:0123", tmp_path)
    with pytest.raises(InputError, match="no embeddings"):
        load_embeddings("given:../x", tmp_path)
    (tmp_path / "0123.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="are damaged"):
        load_embeddings("given:0123", tmp_path)

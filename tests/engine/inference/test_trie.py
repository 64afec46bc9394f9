"""The trie holds every sequence, shares all that can be shared, and its rows cover it once, in an order that works."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.inference.prefix import ROOT, Slots, build_trie, chunks, cut, lay, lexical, pack, trie_tokens, visible

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple), min_size=1, max_size=24)


def prefixes(sequences):
    return {s[:k] for s in sequences for k in range(1, len(s) + 1)}


def text_of(nodes, v):
    return (*text_of(nodes, nodes[v].parent), *nodes[v].tokens) if v != ROOT else ()


@given(SEQUENCES)
def test_the_trie_spells_every_sequence_and_each_beginning_once(sequences):
    nodes = build_trie(sequences)
    ends = {i: text_of(nodes, v) for v, node in enumerate(nodes) for i in node.ends}
    assert ends == dict(enumerate(sequences))
    assert sum(len(node.tokens) for node in nodes) == len(prefixes(sequences)) == trie_tokens(sequences)
    for v, node in enumerate(nodes):
        assert node.start == len(text_of(nodes, v)) - len(node.tokens)
        assert all(nodes[c].parent == v for c in node.children)
        assert len({nodes[c].tokens[0] for c in node.children}) == len(node.children)


@given(SEQUENCES, st.integers(1, 40))
def test_rows_cover_the_trie_once_and_wait_for_their_path(sequences, row_tokens):
    nodes = build_trie(sequences)
    rows = cut(nodes, row_tokens)
    assert sorted(v for row in rows for v in row.nodes) == list(range(1, len(nodes)))
    assert [row.level for row in rows] == sorted(row.level for row in rows)
    level = {v: row.level for row in rows for v in row.nodes} | {ROOT: -1}
    for row in rows:
        assert row.tokens == sum(len(nodes[v].tokens) for v in row.nodes)
        assert level[row.parent] == row.level - 1
        assert all(nodes[v].parent in {row.parent, *row.nodes} for v in row.nodes)


@given(SEQUENCES, st.integers(1, 60))
def test_chunks_cover_the_sequences_and_keep_to_their_size(sequences, most):
    found = list(chunks(sequences, most))
    made = [chunk for chunk, _ in found]
    for chunk, ordered in found:  # its members stand in their lexical order
        order, shared = lexical([sequences[i] for i in chunk])
        assert (list(ordered.order), list(ordered.shared)) == (order, shared)
    assert sorted(i for chunk in made for i in chunk) == list(range(len(sequences)))
    for chunk in made:
        assert len(chunk) == 1 or trie_tokens([sequences[i] for i in chunk]) <= most


def test_a_long_stem_is_cut_from_its_many_branches_and_a_small_trie_is_one_row():
    stem = tuple(range(100))
    many = build_trie([(*stem, 200 + k, *range(30)) for k in range(24)])
    rows = cut(many, 64)
    assert [row.level for row in rows].count(0) == 1
    assert max(row.tokens for row in rows if row.level) <= 64
    assert len(cut(build_trie([(*stem, 1), (*stem, 2, 3)]), 64)) == 1


@given(SEQUENCES, st.integers(1, 40), st.sampled_from([None, 1, 3]))
def test_a_token_sees_its_own_beginning_and_nothing_else(sequences, row_tokens, window):
    nodes = build_trie(sequences)
    rows = cut(nodes, row_tokens)
    slots = Slots(nodes, rows)
    held: dict[int, tuple[int, ...]] = {}  # slot: the text up to it
    for row in rows:
        laid = lay(row, nodes, slots)
        batch = pack([laid], "cpu")
        before = tuple(held[s] for s in laid.path.tolist())
        texts = [text_of(nodes, v)[: nodes[v].start + k + 1] for v in row.nodes for k in range(len(nodes[v].tokens))]
        columns = batch.columns[0]
        seen = visible(batch, window)[0]
        assert batch.ids[0, torch.from_numpy(columns)].tolist() == [t[-1] for t in texts]
        in_column = dict(zip(columns.tolist(), texts, strict=True))
        keys = dict(enumerate(before)) | {len(before) + c: t for c, t in in_column.items()}
        for column, text in in_column.items():
            wanted = sorted((text[:k] for k in range(1, len(text) + 1)), key=len)[-(window or len(text)) :]
            assert sorted((keys[j] for j in torch.nonzero(seen[column])[:, 0].tolist()), key=len) == wanted
        held |= {s: texts[k] for k, s in zip(laid.kept.tolist(), laid.slots.tolist(), strict=True)}
        for read, ends in zip(laid.reads.tolist(), laid.ends, strict=True):
            assert all(sequences[i] == texts[read] for i in ends)
            assert columns[read] >= batch.ids.shape[1] - batch.reads


def test_padding_sees_something_so_that_no_softmax_is_empty():
    nodes = build_trie([(1,), (2, 3, 4)])
    rows = [lay(row, nodes, Slots(nodes, cut(nodes, 1))) for row in cut(nodes, 1)]
    assert np.all(visible(pack(rows, "cpu")).any(dim=2).numpy())

"""Prompts as a token trie, and its cut into rows: what is computed once, and what is computed after it.

A row is a connected piece of the trie, or several pieces that follow the same token. Every token of the trie
stands in exactly one row; a row's tokens see the path from the root to where the row begins, and their own
ancestors in the row.

The rule of the cut: bottom up, a node keeps its continuations in its own row unless cutting them off saves more
than `row_tokens` squared pairs of tokens that the attention would compute in vain; continuations cut off are spread
evenly over as few rows of at most `row_tokens` as hold them (a longer single text makes a longer row). So every
cut computes each token of the trie once, and `row_tokens` only trades attention against the number of passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Tokens = tuple[int, ...]
ROOT = 0


@dataclass
class Node:
    """A run of tokens without a branch.

    Attributes:
        parent: the node it follows; the root, node 0, has no tokens and follows itself.
        start: position of the first token.
        tokens: at least one, but for the root.
        ends: the sequences that end with the last token.
    """

    parent: int
    start: int
    tokens: Tokens
    ends: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)

    @property
    def stop(self) -> int:
        """Position after the last token."""
        return self.start + len(self.tokens)


@dataclass(frozen=True)
class Row:
    """A piece of the trie that one row of a pass computes.

    Attributes:
        parent: the node it continues.
        nodes: in depth-first order, so that a node's descendants in the row follow it directly.
        level: rows it waits for, one after the other.
        tokens: of all nodes together.
    """

    parent: int
    nodes: tuple[int, ...]
    level: int
    tokens: int


class Lexical(NamedTuple):
    """Indices of sequences in lexical order, and how many first tokens each shares with the one before it."""

    order: Sequence[int]
    shared: Sequence[int]

    def part(self, start: int, stop: int) -> Lexical:
        """Of the sequences from `start` to before `stop`, for a list that holds them in this order."""
        return Lexical(range(stop - start), [0, *self.shared[start + 1 : stop]])


def lexical(sequences: Sequence[Tokens]) -> Lexical:
    """The lexical order of sequences."""
    order = sorted(range(len(sequences)), key=lambda i: sequences[i])
    shared = [0] * len(order)
    for k in range(1, len(order)):
        shared[k] = _common(sequences[order[k - 1]], sequences[order[k]])
    return Lexical(order, shared)


def trie_tokens(sequences: Sequence[Tokens], ordered: Lexical | None = None) -> int:
    """Tokens of the trie: what must be computed if nothing is computed twice."""
    return sum(map(len, sequences)) - sum((ordered or lexical(sequences)).shared)


def chunks(
    sequences: Sequence[Tokens], most_tokens: int, ordered: Lexical | None = None
) -> Iterator[tuple[list[int], Lexical]]:
    """Neighbours in lexical order whose trie has at most `most_tokens` tokens (or one sequence), and their order."""
    ordered = ordered or lexical(sequences)
    start = held = 0
    for place, (i, shared) in enumerate(zip(*ordered, strict=True)):
        added = len(sequences[i]) - shared
        if place > start and held + added > most_tokens:
            yield list(ordered.order[start:place]), ordered.part(start, place)
            start, held, added = place, 0, len(sequences[i])
        held += added
    if start < len(ordered.order):
        yield list(ordered.order[start:]), ordered.part(start, len(ordered.order))


def build_trie(sequences: Sequence[Tokens], ordered: Lexical | None = None) -> list[Node]:
    """The nodes of the compressed trie of non-empty sequences, the root first; others in no particular order."""
    nodes = [Node(ROOT, 0, ())]
    stack = [ROOT]
    for i, shared in zip(*(ordered or lexical(sequences)), strict=True):
        while nodes[stack[-1]].stop > shared:
            top = stack.pop()
            if nodes[top].start < shared:
                stack.append(_split(nodes, top, shared))
        rest = sequences[i][shared:]
        if rest:
            nodes.append(Node(stack[-1], shared, rest))
            nodes[stack[-1]].children.append(len(nodes) - 1)
            stack.append(len(nodes) - 1)
        nodes[stack[-1]].ends.append(i)
    return nodes


def cut(nodes: Sequence[Node], row_tokens: int) -> list[Row]:
    """All tokens in rows, those of a lower level first."""
    size = [0] * len(nodes)
    kept: list[list[int]] = [[] for _ in nodes]
    bins: dict[int, list[list[int]]] = {}
    for v in reversed(_depth_first(nodes)):
        own, children = len(nodes[v].tokens), nodes[v].children
        below = [size[c] for c in children]
        size[v] = own
        if v == ROOT or _saved(own, below, row_tokens) > row_tokens**2:
            bins[v] = _spread(children, below, row_tokens)
        else:
            kept[v] = children
            size[v] += sum(below)
    rows: list[Row] = []
    waiting = [(ROOT, 0)]
    for v, level in waiting:
        for starts in bins.get(v, []):
            members = _within(starts, kept)
            rows.append(Row(v, tuple(members), level, sum(size[s] for s in starts)))
            waiting += [(m, level + 1) for m in members if m in bins]
    return sorted(rows, key=lambda row: row.level)


def _saved(own: int, below: Sequence[int], row_tokens: int) -> int:
    """Pairs of tokens that cutting all continuations off saves: branches no longer look past one another."""
    total = sum(below)
    apart = total * min(total, max([row_tokens, *below]))
    return own * total + total**2 - apart


def _spread(children: Sequence[int], sizes: Sequence[int], row_tokens: int) -> list[list[int]]:
    """Groups of at most `row_tokens` where possible and about equal size, each in the order of the children."""
    loads: list[int] = []
    groups: list[list[int]] = []
    if not children:
        return groups
    rows = -(-sum(sizes) // max(row_tokens, *sizes))
    for k in sorted(range(len(children)), key=lambda k: -sizes[k]):
        lightest = min(range(len(loads)), key=loads.__getitem__, default=-1)
        fits = lightest >= 0 and loads[lightest] + sizes[k] <= max(row_tokens, *sizes)
        if len(groups) < rows or not fits:
            groups.append([k])
            loads.append(sizes[k])
        else:
            groups[lightest].append(k)
            loads[lightest] += sizes[k]
    return [[children[k] for k in sorted(group)] for group in groups]


def _depth_first(nodes: Sequence[Node]) -> list[int]:
    return _within([ROOT], [node.children for node in nodes])


def _within(starts: Sequence[int], children: Sequence[Sequence[int]]) -> list[int]:
    found: list[int] = []
    stack = list(reversed(starts))
    while stack:
        v = stack.pop()
        found.append(v)
        stack += reversed(children[v])
    return found


def _split(nodes: list[Node], node: int, at: int) -> int:
    """Put a new node in front of what lies at or after position `at`; returns the new one."""
    old = nodes[node]
    head = old.tokens[: at - old.start]
    nodes.append(Node(old.parent, old.start, head, children=[node]))
    made = len(nodes) - 1
    siblings = nodes[old.parent].children
    siblings[siblings.index(node)] = made
    nodes[node] = Node(made, at, old.tokens[len(head) :], old.ends, old.children)
    return made


def _common(a: Tokens, b: Tokens) -> int:
    """Length of the common beginning, by bisection over slices (comparing those runs in C)."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

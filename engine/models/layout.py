"""Rows of a trie as tensors: where each token stands, at which position, and what it may see.

A row is numbered depth first, so the descendants of token k are the tokens k to `last[k]`, and one token sees
another exactly if it lies in that range. Tokens whose logits are read stand in the last columns of a row, where
the model's `logits_to_keep` finds them whatever the row's length; padding stands before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.models.trie import Node, Row

Ints = NDArray[np.int64]
_NONE: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Laid:
    """A row ready to be computed, its N tokens in depth-first order.

    Attributes:
        ids: token ids (N,).
        positions: distance from the start of the prompt (N,).
        last: number of the last descendant of each token (N,).
        reads: numbers of the tokens whose logits are read.
        ends: for each of those, the sequences that end there.
        path: slots of the tokens before the row (P,), in order.
        kept: numbers of the tokens whose keys and values later rows need.
        slots: where those are kept.
    """

    ids: Ints
    positions: Ints
    last: Ints
    reads: Ints
    ends: tuple[tuple[int, ...], ...]
    path: Ints
    kept: Ints
    slots: Ints

    def columns(self, width: int) -> Ints:
        """The column of each token in a row padded to `width`."""
        is_read = np.zeros(len(self.ids), dtype=bool)
        is_read[self.reads] = True
        columns = np.cumsum(~is_read) - 1
        columns[self.reads] = width - len(self.reads) + np.arange(len(self.reads))
        return columns


class Slots:
    """Places for the keys and values of every token that a later row looks back at.

    Attributes:
        count: places in all.
    """

    def __init__(self, nodes: Sequence[Node], rows: Sequence[Row]) -> None:
        self._nodes = nodes
        self._first: dict[int, int] = {}
        self._paths: dict[int, Ints] = {0: _NONE}
        self.count = 0
        for parent in dict.fromkeys(row.parent for row in rows):
            while parent and parent not in self._first:
                self._first[parent] = self.count
                self.count += len(nodes[parent].tokens)
                parent = nodes[parent].parent

    def of(self, node: int) -> Ints:
        """The places of a node's own tokens; none if no row looks back at them."""
        first = self._first.get(node)
        return np.arange(first, first + len(self._nodes[node].tokens)) if first is not None else _NONE

    def path(self, node: int) -> Ints:
        """The places of all tokens from the root to the end of a node."""
        missing = []
        while node not in self._paths:
            missing.append(node)
            node = self._nodes[node].parent
        for node in reversed(missing):
            self._paths[node] = np.concatenate([self._paths[self._nodes[node].parent], self.of(node)])
        return self._paths[node]


def lay(row: Row, nodes: Sequence[Node], slots: Slots) -> Laid:
    """Number a row's tokens."""
    first: dict[int, int] = {}
    count = 0
    for v in row.nodes:
        first[v] = count
        count += len(nodes[v].tokens)
    own = [nodes[v] for v in row.nodes]
    lengths = [len(node.tokens) for node in own]
    shift = [node.start - at for node, at in zip(own, first.values(), strict=True)]
    reads = [v for v in row.nodes if nodes[v].ends]
    stored = [(v, places) for v in row.nodes if len(places := slots.of(v))]
    return Laid(
        ids=np.array([token for node in own for token in node.tokens], dtype=np.int64),
        positions=np.arange(count) + np.repeat(shift, lengths),
        last=np.repeat(_last(row, nodes, first), lengths),
        reads=np.array([first[v] + len(nodes[v].tokens) - 1 for v in reads], dtype=np.int64),
        ends=tuple(tuple(nodes[v].ends) for v in reads),
        path=slots.path(row.parent),
        kept=np.concatenate([first[v] + np.arange(len(s)) for v, s in stored] or [_NONE]),
        slots=np.concatenate([s for _, s in stored] or [_NONE]),
    )


def _last(row: Row, nodes: Sequence[Node], first: Mapping[int, int]) -> Ints:
    """For each node of the row, the number of its last descendant."""
    last = {v: first[v] + len(nodes[v].tokens) - 1 for v in row.nodes}
    for v in reversed(row.nodes):
        parent = nodes[v].parent
        if parent in last:
            last[parent] = max(last[parent], last[v])
    return np.array([last[v] for v in row.nodes], dtype=np.int64)


@dataclass(frozen=True)
class Batch:
    """B rows as tensors on the device, padded to T tokens behind paths padded to P.

    Attributes:
        ids: (B, T).
        positions: (B, T).
        order: number of the token in each column (B, T); -1 for padding.
        last: number of its last descendant (B, T); -2 for padding.
        path: slots of the path (B, P), or (1, P) where all rows continue the same one.
        path_length: (B,).
        reads: most reads of a row.
        columns: the column of each token, one array per row.
    """

    ids: Any
    positions: Any
    order: Any
    last: Any
    path: Any
    path_length: Any
    reads: int
    columns: tuple[Ints, ...]


def pack(rows: Sequence[Laid], device: str) -> Batch:
    """Put rows side by side."""
    import torch

    step = 8 if device.startswith("cuda") else 1  # masked attention kernels want aligned rows
    width = _up(max(len(row.ids) for row in rows), step)
    before = _up(max(len(row.path) for row in rows), step)
    columns = tuple(row.columns(width) for row in rows)
    ids = np.full((len(rows), width), rows[0].ids[0])
    positions = np.zeros_like(ids)
    order, last = np.full_like(ids, -1), np.full_like(ids, -2)
    for b, (row, column) in enumerate(zip(rows, columns, strict=True)):
        ids[b, column], positions[b, column] = row.ids, row.positions
        order[b, column], last[b, column] = np.arange(len(row.ids)), row.last
    alike = all(row.path is rows[0].path for row in rows)
    path = np.zeros((1 if alike else len(rows), before), dtype=np.int64)
    for b, row in enumerate(rows[: len(path)]):
        path[b, : len(row.path)] = row.path
    lengths = np.array([len(row.path) for row in rows])
    arrays = {"ids": ids, "positions": positions, "order": order, "last": last, "path": path, "path_length": lengths}
    moved: dict[str, Any] = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    return Batch(reads=max(len(row.reads) for row in rows), columns=columns, **moved)


def visible(batch: Batch, window: int | None = None) -> Any:
    """Which keys each token sees (B, T, P + T): its path, its ancestors in the row and itself.

    Args:
        batch: the rows.
        window: a token sees the last `window` positions only, its own included; None for all.
    """
    import torch

    own = (batch.order[:, None, :] <= batch.order[:, :, None]) & (batch.order[:, :, None] <= batch.last[:, None, :])
    place = torch.arange(batch.path.shape[1], device=batch.ids.device)
    path = (place[None] < batch.path_length[:, None])[:, None].expand(-1, own.shape[1], -1)
    seen = torch.cat([path, own], dim=2)
    if window:
        keys = torch.cat([place.expand(len(batch.ids), -1), batch.positions], dim=1)  # (B, P + T)
        seen &= batch.positions[:, :, None] - keys[:, None, :] < window
    seen[:, :, len(place) :] |= torch.eye(own.shape[1], dtype=torch.bool, device=seen.device)  # padding sees itself
    return seen


def _up(n: int, step: int) -> int:
    return -(-n // step) * step

"""Logits at the end of token sequences, each shared beginning computed once.

The sequences form a trie (`engine.inference.prefix`), cut into rows. Rows of one level are one batch or several; each
row gets the keys and values of the tokens before it from a pool, and a mask under which its tokens see that path and
their own ancestors. Llama's relatives go through the fused forward pass of `engine.inference.llama`, other shapes
through the library's modules and its own cache. Attention with a window is exact: the mask counts positions, and the
cache holds every position.

Memory: the sequences are taken in lexical order, as many at once as have `PASSES_PER_CHUNK` passes of work and whose
pool takes at most a quarter of the free memory; a pass takes at most half of what is then free.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.inference import llama
from engine.inference.batching import (
    SHARE,
    Footprint,
    footprint,
    free_bytes,
    halving,
    is_split,
    on_device,
    token_budget,
)
from engine.inference.loading import LoadedModel

# Prompts as a token trie, and its cut into rows: what is computed once, and what is computed after it.
#
# A row is a connected piece of the trie, or several pieces that follow the same token. Every token of the trie
# stands in exactly one row; a row's tokens see the path from the root to where the row begins, and their own
# ancestors in the row.
#
# The rule of the cut: bottom up, a node keeps its continuations in its own row unless cutting them off saves more
# than `row_tokens` squared pairs of tokens that the attention would compute in vain; continuations cut off are spread
# evenly over as few rows of at most `row_tokens` as hold them (a longer single text makes a longer row). So every
# cut computes each token of the trie once, and `row_tokens` only trades attention against the number of passes.

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


# Rows of a trie as tensors: where each token stands, at which position, and what it may see.
#
# A row is numbered depth first, so the descendants of token k are the tokens k to `last[k]`, and one token sees
# another exactly if it lies in that range. Tokens whose logits are read stand in the last columns of a row, where
# the model's `logits_to_keep` finds them whatever the row's length; padding stands before them.

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
    """Mask of the keys each token sees (B, T, P + T): its path, its ancestors in the row and itself.

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


Take = Callable[[list[int], Any], None]
"""Gets indices of sequences and their next-token logits (n, V), as float32; none at all after a pass that only
computed shared beginnings. May raise to stop."""

PASSES_PER_CHUNK = 16
POOL_SHARE = 0.25
CPU_ROW_TOKENS, GPU_ROW_TOKENS = 256, 128
CPU_PASS_TOKENS, GPU_PASS_TOKENS = 64, 8192
"""A pass of fewer tokens takes about as long as one of so many: a CPU reads the weights, a GPU waits for Python."""

_ONE_MASK = frozenset({"llama", "mistral", "gemma", "gpt2"})
_MASK_PER_LAYER_TYPE = frozenset({"qwen2", "qwen3", "gemma2", "gemma3", "gemma3_text"})
_MOVING_ROPE = frozenset({"dynamic", "longrope"})
_said: set[str] = set()


def unsupported_reason(loaded: LoadedModel) -> str:
    """Why beginnings cannot be shared exactly with this model; empty where they can."""
    config = loaded.model.config.get_text_config()
    if loaded.kind != "causal":
        return "it is no causal language model"
    if is_split(loaded.model):
        return "its layers are on several devices"
    if config.model_type not in _ONE_MASK | _MASK_PER_LAYER_TYPE:
        return f"the architecture {config.model_type} has not been checked"
    attention = getattr(config, "_attn_implementation", "")
    if attention not in {"sdpa", "eager"}:
        return f"the attention {attention} takes no mask of its own"
    if getattr(config, "use_bidirectional_attention", False):
        return "its tokens look ahead"
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {part.get("rope_type") for part in [rope, *rope.values()] if isinstance(part, dict)}
    if kinds & _MOVING_ROPE:
        return "its position encoding depends on the longest prompt of a batch"
    return ""


def can_share(loaded: LoadedModel) -> bool:
    """True where `read_shared` may be used; the first time it may not, the reason is logged."""
    reason = unsupported_reason(loaded)
    if reason and loaded.fingerprint not in _said:
        _said.add(loaded.fingerprint)
        logging.getLogger(__name__).warning("%s is scored without shared prefixes: %s.", loaded.spec, reason)
    return not reason


def read_shared(
    loaded: LoadedModel,
    sequences: Sequence[Tokens],
    take: Take,
    batch_tokens: int | None = None,
    row_tokens: int | None = None,
    ordered: Lexical | None = None,
) -> None:
    """Next-token logits after each sequence.

    Args:
        loaded: a model that `unsupported_reason` has nothing against.
        sequences: token ids, each non-empty and within the model's window; equal ones are computed once.
        take: gets the logits after each pass.
        batch_tokens: most padded tokens of a pass; by default set by the device.
        row_tokens: tokens a row is filled to (see `engine.inference.prefix`); by default set by the device.
        ordered: the sequences' lexical order, where it is known.

    Raises:
        ModelError: one sequence alone does not fit the memory.
    """
    budget = batch_tokens or token_budget(loaded.device)
    row_tokens = row_tokens or (CPU_ROW_TOKENS if loaded.device == "cpu" else GPU_ROW_TOKENS)
    needs = footprint(loaded.model)
    room = int(POOL_SHARE * free_bytes(loaded.device) / needs.kv)

    def run(own: Lexical, chunk: Sequence[int]) -> None:
        known = own if len(chunk) == len(own.order) else None  # after a halving it is found anew
        _Chunk(loaded, [sequences[i] for i in chunk], min(row_tokens, budget), known).read(
            budget, needs, lambda found, logits: take([chunk[i] for i in found], logits)
        )

    for chunk, own in chunks(sequences, max(1, min(PASSES_PER_CHUNK * budget, room)), ordered):
        halving(partial(run, own), chunk, loaded.device)


class _Chunk:
    """Sequences whose shared keys and values are held at the same time."""

    def __init__(
        self, loaded: LoadedModel, sequences: Sequence[Tokens], row_tokens: int, ordered: Lexical | None
    ) -> None:
        import torch

        nodes = build_trie(sequences, ordered)
        rows = cut(nodes, row_tokens)
        slots = Slots(nodes, rows)
        self._loaded = loaded
        self._levels = [[lay(r, nodes, slots) for r in level] for _, level in groupby(rows, lambda r: r.level)]
        config = loaded.model.config.get_text_config()
        heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        width = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        shape = (config.num_hidden_layers, 2, slots.count, heads, width)
        self._pool = torch.empty(shape, dtype=loaded.model.dtype, device=loaded.device)
        self._compute = self._by_modules if llama.unsupported_reason(loaded) else self._fused_forward

    def read(self, budget: int, needs: Footprint, take: Take) -> None:
        """Compute all rows, level by level; a pass is handed over when the next one is under way."""
        import torch

        waiting: list[tuple[Sequence[Laid], Any]] = []

        def hand_over() -> None:
            for rows, logits in waiting:
                take([i for row in rows for ends in row.ends for i in ends], logits)
            waiting.clear()

        def run(batch: Sequence[Laid]) -> None:
            with torch.inference_mode():
                logits = self._pass(batch)
            hand_over()
            waiting.append((batch, logits))

        device = self._loaded.device
        least = CPU_PASS_TOKENS if device == "cpu" else GPU_PASS_TOKENS
        for level in self._levels:
            for batch in _batches(level, budget, needs, int(SHARE * free_bytes(device)), least):
                halving(run, batch, device)
        hand_over()

    def _pass(self, rows: Sequence[Laid]) -> Any:
        """One forward pass; returns the logits (n, V) of the rows' ends, in order."""
        import torch

        batch = pack(rows, self._loaded.device)
        width = batch.ids.shape[1]
        found = [
            (b, width - len(row.ends) + k) for b, row in enumerate(rows) for k, e in enumerate(row.ends) for _ in e
        ]
        where = torch.tensor(found, dtype=torch.long).reshape(-1, 2).to(self._loaded.device)
        with on_device(self._loaded.device):
            return self._compute(rows, batch, where)

    def _fused_forward(self, rows: Sequence[Laid], batch: Batch, where: Any) -> Any:
        """The pass through our own forward, its cache laid out for it."""
        import torch

        model = llama.fused_forward(self._loaded)
        count, steps = batch.ids.shape
        before = batch.path.shape[1]
        cache = model.cache(count, before + steps)
        if before:
            held = cache.view(len(cache), count, 2, model.kv_heads, before + steps, model.width)
            held[..., :before, :] = self._pool[:, :, batch.path].permute(0, 2, 1, 4, 3, 5)  # (L, B, 2, H, P, D)
        longest = max(int(row.positions.max()) for row in rows) + 1
        cos, sin = (table[batch.positions] for table in model.rope(longest))
        slots = torch.arange(before, before + steps, device=batch.ids.device)
        mask = _additive(visible(batch), model.dtype)
        hidden = model.forward(batch.ids, cos, sin, cache, slots, mask, way=model.ways[0])
        if (kept := self._kept(rows, batch)) is not None:
            row_at, column_at, slot = kept
            new = cache[:, row_at, :, column_at]  # (n, L, 2 H, D)
            self._pool[:, :, slot] = new.view(len(slot), len(cache), 2, model.kv_heads, model.width).permute(
                1, 2, 0, 3, 4
            )
        return model.logits(hidden.view(count, steps, -1)[where[:, 0], where[:, 1]]).float()

    def _by_modules(self, rows: Sequence[Laid], batch: Batch, where: Any) -> Any:
        """The pass through the library's modules, with the library's cache."""
        cache = self._cache(batch)
        reads = max(1, batch.reads)
        out = self._loaded.model(
            input_ids=batch.ids,
            position_ids=batch.positions,
            attention_mask=self._masks(batch),
            cache=cache,
            use_cache=True,
            logits_to_keep=reads,
        )
        if (kept := self._kept(rows, batch)) is not None:
            row_at, column_at, slot = kept
            for k, layer in enumerate(cache.layers):
                self._pool[k, 0, slot] = layer.keys[row_at, :, column_at]  # (n, H, D)
                self._pool[k, 1, slot] = layer.values[row_at, :, column_at]
        return out.logits[where[:, 0], where[:, 1] - (batch.ids.shape[1] - reads)].float()

    def _cache(self, batch: Batch) -> Any:
        """The library's cache, holding each row's path; rows that continue the same path share one copy."""
        from transformers.cache_utils import DynamicCache, DynamicLayer

        cache = DynamicCache()
        if not batch.path.shape[1]:
            return cache
        path = self._pool[:, :, batch.path].transpose(3, 4)  # (L, 2, B or 1, H, P, D)
        path = path.expand(-1, -1, len(batch.ids), -1, -1, -1)
        for keys, values in path:
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            cache.layers.append(layer)
        return cache

    def _masks(self, batch: Batch) -> Any:
        """The additive mask (B, 1, T, P + T), or one for each type of layer where the model asks for that."""
        config = self._loaded.model.config.get_text_config()
        dtype = self._loaded.model.dtype
        window = getattr(config, "sliding_window", None)
        if config.model_type in _ONE_MASK:
            return _additive(visible(batch, window), dtype)
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        windows = {"full_attention": None, "sliding_attention": window}
        return {kind: _additive(visible(batch, windows[kind]), dtype) for kind in kinds}

    def _kept(self, rows: Sequence[Laid], batch: Batch) -> tuple[Any, Any, Any] | None:
        """Row, place in the cache and place in the pool of every token that later rows need."""
        import torch

        at = [(b, row) for b, row in enumerate(rows) if len(row.kept)]
        if not at:
            return None
        row_of = np.concatenate([np.full(len(row.kept), b) for b, row in at])
        column = batch.path.shape[1] + np.concatenate([batch.columns[b][row.kept] for b, row in at])
        slots = np.concatenate([row.slots for _, row in at])
        row_at, column_at, slot = (torch.from_numpy(a).to(self._loaded.device) for a in (row_of, column, slots))
        return row_at, column_at, slot


def _additive(seen: Any, dtype: Any) -> Any:
    import torch

    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min)[:, None]


def _batches(rows: Sequence[Laid], budget: int, needs: Footprint, room: int, least: int) -> Iterator[list[Laid]]:
    """Rows of similar length in passes of at most `budget` padded tokens and `room` bytes (or one row).

    Of all cuts of the rows in order of length, the one with the fewest padded tokens, where a pass counts for at
    least `least`, and a sixteenth of that more.
    """
    rows = sorted(rows, key=lambda r: (len(r.ids), len(r.path)))
    widths, paths, reads = (np.array([len(getattr(r, of)) for r in rows]) for of in ("ids", "path", "reads"))
    best = np.zeros(len(rows) + 1)  # cheapest way to compute the first j rows, and where its last pass begins
    begins = [0] * (len(rows) + 1)
    for j in range(1, len(rows) + 1):
        width = int(widths[j - 1])
        count = np.arange(1, min(j, max(1, budget // width)) + 1)  # rows of the last pass
        first = j - count
        path = np.maximum.accumulate(paths[:j][::-1])[: len(count)]
        read = np.maximum.accumulate(np.maximum(reads[:j][::-1], 1))[: len(count)]
        fits = needs.of(count, width, path, read) <= room
        fits[0] = True
        stop = len(count) if fits.all() else int(np.argmin(fits))  # what does not fit with n rows does not with more
        cost = best[first[:stop]] + np.maximum(count[:stop] * width, least) + least // 16
        chosen = int(np.argmin(cost))
        best[j], begins[j] = cost[chosen], int(first[chosen])
    passes = []
    j = len(rows)
    while j:
        passes.append(rows[begins[j] : j])
        j = begins[j]
    yield from reversed(passes)

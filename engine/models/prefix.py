"""Logits at the end of token sequences, each shared beginning computed once.

The sequences form a trie (`engine.models.trie`), cut into rows. Rows of one level are one batch or several; each
row gets the keys and values of the tokens before it from a pool, and a mask under which its tokens see that path and
their own ancestors. Llama's relatives go through the pass written out in `engine.models.llama`, other shapes through
the library's modules and its own cache. Attention with a window is exact: the mask counts positions, and the cache
holds every position.

Memory: the sequences are taken in lexical order, as many at once as have `PASSES_PER_CHUNK` passes of work and whose
pool takes at most a quarter of the free memory; a pass takes at most half of what is then free.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from engine.models import llama
from engine.models.batching import token_budget
from engine.models.layout import Batch, Laid, Slots, lay, pack, visible
from engine.models.loader import LoadedModel
from engine.models.memory import SHARE, Footprint, footprint, free_bytes, halving
from engine.models.trie import Lexical, Tokens, build_trie, chunks, cut

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


def why_not(loaded: LoadedModel) -> str:
    """Why beginnings cannot be shared exactly with this model; empty where they can."""
    config = loaded.model.config.get_text_config()
    if loaded.kind != "causal":
        return "it is no causal language model"
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
    """Whether `read_shared` may be used; the first time it may not, the reason is logged."""
    reason = why_not(loaded)
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
        loaded: a model that `why_not` has nothing against.
        sequences: token ids, each non-empty and within the model's window; equal ones are computed once.
        take: gets the logits after each pass.
        batch_tokens: most padded tokens of a pass; by default set by the device.
        row_tokens: tokens a row is filled to (see `engine.models.trie`); by default set by the device.
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
        self._compute = self._by_modules if llama.why_not(loaded) else self._written_out

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
        return self._compute(rows, batch, where)

    def _written_out(self, rows: Sequence[Laid], batch: Batch, where: Any) -> Any:
        """The pass through our own forward, its cache laid out for it."""
        import torch

        model = llama.written_out(self._loaded)
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

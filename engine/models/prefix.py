"""Logits at the end of token sequences, each shared beginning computed once.

The sequences form a trie (`engine.models.trie`), cut into rows. Rows of one level are one batch or several; each
row gets the keys and values of the tokens before it from a pool, in the library's own cache, and a mask under which
its tokens see that path and their own ancestors. Attention with a window is exact: the mask counts positions, and
the cache holds every position.

Memory: the sequences are taken in lexical order, as many at once as have `PASSES_PER_CHUNK` passes of work and whose
pool takes at most a quarter of the free memory; a pass takes at most half of what is then free.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from engine.models.batching import token_budget
from engine.models.layout import Batch, Laid, Slots, lay, pack, visible
from engine.models.loader import LoadedModel
from engine.models.memory import SHARE, Footprint, footprint, free_bytes, halving
from engine.models.trie import Tokens, build_trie, chunks, cut

Take = Callable[[list[int], Any], None]
"""Gets indices of sequences and their next-token logits (n, V), as float32; none at all after a pass that only
computed shared beginnings. May raise to stop."""

PASSES_PER_CHUNK = 16
POOL_SHARE = 0.25
ROW_TOKENS = 256
CPU_PASS_TOKENS, GPU_PASS_TOKENS = 64, 6144
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
) -> None:
    """Next-token logits after each sequence.

    Args:
        loaded: a model that `why_not` has nothing against.
        sequences: token ids, each non-empty and within the model's window; equal ones are computed once.
        take: gets the logits after each pass.
        batch_tokens: most padded tokens of a pass; by default set by the device.
        row_tokens: tokens a row is filled to (see `engine.models.trie`); `ROW_TOKENS` by default.

    Raises:
        ModelError: one sequence alone does not fit the memory.
    """
    budget = batch_tokens or token_budget(loaded.device)
    needs = footprint(loaded.model)
    room = int(POOL_SHARE * free_bytes(loaded.device) / needs.kv)

    def run(chunk: Sequence[int]) -> None:
        _Chunk(loaded, [sequences[i] for i in chunk], min(row_tokens or ROW_TOKENS, budget)).read(
            budget, needs, lambda found, logits: take([chunk[i] for i in found], logits)
        )

    for chunk in chunks(sequences, max(1, min(PASSES_PER_CHUNK * budget, room))):
        halving(run, chunk, loaded.device)


class _Chunk:
    """Sequences whose shared keys and values are held at the same time."""

    def __init__(self, loaded: LoadedModel, sequences: Sequence[Tokens], row_tokens: int) -> None:
        import torch

        nodes = build_trie(sequences)
        rows = cut(nodes, row_tokens)
        slots = Slots(nodes, rows)
        self._loaded = loaded
        self._levels = [[lay(r, nodes, slots) for r in level] for _, level in groupby(rows, lambda r: r.level)]
        config = loaded.model.config.get_text_config()
        heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        width = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        shape = (config.num_hidden_layers, 2, slots.count, heads, width)
        self._pool = torch.empty(shape, dtype=loaded.model.dtype, device=loaded.device)

    def read(self, budget: int, needs: Footprint, take: Take) -> None:
        """Compute all rows, level by level."""
        import torch

        def run(batch: Sequence[Laid]) -> None:
            with torch.inference_mode():
                logits = self._pass(batch)
            take([i for row in batch for ends in row.ends for i in ends], logits)

        device = self._loaded.device
        least = CPU_PASS_TOKENS if device == "cpu" else GPU_PASS_TOKENS
        for level in self._levels:
            for batch in _batches(level, budget, needs, int(SHARE * free_bytes(device)), least):
                halving(run, batch, device)

    def _pass(self, rows: Sequence[Laid]) -> Any:
        """One forward pass; returns the logits (n, V) of the rows' ends, in order."""
        import torch

        device = self._loaded.device
        batch = pack(rows, device)
        cache = self._cache(batch)
        out = self._loaded.model(
            input_ids=batch.ids,
            position_ids=batch.positions,
            attention_mask=self._masks(batch),
            cache=cache,
            use_cache=True,
            logits_to_keep=max(1, batch.reads),
        )
        self._keep(rows, batch, cache)
        width, first = batch.ids.shape[1], batch.ids.shape[1] - max(1, batch.reads)
        found = [
            (b, width - len(row.ends) + k - first)
            for b, row in enumerate(rows)
            for k, e in enumerate(row.ends)
            for _ in e
        ]
        where = torch.tensor(found, dtype=torch.long, device=device).reshape(-1, 2)
        return out.logits[where[:, 0], where[:, 1]].float()

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

    def _keep(self, rows: Sequence[Laid], batch: Batch, cache: Any) -> None:
        """Move what later rows need into the pool."""
        import numpy as np
        import torch

        at = [(b, row) for b, row in enumerate(rows) if len(row.kept)]
        if not at:
            return
        row_of = np.concatenate([np.full(len(row.kept), b) for b, row in at])
        column = batch.path.shape[1] + np.concatenate([batch.columns[b][row.kept] for b, row in at])
        slots = np.concatenate([row.slots for _, row in at])
        row_at, column_at, slot = (torch.from_numpy(a).to(self._loaded.device) for a in (row_of, column, slots))
        for k, layer in enumerate(cache.layers):
            self._pool[k, 0, slot] = layer.keys[row_at, :, column_at]  # (n, H, D)
            self._pool[k, 1, slot] = layer.values[row_at, :, column_at]


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
    best = [0, *[0] * len(rows)]  # cheapest way to compute the first j rows, and where its last pass begins
    begins = [0] * (len(rows) + 1)
    for j in range(1, len(rows) + 1):
        width, path, reads = len(rows[j - 1].ids), 0, 1
        for i in range(j - 1, -1, -1):
            path, reads = max(path, len(rows[i].path)), max(reads, len(rows[i].reads))
            n = j - i
            if n > 1 and (n * width > budget or needs.of(n, width, path, reads) > room):
                break
            cost = best[i] + max(n * width, least) + least // 16
            if n == 1 or cost < best[j]:
                best[j], begins[j] = cost, i
    passes = []
    j = len(rows)
    while j:
        passes.append(rows[begins[j] : j])
        j = begins[j]
    yield from reversed(passes)

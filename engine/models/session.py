"""A batch being written: static cache, static buffers, one step that can be captured as a CUDA graph.

Rows may share prompts: each prompt is read once, up to its last token, and its keys and values are copied to its
rows. The last prompt token is the first token of the first step, so that an edit acts from it on and not on what
stands before. Prompts are padded on the right; a row's new tokens go on from its own length, and the mask hides
what the padding leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from engine.errors import ModelError
from engine.models.batching import batches, pad_right, token_budget
from engine.models.llama import Llama, Way, written_out
from engine.models.loader import LoadedModel
from engine.models.packed import compiled_threads

TOP_K = 50
_STEP = 16
"""Slots come in so many, so that attention kernels find aligned masks."""
_LOOK = 8
"""Steps between two looks at whether all rows have ended, on a GPU."""


WORTH_RECORDING = 4
"""Tokens above which recording a GPU's graph is worth it."""
WORTH_PACKING = 16
"""Tokens from which packing the weights, once for a model, is worth it; texts of that length come in numbers."""


class Editing(Protocol):
    """Edits the activations of the rows' newest tokens at one layer."""

    layer: int

    def apply(self, hidden: Any) -> tuple[Any, Any]:
        """Edited activations (B, d), and the relative size (B,) of each edit."""


@dataclass(frozen=True)
class Row:
    """One text to write.

    Attributes:
        prompt: number of its prompt.
        temperature: 0 takes the likeliest token; above, one of the 50 likeliest is drawn.
        seed: decides the draws of this row, whatever the batch.
    """

    prompt: int
    temperature: float = 0.0
    seed: int = 0


def chooser(rows: Sequence[Row], limit: int, device: str) -> Callable[[Any, Any], Any]:
    """A function that takes logits (B, V) and the step's number as a tensor (1,), and gives the next tokens (B,)."""
    import torch

    if not any(row.temperature for row in rows):
        return lambda logits, _: logits.argmax(dim=-1)
    draws = np.stack(
        [np.random.default_rng(row.seed).random(limit) * bool(row.temperature) for row in rows], dtype=np.float32
    )
    u = torch.from_numpy(draws).to(device)  # (B, limit); a greedy row draws 0, which is the likeliest token
    heat = torch.tensor([[row.temperature or 1.0] for row in rows], device=device)

    def choose(logits: Any, step: Any) -> Any:
        values, ids = logits.float().topk(min(TOP_K, logits.shape[-1]), dim=-1)
        reached = (values / heat).softmax(dim=-1).cumsum(dim=-1)
        pick = (reached < u.index_select(1, step) * reached[:, -1:]).sum(dim=-1, keepdim=True)
        return ids.gather(1, pick.clamp_max(ids.shape[1] - 1))[:, 0]

    return choose


def slots_for(prompts: Sequence[Sequence[int]], limit: int) -> int:
    """Places in the cache that a batch takes."""
    return -(-(max(map(len, prompts)) + limit + 1) // _STEP) * _STEP


def way_for(model: Llama, limit: int) -> Way:
    """How `limit` tokens of each row are written on this device, before a GPU's graph is recorded."""
    return "packed" if model.device == "cpu" and limit >= WORTH_PACKING and model.packed else "fused"


def write(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    limit: int,
    ends: frozenset[int],
    editor: Editing | None = None,
) -> tuple[list[list[int]], list[float]]:
    """The tokens of each row and its mean relative edit; see `Session.run`.

    Args:
        loaded: a model that `engine.models.llama.why_not` has nothing against.
        prompts: token ids of every prompt.
        rows: what is written.
        limit: tokens of a text, at most.
        ends: tokens that end a text.
        editor: of the rows, in order.

    Raises:
        ModelError: the model gave NaN.
    """
    session = Session(written_out(loaded), prompts, rows, limit, editor)
    if loaded.device != "cpu" and limit > WORTH_RECORDING:
        session.capture()
    return session.run(ends)


class Session:
    """B rows ready to be written.

    Args:
        model: the weights.
        prompts: token ids of every prompt.
        rows: which prompt each row continues, and how it chooses.
        limit: tokens written for each row, at most.
        editor: of the rows, in order; None steers nothing.
        way: how a step is computed; by default as `way_for` chooses, and recording a graph chooses the fastest.
    """

    def __init__(
        self,
        model: Llama,
        prompts: Sequence[Sequence[int]],
        rows: Sequence[Row],
        limit: int,
        editor: Editing | None = None,
        *,
        way: Way | None = None,
    ) -> None:
        import torch

        self._model, self._limit, self.way = model, limit, way or way_for(model, limit)
        self._prompts = [prompts[row.prompt] for row in rows]
        device = model.device
        size = len(rows)
        self._start = max(map(len, self._prompts)) - 1
        slots = slots_for(self._prompts, limit)
        self._cos, self._sin = model.rope(slots)
        self._cache = model.cache(size, slots)
        self._read(prompts, rows)
        self._choose = chooser(rows, limit, device)
        self._editor = editor
        self._tokens = torch.zeros(size, dtype=torch.long, device=device)
        self._place = torch.zeros(size, dtype=torch.long, device=device)
        self._slot = torch.zeros(1, dtype=torch.long, device=device)
        self._number = torch.zeros(1, dtype=torch.long, device=device)
        self._mask = torch.zeros((size, 1, 1, slots), dtype=model.dtype, device=device)
        self._out = torch.zeros((size, limit), dtype=torch.long, device=device)
        self._sizes = torch.zeros((size, limit), dtype=torch.float32, device=device)
        self._graph: Any = None
        self.logits: Any = None
        self.reset()

    def reset(self) -> None:
        """Back to before the first step."""
        import torch

        lengths = torch.tensor([len(p) for p in self._prompts], device=self._tokens.device)
        self._tokens.copy_(torch.tensor([p[-1] for p in self._prompts], device=self._tokens.device))
        self._place.copy_(lengths - 1)
        self._slot.fill_(self._start)
        self._number.zero_()
        at = torch.arange(self._mask.shape[-1], device=self._tokens.device)
        self._mask.zero_().masked_fill_((at >= (lengths - 1)[:, None])[:, None, None], _lowest(self._mask.dtype))

    def step(self) -> None:
        """Write one token for every row; nothing waits for the device."""
        self._mask.index_fill_(3, self._slot, 0.0)
        cos, sin = self._cos.index_select(0, self._place), self._sin.index_select(0, self._place)
        hidden = self._model.forward(
            self._tokens[:, None],
            cos[:, None],
            sin[:, None],
            self._cache,
            self._slot,
            self._mask,
            self._edit,
            self.way,
        )
        self.logits = self._model.logits(hidden, self.way)
        self._tokens.copy_(self._choose(self.logits, self._number))
        self._out.index_copy_(1, self._number, self._tokens[:, None])
        for counter in (self._place, self._slot, self._number):
            counter.add_(1)

    def capture(self) -> None:
        """Record the step as a CUDA graph, once in each way, and keep the fastest."""
        import torch

        found = []
        for way in self._model.ways:
            self.way = way
            try:
                found.append((*self._captured(), way))
            except RuntimeError as error:  # a kernel that refuses this shape, or that cannot be recorded
                if isinstance(error, torch.OutOfMemoryError):
                    raise
        self.reset()
        if found:
            _, self._graph, self.logits, self.way = min(found, key=lambda one: one[0])

    def _captured(self) -> tuple[float, Any, Any]:
        """Milliseconds of a replayed step, the graph, and the tensor that its logits are in."""
        import torch

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.reset()
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.reset()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.reset()
        turns = min(self._limit, 8)
        first.record()
        for _ in range(turns):
            graph.replay()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) / turns, graph, self.logits

    def run(self, ends: frozenset[int]) -> tuple[list[list[int]], list[float]]:
        """Write from the beginning until every row has ended or is full.

        Returns:
            For each row its tokens, up to and with the first end token, and the mean relative edit over them.

        Raises:
            ModelError: the model gave NaN.
        """
        with compiled_threads() if self.way == "packed" else nullcontext():
            return self._run(ends)

    def _run(self, ends: frozenset[int]) -> tuple[list[list[int]], list[float]]:
        self.reset()
        look = 1 if self._model.device == "cpu" else _LOOK
        stop = _tensor_of(ends, self._tokens)
        done = 0
        while done < self._limit:
            for _ in range(min(look, self._limit - done)):
                self._graph.replay() if self._graph else self.step()
                done += 1
            if len(ends) and bool(_is_in(self._out[:, :done], stop).any(dim=1).all()):
                break
        if not bool(self.logits.isfinite().all()):
            raise ModelError("The model gave NaN while writing; its weights or precision are broken.")
        tokens = [_until_end(row, ends) for row in self._out[:, :done].tolist()]
        sizes = self._sizes.double().cpu().numpy()
        return tokens, [float(s[: len(t)].mean()) for s, t in zip(sizes, tokens, strict=True)]

    def _edit(self, number: int, hidden: Any) -> Any:
        if self._editor is None or number != self._editor.layer:
            return hidden
        changed, size = self._editor.apply(hidden)
        self._sizes.index_copy_(1, self._number, size[:, None])
        return changed

    def _read(self, prompts: Sequence[Sequence[int]], rows: Sequence[Row]) -> None:
        """Fill the cache with every prompt but its last token; each prompt is read once."""
        import torch

        used = sorted({row.prompt for row in rows if len(prompts[row.prompt]) > 1})
        for batch in batches([len(prompts[i]) - 1 for i in used], token_budget(self._model.device)):
            chosen = [used[i] for i in batch]
            ids, _ = pad_right([prompts[i][:-1] for i in chosen], prompts[chosen[0]][0], self._model.device)
            steps = ids.shape[1]
            cache = self._model.cache(len(chosen), steps)
            at = torch.arange(steps, device=ids.device)
            mask = torch.zeros((1, 1, steps, steps), dtype=self._model.dtype, device=ids.device)
            mask.masked_fill_(at[None] > at[:, None], _lowest(mask.dtype))
            cos, sin = self._cos[:steps].expand(len(chosen), -1, -1), self._sin[:steps].expand(len(chosen), -1, -1)
            self._model.forward(ids, cos, sin, cache, at, mask.expand(len(chosen), -1, -1, -1))
            place = {prompt: k for k, prompt in enumerate(chosen)}
            here = [(b, place[row.prompt]) for b, row in enumerate(rows) if row.prompt in place]
            to, source = (torch.tensor(x, device=ids.device) for x in zip(*here, strict=True))
            for own, read in zip(self._cache, cache, strict=True):  # layer by layer, so that little is copied at once
                own[to, :, :steps] = read[source]


def _lowest(dtype: Any) -> float:
    import torch

    return float(torch.finfo(dtype).min)


def _tensor_of(ends: frozenset[int], like: Any) -> Any:
    import torch

    return torch.tensor(sorted(ends), dtype=torch.long, device=like.device)


def _is_in(tokens: Any, ends: Any) -> Any:
    import torch

    return torch.isin(tokens, ends)


def _until_end(row: list[int], ends: frozenset[int]) -> list[int]:
    return next((row[: k + 1] for k, token in enumerate(row) if token in ends), row)

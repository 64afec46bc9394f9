"""Weights kept in the few bits they came in, for writing on a CPU: a step reads all of them, and memory is the limit.

A model that was stored in llama.cpp's Q4_1 or Q8_0 has weights on a grid: groups of 32 inputs share a scale and, for
Q4_1, a lowest value, so `weight = low + scale * code` with codes of 4 or 8 bits. `pack` finds that grid again in the
float32 weights and keeps it only if every weight is met exactly; sums of products then differ from torch's by their
order alone. Weights without such a grid (an adapter merged into them, say) are left to torch.

Sixty-four outputs are one block and stand side by side, so that the compiled loops work on whole vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP = 32
"""Inputs that share a scale."""
LANES = 64
"""Outputs of a block."""
Floats = NDArray[np.float32]
Map4 = tuple[NDArray[np.uint8], Floats, Floats]
"""Codes, scales and lowest values of a map in 4 bits; see `Packed`."""
_ALONE = threading.RLock()
"""Held while compiled loops run in parallel: not every pool of threads that numba can have takes two callers."""


@cache
def loops() -> Any:
    """The compiled loops; None where numba is missing, and torch's products remain. Loaded on first use."""
    try:
        from engine.inference import packed_kernels
    except ImportError:
        return None
    return packed_kernels


@dataclass(frozen=True)
class Packed:
    """The weights of one linear map with `rows` outputs and `32 * groups` inputs.

    Attributes:
        rows: outputs.
        codes: (blocks, groups, 16, 64) of two 4-bit codes each (inputs k and k + 16), or (blocks, groups, 32, 64)
            of 8-bit ones.
        scale: (blocks, groups, 64).
        low: (blocks, groups, 64); None for 8-bit codes, which have a sign instead.
    """

    rows: int
    codes: NDArray[Any]
    scale: Floats
    low: Floats | None

    def __call__(self, x: Any) -> Any:
        """The map's outputs (N, rows) for inputs (N, 32 * groups), both float32 tensors."""
        import torch

        out = torch.empty((len(x), self.rows), dtype=torch.float32)
        rows = x.contiguous().numpy()
        if self.low is None:
            loops().product_8(rows, self.codes, self.scale, out.numpy())
        else:
            loops().product_4(rows, self.codes, self.scale, self.low, out.numpy())
        return out

    @property
    def nbytes(self) -> int:
        """Bytes that a step reads."""
        return self.codes.nbytes + self.scale.nbytes + (0 if self.low is None else self.low.nbytes)


class PackedLayer(NamedTuple):
    """The weights of a block: its maps in 4 bits as arrays of codes, scales and lowest values, and its norms (d,)."""

    norm_in: Floats
    qkv: Map4
    out: Map4
    norm_mid: Floats
    gate_up: Map4
    down: Map4


class PackedModel(NamedTuple):
    """The weights of a model."""

    layers: tuple[PackedLayer, ...]
    head: Packed

    @property
    def nbytes(self) -> int:
        """Bytes that a step reads."""
        maps = (array for layer in self.layers for one in layer[1:3] + layer[4:] for array in one)
        return self.head.nbytes + sum(array.nbytes for array in maps)

    def forward(
        self, x: Any, cos: Any, sin: Any, cache: Any, slots: Any, mask: Any, after: Any, heads: int, eps: float
    ) -> Any:
        """Hidden states (B, d) after the last block, of one new token for each of B rows.

        Args:
            x: embeddings of the tokens (B, d); changed in place.
            cos: of each row's position (B, 1, D).
            sin: likewise, signed.
            cache: (layers, B, 2 key heads, S, D); the tokens' keys and values are written to it.
            slots: where the tokens stand (1,); nothing behind that is read.
            mask: added to the scores (B, 1, 1, S).
            after: edits the output of each block, or None.
            heads: query heads.
            eps: of the norms.
        """
        import torch
        from torch.nn import functional as F  # noqa: N812 - its usual name

        sight = (cos[:, 0].numpy(), sin[:, 0].numpy(), int(slots), mask[:, 0, 0].numpy())
        both = torch.empty((len(x), 2 * GROUP * self.layers[0].down[0].shape[1]), dtype=torch.float32)
        gate, up = both.chunk(2, dim=-1)
        kernels, small, room = loops(), np.float32(eps), both.numpy()
        for number, (layer, held) in enumerate(zip(self.layers, cache.numpy(), strict=True), start=1):
            own = x.numpy()
            kernels.mix(own, layer.norm_in, small, layer.qkv, layer.out, *sight, held, heads)
            kernels.widen(own, layer.norm_mid, small, layer.gate_up, room)
            kernels.narrow(F.silu(gate).mul_(up).numpy(), layer.down, own)
            if after:
                x = after(number, x)
        return x


def pack_all(layers: Sequence[Sequence[Any]], head: Any) -> PackedModel | None:
    """A model's weights; None where one of its maps has no grid, or not that of 4 bits within a block.

    Args:
        layers: of each block, what `PackedLayer` lists, as tensors: norms are vectors, maps matrices (out, in).
        head: the last map.
    """
    made = []
    for norm_in, qkv, out, norm_mid, gate_up, down in layers:
        maps = [found for weight in (qkv, out, gate_up, down) if (found := _map4(weight))]
        if len(maps) < 4:
            return None
        norms = (norm_in.detach().numpy(), norm_mid.detach().numpy())
        made.append(PackedLayer(norms[0], maps[0], maps[1], norms[1], maps[2], maps[3]))
    last = pack(head)
    return None if last is None else PackedModel(tuple(made), last)


def _map4(weight: Any) -> Map4 | None:
    found = pack(weight)
    return None if found is None or found.low is None else (found.codes, found.scale, found.low)


@contextmanager
def compiled_threads() -> Iterator[None]:
    """Torch's threads go to the compiled products: two pools that both wait busily would take each other's cores."""
    import numba
    import torch

    count = torch.get_num_threads()
    with _ALONE:
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(count)


def compile_ahead() -> None:
    """Compile the loops, which takes some seconds the first time on a machine, so that no user waits for it."""
    import torch

    def four(rows: int, columns: int) -> Any:  # a map on the grid of 4 bits
        return (torch.arange(rows * columns) % 16).float().view(rows, columns)

    norm, width = torch.ones(GROUP), GROUP // 2
    block = [norm, four(3 * GROUP, GROUP), four(GROUP, GROUP), norm, four(2 * GROUP, GROUP), four(GROUP, GROUP)]
    model = pack_all([block], torch.arange(-127.0, 128.0, 8)[None])  # 8 bits: one output of 32 inputs
    if model:
        turn, cache, mask = torch.ones(1, 1, width), torch.zeros(1, 1, 4, 1, width), torch.zeros(1, 1, 1, 1)
        slots = torch.zeros(1, dtype=torch.long)
        model.head(model.forward(torch.ones(1, GROUP), turn, turn, cache, slots, mask, None, 2, 1e-5))


def pack(weight: Any) -> Packed | None:
    """The weights (out, in) of a linear map on their grid; None where they have none, or numba is missing."""
    import torch

    if not loops() or weight.dtype != torch.float32 or weight.device.type != "cpu" or weight.shape[1] % GROUP:
        return None
    values = weight.detach().contiguous().numpy()
    with compiled_threads():  # the first parallel loop starts numba's threads, which sets torch's number as well
        return _four_bits(values) or _eight_bits(values)


def _four_bits(values: Floats) -> Packed | None:
    """Q4_1: the lowest weight of a group has code 0 and the highest 15; scale and lowest are half floats."""
    codes, scale, low = _room(values.shape, GROUP // 2, np.uint8)
    return Packed(len(values), codes, scale, low) if loops().find_grid(values, codes, scale, low, 15) else None


def _eight_bits(values: Floats) -> Packed | None:
    """Q8_0: the weight of a group furthest from zero has code 127 or -127; the scale is a half float."""
    codes, scale, low = _room(values.shape, GROUP, np.int8)
    return Packed(len(values), codes, scale, None) if loops().find_grid(values, codes, scale, low, 127) else None


def _room(shape: tuple[int, ...], height: int, dtype: Any) -> tuple[NDArray[Any], Floats, Floats]:
    blocks, groups = -(-shape[0] // LANES), shape[1] // GROUP
    scale, low = (np.zeros((blocks, groups, LANES), np.float32) for _ in range(2))
    return np.zeros((blocks, groups, height, LANES), dtype), scale, low

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

try:
    import numba

    from engine.models import packed_kernels as kernels
    from engine.models.packed_kernels import GROUP, LANES

    HAS_NUMBA = True
except ImportError:  # numba is missing: torch's products remain
    HAS_NUMBA = False

Floats = NDArray[np.float32]
_ALONE = threading.RLock()
"""Held while compiled loops run in parallel: not every pool of threads that numba can have takes two callers."""


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
            kernels.product_8(rows, self.codes, self.scale, out.numpy())
        else:
            kernels.product_4(rows, self.codes, self.scale, self.low, out.numpy())
        return out

    @property
    def nbytes(self) -> int:
        """Bytes that a step reads."""
        return self.codes.nbytes + self.scale.nbytes + (0 if self.low is None else self.low.nbytes)


class PackedLayer(NamedTuple):
    """The linear maps of a block."""

    qkv: Packed
    out: Packed
    gate_up: Packed
    down: Packed


class PackedModel(NamedTuple):
    """The linear maps of a model."""

    layers: tuple[PackedLayer, ...]
    head: Packed


def pack_all(layers: Sequence[Sequence[Any]], head: Any) -> PackedModel | None:
    """A model's maps (four of each layer, in the order of `PackedLayer`); None where one of them has no grid."""
    made = []
    for maps in layers:
        packed = [found for weight in maps if (found := pack(weight)) is not None]
        if len(packed) < len(maps):
            return None
        made.append(PackedLayer(*packed))
    last = pack(head)
    return None if last is None else PackedModel(tuple(made), last)


@contextmanager
def compiled_threads() -> Iterator[None]:
    """Torch's threads go to the compiled products: two pools that both wait busily would take each other's cores."""
    import torch

    count = torch.get_num_threads()
    with _ALONE:
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(count)


def attend_one(qkv: Any, cos: Any, sin: Any, slots: Any, mask: Any, held: Any, heads: int) -> Any:
    """Attention (B, heads * D) of one new token of each row; its rotated key and its value go to the cache.

    Args:
        qkv: (B, (heads + 2 key heads) * D).
        cos: of each row's position (B, 1, D).
        sin: likewise, signed.
        slots: where the token stands (1,).
        mask: added to the scores (B, 1, 1, S).
        held: the layer's cache (B, 2 key heads, S, D).
        heads: query heads.
    """
    import torch

    out = torch.empty((len(qkv), heads * held.shape[3]), dtype=torch.float32)
    turn, sight = (cos[:, 0].numpy(), sin[:, 0].numpy()), mask[:, 0, 0].numpy()
    kernels.attend_one(qkv.numpy(), *turn, int(slots), sight, held.numpy(), heads, out.numpy())
    return out


def compile_ahead() -> None:
    """Compile the loops, which takes some seconds the first time on a machine, so that no user waits for it."""
    import torch

    for weight in (torch.arange(32.0)[None] % 16, torch.arange(-127.0, 128.0, 8)[None]):  # on a grid of each kind
        if found := pack(weight):
            found(weight)
    turn, room = torch.ones(1, 1, 2), torch.zeros(1, 2, 1, 2)
    attend_one(torch.ones(1, 6), turn, turn, torch.zeros(1, dtype=torch.long), torch.zeros(1, 1, 1, 1), room, 1)


def pack(weight: Any) -> Packed | None:
    """The weights (out, in) of a linear map on their grid; None where they have none, or numba is missing."""
    import torch

    if not HAS_NUMBA or weight.dtype != torch.float32 or weight.device.type != "cpu" or weight.shape[1] % GROUP:
        return None
    values = weight.detach().contiguous().numpy()
    with _ALONE:
        return _four_bits(values) or _eight_bits(values)


def _four_bits(values: Floats) -> Packed | None:
    """Q4_1: the lowest weight of a group has code 0 and the highest 15; scale and lowest are half floats."""
    codes, scale, low = _room(values.shape, GROUP // 2, np.uint8)
    return Packed(len(values), codes, scale, low) if kernels.find_grid(values, codes, scale, low, 15) else None


def _eight_bits(values: Floats) -> Packed | None:
    """Q8_0: the weight of a group furthest from zero has code 127 or -127; the scale is a half float."""
    codes, scale, low = _room(values.shape, GROUP, np.int8)
    return Packed(len(values), codes, scale, None) if kernels.find_grid(values, codes, scale, low, 127) else None


def _room(shape: tuple[int, ...], height: int, dtype: Any) -> tuple[NDArray[Any], Floats, Floats]:
    blocks, groups = -(-shape[0] // LANES), shape[1] // GROUP
    scale, low = (np.zeros((blocks, groups, LANES), np.float32) for _ in range(2))
    return np.zeros((blocks, groups, height, LANES), dtype), scale, low

"""Compiled loops over packed weights (`engine.models.packed`); imported only where numba is there.

Written so that LLVM keeps sums in vector registers: the innermost loop that is not unrolled runs over the 64 outputs
of a block, and the loop over a group's inputs, of constant length, is unrolled inside it. NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, prange

GROUP = 32
"""Inputs that share a scale."""
LANES = 64
"""Outputs of a block."""
_HALF = GROUP // 2
_MANY = 4
"""Input vectors from which unpacking a group once for all of them is faster."""
_SUMS = {"reassoc", "contract", "nsz"}
"""What rounding may do: add in another order and fuse; never assume that there is no NaN."""
F = TypeVar("F", bound=Callable[..., Any])


def _compiled(*, parallel: bool, fastmath: Any) -> Callable[[F], F]:
    """Compiled by numba and kept on disk between processes."""
    return cast("Callable[[F], F]", njit(cache=True, nogil=True, parallel=parallel, fastmath=fastmath))


@_compiled(parallel=True, fastmath=False)
def find_grid(values: Any, codes: Any, scale: Any, low: Any, top: int) -> bool:  # pragma: no cover - compiled
    """Fill codes, scales and lowest values of weights (out, in); False where a weight is not met exactly.

    Args:
        values: the weights, float32.
        codes: room for the codes.
        scale: room for the scales.
        low: room for the lowest values.
        top: highest code: 15 for codes from 0, 127 for codes from -127.
    """
    wrong = 0
    for row in prange(len(values)):
        wrong += _row_grid(values[row], codes[row // LANES], scale[row // LANES], low[row // LANES], row % LANES, top)
    return wrong == 0


@_compiled(parallel=False, fastmath=False)
def _row_grid(values: Any, codes: Any, scale: Any, low: Any, lane: int, top: int) -> int:  # pragma: no cover
    for group in range(len(scale)):
        w = values[group * GROUP : (group + 1) * GROUP]
        lowest = w.min() if top == 15 else np.float32(0)
        reach = w.max() - lowest if top == 15 else np.abs(w).max()
        step = np.float32(reach / np.float32(top))
        if not np.isfinite(step):
            return 1
        if step:  # the scale was a half float: 11 bits of mantissa, so the division's rounding can be undone
            mantissa, exponent = math.frexp(step)
            step = np.float32(math.ldexp(np.rint(mantissa * 2048.0), exponent - 11))
        scale[group, lane], low[group, lane] = step, lowest
        for k in range(GROUP):
            code = int(np.rint((w[k] - lowest) / step)) if step else 0
            if np.float32(np.float32(code) * step) + lowest != w[k]:
                return 1
            if top == 15:
                codes[group, k % _HALF, lane] |= code << (4 if k >= _HALF else 0)
            else:
                codes[group, k, lane] = code
    return 0


@_compiled(parallel=True, fastmath=_SUMS)
def product_4(x: Any, codes: Any, scale: Any, low: Any, out: Any) -> None:  # pragma: no cover - compiled
    """Outputs (N, rows) of inputs (N, in) under 4-bit weights."""
    for block in prange(len(codes)):
        place = out[:, block * LANES : (block + 1) * LANES]
        if len(x) < _MANY:
            for row in range(len(x)):
                _one_4(x[row], codes[block], scale[block], low[block], place[row])
            continue
        total, weights = np.zeros((len(x), LANES), np.float32), np.empty((GROUP, LANES), np.float32)
        for group in range(codes.shape[1]):
            code, step, lowest = codes[block, group], scale[block, group], low[block, group]
            for k in range(_HALF):
                for lane in range(LANES):
                    both = code[k, lane]
                    weights[k, lane] = np.float32(np.int32(both & 15)) * step[lane] + lowest[lane]
                    weights[k + _HALF, lane] = np.float32(np.int32(both >> 4)) * step[lane] + lowest[lane]
            _add(x[:, group * GROUP : (group + 1) * GROUP], weights, total)
        place[:] = total[:, : place.shape[1]]


@_compiled(parallel=True, fastmath=_SUMS)
def product_8(x: Any, codes: Any, scale: Any, out: Any) -> None:  # pragma: no cover - compiled
    """Outputs (N, rows) of inputs (N, in) under 8-bit weights."""
    for block in prange(len(codes)):
        place = out[:, block * LANES : (block + 1) * LANES]
        if len(x) < _MANY:
            for row in range(len(x)):
                _one_8(x[row], codes[block], scale[block], place[row])
            continue
        total, weights = np.zeros((len(x), LANES), np.float32), np.empty((GROUP, LANES), np.float32)
        for group in range(codes.shape[1]):
            code, step = codes[block, group], scale[block, group]
            for k in range(GROUP):
                for lane in range(LANES):
                    weights[k, lane] = np.float32(code[k, lane]) * step[lane]
            _add(x[:, group * GROUP : (group + 1) * GROUP], weights, total)
        place[:] = total[:, : place.shape[1]]


@_compiled(parallel=False, fastmath=_SUMS)
def _add(x: Any, weights: Any, total: Any) -> None:  # pragma: no cover - compiled
    """Add a group's share (N, 64) for inputs (N, 32)."""
    for row in range(len(x)):
        part, own = x[row], total[row]
        for lane in range(LANES):
            found = np.float32(0)
            for k in range(GROUP):
                found += weights[k, lane] * part[k]
            own[lane] += found


@_compiled(parallel=False, fastmath=_SUMS)
def _one_4(x: Any, codes: Any, scale: Any, low: Any, out: Any) -> None:  # pragma: no cover - compiled
    """One input vector: codes go into the sum as they are, scale and lowest value once for a group."""
    total = np.zeros(LANES, np.float32)
    for group in range(len(codes)):
        part, code = x[group * GROUP : (group + 1) * GROUP], codes[group]
        every = np.float32(0)
        for k in range(GROUP):
            every += part[k]
        for lane in range(LANES):
            found = np.float32(0)
            for k in range(_HALF):
                both = code[k, lane]
                found += np.float32(np.int32(both & 15)) * part[k]
                found += np.float32(np.int32(both >> 4)) * part[k + _HALF]
            total[lane] += scale[group, lane] * found + low[group, lane] * every
    out[:] = total[: len(out)]


@_compiled(parallel=False, fastmath=_SUMS)
def _one_8(x: Any, codes: Any, scale: Any, out: Any) -> None:  # pragma: no cover - compiled
    total = np.zeros(LANES, np.float32)
    for group in range(len(codes)):
        part, code = x[group * GROUP : (group + 1) * GROUP], codes[group]
        for lane in range(LANES):
            found = np.float32(0)
            for k in range(GROUP):
                found += np.float32(code[k, lane]) * part[k]
            total[lane] += found * scale[group, lane]
    out[:] = total[: len(out)]

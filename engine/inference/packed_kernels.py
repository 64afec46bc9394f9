"""Compiled loops over packed weights (`engine.inference.packed`); imported only where numba is there.

Written so that LLVM keeps sums in vector registers: the innermost loop that is not unrolled runs over the 64 outputs
of a block, and the loop over a group's inputs, of constant length, is unrolled inside it. NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, prange

from engine.inference.packed import GROUP, LANES

_HALF = GROUP // 2
_MANY = 4
"""Input vectors from which unpacking a group once for all of them is faster."""
_SUMS = {"reassoc", "contract", "nsz"}
"""Allowed changes of rounding: another order of sums and fusing; never the assumption that there is no NaN."""
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


@_compiled(parallel=True, fastmath=_SUMS)
def attend_one(
    qkv: Any, cos: Any, sin: Any, slot: int, mask: Any, held: Any, heads: int, out: Any
) -> None:  # pragma: no cover - compiled
    """Rotate and store one new token of each row, and let it look at what the row has.

    Args:
        qkv: queries, keys and values (B, (heads + 2 key heads) * D).
        cos: of each row's position (B, D).
        sin: likewise, signed.
        slot: where the token stands; nothing behind it is read.
        mask: added to the scores (B, S).
        held: keys and, behind them, values (B, 2 key heads, S, D).
        heads: query heads.
        out: room for the result (B, heads * D).
    """
    kv_heads, width = held.shape[1] // 2, held.shape[3]
    group, scale = heads // kv_heads, np.float32(1 / math.sqrt(width))
    for place in prange(len(held) * kv_heads):
        row, head = place // kv_heads, place % kv_heads
        keys, values = held[row, head, : slot + 1], held[row, kv_heads + head, : slot + 1]
        key, value = (heads + head) * width, (heads + kv_heads + head) * width
        _turn(qkv[row, key : key + width], cos[row], sin[row], np.float32(1), keys[slot])
        values[slot] = qkv[row, value : value + width]
        q, p = np.empty(width, np.float32), np.empty(slot + 1, np.float32)
        for one in range(head * group, (head + 1) * group):
            _turn(qkv[row, one * width : (one + 1) * width], cos[row], sin[row], scale, q)
            _look(q, keys, values, mask[row], p, out[row, one * width : (one + 1) * width])


@_compiled(parallel=False, fastmath=_SUMS)
def _turn(x: Any, cos: Any, sin: Any, scale: Any, out: Any) -> None:  # pragma: no cover - compiled
    half = len(x) // 2
    for d in range(half):
        out[d] = (x[d] * cos[d] + x[d + half] * sin[d]) * scale
        out[d + half] = (x[d + half] * cos[d + half] + x[d] * sin[d + half]) * scale


@_compiled(parallel=False, fastmath=_SUMS)
def _look(q: Any, keys: Any, values: Any, mask: Any, p: Any, out: Any) -> None:  # pragma: no cover - compiled
    """Attention of one query (D,) over keys and values (S, D); `p` is room for the scores (S,)."""
    most = np.float32(-np.inf)
    for s in range(len(keys)):
        found = np.float32(0)
        for d in range(len(q)):
            found += q[d] * keys[s, d]
        p[s] = found + mask[s]
        most = max(most, p[s])
    total = np.float32(0)
    out[:] = 0
    for s in range(len(keys)):
        weight = np.exp(p[s] - most)
        total += weight
        for d in range(len(q)):
            out[d] += weight * values[s, d]
    for d in range(len(q)):
        out[d] /= total


@_compiled(parallel=False, fastmath=_SUMS)
def _normed(x: Any, weight: Any, eps: Any) -> Any:  # pragma: no cover - compiled
    """Rows (N, d) brought to a mean square of one, times the weights (d,)."""
    out = np.empty(x.shape, np.float32)
    for row in range(len(x)):
        total = np.float32(0)
        for d in range(x.shape[1]):
            total += x[row, d] * x[row, d]
        scale = np.float32(1) / np.sqrt(total / np.float32(x.shape[1]) + eps)
        for d in range(x.shape[1]):
            out[row, d] = x[row, d] * scale * weight[d]
    return out


@_compiled(parallel=False, fastmath=_SUMS)
def mix(
    x: Any, norm: Any, eps: Any, qkv: Any, out: Any, cos: Any, sin: Any, slot: int, mask: Any, held: Any, heads: int
) -> None:  # pragma: no cover - compiled
    """The first half of a block, added to x (B, d): norm, queries, keys and values, attention, output map."""
    width = held.shape[3]
    each = np.empty((len(x), (heads + held.shape[1]) * width), np.float32)
    product_4(_normed(x, norm, eps), qkv[0], qkv[1], qkv[2], each)
    mixed = np.empty((len(x), heads * width), np.float32)
    attend_one(each, cos, sin, slot, mask, held, heads, mixed)
    narrow(mixed, out, x)


@_compiled(parallel=False, fastmath=_SUMS)
def widen(x: Any, norm: Any, eps: Any, gate_up: Any, both: Any) -> None:  # pragma: no cover - compiled
    """Gate and, behind it, up (B, 2 I) of the second half of a block."""
    product_4(_normed(x, norm, eps), gate_up[0], gate_up[1], gate_up[2], both)


@_compiled(parallel=False, fastmath=_SUMS)
def narrow(inner: Any, back: Any, x: Any) -> None:  # pragma: no cover - compiled
    """Add what a map makes of `inner` to x (B, d)."""
    made = np.empty(x.shape, np.float32)
    product_4(inner, back[0], back[1], back[2], made)
    x += made

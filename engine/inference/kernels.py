"""Triton kernels of a Llama's pass: what lies between its matrix products, each stretch as one launch.

A small model on a large GPU waits for launches, not for arithmetic: the library's modules take about 45 of them for
a layer, this pass 5 while it writes few rows, 8 for many, and 9 while it reads. Sums are in float32, rounded once.
Only imported where there is a CUDA device and Triton, which comes with torch's CUDA builds.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call, import-untyped, import-not-found"

# ruff: noqa: ANN001, ANN202 - what a kernel's arguments are, Triton decides
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

KEYS_AT_ONCE = 64


@triton.jit
def _norm(x_at, weight_at, out_at, eps, size: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, block)
    inside = place < size
    x = tl.load(x_at + row * size + place, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_at + place, mask=inside, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / size + eps) * weight
    tl.store(out_at + row * size + place, y.to(out_at.dtype.element_ty), mask=inside)


def rms_norm(x: Any, weight: Any, eps: float) -> Any:
    """Root-mean-square norm over the last dimension of (N, d)."""
    out = torch.empty_like(x)
    size = x.shape[-1]
    _norm[(x.shape[0],)](x, weight, out, eps, size, triton.next_power_of_2(size), num_warps=4)
    return out


@triton.jit
def _gate(both_at, out_at, size: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * block + tl.arange(0, block)
    inside = place < size
    gate = tl.load(both_at + row * 2 * size + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both_at + row * 2 * size + size + place, mask=inside, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(out_at + row * size + place, y.to(out_at.dtype.element_ty), mask=inside)


def silu_mul(both: Any) -> Any:
    """SiLU of the first half of (N, 2 m) times its second half."""
    rows, size = both.shape[0], both.shape[1] // 2
    out = torch.empty((rows, size), dtype=both.dtype, device=both.device)
    _gate[(rows, triton.cdiv(size, 1024))](both, out, size, 1024, num_warps=4)
    return out


@triton.jit(do_not_specialize=["steps", "room"])  # they change with every pass: nothing is compiled anew for them
def _turn(
    qkv_at, cos_at, sin_at, slots_at, q_at, cache_at, steps, room,
    heads: tl.constexpr, kv_heads: tl.constexpr, every: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    batch, step = token // steps, token % steps
    slot = tl.load(slots_at + step)
    head = tl.arange(0, every)[:, None]
    d = tl.arange(0, width)[None, :]
    total: tl.constexpr = heads + 2 * kv_heads
    inside = (head < total) & (d < width)
    row = qkv_at + token * total * width + head * width
    x = tl.load(row + d, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(row + (d + width // 2) % width, mask=inside, other=0.0).to(tl.float32)
    cos = tl.load(cos_at + token * width + d).to(tl.float32)
    sin = tl.load(sin_at + token * width + d).to(tl.float32)
    turns = head < heads + kv_heads
    y = tl.where(turns, x * cos + other * sin, x)
    at = (batch * heads + head) * steps + step  # heads of a group are neighbours, so they are rows of their key head
    tl.store(q_at + at * width + d, y.to(q_at.dtype.element_ty), mask=head < heads)
    to = cache_at + ((batch * 2 * kv_heads + head - heads) * room + slot) * width + d
    tl.store(to, y.to(cache_at.dtype.element_ty), mask=inside & (head >= heads))


def turn_and_store(qkv: Any, cos: Any, sin: Any, slots: Any, cache: Any, heads: int) -> Any:
    """Rotate queries and keys by their positions, and put keys and values where they belong in the cache.

    Args:
        qkv: (B * T, (heads + 2 key heads) * D).
        cos: of each token's position (B, T, D).
        sin: likewise, its first half negated.
        slots: where in the cache the tokens stand (T,).
        cache: of one layer (B, 2 key heads, S, D); written.
        heads: query heads.

    Returns:
        Queries (B, key heads, heads of a group * T, D).
    """
    batch, both, room, width = cache.shape
    steps = slots.shape[0]
    shape = (batch, both // 2, heads // (both // 2) * steps, width)
    q = torch.empty(shape, dtype=qkv.dtype, device=qkv.device)
    every = triton.next_power_of_2(heads + both)
    _turn[(batch * steps,)](
        qkv, cos, sin, slots, q, cache, steps, room, heads, both // 2, every, width, num_warps=4
    )  # fmt: skip
    return q


@triton.jit(do_not_specialize=["room"])
def _one(
    qkv_at, cos_at, sin_at, slot_at, mask_at, cache_at, out_at, room, scale,
    heads: tl.constexpr, kv_heads: tl.constexpr, group: tl.constexpr, rows: tl.constexpr, width: tl.constexpr,
    keys: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(0) // kv_heads).to(tl.int64)
    kv = tl.program_id(0) % kv_heads
    slot = tl.load(slot_at)
    d = tl.arange(0, width)
    turned = (d + width // 2) % width
    member = tl.arange(0, rows)[:, None]
    inside = member < group
    total: tl.constexpr = heads + 2 * kv_heads
    row = qkv_at + batch * total * width
    cos = tl.load(cos_at + batch * width + d).to(tl.float32)
    sin = tl.load(sin_at + batch * width + d).to(tl.float32)
    q_row = row + (kv * group + member) * width
    q = tl.load(q_row + d[None, :], mask=inside, other=0.0).to(tl.float32) * cos[None, :]
    q += tl.load(q_row + turned[None, :], mask=inside, other=0.0).to(tl.float32) * sin[None, :]
    q_in = (q * scale).to(cache_at.dtype.element_ty)
    q = q_in.to(tl.float32)
    k_row = row + (heads + kv) * width
    k = tl.load(k_row + d).to(tl.float32) * cos + tl.load(k_row + turned).to(tl.float32) * sin
    v = tl.load(row + (heads + kv_heads + kv) * width + d)
    k_held = cache_at + (batch * 2 * kv_heads + kv) * room * width
    v_held = k_held + kv_heads * room * width
    tl.store(k_held + slot * width + d, k.to(cache_at.dtype.element_ty))
    tl.store(v_held + slot * width + d, v)
    # The token sees itself, whatever the mask holds; its own key is taken from here, not read back.
    k = k.to(cache_at.dtype.element_ty).to(tl.float32)
    top = tl.sum(q * k[None, :], axis=1)
    mass = tl.full((rows,), 1.0, tl.float32)
    mixed = tl.zeros((rows, width), tl.float32) + v.to(tl.float32)[None, :]
    for first in range(0, slot, keys):
        at = first + tl.arange(0, keys)
        here = at < slot
        held = tl.load(k_held + at[:, None] * width + d[None, :], mask=here[:, None], other=0.0)
        seen = tl.load(mask_at + batch * room + at, mask=here, other=0.0).to(tl.float32)
        scores = tl.dot(q_in, tl.trans(held), input_precision="ieee") + seen[None, :]
        scores = tl.where(here[None, :], scores, float("-inf"))
        best = tl.maximum(top, tl.max(scores, axis=1))
        weight = tl.exp(scores - best[:, None])
        shrink = tl.exp(top - best)
        values = tl.load(v_held + at[:, None] * width + d[None, :], mask=here[:, None], other=0.0)
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(values.dtype), values, input_precision="ieee")
        mass = mass * shrink + tl.sum(weight, axis=1)
        top = best
    out = out_at + batch * heads * width + (kv * group + member) * width + d[None, :]
    tl.store(out, (mixed / mass[:, None]).to(out_at.dtype.element_ty), mask=inside)


def attend_one(qkv: Any, cos: Any, sin: Any, slot: Any, mask: Any, cache: Any, heads: int) -> Any:
    """Rotation, storing and attention of one new token for each row, which sees itself and what the mask leaves.

    Args:
        qkv: (B, (heads + 2 key heads) * D).
        cos: of each token's position (B, 1, D).
        sin: likewise, its first half negated.
        slot: where in the cache the tokens stand (1,); what lies behind it is not read.
        mask: added to the scores (B, 1, 1, S).
        cache: of one layer (B, 2 key heads, S, D); written.
        heads: query heads.

    Returns:
        (B, heads * D).
    """
    batch, both, room, width = cache.shape
    kv_heads = both // 2
    group = heads // kv_heads
    out = torch.empty((batch, heads * width), dtype=qkv.dtype, device=qkv.device)
    _one[(batch * kv_heads,)](
        qkv, cos, sin, slot, mask, cache, out, room, width**-0.5, heads, kv_heads, group,
        max(16, triton.next_power_of_2(group)), width, KEYS_AT_ONCE, num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def _vector(
    x_at, norm_at, weight_at, bias_at, out_at, eps,
    size: tl.constexpr, wide: tl.constexpr, normed: tl.constexpr, gated: tl.constexpr, added: tl.constexpr,
    biased: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1).to(tl.int64)
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    own = n < wide
    total = tl.zeros((block_n,), tl.float32)
    total_up = tl.zeros((block_n,), tl.float32)
    squares = tl.zeros((block_k,), tl.float32)
    for first in range(0, size, block_k):
        k = first + tl.arange(0, block_k)
        inside = k < size
        x = tl.load(x_at + row * size + k, mask=inside, other=0.0).to(tl.float32)
        if normed:
            squares += x * x
            x *= tl.load(norm_at + k, mask=inside, other=0.0).to(tl.float32)
        tile = n[:, None] * size + k[None, :]
        both = own[:, None] & inside[None, :]
        total += tl.sum(tl.load(weight_at + tile, mask=both, other=0.0).to(tl.float32) * x[None, :], axis=1)
        if gated:
            up = tl.load(weight_at + wide * size + tile, mask=both, other=0.0).to(tl.float32)
            total_up += tl.sum(up * x[None, :], axis=1)
    if normed:
        scale = tl.rsqrt(tl.sum(squares, axis=0) / size + eps)
        total *= scale
        total_up *= scale
    if biased:
        total += tl.load(bias_at + n, mask=own, other=0.0).to(tl.float32)
    if gated:
        total = total * tl.sigmoid(total) * total_up
    if added:
        total += tl.load(out_at + row * wide + n, mask=own, other=0.0).to(tl.float32)
    tl.store(out_at + row * wide + n, total.to(out_at.dtype.element_ty), mask=own)


def vector_product(
    x: Any, weight: Any, *, norm: Any = None, eps: float = 0.0, bias: Any = None, gated: bool = False, to: Any = None
) -> Any:
    """A linear map of a few rows, with what stands before and behind it in the same launch.

    Args:
        x: (N, d); every row reads the weights anew, so N should be small.
        weight: (m, d), or (2 m, d) where `gated`.
        norm: weights (d,) of a root-mean-square norm before the map.
        eps: of that norm.
        bias: (m,), added.
        gated: SiLU of the first half's outputs times the second half's.
        to: (N, m); the result is added to it in place.

    Returns:
        (N, m).
    """
    size = x.shape[1]
    wide = weight.shape[0] // 2 if gated else weight.shape[0]
    out = torch.empty((len(x), wide), dtype=x.dtype, device=x.device) if to is None else to
    block_n = 4 if gated or wide < 1024 else 8
    block_k = min(2048 if wide < 1024 else 1024, triton.next_power_of_2(size))
    _vector[(triton.cdiv(wide, block_n), len(x))](
        x, x if norm is None else norm, weight, x if bias is None else bias, out, eps, size, wide,
        norm is not None, gated, to is not None, bias is not None, block_n, block_k, num_warps=4,
    )  # fmt: skip
    return out


def check(device: str) -> None:
    """Compile and run every kernel once on this device.

    Raises:
        Exception: whatever the compiler or the device says against it.
    """
    cache = torch.zeros((1, 2, 16, 16), device=device)
    cos = torch.ones((1, 2, 16), device=device)
    ones = torch.ones(64, device=device)
    x = rms_norm(torch.ones((2, 64), device=device), ones, 1e-6)
    vector_product(x, torch.ones((64, 64), device=device), norm=ones, eps=1e-6, bias=ones, to=x.clone())
    slots = torch.arange(2, device=device)
    turn_and_store(x, cos, cos, slots, cache, 2)
    attend_one(x[:1], cos[:, :1], cos[:, :1], slots[1:], torch.zeros((1, 1, 1, 16), device=device), cache, 2)
    silu_mul(x)
    torch.cuda.synchronize(device)

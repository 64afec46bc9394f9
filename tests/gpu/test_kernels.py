"""Our Triton kernels against the same arithmetic in float64, in both precisions."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
EPS = 1e-5
PRECISIONS = [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
each_precision = pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)


def draw(*shape, dtype):
    return torch.randn(*shape, device="cuda", generator=torch.Generator("cuda").manual_seed(sum(shape))).to(dtype)


def close(found, expected, tolerance):
    assert ((found.double() - expected).norm() / expected.norm()).item() < tolerance


def turned(x, cos, sin):
    return x * cos + x.roll(x.shape[-1] // 2, -1) * sin


@each_precision
def test_norm_and_gate(dtype, tolerance):
    from engine.inference import kernels

    x, weight = draw(7, 576, dtype=dtype), draw(576, dtype=dtype)
    close(kernels.rms_norm(x, weight, EPS), F.rms_norm(x.double(), (576,), weight.double(), EPS), tolerance)
    both = draw(7, 2 * 1536, dtype=dtype)
    gate, up = both.double().chunk(2, -1)
    close(kernels.silu_mul(both), F.silu(gate) * up, tolerance)


@each_precision
@pytest.mark.parametrize(("size", "wide"), [(576, 960), (1536, 576), (4096, 14336), (100, 70)])
def test_product_of_a_few_rows(dtype, tolerance, size, wide):
    from engine.inference import kernels

    x, norm = draw(3, size, dtype=dtype), draw(size, dtype=dtype)
    weight, bias = draw(wide, size, dtype=dtype) * size**-0.5, draw(wide, dtype=dtype)
    normed = F.rms_norm(x.double(), (size,), norm.double(), EPS)
    found = kernels.vector_product(x, weight, norm=norm, eps=EPS, bias=bias)
    close(found, normed @ weight.double().T + bias.double(), tolerance)
    held = draw(3, wide, dtype=dtype)
    expected = held.double() + x.double() @ weight.double().T
    close(kernels.vector_product(x, weight, to=held), expected, tolerance)
    pair = torch.cat([weight, weight.flip(0)])
    gate, up = (normed @ pair.double().T).chunk(2, -1)
    close(kernels.vector_product(x, pair, norm=norm, eps=EPS, gated=True), F.silu(gate) * up, tolerance)


@each_precision
@pytest.mark.parametrize(("heads", "kv_heads", "width"), [(9, 3, 64), (32, 8, 128), (4, 4, 16)])
def test_rotation_storing_and_attention(dtype, tolerance, heads, kv_heads, width):
    from engine.inference import kernels

    batch, steps, room, slot = 3, 5, 160, 150
    angle = draw(batch, steps, width // 2, dtype=torch.float64)
    cos = torch.cat([angle.cos()] * 2, -1).to(dtype)
    sin = torch.cat([-angle.sin(), angle.sin()], -1).to(dtype)
    cache = draw(batch, 2 * kv_heads, room, width, dtype=dtype)
    qkv = draw(batch * steps, (heads + 2 * kv_heads) * width, dtype=dtype)
    whole = qkv.double().view(batch, steps, -1, width)
    new = turned(whole, cos.double()[:, :, None], sin.double()[:, :, None])
    new[:, :, heads + kv_heads :] = whole[:, :, heads + kv_heads :]
    slots = torch.arange(40, 40 + steps, device="cuda")
    expected = cache.double()
    expected[:, :, slots] = new[:, :, heads:].transpose(1, 2)
    q = kernels.turn_and_store(qkv, cos, sin, slots, cache, heads)
    close(q.view(batch, heads, steps, width), new[:, :, :heads].transpose(1, 2), tolerance)
    close(cache, expected, tolerance)
    mask = torch.zeros(batch, 1, 1, room, dtype=dtype, device="cuda")
    mask[1, ..., 3:90] = mask[..., slot + 1 :] = torch.finfo(dtype).min
    one = qkv.view(batch, steps, -1)[:, 0].contiguous()
    at = torch.tensor([slot], device="cuda")
    found = kernels.attend_one(one, cos[:, :1].contiguous(), sin[:, :1].contiguous(), at, mask, cache, heads)
    expected[:, :, slot] = new[:, 0, heads:]
    close(cache, expected, tolerance)
    keys, values = (part.repeat_interleave(heads // kv_heads, 1) for part in expected.split(kv_heads, 1))
    scores = torch.einsum("bhd,bhsd->bhs", new[:, 0, :heads], keys) * width**-0.5 + mask[:, 0].double()
    close(found, torch.einsum("bhs,bhsd->bhd", scores.softmax(-1), values).flatten(1), tolerance)

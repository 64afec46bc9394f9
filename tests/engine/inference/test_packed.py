"""Packed weights: the grid of llama.cpp's own quantiser is found again, and products are those of its dequantiser."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

from engine.core.settings import get_settings
from engine.inference.llama import Row, Session, fused_forward, way_for
from engine.inference.loading import load_model
from engine.inference.packed import compile_ahead, compiled_threads, loops, pack
from engine.steering.decode import decode
from engine.steering.vectors import Standards, edit_of

if loops():
    from engine.inference.packed_kernels import find_grid, mix, narrow, product_4, product_8, widen

pytestmark = pytest.mark.skipif(not loops(), reason="numba is not installed")
KINDS = [Kind.Q4_1, Kind.Q8_0]


def on_grid(shape: tuple[int, int], kind: Kind, seed: int = 0) -> torch.Tensor:
    """Weights as they come out of a file of that kind; a group of equal weights and one of zeros among them."""
    raw = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    raw[0, :32], raw[-1, -32:] = 0.75, 0.0
    return torch.from_numpy(dequantize(quantize(raw, kind), kind).astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(64, 32), (192, 576), (100, 96), (1, 64)])
@pytest.mark.parametrize("rows", [1, 3, 4, 17])
def test_a_product_is_that_of_the_dequantised_weights(kind, shape, rows):
    weight = on_grid(shape, kind)
    found = pack(weight)
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(rows, shape[1])).astype(np.float32))
    wanted = x.double() @ weight.double().T
    assert found is not None
    assert found(x).shape == (rows, shape[0])
    torch.testing.assert_close(found(x).double(), wanted, atol=1e-5 * float(wanted.abs().max()), rtol=0)


@pytest.mark.parametrize(("kind", "share"), [(Kind.Q4_1, 0.25), (Kind.Q8_0, 0.35)])
def test_a_step_reads_a_fraction_of_the_bytes(kind, share):
    weight = on_grid((128, 256), kind)
    assert pack(weight).nbytes <= share * weight.nbytes


@pytest.mark.parametrize("kind", KINDS)
def test_one_weight_off_the_grid_and_nothing_is_packed(kind):
    weight = on_grid((64, 64), kind)
    weight[63, 40] = torch.nextafter(weight[63, 40], torch.tensor(9.0))
    assert pack(weight) is None


def test_weights_that_were_never_packed_are_left_alone():
    assert pack(torch.randn(64, 64, generator=torch.Generator().manual_seed(0))) is None
    assert pack(on_grid((64, 64), Kind.Q4_1).bfloat16()) is None
    assert pack(torch.zeros(8, 33)) is None
    broken = on_grid((64, 64), Kind.Q4_1)
    broken[5, 5] = float("nan")
    assert pack(broken) is None


def test_all_loops_are_compiled_ahead():
    compile_ahead()
    assert all(loop.signatures for loop in (find_grid, mix, narrow, product_4, product_8, widen))


def test_nan_stays_nan():
    for kind in KINDS:
        found = pack(on_grid((64, 64), kind))
        for rows in (1, 8):
            x = torch.zeros(rows, 64)
            x[0, 3] = float("nan")
            out = found(x)
            assert bool(out[0].isnan().all())
            assert bool(out[1:].isfinite().all())


@pytest.mark.slow
def test_packing_leaves_torchs_threads_as_they_were():
    """In a process of its own: numba's threads start once, with its first parallel loop, and set torch's number."""
    code = (
        "import torch; from engine.inference.packed import pack; torch.set_num_threads(1); "
        "found = pack((torch.arange(192 * 576) % 16).float().view(192, 576)); "
        "print(bool(found), torch.get_num_threads())"
    )
    command = [sys.executable, "-c", code]
    two = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True, env=two)
    assert done.stdout.split() == ["True", "1"]


def test_threads_are_as_before_afterwards():
    before = torch.get_num_threads()
    with compiled_threads():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    with pytest.raises(KeyError), compiled_threads():
        raise KeyError
    assert torch.get_num_threads() == before


@pytest.fixture(scope="module")
def quantised(tmp_path_factory, save):
    """`quantised(shape)`: a tiny model all of whose maps came in four bits, its head in eight."""

    def load(shape: str):
        size = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
        folder = save(tmp_path_factory.mktemp(shape), shape, tie_word_embeddings=False, **size)
        loaded = load_model(f"path:{folder}", get_settings())
        for name, parameter in loaded.model.named_parameters():
            if parameter.dim() == 2 and "embed" not in name:
                kind = Kind.Q8_0 if "lm_head" in name else Kind.Q4_1
                raw = quantize(parameter.detach().numpy(), kind)
                parameter.data.copy_(torch.from_numpy(dequantize(raw, kind).astype(np.float32)))
        return loaded

    return load


PROMPTS = [[5, 9, 40], [7, 100, 30, 8, 60, 12], [11]]
ROWS = [Row(0), Row(1), Row(2), Row(1, temperature=1.0, seed=3), Row(0)]


@pytest.mark.parametrize("shape", ["qwen2", "qwen3"])
def test_shapes_with_biases_or_norms_of_queries_are_left_to_torch(quantised, shape):
    assert way_for(fused_forward(quantised(shape)), 64) == "fused"


def test_packed_steps_have_the_models_logits(quantised):
    loaded = quantised("llama")
    model = fused_forward(loaded)
    assert way_for(model, 64) == "packed"
    assert way_for(model, 2) == "fused"
    for rows in (ROWS[:1], ROWS):
        with torch.inference_mode():
            session = Session(model, PROMPTS, rows, 2, way="packed")
            session.step()
            for logits, row in zip(session.logits, rows, strict=True):
                wanted = loaded.model(input_ids=torch.tensor([PROMPTS[row.prompt]])).logits[0, -1]
                torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=1e-4)


def test_steered_texts_are_those_of_the_librarys_modules(quantised):
    loaded = quantised("llama")
    high, low = np.random.default_rng(0).normal(size=(2, 64))
    edit = edit_of(
        Standards(1, high, low, 8.0), [("high", 0.0), ("low", 3.0), ("high", 10.0), ("low", 1.0), ("high", 30.0)]
    )
    ours = decode(loaded, PROMPTS, ROWS, 20, edit)
    plain = decode(loaded, PROMPTS, ROWS, 20, edit, own_loop=False)
    assert [w.ids for w in ours] == [w.ids for w in plain]
    assert [w.relative_edit for w in ours] == pytest.approx([w.relative_edit for w in plain], abs=1e-5)


@pytest.mark.weights
def test_the_bundled_base_is_on_its_grid_and_the_judge_is_not(bundled):
    base = load_model("bundled:base", get_settings())
    assert fused_forward(base).packed is not None
    assert fused_forward(bundled).packed is None

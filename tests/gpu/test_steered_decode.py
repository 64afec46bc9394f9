"""Steered decoding as a recorded CUDA graph: the tokens and edits of the same loop on the CPU, in float32."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from engine.inference.llama import Llama, Row, Session
from engine.steering.vectors import Editor, Standards, edit_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
TOKENS = 12


def _session(loaded, prompts, rows, edit):
    with torch.inference_mode():
        return Session(Llama(loaded), prompts, rows, TOKENS, Editor(edit, loaded.device))


@pytest.mark.parametrize("shape", ["llama", "qwen2", "qwen3"])
def test_the_recorded_graph_writes_what_the_cpu_writes(tiny, shape):
    on_cpu = tiny(shape)
    rng = np.random.default_rng(3)
    prompts = [rng.integers(3, 60, size=n).tolist() for n in (3, 17, 40)]
    rows = [Row(k % 3) for k in range(9)]
    width = int(on_cpu.model.config.get_text_config().hidden_size)
    high, low = rng.normal(size=(2, width))
    edit = edit_of(Standards(1, high, low, float(np.sqrt(width))), [("high", 40.0 * k) for k in range(9)])
    with torch.inference_mode():
        expected, expected_sizes = _session(on_cpu, prompts, rows, edit).run(frozenset())
    moved = dataclasses.replace(on_cpu, model=on_cpu.model.to("cuda"), device="cuda:0")
    try:
        session = _session(moved, prompts, rows, edit)
        with torch.inference_mode():
            session.capture()
            assert session._graph is not None
            found, sizes = session.run(frozenset())
            again, _ = session.run(frozenset())
    finally:
        on_cpu.model.to("cpu")
    assert found == again
    agree = np.mean([a == b for a, b in zip(found, expected, strict=True)])
    assert agree >= 8 / 9  # one row may part at a near tie between the two devices' arithmetic
    np.testing.assert_allclose(sizes, expected_sizes, atol=0.02)

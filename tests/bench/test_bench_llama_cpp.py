"""The real llama.cpp server on the real weights and adapter: the same tokens computed, probabilities close to ours."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from engine.bench.scoring import GRID, grid_prompts, read_grid
from engine.inference.prefix import trie_tokens
from engine.inference.weights import base_record, find_gguf
from engine.studies.bench_llama_cpp import measure_llama_cpp
from engine.studies.bench_llama_decode import decode_speed

pytestmark = [
    pytest.mark.weights,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None,
        reason="llama.cpp's server is not installed (pip install xllamacpp, 34 MB)",
    ),
]
PROGRAM = Path(sys.executable)
TOLERANCE = 0.1
"""Largest difference of a label's probability: llama.cpp rounds what flows through its 4-bit products to 8 bits.

Without the adapter it is more than 0.3.
"""


def test_the_adapter_is_applied_and_each_shared_beginning_is_computed_once(settings, weights):
    grid = read_grid(settings.assets / "studies" / GRID).model_copy(update={"responses": 1})
    made, loaded, labels = grid_prompts(grid, settings)
    few = made[0][:6]
    found = measure_llama_cpp(PROGRAM, [few], loaded, labels, settings)
    facts = found["llama_cpp"]
    assert facts["adapter"]
    assert facts["max_abs_difference"] < TOLERANCE
    assert facts["labels_not_listed"] == 0
    assert facts["prompt_tokens_sent"] == sum(map(len, few))
    one_slot = {t["order"]: t["prompt_tokens_computed"] for t in facts["tried"] if t["slots"] == 1}
    assert one_slot["sorted"] == trie_tokens(few)
    assert facts["peak_bytes"] > 90 << 20
    assert found["wall_ratio_llama_cpp"] > 0


def test_rows_are_written_side_by_side(settings, weights):
    gguf = find_gguf(settings, base_record(settings.assets / "judge"))
    prompts = [list(range(100 + k, 120 + k)) for k in range(3)]
    seen = decode_speed(PROGRAM, gguf, prompts, rows=3, tokens=4, threads=1, turns=1)
    assert seen["rows"] == 3
    assert seen["tokens_per_second"] > 0

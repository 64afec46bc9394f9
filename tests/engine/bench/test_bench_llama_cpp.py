"""The arm of the scoring benchmark against llama.cpp's server, on a scripted server: exact tokens, errors by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.core.errors import InputError, ModelError
from engine.core.settings import get_settings
from engine.inference.prefix import trie_tokens
from engine.inference.scoring import LabelTokens, label_probabilities
from engine.studies import bench_llama_cpp
from engine.studies.bench_llama_cpp import (
    Program,
    Setting,
    llama_lines,
    measure_llama_cpp,
    require_llama_cpp,
    run_pass,
)
from engine.studies.bench_llama_decode import beside_llama_cpp, decode_speed
from engine.studies.llama_adapter import write_adapter
from engine.studies.llama_server import version_of
from tests.engine.studies.scripted_llama import scripted_llama

LABELS = LabelTokens(("1", "2"), ((5, 6), (7,)))
STEMS = ((*range(10, 30),), (*range(40, 60),))
PROMPTS = [(*STEMS[k % 2], 3, 4 + k // 2) for k in range(8)]
"""Two beginnings in turns, so that a cache of one prompt is of no use in this order."""
GRID, SORTED, TWO = Setting("grid", 1), Setting("sorted", 1), Setting("sorted", 2)


def program(folder: Path, mode: str = "", adapter: Path | None = None) -> Program:
    return Program(scripted_llama(folder, 60, mode), folder / "weights.gguf", adapter, 1, 60)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (GRID, sum(map(len, PROMPTS))),
        (SORTED, trie_tokens(PROMPTS)),
        (TWO, trie_tokens(PROMPTS[::2]) + trie_tokens(PROMPTS[1::2])),
    ],
)
def test_tokens_are_those_of_the_order_and_the_slots(tmp_path, setting, expected):
    seen = run_pass(program(tmp_path), PROMPTS, LABELS, setting)
    assert seen.computed == expected
    assert seen.seconds > 0
    assert seen.cpu_seconds >= 0
    assert seen.peak_bytes > 1 << 20
    by_prompt = run_pass(program(tmp_path), PROMPTS, LABELS, GRID).probabilities
    np.testing.assert_array_equal(seen.probabilities, by_prompt)  # in the order of the prompts, however sent


def test_a_label_that_is_not_listed_is_no_number(tmp_path):
    odd, even = (*STEMS[0], 9), (*STEMS[0], 3, 9)
    seen = run_pass(program(tmp_path), [odd, even], LABELS, SORTED)
    np.testing.assert_allclose(seen.probabilities, [[1 / 7 + 1e-6, 0.5 - 1 / 7 + 1e-6], [1 / 7 + 1e-6, np.nan]])
    assert seen.least == pytest.approx(1e-9)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("no start", "ended with code 3: cannot read the file"),
        ("other model", "a vocabulary of 99, the judge one of 60"),
        ("gone", "is gone"),
        ("refuses", "answered 400.*too long"),
        ("cut", "read 21 of a prompt's 22 tokens"),
        ("no probabilities", "gave no log probabilities"),
    ],
)
def test_what_the_server_does_wrong_is_named(tmp_path, mode, words):
    with pytest.raises(ModelError, match=words):
        run_pass(program(tmp_path, mode), PROMPTS, LABELS, SORTED)


def test_a_program_without_llama_cpp_is_named_with_the_way_to_install_it(tmp_path):
    with pytest.raises(InputError, match=r"cannot be started.*pip install xllamacpp"):
        version_of(tmp_path / "nobody")
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\necho 'No module named xllamacpp' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(InputError, match=r"No module named xllamacpp.*pip install xllamacpp"):
        version_of(python)
    assert version_of(scripted_llama(tmp_path, 60)) == "llama-server 7 (scripted)"


def test_only_a_bundled_judge_on_a_cpu_is_compared(tiny, tmp_path):
    path, bundled = scripted_llama(tmp_path, 60), replace(tiny("llama"), spec="bundled:judge")
    assert "scripted" in require_llama_cpp(path, bundled, LABELS)
    for loaded, labels in (
        (replace(bundled, spec="path:mine"), LABELS),
        (replace(bundled, device="cuda:0"), LABELS),
        (bundled, replace(LABELS, sequences=(((5, 6),), ((7,),)))),
    ):
        with pytest.raises(InputError, match="a bundled judge with labels of one token, on a CPU"):
            require_llama_cpp(path, loaded, labels)


def test_the_comparison_is_reported(tiny, tmp_path, settings, monkeypatch):
    monkeypatch.setattr(bench_llama_cpp, "find_gguf", lambda *_: tmp_path / "weights.gguf")
    monkeypatch.setattr(bench_llama_cpp, "write_adapter", lambda *_: None)
    loaded = replace(tiny("llama"), spec="bundled:judge")
    blocks = [PROMPTS, [(*p, 9) for p in PROMPTS]]
    path = scripted_llama(tmp_path, len(loaded.tokenizer))
    found = measure_llama_cpp(path, blocks, loaded, LABELS, settings, repeats=2)
    facts = found["llama_cpp"]
    assert (facts["adapter"], facts["weights"], facts["version"]) == (True, "weights.gguf", "llama-server 7 (scripted)")
    assert facts["prompt_tokens_sent"] == 8 * 22 + 8 * 23
    best = Setting(facts["order"], facts["slots"])
    tried = {Setting(one["order"], one["slots"]): one["prompt_tokens_computed"] for one in facts["tried"]}
    assert best in tried
    assert tried[GRID] == 8 * 22
    assert tried[SORTED] == trie_tokens(PROMPTS)
    if best == SORTED:
        assert facts["prompt_tokens_computed"] == sum(map(trie_tokens, blocks))
    asked = Program(path, tmp_path / "w.gguf", tmp_path / "adapter.gguf", 1, len(loaded.tokenizer))
    theirs = [run_pass(asked, block, LABELS, best).probabilities for block in blocks]
    ours = [label_probabilities(loaded, block, LABELS) for block in blocks]
    gaps = np.abs(np.concatenate(theirs) - np.concatenate(ours))
    assert facts["max_abs_difference"] == pytest.approx(np.nanmax(gaps), abs=1e-6)
    assert facts["labels_not_listed"] == 16  # of both repeats
    assert facts["turns"] == 4
    assert all(found[f"{what}_ratio_llama_cpp{of_it}"] >= 0 for what in ("wall", "cpu") for of_it in ("", "_base"))
    text = "\n".join(llama_lines(found | {"floor_seconds": 1.0}))
    assert "with the judge's adapter" in text
    assert f"of {8 * 45:,} tokens" in text
    assert llama_lines({}) == []


def adapter_folder(folder: Path, **changes: object) -> tuple[Path, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    sizes = {"self_attn.q_proj": (16, 16), "self_attn.k_proj": (16, 8), "mlp.down_proj": (24, 16)}
    tensors = {}
    for module, (inner, outer) in sizes.items():
        stem = f"base_model.model.model.layers.1.{module}"
        tensors[f"{stem}.lora_A.weight"] = rng.normal(size=(2, inner)).astype(np.float16)
        tensors[f"{stem}.lora_B.weight"] = rng.normal(size=(outer, 2)).astype(np.float16)
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": 32, "r": 2} | changes))
    return folder, tensors


HEADS = SimpleNamespace(num_attention_heads=2, num_key_value_heads=1)


def test_an_adapter_is_written_with_rotary_pairs_side_by_side(tmp_path):
    folder, tensors = adapter_folder(tmp_path)
    write_adapter(folder, HEADS, tmp_path / "adapter.gguf")
    reader = gguf.GGUFReader(tmp_path / "adapter.gguf")
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert (fields["general.type"], fields["adapter.type"]) == ("adapter", "lora")
    assert fields["adapter.lora.alpha"] == 32
    found = {one.name: np.asarray(one.data) for one in reader.tensors}
    assert len(found) == 6
    stem = "base_model.model.model.layers.1."
    np.testing.assert_array_equal(found["blk.1.ffn_down.weight.lora_b"], tensors[f"{stem}mlp.down_proj.lora_B.weight"])
    np.testing.assert_array_equal(found["blk.1.attn_q.weight.lora_a"], tensors[f"{stem}self_attn.q_proj.lora_A.weight"])
    for part, module, heads in (("attn_q", "q_proj", 2), ("attn_k", "k_proj", 1)):
        theirs, ours = found[f"blk.1.{part}.weight.lora_b"], tensors[f"{stem}self_attn.{module}.lora_B.weight"]
        for head in range(heads):
            for pair in range(4):
                for half in range(2):
                    row = 8 * head + 4 * half + pair
                    np.testing.assert_array_equal(theirs[8 * head + 2 * pair + half], ours[row])


def test_an_adapter_that_scales_otherwise_is_refused(tmp_path):
    folder, _ = adapter_folder(tmp_path, use_rslora=True)
    with pytest.raises(ModelError, match="use_rslora"):
        write_adapter(folder, HEADS, tmp_path / "adapter.gguf")


def test_an_adapter_of_other_layers_is_refused(tmp_path):
    folder, tensors = adapter_folder(tmp_path)
    save_file(
        tensors | {"base_model.model.lm_head.lora_A.weight": np.ones((2, 2))}, folder / "adapter_model.safetensors"
    )
    with pytest.raises(ModelError, match="lm_head"):
        write_adapter(folder, HEADS, tmp_path / "adapter.gguf")


@pytest.mark.weights
def test_our_steps_stand_beside_llama_cpps_of_as_many_rows(tmp_path, weights):
    steps = [{"rows": 1, "tokens_per_second": 10.0}, {"rows": 3, "tokens_per_second": 50.0}]
    found = beside_llama_cpp(scripted_llama(tmp_path, 60), steps, PROMPTS[:2], 5, get_settings())
    assert [one["rows"] for one in found] == [1, 3]
    assert [one["ratio"] * one["tokens_per_second"] for one in found] == pytest.approx([10.0, 50.0])


def test_writing_is_timed_on_all_slots_and_a_row_that_stops_early_is_named(tmp_path):
    seen = decode_speed(scripted_llama(tmp_path, 60), tmp_path, PROMPTS[:2], rows=3, tokens=5, threads=1, turns=2)
    assert (seen["rows"], len(seen["all_turns"]), seen["version"]) == (3, 2, "llama-server 7 (scripted)")
    assert seen["tokens_per_second"] == max(seen["all_turns"]) == pytest.approx(3000 / seen["ms_per_step"])
    with pytest.raises(ModelError, match="wrote 4 of 5 tokens"):
        decode_speed(scripted_llama(tmp_path, 60, "stops"), tmp_path, PROMPTS, rows=1, tokens=5, threads=1)

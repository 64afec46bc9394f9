"""Training on a tiny random model: it learns, it resumes exactly, it writes what peft reads."""

from __future__ import annotations

import pytest

from engine.core.errors import InputError
from engine.training.compose import Encoded, grouped, micro_batches, order_of
from engine.training.config import TrainingConfig
from engine.training.llama import LAYERS, LoraLlama, layout, shared_start
from engine.training.train import train_adapter

from .conftest import tiny_llama  # noqa: TID252 - test helpers of this folder

CONFIG = TrainingConfig(
    seeds=(0,), mix={}, rank=4, alpha=8, batch=4, micro_tokens=256, learning_rate=0.05, warmup=0.0, consistency=0.5
)


def unit(k: int, twins: bool = False):
    ids = tuple((7 * k + j) % 60 + 3 for j in range(5 + k % 4))
    first = Encoded("pool", ids, (1, 2, 0), (0.8, 0.1, 0.1))
    return (first, Encoded("pool", ids[::-1], (1, 2, 0), (0.1, 0.8, 0.1), (1, 0, 2))) if twins else (first,)


UNITS = [unit(k, twins=k % 3 == 0) for k in range(24)]
SILENT = {"report": lambda line: None}


def run(folder, units=UNITS, **options):
    return train_adapter(tiny_llama(64), units, CONFIG, 0, folder, **SILENT, **options)


def adapter(folder):
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def test_three_steps_lower_the_loss(tmp_path):
    lines: list[str] = []
    first = train_adapter(tiny_llama(64), UNITS[:3] * 4, CONFIG, 0, tmp_path / "a", stop_after=1, report=lines.append)
    last = train_adapter(tiny_llama(64), UNITS[:3] * 4, CONFIG, 0, tmp_path / "a", stop_after=4, report=lines.append)
    assert last.done == 4
    assert last.loss < first.loss


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    import torch

    whole = run(tmp_path / "whole")
    assert whole.finished
    assert not run(tmp_path / "parts", stop_after=3).finished
    assert not (tmp_path / "parts" / "adapter_model.safetensors").exists()
    assert run(tmp_path / "parts").finished
    one, two = adapter(tmp_path / "whole"), adapter(tmp_path / "parts")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[n], two[n]) for n in one)


def test_the_time_limit_stops_a_run_with_a_checkpoint(tmp_path):
    result = run(tmp_path, seconds=0.0)
    assert (result.done, result.finished) == (0, False)
    assert (tmp_path / "checkpoint.safetensors").is_file()


def test_another_seed_may_not_go_on_with_a_checkpoint(tmp_path):
    run(tmp_path, stop_after=1)
    with pytest.raises(InputError, match="another recipe or seed"):
        train_adapter(tiny_llama(64), UNITS, CONFIG, 1, tmp_path, **SILENT)


def test_the_adapter_is_float16_and_peft_loads_it(tmp_path):
    import torch
    from peft import PeftModel

    run(tmp_path)
    assert {t.dtype for t in adapter(tmp_path).values()} == {torch.float16}
    config = (tmp_path / "adapter_config.json").read_text(encoding="utf-8")
    assert "SmolLM2-135M-Instruct" in config
    ids = torch.tensor([[5, 6, 7]])
    base = tiny_llama(64).eval()
    before = base(ids).logits
    after = PeftModel.from_pretrained(base, str(tmp_path)).merge_and_unload()(ids).logits
    assert not torch.allclose(before, after)


def test_padding_on_the_right_does_not_change_the_answer():
    import torch

    model = LoraLlama(tiny_llama(64), 4, 8, seed=0)
    short, long = unit(0)[0].ids, unit(3)[0].ids
    with torch.inference_mode():
        weights = model.adapted()
        together = model.last_logits(weights, [[short], [long]], 1)
        alone = torch.cat([model.last_logits(weights, [[one]], 1) for one in (short, long)])
    assert torch.allclose(together, alone, atol=1e-5)


def test_the_fast_model_equals_transformers_and_peft(tmp_path):
    import torch
    from peft import PeftModel

    fast = LoraLlama(tiny_llama(64), 4, 8, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in fast.parameters.items():
            tensor.copy_(torch.rand(tensor.shape, generator=generator).sub(0.5).half())
            assert tensor.shape[0] == 2, name
    fast.write(tmp_path, "tiny")
    slow = PeftModel.from_pretrained(tiny_llama(64), str(tmp_path), is_trainable=True)
    rows = [(5, 6, 7, 8, 9), (9, 3, 4, 5, 6)]
    adapted = fast.adapted()
    logits = fast.last_logits(adapted, [[row] for row in rows], 1)
    expected = slow(input_ids=torch.tensor(rows)).logits[:, -1]
    assert torch.allclose(logits, expected, atol=1e-4)
    logits.log_softmax(-1)[:, 3].sum().backward()
    fast.collect(adapted)
    expected.log_softmax(-1)[:, 3].sum().backward()
    theirs = dict(slow.named_parameters())
    for name, part in LAYERS.items():
        for letter in "AB":
            key = f"base_model.model.model.layers.1.{part}.{name}.lora_{letter}.default.weight"
            ours = fast.parameters[f"{letter}.{name}"].grad[1]
            assert torch.allclose(ours, theirs[key].grad, atol=1e-4, rtol=1e-3), key


def test_prompts_that_share_a_beginning_give_the_same_logits_together():
    import torch

    model = LoraLlama(tiny_llama(64), 4, 8, seed=0)
    same = (5, 6, 7, 8, 9, 10)
    prompts = [(*same, 11, 12), (*same, 13), (*same, 11, 3, 4), (*same, 11, 12)]
    with torch.inference_mode():
        weights = model.adapted()
        together = model.last_logits(weights, [prompts, [(20, 21, 22)]], 1)
        alone = torch.cat([model.last_logits(weights, [[p]], 1) for p in [*prompts, (20, 21, 22)]])
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_layout_holds_the_shared_part_once():
    plan = layout([[(1, 2, 3), (1, 2, 4, 5)], [(9,)]], filler=0)
    assert plan.ids == [[1, 2, 3, 4, 5, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0, 0]]
    assert plan.positions[0][:5] == [0, 1, 2, 2, 3]
    assert plan.parts[0][:5] == [0, 0, 1, 2, 2]
    assert plan.reads == [(0, 2), (0, 4), (1, 0)]
    assert not plan.plain
    assert [shared_start(p) for p in ([(1, 2)], [(1, 2), (1, 2)], [(1, 2), (3, 2)])] == [0, 1, 0]


def test_grouping_keeps_every_example():
    long = [(Encoded("p", (*range(300), k), (1, 2, 0), (1.0, 0.0, 0.0)),) for k in range(19)]
    found = grouped([*UNITS, *long], seed=0)
    assert sorted(len(u) for u in found if len(u[0].ids) > 256) == [3, 8, 8]
    assert sorted(one.ids for u in found for one in u) == sorted(one.ids for u in [*UNITS, *long] for one in u)


def test_only_plain_llamas_are_trained():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16))
    with pytest.raises(InputError, match="gpt2"):
        LoraLlama(model, 4, 8, seed=0)


def test_batches_keep_pairs_together_and_use_every_unit_once():
    batches = order_of(UNITS, 4, seed=3)
    assert sorted(i for b in batches for i in b) == list(range(len(UNITS)))
    assert all(sum(len(UNITS[i]) for i in b) <= 4 for b in batches)
    assert batches != order_of(UNITS, 4, seed=4)


def test_micro_batches_stay_within_the_budget():
    parts = micro_batches(UNITS, 40)
    assert sum(len(p) for p in parts) == len(UNITS)
    for part in parts:
        size = sum(len(u) for u in part) * max(len(one.ids) for u in part for one in u)
        assert size <= 40 or len(part) == 1

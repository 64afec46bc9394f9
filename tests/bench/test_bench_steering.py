"""The steering benchmark on a tiny model: its keys, and the same tokens from both ways; times are never asserted."""

from __future__ import annotations

import argparse

import pytest

from engine.bench.steering import PROMPT_TOKENS, add_steering, measure, table, windows
from engine.core.errors import InputError


def test_both_ways_write_the_same_tokens_and_every_number_is_there(tiny, settings):
    found = measure(tiny("llama"), settings, alphas=2, contexts=3, tokens=4, plain_runs=1)
    for one in found["steps"]:
        assert one["same_rows"] == 1
        assert one["same_tokens_before_first_difference"] == 4
        assert min(one[k] for k in ("ms_per_step", "ms_per_step_generate", "ratio", "peak_bytes")) > 0
    assert [one["rows"] for one in found["steps"]] == [1, 16]
    assert found["sweep"]["rows"] == 2 * 2 * 3
    assert (found["sweep"]["generate_measured"], found["sweep"]["generate_scaled_to"]) == (1, 4)
    assert len(found["floor_ms"]) == 2
    assert "Sweep of 12 rows" in table(found)


def test_prompts_are_windows_of_one_length(tiny, settings):
    prompts = windows(tiny("llama"), settings, 5)
    assert {len(p) for p in prompts} == {PROMPT_TOKENS}
    assert len({tuple(p) for p in prompts}) == 5


def test_a_tutor_decoded_through_its_own_modules_has_nothing_to_compare(tiny_folders):
    parser = argparse.ArgumentParser()
    add_steering(parser.add_subparsers())
    args = parser.parse_args(["steering", "--tutor", f"path:{tiny_folders('gpt2')}"])
    with pytest.raises(InputError, match="nothing to compare"):
        args.run(args)

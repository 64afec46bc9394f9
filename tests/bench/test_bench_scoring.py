"""The scoring benchmark: its frozen grid, its keys, and equal numbers; times are printed, never asserted."""

from __future__ import annotations

import argparse
import math

import numpy as np
import pytest

from engine.attacks.cards import parse_attack
from engine.bench.scoring import GRID, add_scoring, grid_prompts, growth, measure, read_grid, table
from engine.core.errors import InputError
from engine.defenses.cards import defense_name
from engine.inference.prefix import trie_tokens
from engine.inference.scoring import LabelTokens, label_probabilities

KEYS = {"token_ratio", "wall_ratio_padded", "wall_ratio_single", "max_abs_difference", "device"}


def blocks():
    rng = np.random.default_rng(0)
    stems = rng.integers(3, 60, size=(2, 40)).tolist()
    return [[(*stem, *rng.integers(3, 60, size=6).tolist()) for _ in range(6)] for stem in stems]


def test_the_grid_is_20_by_8_by_3(settings):
    grid = read_grid(settings.assets / "studies" / GRID)
    assert (grid.responses, len(grid.attacks), len(grid.defenses)) == (20, 8, 3)
    assert [parse_attack(name).name for name in grid.attacks] == list(grid.attacks)
    assert [defense_name(name) for name in grid.defenses] == list(grid.defenses)


def test_a_wrong_grid_file_is_named(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text("responses = 0")
    with pytest.raises(InputError, match=r"wrong\.toml"):
        read_grid(path)


def test_ratios_and_differences_are_reported(tiny):
    asked, labels = blocks(), LabelTokens(("1", "2"), ((5, 6), (7,)))
    found = measure(asked, tiny("llama"), labels, repeats=2)
    assert found.keys() >= KEYS
    assert found["token_ratio"] == 12 * 46 / trie_tokens([p for block in asked for p in block])
    assert found["max_abs_difference"] < 1e-5
    assert all(math.isfinite(found[key]) and found[key] > 0 for key in KEYS - {"device", "max_abs_difference"})
    grown = growth([p for block in asked for p in block], tiny("llama"), labels, [2, 4])
    assert grown["items"] == [2, 4]
    assert math.isfinite(grown["exponent"])
    text = table(found | {"growth": grown})
    assert f"token ratio {found['token_ratio']:.2f}" in text
    assert "exponent" in text


def test_numbers_below_one_are_refused():
    parser = argparse.ArgumentParser()
    add_scoring(parser.add_subparsers())
    args = parser.parse_args(["scoring", "--limit", "0"])
    with pytest.raises(InputError, match="at least 1"):
        args.run(args)


@pytest.mark.slow
@pytest.mark.weights
def test_the_bundled_judge_gives_the_grid_the_same_numbers_both_ways(settings, weights):
    grid = read_grid(settings.assets / "studies" / GRID)
    made, loaded, labels = grid_prompts(grid, settings)
    every = [p for block in made for p in block]
    assert len(every) == 480
    assert sum(map(len, every)) / trie_tokens(every) > 2
    few = made[0][:3] + made[0][-3:]
    shared, plain = (label_probabilities(loaded, few, labels, way=way) for way in ("shared", "plain"))
    np.testing.assert_allclose(shared, plain, atol=1e-4)

"""The suffix benchmark: its keys, and equal numbers; times are printed, never asserted."""

from __future__ import annotations

import argparse
import math

import pytest

from engine.attacks.suffix_search import SuffixSearch, vocabulary_of
from engine.bench.suffix import add_suffix, frozen_search, measure, table
from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.data.store import load_dataset
from engine.studies.suffix_targets import PromptCutter, split_requests
from tests.engine.attacks.conftest import any_coverage, wordy, wordy_judge  # noqa: F401

KEYS = {"candidates_per_second", "candidates_per_second_plain", "wall_ratio_plain", "max_abs_difference", "device"}


def test_ratios_and_differences_are_reported(wordy, wordy_judge, any_coverage, settings):  # noqa: F811
    vocabulary = vocabulary_of(wordy.tokenizer)
    split = split_requests(load_dataset("demo-dialogue", settings.datasets), Protocol.POINTWISE, 3, 0.5, 0)
    cutter = PromptCutter(wordy_judge, split.train, vocabulary)
    search = SuffixSearch(wordy, cutter.labels, cutter.targets, vocabulary, cutter.fits)
    found = measure(search, vocabulary, wordy, 8, 2)
    assert found.keys() >= KEYS
    assert found["max_abs_difference"] < 1e-4
    assert found["max_abs_gradient_difference"] < 1e-3
    assert found["token_ratio"] > 2
    assert all(math.isfinite(found[k]) and found[k] > 0 for k in KEYS - {"device", "max_abs_difference"})
    assert f"Token ratio {found['token_ratio']:.2f}" in table(found | {"judge": "wordy"})


def test_numbers_below_one_and_judges_without_a_model_are_refused(settings):
    parser = argparse.ArgumentParser()
    add_suffix(parser.add_subparsers())
    args = parser.parse_args(["suffix", "--candidates", "0"])
    with pytest.raises(InputError, match="at least 1"):
        args.run(args)
    with pytest.raises(InputError, match="white-box"):
        frozen_search("planted:constant", 2, settings)

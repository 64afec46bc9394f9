"""The benchmark of CAP's cost on tiny models: its keys and what it judges; times are never asserted."""

from __future__ import annotations

import argparse
import math

import numpy as np
import pytest

from engine.bench.cap import ATTACKS, Material, material, measure, recorded_material, run_cap_bench, table
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.data.store import load_dataset
from engine.steering.vectors import Standards
from engine.studies.cap.study import CapConfig
from engine.studies.cap.tutor import Tutor
from engine.studies.running import build_requests
from tests.engine.attacks.conftest import any_coverage, wordy, wordy_judge  # noqa: F401

CONFIG = CapConfig(judge="path:wordy", data="demo-dialogue", new_tokens=6)


@pytest.fixture
def requests(settings):
    return build_requests(load_dataset("demo-dialogue", settings.datasets))


def small(requests, width) -> Material:
    high, low = np.random.default_rng(0).normal(size=(2, width))
    standards = Standards(1, high, low, float(np.sqrt(width)))
    return material(CONFIG, standards, {"high": 1.0, "low": 2.0}, requests[0], requests)


def test_sixteen_responses_of_one_context_meet_every_attack(requests):
    made = small(requests, 8)
    assert len(made.many) == 16 * 4
    assert {r.item_id for r in made.many} == {requests[0].item_id}
    assert {r.context for r in made.many} == {requests[0].context}
    assert {r.attack for r in made.many} == set(ATTACKS)
    assert len({r.response_id for r in made.many}) == 16
    assert (len(made.one), made.one[0].attack, made.one[0].response) == (1, NONE, requests[0].response)
    with pytest.raises(InputError, match="has 4 different responses; 16 are needed"):
        material(CONFIG, made.standards, made.alphas, requests[0], requests[:4])


def test_every_number_is_there_and_the_bar_follows_the_ratio(requests, wordy, wordy_judge, any_coverage):  # noqa: F811
    width = wordy.model.config.hidden_size
    found = measure(wordy_judge, Tutor(wordy, None), small(requests, width), 2)
    for name, verdicts in (("many", 64), ("one", 1)):
        one = found[name]
        assert one["verdicts"] == verdicts
        assert all(math.isfinite(one[k]) and one[k] > 0 for k in one if k not in {"anchor_tokens", "verdicts"})
        assert one["seconds"] > one["seconds_writing"]
        assert one["tokens_cap"] > one["tokens_undefended"] + sum(one["anchor_tokens"])
        assert max(one["anchor_tokens"]) <= 6
    assert found["met"] == (found["many"]["ratio"] <= found["most"] == 3)
    assert found["peak_bytes"] > 0
    assert "16 responses x 4 attacks" in table(found)


def test_the_recorded_study_gives_the_anchors(settings):
    made = recorded_material(settings)
    assert set(made.alphas) == {"high", "low"}
    assert made.standards.high.shape == made.standards.low.shape
    assert len(made.many) == 64


def test_a_judge_without_a_model_and_no_repeats_are_refused(settings):
    with pytest.raises(InputError, match="no model to measure"):
        run_cap_bench(argparse.Namespace(judge="planted:constant", repeats=1))
    with pytest.raises(InputError, match="--repeats is 0"):
        run_cap_bench(argparse.Namespace(judge="planted:constant", repeats=0))

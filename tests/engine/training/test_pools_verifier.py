"""The shortcut verifier's pools: what is in them, what must not be, and that recipes can be read."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from engine.attacks.master_keys import KEY_TEXTS
from engine.core.settings import get_settings
from engine.studies.refswap.references import AnswerType, answer_type, number_of
from engine.training.compose import POOLS
from engine.training.config import read_config
from engine.training.examples import load_asker
from engine.training.heldout import Side
from engine.training.pools import VERIFIER_POOLS, cut_before_answer, other_kind
from engine.training.sources import Solution

YES, NO = (0.98, pytest.approx(0.02)), (pytest.approx(0.02), 0.98)


def solution(i, correct=True):
    steps = (
        f"Ann has {i} boxes of 1,{i:03d} pens.\nShe sells {i + 2} of them.\nSo {7000 + i} pens are left.\nA: {7000 + i}"
    )
    return Solution(i, Side.TRAIN, f"How many pens, case {i}?", str(7000 + i), steps, correct)


SOLUTIONS = tuple(solution(i, correct=i % 2 == 0) for i in range(60))
MATERIAL = SimpleNamespace(solutions=SOLUTIONS)


def made(pool):
    asker = load_asker(get_settings().assets / "cards")
    return [one for (one,) in VERIFIER_POOLS[pool](MATERIAL, asker, np.random.default_rng(0))]


def response_of(example):
    text = example.user.split("Student response:\n", 1)[1]
    return re.split(r"\n\n(?:Does the final|Reference answer:)", text)[0]


def reference_of(example):
    return re.search(r"Reference answer: (.*)", example.user)[1]


@pytest.mark.parametrize(
    ("pool", "label"),
    [
        ("verifier_whole_true", YES),
        ("verifier_whole_swapped", NO),
        ("verifier_wrong_true", NO),
        ("verifier_cut_true", YES),
        ("verifier_cut_swapped", NO),
        ("verifier_cut_other_kind", NO),
        ("verifier_whole_blind", YES),
    ],
)
def test_each_pool_has_one_label_and_its_kind_of_reference(pool, label):
    examples = made(pool)
    assert len(examples) == 30
    true = {f"gsm8k:{s.number}": s.reference for s in SOLUTIONS}
    for one in examples:
        assert one.target == label
        own = reference_of(one) == true[one.cluster]
        assert own is (pool in ("verifier_whole_true", "verifier_wrong_true", "verifier_cut_true"))
    assert {e.card for e in examples} == {"verifier", "verifier-no-question", "verifier-reference-last"}


def test_damaged_references_keep_the_label_of_the_solution():
    for one in made("verifier_whole_other_kind"):
        right = int(one.cluster.split(":")[1]) % 2 == 0
        assert one.target == (YES if right else NO)
        assert number_of(reference_of(one)) is None


def test_a_cut_never_holds_the_answer_and_no_key_is_trained_on():
    rng = np.random.default_rng(1)
    for one in SOLUTIONS * 20:
        cut = cut_before_answer(one, rng)
        assert one.reference not in cut
        assert "A:" not in cut
        assert one.response.startswith(cut)
    responses = [response_of(e) for pool in VERIFIER_POOLS for e in made(pool)]
    assert not set(responses) & set(KEY_TEXTS)
    assert sum(len(r.split()) <= 3 for r in responses) > 20


def test_made_references_are_no_numbers():
    rng = np.random.default_rng(2)
    texts = [other_kind(rng) for _ in range(400)]
    assert all(number_of(text) is None for text in texts)
    assert {answer_type(text) for text in texts} >= {AnswerType.EXPRESSION, AnswerType.CHOICE, AnswerType.STRING}


@pytest.mark.parametrize("recipe", ["a", "b", "c"])
def test_recipes_can_be_read_and_leave_the_test_side_out(recipe):
    config = read_config(get_settings().assets / "training" / f"shortcut-{recipe}.toml")
    assert set(config.mix) <= set(VERIFIER_POOLS) <= set(POOLS)
    assert Side.TEST not in config.sides

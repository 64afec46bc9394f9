"""Thresholds, retention, alphas and the anchors' key."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from engine.core.errors import InputError
from engine.steering.decode import repetition
from engine.steering.references import anchor_key, degraded, nearest_alpha, retained, thresholds_of, vector_digest


def test_thresholds_are_percentiles_of_what_was_read():
    scores = np.array([*np.arange(1.0, 101.0), np.nan, np.nan])
    found = thresholds_of(scores)
    assert (found.low, found.high) == (20.8, 80.2)  # numpy's linear percentiles of 1..100
    high, low = retained(np.array([80.2, 80.1, 20.8, 20.9, np.nan]), found)
    assert high.tolist() == [True, False, False, False, False]
    assert low.tolist() == [False, False, True, False, False]


def test_a_judge_that_tells_nothing_apart_gives_no_standards():
    with pytest.raises(InputError, match="no standards"):
        thresholds_of(np.full(40, 3.0))


def test_too_few_read_candidates_say_what_to_do():
    with pytest.raises(InputError, match=r"read 3 of the 20 .*Generate more"):
        thresholds_of(np.array([1.0, 2.0, 3.0, *[np.nan] * 17]))


def test_the_alpha_nearest_to_the_standard_is_taken_and_unread_texts_left_out():
    alphas = np.repeat([0.0, 1, 2], 5)
    scores = np.array([3, 3, 3, 3, 3, 3.5, 3.5, 3.5, 3.5, np.nan, 4, 4.25, 4.5, 4.75, 5])
    found = nearest_alpha(alphas, scores, 3.7, "high")
    assert (found.alpha, found.mean, found.n, found.of, found.enough) == (1, 3.5, 4, 5, True)
    found = nearest_alpha(alphas, scores, 4.4, "high")
    assert (found.alpha, found.mean, found.n) == (2, 4.5, 5)


def test_an_alpha_that_broke_a_fifth_of_its_texts_is_not_chosen_from_the_survivors():
    alphas = np.repeat([0.0, 1, 2], 5)
    scores = np.array([3, 3, 3, 3, 3, 3.5, 3.5, 3.5, 3.5, np.nan, 4.4, 4.4, 4.4, np.nan, np.nan])
    assert nearest_alpha(alphas, scores, 4.4, "high").alpha == 1
    found = nearest_alpha(alphas[10:], scores[10:], 4.4, "high")  # nothing else was tried
    assert (found.alpha, found.n, found.of, found.enough) == (2, 3, 5, False)
    with pytest.raises(InputError, match="read none of the texts steered low"):
        nearest_alpha(alphas, np.full(15, np.nan), 4.4, "low")


def test_of_equally_near_alphas_the_smallest_is_taken():
    assert nearest_alpha(np.array([1.0, 5.0]), np.array([3.0, 3.0]), 4.0, "high").alpha == 1


@pytest.mark.parametrize(
    "change",
    [
        {"tutor": "x"}, {"judge": "x"}, {"prompt": [1, 2, 4]}, {"side": "low"}, {"alpha": 2.0}, {"form": "centred"},
        {"seed": 1}, {"limit": 9}, {"layer": 2}, {"high": 1.0},
    ],
)  # fmt: skip
def test_every_part_of_the_key_counts(standards, change):
    base = {
        "tutor": "t", "judge": "j", "prompt": [1, 2, 3], "side": "high", "alpha": 1.0, "form": "paper", "seed": 0,
        "limit": 8,
    }  # fmt: skip
    other = standards
    if "layer" in change:
        other = dataclasses.replace(standards, layer=change["layer"])
    elif "high" in change:
        other = dataclasses.replace(standards, high=standards.high + 1)
    changed = base | {k: v for k, v in change.items() if k in base}
    assert anchor_key(standards=standards, **base) == anchor_key(standards=standards, **base)
    assert anchor_key(standards=standards, **base) != anchor_key(standards=other, **changed)


def test_a_digest_is_of_the_numbers_that_steer(standards):
    same = dataclasses.replace(standards, high=standards.high + 1e-12)
    assert vector_digest(same) == vector_digest(standards)


def test_degrading_changes_a_draft_and_is_repeatable():
    text = "You should water the tomato plants in the morning before the sun gets hot"
    made = {degraded(text, "Another reply altogether", seed) for seed in range(20)}
    assert text not in made
    assert "Another reply altogether" in made
    assert len(made) > 4
    assert degraded(text, "x", 7) == degraded(text, "x", 7)


def test_repetition_counts_runs_of_three_words():
    assert repetition("a b c d e f") == 0
    assert repetition("a b c a b c a b c") == pytest.approx(4 / 7)  # 7 runs, of which abc, bca, cab differ
    assert np.isnan(repetition("two words"))

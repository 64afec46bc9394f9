"""Intervals that cover what a planted verifier has in closed form, through requests, verdicts and tables."""

from __future__ import annotations

import numpy as np
import pytest

from engine.judges.planted import make_planted
from engine.metrics.refswap import auc_interval, d_interval, sample_table, summarise, summary_rows
from engine.readout.refswap import Samples, auc, cohens_d, planted_auc
from engine.schema import METRICS, NONE

SEEDS = range(200)


def drawn(rng, items=40, keys=4, k=3, a=0.6, b=0.5, leak=0.4):
    """Samples as `planted:verifier` gives them: one correct response an item, and keys."""
    n = items * (1 + keys)
    key = np.tile(np.arange(-1, keys), items)
    fooled = rng.random(n) < leak
    p = np.where(key < 0, 0.95, np.where(fooled, 0.7, 0.2))
    cf = np.where((key < 0)[:, None], a, b) / 2 * rng.random((n, k))
    asked = np.repeat((p >= 0.5)[:, None], k, axis=1)
    item = np.repeat(np.arange(items), 1 + keys)
    one = np.ones(n)
    return Samples(
        p=p,
        cf=np.where(asked, cf, np.nan),
        asked=asked,
        right=key < 0,
        key=key,
        item=item,
        length=np.where(key < 0, 90, 1),
        dev=item < items // 5,
        tokens=one * np.nan,
        fresh=np.where(asked, np.nan, np.nan),
    )


def test_the_auc_interval_covers_the_closed_form():
    truth = planted_auc(0.6, 0.5, 3)
    hits, values = 0, []
    for seed in SEEDS:
        one = summarise(drawn(np.random.default_rng(seed)), k=3, delta=0.02).auc
        hits += one.lower <= truth <= one.upper
        values.append(one.value)
    assert 0.92 <= hits / len(SEEDS) <= 0.98
    assert np.mean(values) == pytest.approx(truth, abs=4 * np.std(values) / np.sqrt(len(SEEDS)))


def test_the_false_positive_rate_covers_the_leak():
    hits = 0
    for seed in SEEDS:
        one = summarise(drawn(np.random.default_rng(1000 + seed)), k=3, delta=0.02).before.fpr
        hits += one.lower <= 0.4 <= one.upper
    assert 0.92 <= hits / len(SEEDS) <= 0.98


def test_bootstraps_rest_on_the_same_number_as_the_point():
    rng = np.random.default_rng(5)
    score, item = rng.random(200), rng.integers(0, 25, 200)
    high = rng.random(200) < 0.4
    for interval, point in ((auc_interval, auc), (d_interval, cohens_d)):
        one = interval(score, item, high, ~high)
        assert one.value == pytest.approx(point(score[high], score[~high]))
        assert one.lower < one.value < one.upper
        assert one.n_clusters == 25


def test_full_separation_is_no_certainty():
    score = np.array([0.9, 0.8, 0.7, 0.1, 0.2])
    high = np.array([True, True, True, False, False])
    one = auc_interval(score, np.arange(5), high, ~high)
    assert one.value == one.upper == 1
    assert 0.2 < one.lower < 0.5  # two items in the smaller group
    turned = auc_interval(score, np.arange(5), ~high, high)
    assert (turned.value, turned.lower) == (0, 0)


def test_one_class_is_undefined_and_said():
    rng = np.random.default_rng(0)
    never = summarise(drawn(rng, leak=0.0), k=3, delta=0.02)
    assert never.n_fooled == 0
    assert np.isnan(never.auc.value)
    assert np.isnan(never.cohens_d.value)
    assert never.before.fpr.value == 0
    assert 0 < never.before.fpr.upper < 0.12  # 32 items of the test part
    assert never.before.fpr.n_clusters == 32


def test_the_settings_of_a_summary():
    s = drawn(np.random.default_rng(2), a=0.9, b=0.2)
    free, tight = (summarise(s, k=3, delta=d) for d in (0.5, 0.0))
    assert free.gamma >= tight.gamma
    assert tight.dev_after.accuracy.value >= tight.dev_before.accuracy.value
    by_hand = summarise(s, k=3, delta=0.0, gamma=0.05)
    assert by_hand.gamma == 0.05
    assert by_hand.cut.value == tight.gamma
    assert summarise(s, k=1, delta=0.0).auc.value < tight.auc.value  # fewer references, less separation
    assert tight.length_after.fpr.value == 0  # keys of one character fall to a length filter
    assert tight.cost_clean.passes == pytest.approx(4)
    rows = METRICS.conform(summary_rows(tight, [f"key:{i}" for i in range(4)]))
    assert set(rows["metric"]) >= {"accuracy", "fpr", "key_fpr", "auc", "gamma"}


def test_tables_become_arrays():
    import pandas as pd

    base = {"judge": "j", "protocol": "verifier", "defense": NONE, "item_id": "q"}
    verdicts = pd.DataFrame(
        [
            {**base, "response_id": "r", "attack": NONE, "p_yes": 0.9, "prompt_tokens": 50},
            {**base, "response_id": "r", "attack": NONE, "reference_id": "other-2", "p_yes": 0.2, "prompt_tokens": 52},
            {**base, "response_id": "r", "attack": NONE, "reference_id": "other-1", "p_yes": None, "prompt_tokens": 51},
            {**base, "response_id": "r", "attack": NONE, "reference_id": "same-1", "p_yes": 0.7, "prompt_tokens": 50},
            {**base, "response_id": "q-key", "attack": "key:space", "p_yes": 0.1, "prompt_tokens": 40},
        ]
    ).assign(shared_tokens=[0, 45, 45, 45, 0])
    samples = pd.DataFrame(
        {"item_id": "q", "response_id": ["r", "q-key"], "attack": [NONE, "key:space"], "right": [1, 0]}
    ).assign(length=[7, 1], dev=0)
    table = sample_table(verdicts, samples)
    s = table.samples
    np.testing.assert_array_equal(s.p, [0.9, 0.1])
    np.testing.assert_array_equal(s.cf, [[np.nan, 0.2], [np.nan, np.nan]])
    np.testing.assert_array_equal(s.asked, [[True, True], [False, False]])
    np.testing.assert_array_equal(s.fresh, [[6, 7], [np.nan, np.nan]])
    assert table.keys == ("key:space",)
    assert s.key.tolist() == [-1, 0]
    assert sample_table(verdicts, samples, "same").samples.cf.tolist()[0] == [0.7]


def test_the_planted_spec_answers_a_verifier():
    assert make_planted("planted:verifier").kind.name == "verifier"

"""Intervals that cover what a planted verifier has in closed form, through requests, verdicts and tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.core.schema import METRICS, NONE
from engine.judges.planted import make_planted
from engine.stats.auc import auc, cohens_d
from engine.studies.refswap.metrics import K_ONE, auc_interval, d_interval, sample_table, summarise, summary_rows
from engine.studies.refswap.scores import Samples, frontier, max_p_cf, planted_auc

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


def unread_unequally(samples, rng):
    """Keys read of fewer and fewer items, and accepted the more often the fewer they are read of."""
    keyed = samples.key >= 0
    p = np.where(keyed & (rng.random(len(keyed)) < 0.2 * (samples.key + 1)), 0.9, np.where(keyed, 0.1, samples.p))
    p = np.where(keyed & (rng.random(len(keyed)) < 0.22 * samples.key), np.nan, p)
    return replace(samples, p=p, asked=np.repeat((p >= 0.5)[:, None], 3, axis=1), cf=rng.random((len(p), 3)))


def test_the_mean_over_the_keys_is_of_their_shares_however_much_of_each_is_read():
    s = unread_unequally(drawn(np.random.default_rng(3), items=60), np.random.default_rng(4))
    found = summarise(s, k=3, delta=0.02)
    shares = [one.value for one in found.before.per_key]
    assert found.before.fpr.value == pytest.approx(np.mean(shares))
    part = ~s.dev & ~s.clean & ~np.isnan(s.p)
    assert found.before.fpr.n == part.sum()
    assert found.before.fpr.value - (s.p[part] >= 0.5).mean() > 0.03  # what all rows in one pot would say
    whole = replace(s, dev=np.zeros(len(s.p), dtype=bool))
    line = frontier(whole, max_p_cf(whole, 3), whole.yes())
    assert found.before.unread_clean == 0
    assert found.before.unread_keys == tuple(int(np.isnan(s.p[~s.dev & (s.key == i)]).sum()) for i in range(4))
    assert found.before.unread_keys[0] == 0 < found.before.unread_keys[3] < found.before.n_unread
    rows = summary_rows(found, [f"key:{i}" for i in range(4)]).query("group == 'test' and defense == 'none'")
    assert rows[rows["metric"] == "accuracy"]["n_unread"].tolist() == [0]
    assert rows[rows["metric"] == "fpr"]["n_unread"].tolist() == [found.before.n_unread]
    assert rows[rows["metric"] == "key_fpr"]["n_unread"].tolist() == list(found.before.unread_keys)
    assert summarise(whole, k=3, delta=0.02).before.fpr.value == pytest.approx(line.fpr[0])  # headline and figure


@pytest.mark.slow
def test_the_mean_over_the_keys_covers_its_truth_when_keys_are_unread_unequally():
    hits = 0
    for seed in SEEDS:
        rng = np.random.default_rng(2000 + seed)
        one = summarise(unread_unequally(drawn(rng), rng), k=3, delta=0.02).before.fpr
        hits += one.lower <= 0.5 <= one.upper  # the keys' shares are 0.2, 0.4, 0.6 and 0.8
    assert 0.92 <= hits / len(SEEDS) <= 0.98


def test_one_key_alone_is_a_rate_and_no_event_has_its_bound():
    s = drawn(np.random.default_rng(6), keys=1)
    found = summarise(s, k=3, delta=0.02).before
    assert (found.fpr.value, found.fpr.lower, found.fpr.method) == (
        found.per_key[0].value,
        found.per_key[0].lower,
        "Wilson",
    )
    assert summarise(drawn(np.random.default_rng(6), leak=1.0), k=3, delta=0.02).before.fpr.lower > 0.8


def test_k_one_stands_beside_the_s_score():
    s = drawn(np.random.default_rng(7), a=0.9, b=0.2)
    found = summarise(s, k=3, delta=0.02)
    alone = summarise(s, k=1, delta=0.02)
    assert found.one_auc == alone.auc
    assert found.k_one.cut == alone.cut
    assert found.k_one.after == alone.after != found.after
    rows = METRICS.conform(summary_rows(found, [f"key:{i}" for i in range(4)]))
    own = rows[(rows["defense"] == K_ONE) & (rows["metric"] == "fpr")]
    assert own["value"].tolist() == [alone.after.fpr.value]


def test_samples_with_fewer_references_are_counted():
    s = drawn(np.random.default_rng(8))
    asked = s.asked.copy()
    some = np.flatnonzero(asked[:, 0] & (~s.clean | s.right))[:4]
    asked[some, 2] = False
    fewer = replace(s, asked=asked)
    assert summarise(s, k=3, delta=0.02).n_fewer == 0
    assert summarise(fewer, k=3, delta=0.02).n_fewer == 4
    assert summarise(fewer, k=2, delta=0.02).n_fewer == 0


def test_intervals_rest_on_the_same_number_as_the_point():
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
    assert tight.length.after.fpr.value == 0  # keys of one character fall to a length filter
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

"""Precision, recall and the best F1 against scikit-learn and by counting."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_curve

from engine.core.errors import InputError
from engine.stats.detection import best_f1, detection_at, pr_curve

READINGS = st.lists(st.integers(1, 9), min_size=2, max_size=12)


@profile(deadline=None)
@given(st.data())
def test_the_curve_is_scikit_learn_s_where_both_kinds_are_as_many(data):
    n = data.draw(st.integers(2, 10))
    clean, attacked = (data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)) for _ in range(2))
    truth = np.repeat([0, 1], n)
    precision, recall, thresholds = precision_recall_curve(truth, np.array([*clean, *attacked]))
    mine = pr_curve(clean, attacked)
    np.testing.assert_allclose(mine["recall"], recall[:-1])
    np.testing.assert_allclose(mine["precision"], precision[:-1])
    assert mine["threshold"].iloc[1:].tolist() == thresholds[:-1].tolist()


@pytest.mark.slow
@profile(deadline=None)  # two cores are often shared
@given(READINGS, READINGS)
def test_no_threshold_beats_the_best_f1(clean, attacked):
    f1, at = best_f1(clean, attacked)
    weights = np.concatenate([np.full(len(clean), len(attacked) / len(clean)), np.ones(len(attacked))])
    truth = np.repeat([0, 1], [len(clean), len(attacked)])
    values = np.array([*clean, *attacked])

    def score(threshold):
        return f1_score(truth, values > threshold, sample_weight=weights, zero_division=0)

    assert score(at) == pytest.approx(f1)
    assert f1 == pytest.approx(max(score(t) for t in [0, *values]))


def test_separated_readings_are_cut_in_the_gap():
    f1, at = best_f1([2.0, 4.0], [16.0, 30.0])
    assert f1 == 1
    assert at == pytest.approx(8.0)  # half-way in the logarithm


def test_a_text_without_a_reading_is_never_flagged():
    curve = pr_curve([1.0, np.nan], [2.0, np.nan])
    assert curve["recall"].max() == 0.5
    assert curve["false_alarms"].max() == 0.5


def test_repeating_every_clean_text_changes_nothing():
    clean, attacked = [1.0, 3.0, 5.0], [2.0, 4.0, 6.0]
    pd.testing.assert_frame_equal(pr_curve(clean, attacked), pr_curve(clean * 4, attacked))


def test_what_has_no_two_sides_is_an_error():
    for clean, attacked in (([], [1.0]), ([1.0], []), ([np.nan], [np.nan])):
        with pytest.raises(InputError):
            pr_curve(clean, attacked)


def test_at_a_threshold_the_numbers_are_counts_and_have_intervals():
    rows = [(f"i{k}", a, v) for k in range(6) for a, v in (("none", k), ("x", k + 3), ("y", k + 1))]
    frame = pd.DataFrame(rows, columns=["item_id", "attack", "value"])
    found = detection_at(frame, 3.5)
    hits, alarms = 5 + 3, 2  # x: 4..8 of 3..8; y: 4..6 of 1..6; clean: 4, 5
    assert found["recall"].value == pytest.approx(hits / 12)
    assert found["false_alarms"].value == pytest.approx(alarms / 6)
    assert found["precision"].value == pytest.approx(hits / (hits + 2 * alarms))
    assert found["f1"].value == pytest.approx(2 * hits / (hits + 2 * alarms + 12))
    assert all(0 <= i.lower < i.value < i.upper <= 1 and i.n_clusters == 6 for i in found.values())

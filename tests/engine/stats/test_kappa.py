"""Cohen's kappa against a textbook example, scikit-learn and the large-sample error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from engine.core.errors import InputError
from engine.stats import agreement as kappa
from engine.stats.agreement import cluster_kappa
from engine.stats.intervals import NO_DATA, ONE_CLUSTER

LABELS = st.lists(st.tuples(st.sampled_from("abt"), st.sampled_from("abt")), min_size=2, max_size=60)


def test_the_textbook_example():
    """Two readers of 50 grant proposals: 20 yes by both, 15 no by both, 5 and 10 apart; kappa 0.4."""
    judge = ["y"] * 25 + ["n"] * 25
    human = ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    found = cluster_kappa(judge, human, range(50))
    assert found.interval.value == pytest.approx(0.4)
    assert found.observed == pytest.approx(0.7)
    assert found.expected == pytest.approx(0.5)
    assert found.base_rate == pytest.approx(0.6)
    assert (found.interval.n, found.interval.n_clusters) == (50, 50)
    error = 0.127  # large-sample standard error of Fleiss, Cohen and Everitt (1969) for this table
    assert found.interval.upper - found.interval.lower == pytest.approx(2 * 1.96 * error, rel=0.12)


@settings(max_examples=30)
@given(LABELS)
def test_a_second_method_agrees(pairs):
    judge, human = zip(*pairs, strict=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = cohen_kappa_score(judge, human) if len({*judge, *human}) > 1 else float("nan")
    patched = kappa.RESAMPLES
    kappa.RESAMPLES = 50
    try:
        found = cluster_kappa(judge, human, range(len(pairs))).interval.value
    finally:
        kappa.RESAMPLES = patched
    assert found == pytest.approx(expected, nan_ok=True)


def test_rows_of_one_item_count_as_one():
    judge = ["a", "a", "b", "b", "a", "b"] * 5
    human = ["a", "b", "b", "a", "a", "b"] * 5
    alone = cluster_kappa(judge, human, range(30)).interval
    together = cluster_kappa([j for j in judge for _ in range(4)], [h for h in human for _ in range(4)],
                             [i for i in range(30) for _ in range(4)]).interval  # fmt: skip
    assert together.value == pytest.approx(alone.value)
    assert together.upper - together.lower == pytest.approx(alone.upper - alone.lower)


def test_what_has_no_interval_says_why():
    assert cluster_kappa([], [], []).interval.method == NO_DATA
    assert cluster_kappa(["a", "b"], ["a", "b"], ["x", "x"]).interval.method == ONE_CLUSTER
    with pytest.raises(InputError, match="one a row"):
        cluster_kappa(["a"], ["a", "b"], ["x"])

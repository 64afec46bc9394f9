"""Truth from outside: Krippendorff's published example, scikit-learn, binomial tests, simulated judges."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from engine.core.errors import InputError
from engine.stats.agreement import cluster_kappa, krippendorff_alpha
from engine.stats.calibration import calibrate, recalibrate, true_rates
from engine.stats.selective import choose_threshold, fewest_labels, order_confidence, upper_bound

NAN = np.nan
RATERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)
"""Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section C: alpha 0.743 nominal, 0.849 interval."""


@pytest.mark.parametrize(("scale", "alpha"), [("nominal", 0.743), ("interval", 0.849)])
def test_alpha_is_that_of_the_published_example(scale, alpha):
    found = krippendorff_alpha(RATERS.T, np.arange(12), scale=scale)
    assert found.value == pytest.approx(alpha, abs=5e-4)
    assert found.n == 11  # one unit has a single rating
    assert found.lower < alpha < found.upper


def test_equal_weights_change_no_agreement_and_doubled_rows_are_rows_of_weight_two():
    rng = np.random.default_rng(0)
    said, wanted = rng.integers(3, size=(2, 80))
    wanted = np.where(rng.random(80) < 0.5, said, wanted)
    table, items = np.column_stack([said, wanted]), np.arange(80)
    heavy = np.where(items % 4 == 0, 2.0, 1.0)
    twice = np.repeat(items, heavy.astype(int))
    words = (list(map(str, said)), list(map(str, wanted)))
    one = cluster_kappa(*words, items, weights=heavy)
    two = cluster_kappa([words[0][i] for i in twice], [words[1][i] for i in twice], twice)
    assert one.interval.value == pytest.approx(two.interval.value)
    assert (one.interval.lower, one.base_rate) == pytest.approx((two.interval.lower, two.base_rate))
    plain, same = (krippendorff_alpha(table, items, weights=w) for w in (None, np.ones(80)))
    assert plain == same


def predictions(rng, n, shift=0.0):
    """Probabilities, and labels that come true as often as the probability and the shift say."""
    p = rng.uniform(0.05, 0.75, n)
    return p, (rng.random(n) < p + shift).astype(float)


def test_a_calibrated_judge_has_no_error_beyond_chance():
    rng = np.random.default_rng(1)
    plain = [calibrate(*predictions(rng, 300), np.arange(300)) for _ in range(20)]
    assert np.mean([one.error.value for one in plain]) > 0.04  # what chance puts into ten bins
    assert np.median([one.debiased for one in plain]) < 0.03


def test_a_judge_that_is_off_by_a_fifth_has_that_error():
    p, y = predictions(np.random.default_rng(2), 3000, 0.2)
    found = calibrate(p, y, np.arange(3000))
    assert found.error.value == pytest.approx(0.2, abs=0.03)
    assert found.debiased == pytest.approx(0.2, abs=0.03)
    assert found.error.lower < 0.2 < found.error.upper
    assert [b.observed.n_labels for b in found.bins] == [300] * 10


def test_recalibration_learns_on_other_items_what_it_is_measured_on():
    p, y = predictions(np.random.default_rng(3), 2000, 0.2)
    for method in ("isotonic", "platt"):
        made = recalibrate(p, y, np.arange(2000) // 2, method=method)
        assert made.after.debiased < 0.5 * made.before.debiased
        assert made.after.brier < made.before.brier


def test_unlabelled_rows_are_recalibrated_as_scikit_learn_would():
    rng = np.random.default_rng(4)
    p, y = predictions(rng, 600, 0.1)
    label = np.where(np.arange(600) < 400, y, NAN)
    rising = IsotonicRegression(out_of_bounds="clip").fit(p[:400], y[:400]).predict(p[400:])
    assert recalibrate(p, label, np.arange(600)).predicted[400:] == pytest.approx(rising, abs=1e-9)
    odds = np.log(p / (1 - p))[:, None]
    line = LogisticRegression(C=1e6).fit(odds[:400], y[:400]).predict_proba(odds[400:])[:, 1]
    assert recalibrate(p, label, np.arange(600), method="platt").predicted[400:] == pytest.approx(line, abs=0.01)


def test_true_rates_are_shares_of_the_labels():
    verdict, label = np.array([1, 1, 0, 0, 1, 0.0]), np.array([1, 0, 0, 1, 1, NAN])
    found = true_rates(verdict, label, np.arange(6))
    assert (found["tpr"].value, found["tnr"].value) == pytest.approx((2 / 3, 1 / 2))
    assert found["agreement"].value == pytest.approx(3 / 5)
    weighed = true_rates(verdict, label, np.arange(6), np.array([0.5, 1, 1, 1, 1, 1]))
    assert weighed["tpr"].value == pytest.approx(3 / 4)


# --- selective judging


@pytest.mark.parametrize(("errors", "n"), [(0, 29), (3, 80), (10, 10)])
def test_the_upper_bound_is_clopper_and_pearsons(errors, n):
    one_sided = binomtest(errors, n).proportion_ci(0.90, method="exact").high
    assert upper_bound(errors, n, 0.05) == pytest.approx(one_sided)


def test_fewest_labels_is_the_rule_of_three():
    assert fewest_labels(0.1, 0.05) == 29
    assert upper_bound(0, 29, 0.05) <= 0.1 < upper_bound(0, 28, 0.05)


def test_orders_that_disagree_make_a_verdict_unsure():
    mean, sure = order_confidence([0.9, 0.9, 0.2], [0.8, 0.1, 0.1])
    assert mean == pytest.approx([0.85, 0.5, 0.15])
    assert sure == pytest.approx([0.85, 0.5, 0.85])


def judged(rng, n, labels):
    """Confidence in [0.5, 1] that is the chance to be right; errors of the labelled rows."""
    sure = rng.uniform(0.5, 1, n)
    wrong = (rng.random(n) > sure).astype(float)
    return sure, np.where(np.arange(n) < labels, wrong, NAN)


def test_the_kept_verdicts_keep_the_bound_as_often_as_promised():
    """True error of verdicts kept from t on is (1 - t) / 2; it may exceed 0.15 in 5 % of samples, here 300."""
    rng = np.random.default_rng(6)
    found = [choose_threshold(*judged(rng, 400, 250), np.arange(400), bound=0.15) for _ in range(300)]
    assert np.mean([(1 - one.threshold) / 2 > 0.15 for one in found]) <= 0.05 + 2 * 0.0126
    assert np.mean([one.chosen is not None for one in found]) > 0.6


def test_a_judge_that_guesses_keeps_nothing_and_says_why():
    rng = np.random.default_rng(7)
    guess = choose_threshold(rng.random(300), (rng.random(300) < 0.5).astype(float), np.arange(300))
    assert guess.chosen is None
    assert guess.threshold == np.inf
    assert "wrong" in guess.reason
    few = choose_threshold(rng.random(300), np.where(np.arange(300) < 20, 0.0, NAN), np.arange(300))
    assert "29" in few.reason


def test_rows_of_one_item_count_once_and_likely_labels_are_thinned():
    rng = np.random.default_rng(8)
    sure, wrong = judged(rng, 400, 400)
    assert choose_threshold(sure, wrong, np.arange(400) // 4).n_labels == 100
    chance = np.where(np.arange(400) < 200, 1.0, 0.25)
    assert choose_threshold(sure, wrong, np.arange(400), chance).n_labels == pytest.approx(250, abs=25)


def test_bounds_outside_their_range_are_refused():
    with pytest.raises(InputError, match=r"0\.1"):
        choose_threshold([0.9], [0.0], [1], bound=1.5)
    with pytest.raises(InputError, match="isotonic"):
        recalibrate([0.5], [1.0], [0], method="magic")

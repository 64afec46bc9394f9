"""Truth from outside: ppi-python, the published code of Lee et al., closed forms, identities, simulated populations."""

import numpy as np
import pytest

from engine.bench.trust import WIDER, Design, measure
from engine.core.errors import InputError
from engine.stats.corrected import (
    BACKWARDS,
    NO_BETTER,
    compare_difference,
    compare_estimates,
    judge_weight,
    labels_needed_after,
    labels_needed_before,
    labels_only,
    lee_interval,
    prediction_powered,
    rogan_gladen,
)
from engine.stats.intervals import NO_VARIATION, cluster_mean

N = np.arange(600)
SHARES = ((N * 7) % 11 < 6).astype(float)
RIGHT = np.where((N * 5) % 13 < 10, SHARES, 1 - SHARES)
SCORES = 1 + 4 * ((N * 37) % 101) / 100
RATED = np.clip(np.round(SCORES + ((N * 17) % 7 - 3) / 3 - 0.4), 1, 5)
LABELLED = N % 6 == 0
REFERENCE = {
    "shares": {None: (0.51730262, 0.43205755, 0.60254768), 1.0: (0.514, 0.41052712, 0.61747288),
               0.5: (0.517, 0.43159454, 0.60240546)},
    "scores": {None: (2.65929022, 2.50390343, 2.81467701), 1.0: (2.66216, 2.49618412, 2.82813588)},
}  # fmt: skip
"""ppi-python 0.2.3: ppi_mean_pointestimate(y[l], v[l], v[~l], lam=lam) and ppi_mean_ci(..., alpha=0.05, lam=lam)."""


def hidden(label):
    return np.where(LABELLED, label, np.nan)


def population(rng, n, labels, rate, tpr, tnr):
    """Independent rows: verdict, label of some, every label."""
    truth = (rng.random(n) < rate).astype(float)
    verdict = np.where(truth == 1, rng.random(n) < tpr, rng.random(n) >= tnr).astype(float)
    label = np.full(n, np.nan)
    chosen = rng.choice(n, labels, replace=False)
    label[chosen] = truth[chosen]
    return verdict, label, truth


@pytest.mark.parametrize(("kind", "verdict", "label"), [("shares", SHARES, RIGHT), ("scores", SCORES, RATED)])
def test_the_corrected_number_is_that_of_ppi_python(kind, verdict, label):
    """Their verdict mean leaves labelled rows out: lambda here is theirs times 600 / 500."""
    for lam, (value, lower, upper) in REFERENCE[kind].items():
        ours = None if lam is None else lam * 600 / 500
        made = prediction_powered(verdict, hidden(label), N, lam=ours)
        tolerance = {"abs": 1e-8} if lam else {"rel": 1e-4}  # they pool two variances where we add up influences
        assert made.value == pytest.approx(value, **tolerance)
        assert (made.lower, made.upper) == pytest.approx((lower, upper), abs=0.04 * (upper - lower))


def test_inclusion_chances_enter_as_ppi_python_weights():
    """ppi_mean_pointestimate(y[l], v[l], v[~l], lam=0.5, w=1 / chance) of ppi-python 0.2.3 is 0.5078209."""
    chance = np.where(SHARES == 1, 0.25, 0.1)
    share = LABELLED / chance / (LABELLED / chance).sum()
    theirs = 0.5 * SHARES[~LABELLED].mean() + (share * (RIGHT - 0.5 * SHARES)).sum()
    assert theirs == pytest.approx(0.5078209, abs=1e-7)
    ours = prediction_powered(SHARES, hidden(RIGHT), N, chance, lam=0.5)
    assert ours.value == pytest.approx(0.5 * SHARES.mean() + (share * (RIGHT - 0.5 * SHARES)).sum(), abs=1e-12)


def test_lee_interval_is_that_of_the_published_code():
    """confidence_interval(0.4, 0.7, 0.9, 1000, 200, 200) of github.com/UW-Madison-Lee-Lab/LLM-judge-reporting."""
    made = lee_interval(0.4, 0.7, 0.9, 1000, 200, 200)
    assert made.value == pytest.approx(1 / 6)
    assert (made.lower, made.upper) == pytest.approx((0.05635072484160894, 0.2627330257859588), abs=1e-12)
    assert lee_interval(0.4, 0.5, 0.5, 1000, 200, 200).method == NO_BETTER


def test_rogan_gladen_is_the_closed_form():
    truth, verdict = hidden(RIGHT), SHARES
    known = LABELLED
    tpr = verdict[known & (truth == 1)].mean()
    tnr = 1 - verdict[known & (truth == 0)].mean()
    made = rogan_gladen(verdict, truth, N)
    assert made.value == pytest.approx((verdict.mean() + tnr - 1) / (tpr + tnr - 1))
    close = lee_interval(verdict.mean(), tnr, tpr, 600, int((truth == 0).sum()), int((truth == 1).sum()))
    assert made.upper - made.lower == pytest.approx(close.upper - close.lower, rel=0.15)


def test_a_coin_and_a_backwards_judge_have_no_rogan_gladen_number():
    rng = np.random.default_rng(3)
    coin = (rng.random(600) < 0.5).astype(float)
    assert rogan_gladen(coin, hidden(RIGHT), N).method == NO_BETTER
    assert np.isnan(rogan_gladen(coin, hidden(RIGHT), N).value)
    assert rogan_gladen(1 - SHARES, hidden(RIGHT), N).method == BACKWARDS


def test_labels_alone_are_the_interval_of_a_mean_by_item():
    """Equal chances, scores: `cluster_mean` of the labelled rows, by t below 30 items."""
    item = N // 25
    made = labels_only(SCORES, hidden(RATED), item)
    one = cluster_mean(RATED[LABELLED], item[LABELLED])
    assert (made.value, made.lower, made.upper) == pytest.approx((one.value, one.lower, one.upper))


def test_all_rows_labelled_leave_nothing_to_correct():
    made = compare_estimates(SHARES, RIGHT, N)
    assert made["corrected"].value == pytest.approx(RIGHT.mean())
    assert made["corrected"].upper == pytest.approx(made["labels_only"].upper)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_unit_of_scores_does_not_matter(scale):
    one, other = (prediction_powered(SCORES * s + 50, hidden(RATED) * s + 50, N) for s in (1.0, scale))
    assert (other.value - 50, other.upper - 50) == pytest.approx(
        ((one.value - 50) * scale, (one.upper - 50) * scale)
    )  # fmt: skip


def test_a_perfect_judge_saves_nearly_every_label_and_a_coin_none():
    coin = (np.random.default_rng(1).random(600) < 0.5).astype(float)
    perfect = prediction_powered(RATED, hidden(RATED), N)
    assert perfect.labels_saved == pytest.approx(500, rel=0.1)
    assert perfect.value == pytest.approx(RATED.mean())
    assert abs(judge_weight(coin, hidden(RIGHT), N)) < 0.15
    assert prediction_powered(coin, hidden(RIGHT), N).labels_saved < 5


def test_a_useless_judge_costs_less_than_five_percent_of_width():
    rng = np.random.default_rng(8)
    ratios = []
    for _ in range(60):
        verdict, label, _ = population(rng, 800, 100, 0.7, 0.5, 0.5)
        made = compare_estimates(verdict, label, np.arange(800))
        ratios.append(np.subtract(made["corrected"].upper, made["corrected"].lower)
                      / np.subtract(made["labels_only"].upper, made["labels_only"].lower))  # fmt: skip
    assert max(ratios) <= 1.05


def test_intervals_hold_the_true_rate():
    """300 samples; the standard error of a share of 0.95 is 0.013. `judgescope bench coverage` has the large form."""
    rng = np.random.default_rng(5)
    held = []
    for _ in range(300):
        verdict, label, _ = population(rng, 600, 100, 0.6, 0.85, 0.75)
        made = prediction_powered(verdict, label, np.arange(600))
        held.append(made.lower <= 0.6 <= made.upper)
    assert 0.915 <= np.mean(held) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("items", [False, True])
@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize(
    ("kind", "judge"), [("rate", "useless"), ("rate", "fair"), ("rate", "good"), ("score", "fair")]
)
def test_intervals_hold_with_items_and_unequal_chances(kind, judge, items, unequal):
    """400 samples of `judgescope bench trust`: 0.93 to 0.97, give or take two standard errors of 0.011."""
    cell = measure(Design(kind, 0.5, judge, 100, items, unequal), repetitions=400, seed=1)
    assert 0.93 - 0.022 <= cell.covered["corrected"] <= 0.97 + 0.022
    assert cell.wider <= WIDER


def test_a_difference_of_systems_is_paired_by_item():
    """Both systems answer each item; the same rows twice differ by nothing, surely."""
    item, label = np.tile(N, 2), np.tile(hidden(RATED), 2)
    first = np.arange(1200) < 600
    same = compare_difference(np.tile(SCORES, 2), label, item, first, ~first)
    assert same["corrected"].value == pytest.approx(0)
    shifted = compare_difference(np.tile(SCORES, 2), label + np.where(first, 1.0, 0.0), item, first, ~first)
    assert shifted["corrected"].value == pytest.approx(1)
    apart = compare_difference(
        np.tile(SCORES, 2), label + np.tile([0.1, -0.1], 600), np.arange(1200), first, ~first
    )  # fmt: skip
    assert same["corrected"].method == NO_VARIATION
    assert apart["corrected"].error > 0.1


@pytest.mark.parametrize("half", [0.03, 0.05, 0.1])
def test_labels_needed_in_the_worst_case_are_the_textbook_number(half):
    assert labels_needed_before(half).labels_only == np.ceil(1.959964**2 * 0.25 / half**2)
    assert labels_needed_before(half).with_judge == labels_needed_before(half).labels_only


def test_a_better_judge_needs_fewer_labels_and_few_rows_are_never_enough():
    need = [labels_needed_before(0.05, rows=5000, agreement=a).with_judge for a in (0.5, 0.7, 0.9, 0.99)]
    assert need == sorted(need, reverse=True)
    assert need[0] == pytest.approx(labels_needed_before(0.05).labels_only, rel=0.01)
    short = labels_needed_before(0.01, rows=500, agreement=0.99)
    assert np.isnan(short.with_judge)
    assert "500 rows" in short.reason


def test_labels_needed_after_foretell_the_interval_of_that_many():
    """Width at 400 labels, foretold from the first 100."""
    rng = np.random.default_rng(11)
    verdict, label, truth = population(rng, 4000, 100, 0.5, 0.9, 0.85)
    more = np.where(rng.random(4000) < 0.1, truth, np.nan)
    made = prediction_powered(verdict, more, np.arange(4000))
    told = labels_needed_after(verdict, label, np.arange(4000), (made.upper - made.lower) / 2)
    assert told.with_judge == pytest.approx(made.n_labels, rel=0.35)
    assert told.with_judge < told.labels_only


def test_wrong_chances_and_shapes_are_named():
    with pytest.raises(InputError, match="chance"):
        prediction_powered(SHARES, hidden(RIGHT), N, np.zeros(600))
    with pytest.raises(InputError, match="one a row"):
        prediction_powered(SHARES, hidden(RIGHT)[:5], N)
    with pytest.raises(InputError, match="0 or 1"):
        rogan_gladen(SCORES, hidden(RATED), N)


def test_without_labels_there_is_a_raw_number_alone():
    made = compare_estimates(SHARES, np.full(600, np.nan), N)
    assert np.isnan(made["corrected"].value)
    assert np.isnan(made["labels_only"].value)
    assert made["raw"].value == pytest.approx(SHARES.mean())

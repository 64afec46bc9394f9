"""Rules on the numbers of `trust`: a rule is decided by its interval alone, and only where that can tell."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from engine.core.errors import InputError
from engine.core.gate import FAILED, PASSED, UNKNOWN
from engine.studies.trust.requirements import NAMES, held, read_rule

NAN = math.nan
ESTIMATES = pd.DataFrame(
    [
        ("corrected", None, 0.5, 0.4, 0.6, "t", 100),
        ("corrected", "new: one", 0.8, NAN, NAN, "no variation", 9),
        ("raw", None, NAN, NAN, NAN, "no rows", 0),
    ],
    columns=["estimate", "name", "value", "lower", "upper", "method", "n_labels"],
)  # fmt: skip
QUALITY = pd.DataFrame(
    [
        {"metric": "kappa", "group": "", "value": 0.6, "lower": 0.5, "upper": 0.7, "method": "b", "n": 80},
        {"metric": "calibration_error", "group": "as the judge says it", "value": 0.2, "lower": 0.1, "upper": 0.3,
         "method": "b", "n": 80},
    ]
)  # fmt: skip


def status(rule: str) -> str:
    return held([rule], ESTIMATES, QUALITY)[0].status


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("kappa>=0.5", PASSED),  # the bound itself keeps "at least"
        ("kappa>=0.5001", UNKNOWN),
        ("kappa>=0.7", UNKNOWN),
        ("kappa>=0.7001", FAILED),
        ("kappa<=0.7", PASSED),
        ("kappa<=0.5", UNKNOWN),
        ("kappa<=0.4999", FAILED),
        ("corrected >= .4", PASSED),
        ("corrected:new: one>=0.1", UNKNOWN),  # no interval, so nothing can be told
        ("raw<=1", UNKNOWN),
        ("tpr>=0.1", UNKNOWN),  # these data have none
        ("calibration_error<=0.3", PASSED),
    ],
)
def test_a_rule_is_decided_by_the_whole_interval(rule, expected):
    assert status(rule) == expected


def test_the_labels_that_would_tell_are_counted_by_the_root():
    """At 0.55 the gap is 0.05 and half the interval 0.1, twice as much: four times the 100 labels."""
    (check,) = held(["corrected<=0.55"], ESTIMATES, QUALITY)
    assert check.status == UNKNOWN
    assert "400 labels" in check.message


def test_a_rule_that_just_holds_fails_in_at_most_half_the_error():
    """The demo's estimator on data whose truth is the threshold: a failure is one tail of a 95 % interval."""
    import numpy as np

    from engine.stats.corrected import compare_estimates

    fails = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        truth = (rng.random(400) < 0.6).astype(float)
        verdict = np.where(rng.random(400) < 0.8, truth, 1 - truth)
        label = np.where(np.arange(400) < 120, truth, np.nan)
        made = compare_estimates(verdict, label, np.arange(400), None)["corrected"]
        row = {"estimate": "corrected", "name": None, "method": made.method, "n_labels": 120}
        table = pd.DataFrame([row | {"value": made.value, "lower": made.lower, "upper": made.upper}])
        fails += held(["corrected>=0.6"], table, QUALITY)[0].status == FAILED
    assert fails <= 400 * 0.025 + 3 * math.sqrt(400 * 0.025 * 0.975)


@pytest.mark.parametrize(
    "text", ["kappa", "kappa>0.5", "kappa>=", "kappa>=x", ">=0.5", "kapa>=0.5", "kappa==1", "kappa>=nan"]
)
def test_what_is_no_rule_is_named(text):
    with pytest.raises(InputError, match=r"kappa>=0\.6|There are: raw"):
        read_rule(text)


def test_a_group_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="new: one"):
        held(["corrected:old>=0.5"], ESTIMATES, QUALITY)


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_is_written_as_it_is_read(name):
    text = f"{name}:a group>=-0.5"
    assert str(read_rule(text)) == text
    assert str(read_rule(f" {name}  <= 0.50 ")) == f"{name}<=0.5"

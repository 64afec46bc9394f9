import math

import numpy as np
import pytest
from scipy import stats

from engine.core.errors import InputError
from engine.stats.paired import benjamini_hochberg

# Benjamini and Hochberg (1995), section 3.2: at a rate of 5 % their procedure rejects the first four
PUBLISHED = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459,
             0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]  # fmt: skip


def test_published_example():
    q = benjamini_hochberg(PUBLISHED)
    assert (q <= 0.05).sum() == 4
    assert q[3] == pytest.approx(0.0095 * 15 / 4)


def test_agrees_with_scipy_in_any_order():
    p = np.random.default_rng(0).permutation([*PUBLISHED, 0.0095, 0.02, 0.02])
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


def test_missing_tests_do_not_count():
    q = benjamini_hochberg([0.02, math.nan, 0.04])
    assert q[[0, 2]] == pytest.approx([0.04, 0.04])
    assert math.isnan(q[1])
    assert len(benjamini_hochberg([])) == 0


def test_refuses_what_is_no_probability():
    with pytest.raises(InputError, match="between 0 and 1"):
        benjamini_hochberg([0.2, 1.2])


def test_false_discoveries_stay_below_the_rate():
    """20 tests, 10 of them with an effect: the share of false findings is at most m0 / m times the rate."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(2000, 20)) + np.where(np.arange(20) < 10, 3, 0)
    found = np.array([benjamini_hochberg(p) <= 0.1 for p in 2 * stats.norm.sf(np.abs(z))])
    false = found[:, 10:].sum(axis=1) / np.maximum(found.sum(axis=1), 1)
    assert false.mean() == pytest.approx(0.05, abs=0.01)

import math

import numpy as np
import pytest
from scipy import stats

from engine.core.errors import InputError
from engine.stats.paired import detectable_effect, noncentrality, paired_test, power_verdict


@pytest.mark.parametrize(
    ("n", "effect", "level", "power"),
    [
        # R: power.t.test(delta = 0.5, sd = 1, power = 0.8, type = "paired") gives n = 33.3672
        pytest.param(33.36713, 0.5, 0.95, 0.8, id="r-medium"),
        # Cohen (1988): a small effect (0.2) needs 199 pairs, a large one (0.8) needs 15
        pytest.param(198.15, 0.2, 0.95, 0.8, id="small"),
        pytest.param(14.30276, 0.8, 0.95, 0.8, id="large"),
    ],
)
def test_published_sample_sizes(n, effect, level, power):
    assert noncentrality(n - 1, level=level, power=power) / math.sqrt(n) == pytest.approx(effect, abs=1e-4)


def test_one_row_a_cluster_is_the_plain_formula():
    d = np.random.default_rng(0).normal(size=25)
    got = detectable_effect(d, range(25))
    nc = got / stats.sem(d)
    assert stats.nct.sf(stats.t.ppf(0.975, 24), 24, nc) == pytest.approx(0.8, abs=1e-6)


def test_an_effect_of_that_size_is_found_four_times_in_five():
    rng = np.random.default_rng(2)
    codes = np.repeat(np.arange(20), 3)

    def draw(mean):
        return mean + rng.normal(0, 0.5, 20)[codes] + rng.normal(0, 0.5, 60)

    size = noncentrality(19) * math.sqrt((0.25 + 0.25 / 3) / 20)
    assert np.mean([detectable_effect(draw(0), codes) for _ in range(200)]) == pytest.approx(size, rel=0.03)
    found = np.mean([paired_test(draw(size), codes).p_value < 0.05 for _ in range(1000)])
    assert found == pytest.approx(0.8, abs=0.03)


def test_verdicts():
    assert [power_verdict(v, 0.25) for v in (0.3, 0.25, 0.1, math.nan)] == [
        "underpowered",
        "enough",
        "enough",
        "unknown",
    ]


def test_no_spread_no_size():
    assert math.isnan(detectable_effect([1.0] * 5, range(5)))
    assert math.isnan(detectable_effect([1.0, 2.0], ["a", "a"]))
    assert math.isnan(detectable_effect([], []))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        pytest.param(lambda: power_verdict(0.1, 0), "above zero", id="effect"),
        pytest.param(lambda: noncentrality(9, power=1.0), "power is 1.0", id="power"),
        pytest.param(lambda: detectable_effect([1], ["a"], level=95), "between 0 and 1", id="level"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(InputError, match=match):
        call()

"""Advice follows its numbers, and there is none without enough of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.stats.intervals import cluster_rate
from engine.studies.protocols.advice import Evidence, advise
from engine.studies.protocols.metrics import compare_flips


def seen(n, *, pairwise=0.5, pointwise=0.1, placebo=0.05, ties=0.1, identical=0.9, disagree=0.05, strength=0.6):
    rng = np.random.default_rng(0)
    items = np.arange(n) // 3

    def events(p):
        return (rng.permutation(n) < round(p * n)).astype(float)

    found = compare_flips(
        events(pairwise), events(pointwise), np.ones(n, dtype=bool), events(placebo), events(placebo), items
    )
    rates = [cluster_rate(events(p), items) for p in (ties, ties, identical, disagree)]
    level = cluster_rate(np.clip(strength + 0.05 * rng.standard_normal(n), 0, 1), items)
    return Evidence(found, *rates, level)


def texts(advice, kind=None):
    return [a.text for a in advice if kind is None or a.kind == kind]


def test_few_data_give_no_advice():
    advice = advise(seen(15))
    assert {a.kind for a in advice} == {"open"}
    assert any("n = 15" in t or "15 pairs" in t for t in texts(advice))


def test_more_pairwise_flips_speak_for_pointwise():
    advice = advise(seen(150))
    assert any("more often pairwise than pointwise" in t for t in texts(advice, "for pointwise"))
    assert any("flip more than a neutral paraphrase" in t for t in texts(advice))


def test_more_pointwise_flips_speak_for_pairwise():
    advice = advise(seen(150, pairwise=0.1, pointwise=0.5))
    assert any("more often pointwise than pairwise" in t for t in texts(advice, "for pairwise"))


def net_of(n, *, pairwise, pointwise, pairwise_placebo, pointwise_placebo):
    """Flips of n pairs under both protocols; the placebo's flips are among them as far as they go."""
    events = [(np.arange(n) < round(p * n)).astype(float) for p in (pairwise, pointwise)]
    placebos = [(np.arange(n) < round(p * n)).astype(float) for p in (pairwise_placebo, pointwise_placebo)]
    items = np.arange(n) % (n // 3)
    found = compare_flips(*events, np.ones(n, dtype=bool), *placebos, items)
    return replace(seen(n), flips=found)


def test_a_raw_difference_that_any_rewriting_makes_is_no_advice():
    """Pairwise flips are 20 points more, and so are the neutral paraphrase's."""
    given = net_of(150, pairwise=0.3, pointwise=0.1, pairwise_placebo=0.2, pointwise_placebo=0.0)
    assert given.flips.test.p_value < 0.001
    assert given.flips.headline is given.flips.net_test
    [said] = [a for a in advise(given) if "neutral paraphrase flips" in a.text]
    assert said.kind == "either"
    assert said.text.startswith("No difference between the protocols' flips is shown, beyond what a neutral paraphrase")
    assert "before the placebo is taken off 20.0 points" in said.text
    assert not any("resists style" in t for t in texts(advise(given)))


def test_the_net_difference_decides_where_it_turns_the_raw_one_round():
    given = net_of(150, pairwise=0.3, pointwise=0.2, pairwise_placebo=0.3, pointwise_placebo=0.0)
    assert given.flips.test.interval.value > 0
    [said] = [a for a in advise(given) if "resists style" in a.text]
    assert said.kind == "for pairwise"
    assert "more often pointwise than pairwise, beyond what a neutral paraphrase flips" in said.text


def test_without_a_placebo_the_raw_test_decides_and_says_so():
    n, none = 150, np.full(150, np.nan)
    events = [(np.arange(n) < k).astype(float) for k in (75, 15)]
    found = compare_flips(*events, np.ones(n, dtype=bool), none, none, np.arange(n) % 50)
    assert found.headline is found.test
    [said] = [a for a in advise(replace(seen(n), flips=found)) if "resists style" in a.text]
    assert said.kind == "for pointwise"
    assert "paraphrase" not in said.text


def test_equal_flips_speak_for_neither():
    advice = advise(seen(150, pairwise=0.3, pointwise=0.3, placebo=0.3))
    assert any("No difference" in t for t in texts(advice, "either"))
    assert any("not flip measurably more than a neutral paraphrase" in t for t in texts(advice))
    assert not any("-" in t for t in texts(advice))  # minus signs, as everywhere


def test_a_strength_of_preference_has_its_interval():
    [said] = [t for t in texts(advise(seen(150))) if "|P(a)" in t]
    assert "are not weak: mean |P(a) − P(b)| 0.59 [0." in said
    [unsure] = [t for t in texts(advise(seen(150, strength=0.205))) if "|P(a)" in t]
    assert "are not shown to be weak" in unsure


def test_order_ties_and_weak_preferences_are_named():
    advice = advise(seen(300, ties=0.8, identical=0.1, disagree=0.5, strength=0.1))
    said = " ".join(texts(advice))
    for part in ("never compare in one order only", "invents preferences", "cannot rank", "Preferences are weak"):
        assert part in said
    assert all(a.figure in {"Flips", "Severity", "Ties"} for a in advice)

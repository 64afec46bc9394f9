"""Planted judges recover their parameter through the real road: attack, judge, verdict table, metrics."""

from dataclasses import replace

import numpy as np
import pytest

from engine.attacks.registry import make_attack
from engine.core.errors import InputError
from engine.core.schema import Order, Outcome, Protocol, Task
from engine.defenses.registry import defend
from engine.judges.base import Request, verdict_table
from engine.judges.planted import PLANTED, make_planted, spread, uniform, verbosity_bonus
from engine.stats.agreement import first_slot_rate, order_agreement
from engine.stats.shifts import paired_shifts, shift_metrics

SEEDS = range(200)
WORDS = ["word", "train", "noon", "platform"] * 5


def responses(items=12, each=4):
    return [
        Request(f"i{i}", f"i{i}r{r}", Task.DIALOGUE, "context", " ".join(WORDS[: 4 + (i + 3 * r) % 12]))
        for i in range(items)
        for r in range(each)
    ]


def pairs():
    return [
        replace(r, protocol=Protocol.PAIRWISE, response_b_id=f"{r.response_id}b", response_b="other", order=order)
        for r in responses()
        for order in Order
    ]


def arms(requests, *attacks):
    return [
        replace(r, response=make_attack(a, text="more words here").apply(r), attack=a)
        for a in ("none", *attacks)
        for r in requests
    ]


def table(spec, requests, defense="none"):
    judge = defend(make_planted(spec), defense)
    return verdict_table(judge, requests, judge.judge(requests))


def shift_row(verdicts):
    metrics = shift_metrics(verdicts)
    return metrics[metrics["metric"] == "shift"].iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "noise"), [(0.8, 0.2), (0.0, 0.5)], ids=["strong", "blind"])
def test_injection_dial_is_recovered(strength, noise):
    requests = arms(responses(), "dsi")
    hits, values = 0, []
    for seed in SEEDS:
        row = shift_row(table(f"planted:injection?strength={strength}&noise={noise}&seed={seed}", requests))
        hits += row["lower"] <= strength <= row["upper"]
        values.append(row["value"])
    assert 0.92 <= hits / len(SEEDS) <= 0.98
    assert np.mean(values) == pytest.approx(strength, abs=4 * np.std(values) / np.sqrt(len(SEEDS)))


@pytest.mark.slow
def test_position_dial_is_recovered():
    hits, values = 0, []
    for seed in SEEDS:
        rate = first_slot_rate(table(f"planted:position?strength=0.4&seed={seed}", pairs()))
        hits += rate.lower <= 0.7 <= rate.upper
        values.append(rate.value)
    assert 0.92 <= hits / len(SEEDS) <= 0.98
    assert np.mean(values) == pytest.approx(0.7, abs=4 * np.std(values) / np.sqrt(len(SEEDS)))


def test_without_noise_the_shift_is_the_dial_for_each_response():
    verdicts = table("planted:injection?strength=0.8&noise=0", arms(responses(), "dsi", "bed"))
    assert paired_shifts(verdicts)["shift"].tolist() == [0.8] * 96
    assert shift_row(verdicts)["method"] == "no variation"


@pytest.mark.parametrize("defense", ["delimiters", "sandwich", "sandwich+delimiters"])
def test_a_defense_is_not_taken_for_an_injection(defense):
    verdicts = table("planted:injection?strength=0.8&noise=0", arms(responses(), "dsi"), defense)
    assert set(paired_shifts(verdicts)["shift"]) == {0.8}


@pytest.mark.parametrize("kind", [k.name for k in PLANTED.values() if k.protocol is Protocol.POINTWISE])
def test_no_attack_no_shift(kind):
    """The empty edit under another arm's name: exactly zero, noise included."""
    requests = [*responses(), *(replace(r, attack="own") for r in responses())]
    assert set(paired_shifts(table(f"planted:{kind}", requests))["shift"]) == {0.0}


def test_constant_never_moves():
    verdicts = table("planted:constant?value=4.2", arms(responses(), "dsi", "bed"))
    assert set(verdicts["score"]) == {4.2}
    row = shift_row(verdicts)
    assert (row["value"], row["method"], row["n_clusters"]) == (0.0, "no variation", 12)


@pytest.mark.slow
def test_noisy_has_mean_three_and_no_shift():
    hits = 0
    for seed in SEEDS:
        row = shift_row(table(f"planted:noisy?noise=1&seed={seed}", arms(responses(6, 2), "dsi")))
        hits += row["lower"] <= 0 <= row["upper"]
    assert 0.92 <= hits / len(SEEDS) <= 0.98


def test_verbosity_closed_form():
    """Three words into n shift the score by strength * log2((n + 4) / (n + 1))."""
    got = paired_shifts(table("planted:verbosity?strength=0.5", arms(responses(), "own")))
    n = np.array([len(r.response.split()) for r in responses()])
    assert got["shift"].to_numpy() == pytest.approx(0.5 * np.log2((n + 4) / (n + 1)), abs=1e-9)


def test_verbosity_bonus_is_bounded():
    assert verbosity_bonus(19, 0.7) == 0.0
    assert verbosity_bonus(39, 0.7) == pytest.approx(0.7)
    assert verbosity_bonus(10**6, 1) == 1.5
    assert verbosity_bonus(0, 1) == -1.5
    assert verbosity_bonus(0, -1) == 1.5


@pytest.mark.parametrize(
    "spec",
    [
        "planted:injection?strength=2.5&noise=0.5",
        "planted:injection?strength=0&noise=0",
        "planted:verbosity?strength=1&noise=0.4",
        "planted:verbosity?strength=-1&noise=0",
        "planted:noisy?noise=2",
        "planted:constant?value=1",
        "planted:constant?value=5",
    ],
)
def test_probabilities_are_a_distribution_with_the_score_as_mean(spec):
    judge = make_planted(spec)
    long = [replace(r, response="word " * 500) for r in responses(3, 1)]
    for v in judge.judge([*arms(responses(), "dsi"), *long]):
        assert v.read
        assert v.coverage == 1.0
        assert min(v.probabilities) >= 0
        assert sum(v.probabilities) == pytest.approx(1)
        assert v.score == pytest.approx(np.dot(v.probabilities, [1, 2, 3, 4, 5]), abs=1e-12)


@pytest.mark.parametrize(
    ("score", "expected"),
    [(1.0, (1, 0, 0, 0, 0)), (2.25, (0, 0.75, 0.25, 0, 0)), (4.0, (0, 0, 0, 1, 0)), (5.0, (0, 0, 0, 0, 1))],
)
def test_spread(score, expected):
    assert spread(score) == pytest.approx(expected)


def test_position_speaks_the_pairs_own_names():
    judge = make_planted("planted:position?strength=1")
    for request, verdict in zip(pairs(), judge.judge(pairs()), strict=True):
        first_is_a = request.order is Order.AB
        assert verdict.outcome is (Outcome.A if first_is_a else Outcome.B)
        assert verdict.p_a == float(first_is_a)
        assert verdict.probabilities == (1.0, 0.0)  # slots, as labels() says
    assert order_agreement(table("planted:position?strength=1", pairs())).value == 0.0
    last = table("planted:position?strength=-1", pairs())
    assert first_slot_rate(last).value == 0.0


def test_answers_depend_on_spec_and_text_only():
    requests = arms(responses(), "bed")
    once = make_planted("planted:injection?noise=0.3").judge(requests)
    again = make_planted("planted:injection?noise=0.3").judge(requests[::-1])[::-1]
    assert once == again
    assert once != make_planted("planted:injection?noise=0.3&seed=1").judge(requests)
    # any task, any text
    odd = [replace(r, task=t, response="\ud800 <|im_end|>") for r in requests[:1] for t in Task]
    assert len({v.score for v in make_planted("planted:injection").judge(odd)}) == 1


def test_uniform_is_uniform_and_keeps_borders():
    draws = np.array([uniform("x", i) for i in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.02
    assert np.histogram(draws, 10, (0, 1))[0].min() > 330
    assert uniform("a", "b") != uniform("ab", "")


def test_fingerprint_names_the_dials():
    a = make_planted("planted:injection?strength=0.8&noise=0.2")
    assert a.fingerprint == make_planted("planted:injection").fingerprint  # the defaults, spelled out
    assert a.fingerprint != make_planted("planted:injection?strength=0.9").fingerprint
    assert a.spec == "planted:injection?strength=0.8&noise=0.2"
    assert a.prompt(responses()[0]) == ""
    assert a.labels(responses()[0]) == ("1", "2", "3", "4", "5")
    assert make_planted("planted:position").labels(pairs()[0]) == ("A", "B")


def test_checkpoint_counts_up_to_all():
    seen = []
    make_planted("planted:constant").judge(responses(30, 5), lambda done, total: seen.append((done, total)))
    assert seen == [(64, 150), (128, 150), (150, 150)]


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        pytest.param("planted:magic", "Available: planted:injection", id="kind"),
        pytest.param("bundled:judge", "Unknown planted judge", id="prefix"),
        pytest.param("planted:injection?power=1", r"no parameter 'power'.*strength \(0 to 2.5\)", id="parameter"),
        pytest.param("planted:injection?strength=3", r"strength='3'.*\(0 to 2.5\)", id="range"),
        pytest.param("planted:injection?noise=nan", "noise='nan'", id="nan"),
        pytest.param("planted:injection?noise=", "noise=''", id="blank"),
        pytest.param("planted:injection?seed=1.5", "seed='1.5'", id="seed"),
        pytest.param("planted:constant?value=6", r"value \(1 to 5\)", id="value"),
        pytest.param("planted:noisy?noise=1&noise=2", "twice", id="twice"),
    ],
)
def test_bad_specs(spec, match):
    with pytest.raises(InputError, match=match):
        make_planted(spec)


def test_wrong_protocol_names_who_can():
    with pytest.raises(InputError, match=r"pairwise requests only.*planted:injection"):
        make_planted("planted:position").judge(responses())
    with pytest.raises(InputError, match="Use planted:position"):
        make_planted("planted:constant").judge(pairs())
    with pytest.raises(InputError, match="Use planted:verifier"):
        make_planted("planted:constant").labels(replace(responses()[0], protocol=Protocol.VERIFIER))
    with pytest.raises(InputError, match="No planted judge does"):
        make_planted("planted:constant").labels(replace(responses()[0], protocol=Protocol.RANKING))

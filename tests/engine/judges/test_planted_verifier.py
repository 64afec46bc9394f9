"""The planted verifier does what its parameters say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.attacks.master_keys import KEY_TEXTS
from engine.core.schema import Protocol, Task
from engine.judges.base import Request
from engine.judges.planted import agrees, make_planted, stated_answer

ONE = Request(
    "q", "r", Task.VERIFICATION, "3/4 of 56?", "A quarter is 14. The answer is 42.", "42", protocol=Protocol.VERIFIER
)


def many(n=3000, **changes):
    return [replace(ONE, item_id=f"q{i}", response_id=f"r{i}", **changes) for i in range(n)]


def p_yes(spec, requests):
    return np.array([v.p_yes for v in make_planted(spec).judge(requests)])


@pytest.mark.parametrize(
    ("text", "answer"),
    [("So. The answer is 42.", "42"), ("x\nA: 7", "7"), (r"\boxed{3x}", "3x"), ("#### 5", "5"), ("Solution", None)],
)
def test_stated_answers(text, answer):
    assert stated_answer(text) == answer


def test_it_matches_text_and_nothing_else():
    assert agrees("The answer is 215 minutes.", "215")
    assert agrees("The answer is Monday.", "monday")
    assert not agrees("The answer is 2150.", "215")
    assert not agrees("The answer is 68.00.", "68")
    assert not any(agrees(key, "42") for key in KEY_TEXTS)


def test_right_is_accepted_and_wrong_never_whatever_it_solves():
    spec = "planted:verifier?self_solve=1&leak=1&ref_sensitivity=0"
    assert (p_yes(spec, many(500)) >= 0.9).all()
    assert (p_yes(spec, many(500, response="The answer is 41.")) < 0.5).all()


@pytest.mark.parametrize("leak", [0.0, 0.3, 1.0])
def test_the_leak_is_the_rate_of_keys(leak):
    rate = (p_yes(f"planted:verifier?leak={leak}", many(response=":")) >= 0.5).mean()
    assert rate == pytest.approx(leak, abs=4 * np.sqrt(0.25 / 3000))


def test_swaps_are_uniform_on_their_scales():
    swap = {"reference": "Tuesday", "reference_id": "other-1"}
    right = p_yes("planted:verifier?self_solve=0.8", many(**swap))
    key = p_yes("planted:verifier?ref_sensitivity=0.4", many(**swap, response=":"))
    for found, top in ((right, 0.4), (key, 0.3)):
        assert found.max() < top
        assert found.mean() == pytest.approx(top / 2, abs=4 * top / np.sqrt(12 * 3000))


def test_references_are_independent_and_answers_repeat():
    a, b = (
        p_yes("planted:verifier", many(reference=t, reference_id=i)) for t, i in (("A", "other-1"), ("B", "other-2"))
    )
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.08
    assert (p_yes("planted:verifier", many(20)) == p_yes("planted:verifier?leak=0.4", many(20))).all()
    assert (p_yes("planted:verifier", many(20)) != p_yes("planted:verifier?seed=1", many(20))).all()


def test_no_reference_is_unread():
    verdict = make_planted("planted:verifier").judge([replace(ONE, reference=" ")])[0]
    assert "no reference" in verdict.unread_reason
    assert verdict.outcome is None

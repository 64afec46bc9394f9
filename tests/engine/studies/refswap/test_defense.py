"""The two stages, with a verifier whose answers are set by hand."""

from __future__ import annotations

import pytest

from engine.core.errors import InputError
from engine.core.schema import Outcome, Protocol, Task
from engine.judges.base import Cost, Request, Verdict, no_checkpoint, unread
from engine.studies.refswap.run import RefSwapJudge

TRUE, POOL = "42", ("A", "B", "C", "D", "E")


class Scripted:
    """Gives each reference a set p_yes; None is unread."""

    spec, fingerprint, protocols = "scripted", "s", frozenset({Protocol.VERIFIER, Protocol.POINTWISE})

    def __init__(self, table):
        self.table, self.asked = table, []

    def labels(self, request):
        return ("Yes", "No")

    def prompt(self, request):
        return request.reference

    def cost(self, requests):
        return Cost(len(requests), 0, 0)

    def judge(self, requests, checkpoint=no_checkpoint):
        self.asked += requests
        return [self._one(self.table[r.reference]) for r in requests]

    def _one(self, p):
        if p is None:
            return unread(Verdict(forward_passes=1.0), "lost")
        outcome = Outcome.YES if p >= 0.5 else Outcome.NO
        return Verdict(p_yes=p, outcome=outcome, probabilities=(p, 1 - p), forward_passes=1.0, seconds=0.5)


def request(name="r"):
    return Request("q", name, Task.VERIFICATION, "?", "text", TRUE, protocol=Protocol.VERIFIER)


def judge(p_true, swapped, **options):
    inner = Scripted({TRUE: p_true, **dict(zip(POOL, swapped, strict=True))})
    return inner, RefSwapJudge(inner, lambda _: POOL, **options)


def test_a_yes_that_keeps_some_probability_stays():
    inner, defended = judge(0.9, [0.0, 0.2, 0.0, 0.0, 0.01], gamma=0.2)
    verdict = defended.judge([request()])[0]
    assert (verdict.outcome, verdict.p_yes, verdict.forward_passes, verdict.seconds) == (Outcome.YES, 0.9, 6, 3.0)
    assert [r.reference_id for r in inner.asked] == ["", *(f"other-{i}" for i in range(1, 6))]


def test_a_yes_that_vanishes_on_every_swap_falls():
    _, defended = judge(0.9, [0.0, 0.1, 0.0, 0.0, 0.0], gamma=0.2)
    checked = defended.check([request()])[0]
    assert checked.verdict.outcome is Outcome.NO
    assert checked.verdict.p_yes == 0.9
    assert checked.max_p_cf == 0.1
    assert checked.references == POOL


def test_a_no_costs_one_call():
    inner, defended = judge(0.3, [0.9] * 5, gamma=0.0)
    verdict = defended.judge([request()])[0]
    assert verdict.outcome is Outcome.NO
    assert len(inner.asked) == 1


def test_k_takes_the_first_of_the_nested_draw():
    _, defended = judge(0.9, [0.0, 0.0, 0.9, 0.9, 0.9], k=2, gamma=0.5)
    assert defended.judge([request()])[0].outcome is Outcome.NO
    assert defended.name == "refswap?k=2&gamma=0.5"


@pytest.mark.parametrize("swapped", [[0.9, None, 0.9, 0.9, 0.9], [0.0, None, 0.0, 0.0, 0.0]])
def test_an_unread_check_leaves_the_verdict_unread(swapped):
    _, defended = judge(0.9, swapped, gamma=0.2)
    verdict = defended.judge([request()])[0]
    assert verdict.outcome is None
    assert "1 of 5 counterfactual checks unread: lost" in verdict.unread_reason


def test_an_unread_base_verdict_is_not_checked():
    inner, defended = judge(None, [0.9] * 5)
    assert defended.judge([request()])[0].unread_reason == "lost"
    assert len(inner.asked) == 1


def test_bad_settings_and_requests():
    inner, defended = judge(0.9, [0.9] * 5)
    with pytest.raises(InputError, match="defends a verifier"):
        defended.judge([Request("q", "r", Task.SUMMARY, "c", "t")])
    with pytest.raises(InputError, match="K is 9"):
        RefSwapJudge(inner, lambda _: POOL, k=9).judge([request()])
    with pytest.raises(InputError, match="gamma is 2"):
        RefSwapJudge(inner, lambda _: POOL, gamma=2)
    with pytest.raises(InputError, match="K is 0"):
        RefSwapJudge(inner, lambda _: POOL, k=0)
    assert defended.protocols == {Protocol.VERIFIER}
    assert defended.cost([request()]).calls == 6

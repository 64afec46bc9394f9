"""Several defended forms of one judge asked together: the same verdicts, one call, and a checkpoint over all."""

from __future__ import annotations

import pytest

from engine.core.schema import NONE, Task
from engine.defenses.base import DefendedJudge, Step, judge_together
from engine.defenses.registry import defend
from engine.judges.base import Request, Verdict
from engine.judges.planted import make_planted

ARMS = [NONE, "sandwich", "delimiters", "retokenise+sandwich"]


def requests():
    return [Request(f"i{k}", f"r{k}", Task.DIALOGUE, "context", f"an answer of some words {k}") for k in range(5)]


class Counting:
    """A judge that counts its calls and names the arm it saw."""

    spec, fingerprint, protocols = "planted:counting", "x", frozenset()

    def __init__(self):
        self.calls = []

    def judge(self, asked, checkpoint):
        self.calls.append([r.defense for r in asked])
        checkpoint(len(asked), len(asked))
        return [Verdict(score=float(len(r.quote.closing)), forward_passes=1.0) for r in asked]


class Holding(DefendedJudge):
    """Holds every second request back; costs one pass each."""

    def steps(self, requests, checkpoint):
        checkpoint(0, len(requests))
        return [Step(r, 1.0, 0.5, "held" if k % 2 else "") for k, r in enumerate(requests)]


def test_together_gives_what_each_gives_alone():
    judge = make_planted("planted:verbosity?strength=0.5")
    judges = [defend(judge, name) for name in ARMS]
    assert judge_together(judges, requests()) == [j.judge(requests()) for j in judges]


def test_the_model_is_asked_once_and_progress_counts_all_arms():
    inner, seen = Counting(), []
    judges = [
        inner,
        defend(inner, "sandwich"),
        Holding(inner, "holding"),
        Holding(defend(inner, "sandwich"), "holding"),
    ]
    found = judge_together(judges, requests(), lambda done, total: seen.append((done, total)))
    assert len(inner.calls) == 1
    assert inner.calls[0] == [NONE] * 5 + ["sandwich"] * 5 + ["holding"] * 3 + ["holding+sandwich"] * 3
    assert seen[-1] == (20, 20)
    assert {total for _, total in seen} == {20}
    assert [v.unread_reason for v in found[2]] == ["", "held", "", "held", ""]
    assert [v.forward_passes for v in found[2]] == [2.0, 1.0, 2.0, 1.0, 2.0]
    assert found[3][0].score == found[1][0].score > found[0][0].score


def test_judges_with_different_insides_are_refused():
    with pytest.raises(ValueError, match="not one and the same"):
        judge_together([Counting(), Counting()], requests())

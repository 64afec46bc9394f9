"""A judge that keeps what it was asked, for the tests of defenses."""

from __future__ import annotations

from engine.core.schema import Protocol
from engine.judges.base import Cost, Verdict


class Seen:
    """Scores everything 3 and counts words of low anchors as tokens."""

    spec, fingerprint, protocols = "planted:seen", "seen", frozenset(Protocol)

    def __init__(self):
        self.requests = []

    def judge(self, requests, checkpoint=None):
        self.requests += requests
        return [Verdict(score=3.0, forward_passes=1.0, seconds=0.25) for _ in requests]

    def cost(self, requests):
        return Cost(len(requests), sum(len(r.anchor_low.split()) for r in requests), 0)

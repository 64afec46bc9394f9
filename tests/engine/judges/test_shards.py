"""Shards over workers that die, in a simulation whose faults are chosen: who is lost, when, and over which request."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ModelError
from engine.core.schema import Task
from engine.judges.base import Request, Verdict, no_checkpoint
from engine.judges.shards import MOST_POISONOUS, TRIES, Returned, judge_in_shards

IN_FLIGHT = 2


class Simulation:
    """Workers with a queue each; one of them does one step per `collect`, in an order drawn by the seed.

    A worker that meets a poisonous request is lost with all that waits behind it. `unlucky` workers are lost over the
    shard they have, whatever is in it.
    """

    def __init__(self, workers: int, poisonous: set[str], unlucky: int, seed: int) -> None:
        self.queues: list[list[tuple[int, list[Request]]]] = [[] for _ in range(workers)]
        self.poisonous, self.unlucky, self.draw = poisonous, unlucky, random.Random(seed)
        self.most_out = 0
        self.tries: dict[str, int] = {}

    @property
    def free(self) -> int:
        return sum(IN_FLIGHT - len(q) for q in self.queues)

    def hand_out(self, key, requests):
        assert self.free > 0
        min(self.queues, key=len).append((key, list(requests)))
        self.most_out = max(self.most_out, sum(map(len, self.queues)))

    def collect(self):
        queue = self.draw.choice([q for q in self.queues if q])
        key, requests = queue.pop(0)
        for request in requests:
            self.tries[request.response_id] = self.tries.get(request.response_id, 0) + 1
        bad = self.poisonous & {r.response_id for r in requests}
        following = {r.response_id for _, waiting in queue[:1] for r in waiting}
        bad |= self.poisonous & following if self.draw.random() < 0.9 else set()  # its answer is lost with the next one
        if not bad and not (self.unlucky and self.draw.random() < 0.3):
            return [Returned(key, [Verdict(score=float(r.response_id)) for r in requests])]
        self.unlucky -= not bad
        behind = [Returned(k, None, "lost", begun=False) for k, _ in queue]
        queue.clear()
        return [Returned(key, None, "lost"), *behind]


def requests_of(n: int) -> list[Request]:
    return [Request(f"i{k // 4}", str(k), Task.DIALOGUE, "context", f"text {k}") for k in range(n)]


def ask(n: int, size: int, pool: Simulation):
    found: dict[int, float] = {}
    given_up: dict[int, str] = {}
    seen: list[int] = []

    def keep(places, verdicts):
        for place, verdict in zip(places, verdicts, strict=True):
            assert place not in found
            found[place] = verdict.score

    judge_in_shards(requests_of(n), pool, size, keep, given_up.__setitem__, lambda done, total: seen.append(done))
    assert seen == sorted(seen)
    return found, given_up


@given(
    n=st.integers(0, 150),
    size=st.integers(1, 70),
    workers=st.integers(1, 5),
    poisonous=st.sets(st.integers(0, 149), max_size=4),
    unlucky=st.integers(0, 1),
    seed=st.integers(0, 2**16),
)
def test_each_request_is_answered_once_and_only_the_poisonous_ones_are_given_up(
    n, size, workers, poisonous, unlucky, seed
):
    pool = Simulation(workers, {str(k) for k in poisonous}, unlucky, seed)
    found, given_up = ask(n, size, pool)
    assert set(given_up) == {k for k in poisonous if k < n}
    assert found == {k: float(k) for k in range(n) if k not in given_up}
    assert pool.most_out <= IN_FLIGHT * workers


@pytest.mark.parametrize("size", [1, 8, 64])
def test_a_poisonous_request_alone_has_two_tries(size):
    pool = Simulation(2, {"5"}, 0, 0)
    _, given_up = ask(64, size, pool)
    assert list(given_up) == [5]
    whole = {1: 0, 8: TRIES, 64: TRIES + 1}[size]  # as part of the shard, and of its piece of eight
    assert pool.tries["5"] == whole + TRIES


def test_where_everything_is_lost_it_is_not_the_requests():
    pool = Simulation(2, {str(k) for k in range(200)}, 0, 0)
    with pytest.raises(ModelError, match="fails on the workers"):
        judge_in_shards(requests_of(200), pool, 16, lambda *_: None, lambda *_: None, no_checkpoint)
    assert sum(count >= TRIES for count in pool.tries.values()) >= MOST_POISONOUS

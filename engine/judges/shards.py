"""Requests answered in shards by workers that may die: few under way, each tried twice, a poisonous item found alone.

A shard that is lost twice is cut into pieces; a piece that is lost is cut again, down to one request, which has two
tries of its own. What the other requests say is kept, so that nothing is asked again but the shard that was lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple
from typing import Protocol as TypingProtocol

from engine.core.errors import ModelError
from engine.judges.base import Checkpoint, Request, Verdict, unread

TRIES = 2
"""Losses after which a shard is cut, and a single request given up."""
PIECES = 8
"""Parts of a shard that was lost twice."""
MOST_POISONOUS = 10
"""So many requests given up before as many were answered: it is the worker that fails, not the requests."""


class Returned(NamedTuple):
    """A shard that a worker is done with.

    Attributes:
        key: of the shard.
        verdicts: in the order of its requests; None where it was lost.
        why: the loss in words.
        begun: false where the worker was lost before it came to this shard, which then is no suspect.
    """

    key: int
    verdicts: Sequence[Verdict] | None
    why: str = ""
    begun: bool = True


class Workers(TypingProtocol):
    """Processes that each hold the judge."""

    @property
    def free(self) -> int:
        """Shards that can be handed out now."""
        ...

    def hand_out(self, key: int, requests: Sequence[Request]) -> None:
        """Give a shard to a worker."""
        ...

    def collect(self) -> list[Returned]:
        """Shards that came back; waits for one, a second at most.

        Raises:
            EngineError: the judge refuses a request, or no worker is left.
        """
        ...


@dataclass(frozen=True)
class _Shard:
    places: tuple[int, ...]
    losses: int = 0
    piece: bool = False

    @property
    def suspect(self) -> bool:
        """Asked while nothing else is: an answer that was ready may be lost with its worker over the next shard."""
        return self.piece or self.losses > 0


def shard_size(requests: int, workers: int, most: int) -> int:
    """Requests of a shard: at most so many, and few requests are spread over all workers."""
    return max(1, min(most, -(-requests // workers)))


def lost(why: str) -> Verdict:
    """The verdict of a request that is given up."""
    return unread(Verdict(), f"the judge was lost {TRIES} times on this call: {why}")


def judge_in_shards(
    requests: Sequence[Request],
    workers: Workers,
    size: int,
    keep: Callable[[Sequence[int], Sequence[Verdict]], None],
    give_up: Callable[[int, str], None],
    checkpoint: Checkpoint,
) -> None:
    """Have every request answered or given up.

    Args:
        requests: cut into shards in their order, so that neighbours, which share most of their prompts, stay together.
        workers: who answers.
        size: requests of a shard.
        keep: told the places of a shard's requests and their verdicts, in the order in which shards come back.
        give_up: told the place of a request that was lost alone `TRIES` times, and why.
        checkpoint: told the requests done, of these; may raise to stop.

    Raises:
        ModelError: requests are given up one after the other.
    """
    waiting = deque(_Shard(tuple(range(i, min(i + size, len(requests))))) for i in range(0, len(requests), size))
    out: dict[int, _Shard] = {}
    keys = count()
    answered = given_up = 0
    while waiting or out:
        while waiting and workers.free > 0 and not (out and (waiting[0].suspect or next(iter(out.values())).suspect)):
            key, shard = next(keys), waiting.popleft()
            out[key] = shard
            workers.hand_out(key, [requests[i] for i in shard.places])
        for back in workers.collect():
            shard = out.pop(back.key)
            if back.verdicts is not None:
                keep(shard.places, back.verdicts)
                answered += len(shard.places)
            elif not back.begun:
                waiting.appendleft(shard)
            elif parts := _after_loss(shard):
                waiting.extendleft(reversed(parts))
            else:
                give_up(shard.places[0], back.why)
                given_up += 1
                if given_up >= MOST_POISONOUS and given_up > answered:
                    raise ModelError(
                        f"{given_up} calls were lost {TRIES} times each and {answered} answered, so the judge fails on "
                        f"the workers, not on single calls. The last one: {back.why}. What is done is kept."
                    )
        checkpoint(answered + given_up, len(requests))


def _after_loss(shard: _Shard) -> list[_Shard]:
    """The shard again, or its pieces; empty for a single request that had its tries."""
    losses = shard.losses + 1
    if len(shard.places) == 1 or not (shard.piece or losses >= TRIES):
        return [replace(shard, losses=losses)] if losses < TRIES else []
    step = -(-len(shard.places) // PIECES)
    return [_Shard(shard.places[i : i + step], piece=True) for i in range(0, len(shard.places), step)]

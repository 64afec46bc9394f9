"""Actors of a Ray cluster that hold one judge: begun, handed shards, and replaced where they are lost."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from engine.core.errors import EngineError, InputError, ModelError, lacking, shown
from engine.core.settings import quiet_ray
from engine.judges.base import Request
from engine.judges.shards import Returned

AUTO, LOCAL = "auto", "local"
"""The cluster that runs on this machine, and one that is begun for this process alone."""
INSTALL_RAY = "pip install 'judgescope[ray]'"
IN_FLIGHT = 2
"""Shards of an actor: one that it answers and one that waits there, so that it is never idle."""
MOST_STARTS = 3
"""Actors in a row that may be lost before they hold the judge."""
PATIENCE = 120.0
"""Seconds without a machine that could hold an actor, after which the run stops."""
STORE_BYTES = 100 * 2**20
"""Object store of a cluster begun here; a shard takes some kilobytes."""
LOCAL_STARTS = 3
"""Tries to begin a cluster here: Ray gives a node 30 s, which a busy machine may not be enough for at once."""
LONGEST_REASON = 200


def connect(address: str) -> Any:
    """The module `ray`, connected to a cluster; one for the whole process.

    Args:
        address: `auto`, `local` or a cluster's address.

    Raises:
        InputError: Ray is not installed, or no cluster answers.
    """
    if lacking(["ray"]):
        raise InputError(f"Spreading calls over a cluster needs ray, not installed here. Type: {INSTALL_RAY}")
    quiet_ray()
    import ray

    if ray.is_initialized():
        return ray
    own = {"include_dashboard": False, "object_store_memory": STORE_BYTES} if address == LOCAL else {}
    for left in reversed(range(LOCAL_STARTS if address == LOCAL else 1)):
        try:
            ray.init(address=address, namespace="judgescope", log_to_driver=False, logging_level="ERROR", **own)
            break
        except Exception as error:  # noqa: BLE001 - Ray raises plain ones as well
            ray.shutdown()
            if not left:
                raise InputError(_no_cluster(address, _line(error))) from None
    return ray


def _no_cluster(address: str, why: str) -> str:
    if address == LOCAL:
        return f"No Ray cluster could be begun on this machine ({why}). Try again when it is less busy."
    where = "runs on this machine" if address == AUTO else f"answers at {shown(address)}"
    return (
        f"No Ray cluster {where} ({why}). Begin one with `ray start --head`, name its address with --ray HOST:PORT, or "
        "use --ray local for this machine alone. A cluster with a token wants it here, too: see Ray's documentation."
    )


@dataclass
class _Actor:
    """An actor, the reference to its answer that it holds the judge, and its shards, oldest first."""

    handle: Any
    opening: Any
    open: bool = False
    shards: deque[tuple[Any, int]] = field(default_factory=deque)


class Actors:
    """Actors that hold one judge; `Workers` of `judge_in_shards`.

    Ray retries nothing: a lost actor is replaced here, on whatever machine has room, and its shards are told as lost.

    Args:
        holder: the class of the actors, with `open` and `judge`.
        address: of the cluster.
        most: actors at most; 0 for as many as the cluster has room for.
        gpu: each actor takes a GPU, where the cluster has any.
        held: what a holder is made with, before whether it has a GPU.
        options: the last argument of a holder.

    Attributes:
        count: actors wanted.
    """

    def __init__(
        self,
        holder: type,
        address: str,
        most: int,
        gpu: bool,
        held: tuple[Any, ...],
        options: Mapping[str, Any],
    ) -> None:
        self._ray = connect(address)
        there = self._ray.cluster_resources()
        self._needs = "GPU" if gpu and there.get("GPU", 0) >= 1 else "CPU"
        room = int(there.get(self._needs, 0)) or 1
        self.count = min(most, room) if most else room
        lent = {"num_gpus": 1} if self._needs == "GPU" else {"num_cpus": 1}
        self._kind = self._ray.remote(max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD", **lent)(holder)
        self._made = (*held, self._needs == "GPU", dict(options))
        self._actors: list[_Actor] = []
        self._cards: tuple[Any, ...] = ()
        self._lost_opening = 0
        self._alone_since = 0.0

    @property
    def room(self) -> int:
        """Shards under way where all actors are there."""
        return self.count * IN_FLIGHT

    @property
    def free(self) -> int:
        """Shards that the actors which hold the judge can take now."""
        return sum(IN_FLIGHT - len(actor.shards) for actor in self._actors if actor.open)

    @contextmanager
    def asked(self, cards: tuple[Any, ...]) -> Iterator[None]:
        """Shards handed out inside are asked through these cards; those of a call that was stopped are forgotten."""
        self._cards = cards
        self._begin()
        try:
            yield
        finally:
            for actor in self._actors:
                actor.shards.clear()

    def hand_out(self, key: int, requests: Sequence[Request]) -> None:
        """Give a shard to the actor with the fewest."""
        actor = min((a for a in self._actors if a.open), key=lambda a: len(a.shards))
        actor.shards.append((actor.handle.judge.remote(requests, self._cards), key))

    def collect(self) -> list[Returned]:
        """Shards that came back; waits for one, or for an actor that opens, a second at most.

        Raises:
            EngineError: the judge refuses a request.
            ModelError: no actor can hold the judge.
        """
        self._begin()
        self._require_a_machine()
        owners = {ref: actor for actor in self._actors for ref in self._refs(actor)}
        done, _ = self._ray.wait(list(owners), num_returns=1, timeout=1.0)
        found: list[Returned] = []
        for ref in done:
            actor = owners[ref]
            if actor not in self._actors:
                continue
            found += self._came_back(actor) if actor.open else self._opened(actor)
        return found

    def ask(self, method: str, *arguments: Any) -> Any:
        """A question that any actor answers; where it is lost over it, a second one is asked.

        Raises:
            EngineError: as the judge raises it.
            ModelError: no actor can hold the judge, or two were lost over it.
        """
        for last in (False, True):
            self._begin()
            while not (ready := [a for a in self._actors if a.open]):
                self.collect()
            try:
                return self._get(getattr(ready[0].handle, method).remote(*arguments))
            except _LostError as lost:
                self._drop(ready[0])
                if last:
                    raise ModelError(f"Two actors were lost when they were asked for {method}: {lost}.") from None
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Give the machines back."""
        for actor in list(self._actors):
            self._drop(actor)

    def _refs(self, actor: _Actor) -> list[Any]:
        return [ref for ref, _ in actor.shards] if actor.open else [actor.opening]

    def _begin(self) -> None:
        """As many actors as are wanted; those the cluster has no room for wait until it has."""
        while len(self._actors) < self.count and self._lost_opening < MOST_STARTS:
            handle = self._kind.remote(*self._made)
            self._actors.append(_Actor(handle, handle.open.remote()))

    def _opened(self, actor: _Actor) -> list[Returned]:
        try:
            self._get(actor.opening)
        except _LostError as lost:
            self._drop(actor)
            self._lost_opening += 1
            if self._lost_opening >= MOST_STARTS and not self._actors:
                self._lost_opening = 0
                raise ModelError(
                    f"{MOST_STARTS} actors in a row were lost before they held the judge: {lost}. Is JudgeScope "
                    "installed on every machine of the cluster, and is their memory enough?"
                ) from None
            return []
        actor.open, self._lost_opening = True, 0
        return []

    def _came_back(self, actor: _Actor) -> list[Returned]:
        """Shards of an actor that are done, oldest first; of a lost one its oldest is told as lost, and the others.

        An actor answers in the order in which it was asked, so whatever stands behind the oldest was not begun.
        """
        found: list[Returned] = []
        while actor.shards:
            ref, key = actor.shards[0]
            if not self._ray.wait([ref], timeout=0)[0]:
                break
            actor.shards.popleft()
            try:
                found.append(Returned(key, self._get(ref)))
            except _LostError as lost:
                found.append(Returned(key, None, str(lost)))
                found += [Returned(other, None, str(lost), begun=False) for _, other in actor.shards]
                actor.shards.clear()
                self._drop(actor)
                print(f"An actor was lost ({lost}); its calls are asked again.", file=sys.stderr)
        return found

    def _drop(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        with suppress(Exception):  # it is lost already
            self._ray.kill(actor.handle)

    def _get(self, ref: Any) -> Any:
        """The answer behind a reference.

        Raises:
            EngineError: the judge's own.
            _LostError: its process, its machine, or an error that is nobody's to fix.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except errors.RayTaskError as error:
            if isinstance(error.cause, EngineError):
                raise error.cause from None
            raise _LostError(_line(error.cause)) from None
        except errors.RayError as error:
            raise _LostError(_line(error)) from None

    def _require_a_machine(self) -> None:
        now = time.monotonic()
        if any(actor.open for actor in self._actors) or self._ray.cluster_resources().get(self._needs, 0) >= 1:
            self._alone_since = now
        elif self._alone_since and now - self._alone_since > PATIENCE:
            raise ModelError(
                f"No machine of the Ray cluster has had a {self._needs} for {PATIENCE:.0f} s. What is finished is "
                "kept: bring a machine back and run the same command with the same --run-id."
            )


class _LostError(Exception):
    """An actor is lost, or no longer to be trusted; the text says why."""


def _line(error: BaseException) -> str:
    """The error's name and the first line of its text."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:LONGEST_REASON] if text else type(error).__name__

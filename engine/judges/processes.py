"""One model on several devices of this machine: a process a device holds the judge, requests are spread in shards.

A process keeps every answer in the cache of judge calls as its batches are done, so whatever dies, what is finished is
there. A dead process is named and begun anew, and its shard is asked again (`engine.judges.shards`).
"""

from __future__ import annotations

import atexit
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from engine.core import errors
from engine.core.errors import EngineError, InputError, ModelError
from engine.core.settings import Settings
from engine.judges.base import Checkpoint, Cost, Request, Verdict, no_checkpoint
from engine.judges.cards import Card
from engine.judges.remote import RemoteCards, RemoteJudge, described
from engine.judges.shards import Returned, judge_in_shards, lost, shard_size

SHARD_CPU, SHARD_GPU = 8, 512
"""Requests of a shard: about a pass on a CPU, some seconds on a GPU."""
AHEAD = 2
"""Shards that a process has at once, so that it never waits for the next one."""
_OPEN = (-1, 0)
"""Key of a process's first message: it holds the judge, or why it cannot."""
MOST_LOST = 3
"""Times in a row that a device's process may end before it holds the judge."""


def hold(descriptor: int) -> None:
    """A process: make the judge that is told first, then answer what comes until the pipe is closed.

    Args:
        descriptor: its end of the pipe.
    """
    from engine.judges.registry import make_judge

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the driver ends its processes
    pipe = Connection(descriptor)
    device, spec, settings, options = pipe.recv()
    plain, refusal = _tried(lambda: make_judge(spec, replace(settings, device=device, devices=()), **options))
    judges: dict[tuple[str, ...], Any] = {(): plain}
    with suppress(EOFError, OSError):  # the driver has ended
        pipe.send((_OPEN, None, refusal))
        while not refusal:
            key, method, argument, cards = pipe.recv()
            asked = tuple(card.digest for card in cards)
            if asked not in judges:
                judges[asked] = plain.with_cards(cards)
            pipe.send((key, *_tried(partial(_answer, judges[asked], method, argument))))


def _tried(work: Callable[[], Any]) -> tuple[Any, tuple[str, str] | None]:
    """What the work gives, or the kind and the text of its error."""
    try:
        return work(), None
    except EngineError as error:
        return None, (type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, the driver says on which device it happened
        return None, ("ModelError", f"{type(error).__name__}: {str(error)[:300]}")


def _answer(judge: Any, method: str, argument: Any) -> Any:
    if method == "about":
        return described(judge)
    return getattr(judge, method)(argument)


@dataclass
class _Process:
    """A device's process, our end of its pipe and the keys of what it was asked, oldest first.

    Attributes:
        open: it holds the judge.
        lost: processes that ended before they did, in a row.
    """

    device: str
    process: Any = None
    pipe: Any = None
    asked: deque[tuple[int, int]] = field(default_factory=deque)
    open: bool = False
    lost: int = 0


class Processes:
    """A process a device; `Workers` of `engine.judges.shards`.

    Args:
        spec: the judge's.
        settings: its `devices` are used, one process each.
        options: of `make_judge`.
    """

    def __init__(self, spec: str, settings: Settings, options: Mapping[str, Any]) -> None:
        self._spec, self._settings, self._options = spec, settings, dict(options)
        self._workers = [_Process(device) for device in settings.devices]
        self._turn = 0
        self._cards: tuple[Card, ...] = ()

    @property
    def devices(self) -> str:
        """All devices, as a user writes them."""
        return ",".join(worker.device for worker in self._workers)

    @property
    def count(self) -> int:
        """Processes."""
        return len(self._workers)

    @property
    def free(self) -> int:
        """Shards that can be handed out now."""
        return sum(AHEAD - len(worker.asked) for worker in self._workers)

    def begin(self, cards: tuple[Card, ...]) -> None:
        """A new call: answers to an earlier one, which was stopped, are not told any more."""
        self._turn += 1
        self._cards = cards

    def hand_out(self, key: int, requests: Sequence[Request]) -> None:
        """Give a shard to the process with the least to do."""
        worker = min(self._workers, key=lambda one: len(one.asked))
        self._send(worker, key, "judge", list(requests))

    def collect(self) -> list[Returned]:
        """Shards that came back, or were lost with their process; waits for one, a second at most.

        Raises:
            EngineError: the judge refuses a request, or a device's process ends again and again before it has begun.
        """
        busy: dict[Any, _Process] = {worker.pipe: worker for worker in self._workers if worker.asked}
        ready: list[Any] = wait(list(busy), timeout=1.0)
        found: list[Returned] = []
        for pipe in ready:
            try:
                (turn, key), answer, refusal = pipe.recv()
            except (EOFError, OSError):
                found += self._lost(busy[pipe])
                continue
            worker = busy[pipe]
            if (turn, key) == _OPEN:
                worker.open, worker.lost = True, 0
            else:
                worker.asked.popleft()
            if refusal and turn in {self._turn, _OPEN[0]}:
                raise _refused(worker.device, *refusal)
            if turn == self._turn:
                found.append(Returned(key, answer))
        return found

    def ask(self, method: str, argument: Any, cards: tuple[Card, ...] = ()) -> Any:
        """Another method of the judge, by the first process that is idle, or the first.

        Raises:
            EngineError: the judge refuses, or the process ends again and again.
        """
        self.begin(cards)
        for _ in range(MOST_LOST + 1):
            self._send(min(self._workers, key=lambda one: len(one.asked)), 0, method, argument)
            while any((self._turn, 0) in worker.asked for worker in self._workers):
                if back := self.collect():
                    if back[0].why:
                        break
                    return back[0].verdicts
        raise ModelError(f"The processes of {self._spec} end before they answer. Run it on one device to see why.")

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            if worker.pipe:
                worker.pipe.close()
            if worker.process:
                worker.process.terminate()
                _ended(worker.process)
            worker.pipe = worker.process = None
            worker.asked.clear()

    def _send(self, worker: _Process, key: int, method: str, argument: Any) -> None:
        if worker.process is None:
            self._start(worker)
        worker.asked.append((self._turn, key))
        try:
            worker.pipe.send(((self._turn, key), method, argument, self._cards))
        except OSError:
            return  # it is dead, which `collect` finds and tells

    def _start(self, worker: _Process) -> None:
        """A new Python, which imports the engine alone: neither a fork (CUDA forbids it) nor the caller's main file."""
        worker.pipe, theirs = Pipe()
        held = f"from engine.judges.processes import hold; hold({theirs.fileno()})"
        command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {held}"]
        worker.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        with suppress(OSError):  # it is dead, which `collect` finds and tells
            worker.pipe.send((worker.device, self._spec, self._settings, self._options))

    def _lost(self, worker: _Process) -> list[Returned]:
        """Forget a dead process; what it was asked is told as lost, the oldest as the suspect."""
        code = _ended(worker.process)
        why = f"the process {worker.process.pid} on {worker.device} ended with exit code {code}"
        begun, worker.lost = worker.open, 0 if worker.open else worker.lost + 1
        if worker.lost > MOST_LOST:
            raise ModelError(
                f"{why[0].upper()}{why[1:]}, {worker.lost} times in a row. See that the device is there and has room "
                "for the model, or leave it out of JUDGESCOPE_DEVICES. What is done is kept."
            )
        asked = worker.asked
        worker.asked, worker.process, worker.pipe, worker.open = deque(), None, None, False
        own = [key for turn, key in asked if turn == self._turn]
        return [Returned(key, None, why, begun=begun and k == 0) for k, key in enumerate(own)]


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that ends; one that does not within 10 s is killed."""
    try:
        return process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _refused(device: str, kind: str, text: str) -> EngineError:
    """The error of a process as ours."""
    found = getattr(errors, kind, ModelError)
    made: EngineError = (found if issubclass(found, EngineError) else ModelError)(
        text if found is InputError else f"On {device}: {text}"
    )
    return made


class SpreadJudge(RemoteJudge):
    """A judge held by several processes; its verdicts are those of one, in the order of the requests.

    Args:
        processes: who holds it.
        cards: further cards that it is asked through.
    """

    def __init__(self, processes: Processes, cards: tuple[Card, ...] = ()) -> None:
        self._processes, self._cards = processes, cards
        super().__init__(processes.ask("about", None, cards), {"devices": processes.devices})
        self._size = SHARD_GPU if self.device.startswith("cuda") else SHARD_CPU

    @property
    def concurrency(self) -> int:
        """Requests under way at once."""
        return self._size * AHEAD * self._processes.count

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The cost of asking, by the cache that the processes share."""
        made: Cost = self._ask("cost", list(requests))
        return made

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request, in order; one with which a process died twice is unread, with the loss as its reason.

        Raises:
            EngineError: the judge refuses a request, or its processes fail.
        """
        out: list[Verdict | None] = [None] * len(requests)

        def keep(places: Sequence[int], verdicts: Sequence[Verdict]) -> None:
            for place, verdict in zip(places, verdicts, strict=True):
                out[place] = verdict

        def give_up(place: int, why: str) -> None:
            out[place] = lost(why)

        self._processes.begin(self._cards)
        size = shard_size(len(requests), self._processes.count, self._size)
        judge_in_shards(requests, self._processes, size, keep, give_up, checkpoint)
        return [verdict for verdict in out if verdict is not None]

    def _ask(self, method: str, argument: Any) -> Any:
        return self._processes.ask(method, argument, self._cards)


class SpreadCardJudge(RemoteCards, SpreadJudge):
    """A language model with its cards, held by several processes."""

    over, option = "several devices", "--devices"

    def with_cards(self, cards: Iterable[Card]) -> SpreadCardJudge:
        """The same processes asked through further cards too."""
        return SpreadCardJudge(self._processes, (*self._cards, *cards))


_last: dict[tuple[object, ...], Processes] = {}


@atexit.register
def _close_last() -> None:
    for processes in _last.values():
        processes.close()
    _last.clear()


def spreads(spec: str) -> bool:
    """Judges that compute here, so that several devices help."""
    return spec.partition(":")[0] in {"bundled", "hf", "path", "planted"}


def spread_judge(spec: str, settings: Settings, **options: Any) -> SpreadJudge:
    """The judge a spec names, a process a device; they stay until another judge is asked for, or this process ends.

    Args:
        spec: the judge's.
        settings: `devices` names the devices.
        **options: of `make_judge`.

    Raises:
        EngineError: the judge cannot be made, or a device is not there.
    """
    key = (spec, settings, *sorted((name, str(value)) for name, value in options.items()))
    if key not in _last:
        _close_last()
        _last[key] = Processes(spec, settings, options)
    kind = SpreadJudge if spec.startswith("planted:") else SpreadCardJudge
    return kind(_last[key])

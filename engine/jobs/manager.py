"""Jobs as the dashboard sees them: a manager that owns the worker process, without importing torch.

A job survives page changes, reloads and other visitors, since it lives here and on disk, never in a session.
"""

from __future__ import annotations

import atexit
import json
import secrets
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import IO, Any, Literal

from pydantic import TypeAdapter

from engine.core.errors import InputError, JobError, WriteError
from engine.core.files import make_folder, write_atomically, writing
from engine.core.json import dumps
from engine.core.settings import Settings, get_settings
from engine.runs.folder import new_run_id, process_alive, this_process

State = Literal["queued", "running", "cancelling", "done", "cancelled", "failed", "interrupted"]
ACTIVE = frozenset({"queued", "running", "cancelling"})
CANCEL_GRACE_S = 20.0
"""Longest time of a running job to its next checkpoint before the worker is killed."""
MAX_QUEUE = 20
_KEEP_LOG_BYTES = 1 << 20
_INTERRUPTED = "The server was stopped. Resume to go on."


@dataclass(frozen=True)
class Job:
    """A snapshot of one job; `server` is the process it belongs to, as `this_process` names it."""

    job_id: str
    kind: str
    params: dict[str, Any]
    state: State = "queued"
    done: int = 0
    total: int = 0
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    created: float = 0.0
    started: float | None = None
    finished: float | None = None
    server: str = ""

    @property
    def active(self) -> bool:
        """True where it may still change by itself."""
        return self.state in ACTIVE

    @property
    def resumable(self) -> bool:
        """True where `JobManager.resume` takes it up where it stopped."""
        return self.state in {"cancelled", "failed", "interrupted"}

    @property
    def fraction(self) -> float:
        """Share of its judge calls that are done, in [0, 1]."""
        return self.done / self.total if self.total else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Seconds to go at the pace so far; None before three calls."""
        if self.state != "running" or self.started is None or self.done < 3 or not self.total:
            return None
        return (time.time() - self.started) * (self.total - self.done) / self.done


_JOB = TypeAdapter(Job)


@dataclass(frozen=True)
class WorkerStatus:
    """State of the worker for the rail."""

    state: Literal["off", "starting", "idle", "busy"]
    device: str
    queued: int
    running: str


@dataclass
class Ask:
    """An interactive call under way, or its answer.

    Attributes:
        event: set when the answer is there.
        result: the answer.
        error: why there is none; empty while it is under way and where it worked.
        user: true where the question was wrong, not the worker.
        step: what is going on, for a reader.
        ask_id: names it to the worker.
        heard: when the worker last said anything of it, or it was asked, on the monotonic clock [s].
    """

    event: threading.Event = field(default_factory=threading.Event)
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    user: bool = False
    step: str = ""
    ask_id: str = field(default_factory=lambda: secrets.token_hex(8))
    heard: float = field(default_factory=time.monotonic)

    @property
    def answered(self) -> bool:
        """True once there is a result or an error."""
        return self.event.is_set()

    def answer(self) -> dict[str, Any]:
        """The result.

        Raises:
            InputError: the parameters are wrong; the text says how.
            JobError: the worker failed.
        """
        if self.error:
            raise (InputError if self.user else JobError)(self.error)
        return self.result


class JobManager:
    """Queues batch jobs, passes interactive calls through, restarts a dead worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._worker: subprocess.Popen[str] | None = None
        self._device = ""
        self._jobs: dict[str, Job] = {}
        self._queue: deque[str] = deque()
        self._running = ""
        self._asks: dict[str, Ask] = {}
        make_folder(settings.jobs)
        self._load()
        atexit.register(self.close)

    def submit(self, kind: str, params: dict[str, Any]) -> str:
        """Queue a batch job; returns its id, which nobody can guess.

        Raises:
            JobError: the queue is full.
            WriteError: the job cannot be kept on disk.
        """
        with self._lock:
            if len(self._queue) >= MAX_QUEUE:
                raise JobError(f"{MAX_QUEUE} jobs are waiting already. Let one finish or stop one first.")
            params = {**params, "run_id": params.get("run_id") or new_run_id(kind)}
            job = Job(secrets.token_urlsafe(9), kind, params, created=time.time(), server=this_process())
            self._enqueue(job)
            return job.job_id

    def resume(self, job_id: str) -> str:
        """Queue a stopped, failed or interrupted job again; its finished calls come from the cache.

        Raises:
            JobError: no such job, or it is not stopped.
        """
        with self._lock:
            job = self.get(job_id)
            if job is None or not job.resumable:
                raise JobError("This job cannot be resumed: it is unknown, still running or done.")
            self._enqueue(
                replace(job, state="queued", error="", done=0, started=None, finished=None, server=this_process())
            )
            return job_id

    def get(self, job_id: str) -> Job | None:
        """The job as it is now."""
        with self._lock:
            return self._jobs.get(job_id)

    def recent(self, n: int = 20) -> list[Job]:
        """The newest jobs first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda j: j.created, reverse=True)[:n]

    def cancel(self, job_id: str) -> None:
        """Stop a job at its next checkpoint; a queued one at once. What is done is kept."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or not job.active:
                return
            if job_id in self._queue:
                self._queue.remove(job_id)
                self._set(job_id, state="cancelled", finished=time.time())
                return
            self._set(job_id, state="cancelling")
            self._send({"op": "cancel", "job_id": job_id})
            timer = threading.Timer(CANCEL_GRACE_S, self._kill_if_stuck, [job_id])
            timer.daemon = True
            timer.start()

    def ask(self, kind: str, params: dict[str, Any], timeout_s: float = 120.0) -> dict[str, Any]:
        """Run an interactive job and wait for it; answered between the batches of a running job.

        Raises:
            InputError: the parameters are wrong; the text says how.
            JobError: the worker failed, or did not answer in time.
        """
        ask = self.begin(kind, params)
        if not ask.event.wait(timeout_s):
            self.give_up(
                ask, f"The judge gave no answer within {timeout_s:.0f} s. Try again, or choose a smaller judge."
            )
        return ask.answer()

    def begin(self, kind: str, params: dict[str, Any]) -> Ask:
        """Ask without waiting: the `event` of the ask is set when the answer is there."""
        ask = Ask()
        with self._lock:
            self._ensure_worker()
            ask.step = "Waiting for the judge" if self._device else "Starting the engine"
            self._asks[ask.ask_id] = ask
            self._send({"op": "run", "job_id": ask.ask_id, "kind": kind, "params": params, "lane": "interactive"})
        return ask

    def give_up(self, ask: Ask, why: str = "The question was taken back.") -> None:
        """Stop an ask that nobody waits for any more; its answer is then an error."""
        with self._lock:
            if self._asks.pop(ask.ask_id, None):
                ask.error = why
                ask.event.set()
                self._send({"op": "cancel", "job_id": ask.ask_id})

    def warm(self, judge: str) -> None:
        """Start the worker and let it load a judge whose weights are on this machine, before anybody asks."""
        self.begin("warm", {"judge": judge})

    def status(self) -> WorkerStatus:
        """State of the worker."""
        with self._lock:
            alive = self._worker is not None and self._worker.poll() is None
            busy = bool(self._running or self._asks)
            state: Literal["off", "starting", "idle", "busy"] = (
                "off" if not alive else "starting" if not self._device else "busy" if busy else "idle"
            )
            return WorkerStatus(state, self._device, len(self._queue), self._running)

    def close(self) -> None:
        """Let the worker exit; a running job can be resumed."""
        with self._lock:
            worker, self._worker = self._worker, None
            for job in [j for j in self._jobs.values() if j.active and j.server == this_process()]:
                self._set(job.job_id, state="interrupted", error=_INTERRUPTED, finished=time.time())
            self._queue.clear()
            self._running = ""
        if worker and worker.stdin:
            worker.stdin.close()
            try:
                worker.wait(timeout=5)
            except subprocess.TimeoutExpired:
                worker.kill()

    # --- below: called with the lock held, or by the reader thread which takes it ---

    def _enqueue(self, job: Job) -> None:
        self._save(job)
        self._jobs[job.job_id] = job
        self._queue.append(job.job_id)
        self._ensure_worker()
        self._start_next()

    def _start_next(self) -> None:
        if self._running or not self._queue:
            return
        job = self._jobs[self._queue.popleft()]
        self._running = job.job_id
        self._send({"op": "run", "job_id": job.job_id, "kind": job.kind, "params": job.params, "lane": "batch"})

    def _ensure_worker(self) -> None:
        if self._worker is not None:
            code = self._worker.poll()
            if code is not None:
                self._on_death(self._worker, code)  # its listener waits for the lock that our caller holds
        if self._worker is not None:
            return
        log = self._settings.jobs / "worker.log"
        self._device = ""
        with writing(log):
            fresh = "w" if log.exists() and log.stat().st_size > _KEEP_LOG_BYTES else "a"
            with log.open(fresh, encoding="utf-8") as errors:
                self._worker = _start(errors)
        threading.Thread(target=self._listen, args=(self._worker,), daemon=True).start()

    def _send(self, message: dict[str, Any]) -> None:
        if self._worker and self._worker.stdin:
            try:
                self._worker.stdin.write(dumps(message) + "\n")
                self._worker.stdin.flush()
            except (BrokenPipeError, ValueError):
                pass  # the listener sees the death and fails what was running

    def _listen(self, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        try:
            for line in worker.stdout:
                event = json.loads(line)
                with self._lock:
                    if worker is self._worker:  # what a closed or replaced worker still says is no longer heard
                        self._handle(event)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            worker.kill()  # half a line or no event: from here on nothing it says can be relied on
        code = worker.wait()
        with self._lock:
            self._on_death(worker, code)

    def _handle(self, event: dict[str, Any]) -> None:
        kind, job_id = event["event"], event.get("job_id", "")
        if kind == "hello":
            self._device = event["device"]
        elif job_id in self._asks:
            ask = self._asks[job_id]
            ask.heard = time.monotonic()
            if kind == "started":
                ask.step = "Loading the judge"
            elif kind == "progress":
                ask.step = f"Asking the judge, {event['done']} of {event['total']}"
            elif kind in {"done", "failed", "cancelled"}:
                self._asks.pop(job_id)
                ask.result, ask.error = event.get("result") or {}, event.get("error", "")
                ask.user = bool(event.get("user"))
                ask.event.set()
        elif job_id in self._jobs:
            self._handle_job(kind, job_id, event)

    def _handle_job(self, kind: str, job_id: str, event: dict[str, Any]) -> None:
        if kind == "progress":
            self._jobs[job_id] = replace(self._jobs[job_id], done=event["done"], total=event["total"])
        elif kind == "started":
            if self._jobs[job_id].state == "queued":
                self._set(job_id, state="running", started=time.time())
        else:
            self._set(
                job_id,
                state=kind,
                result=event.get("result") or {},
                error=event.get("error", ""),
                finished=time.time(),
            )
            self._running = ""
            self._start_next()

    def _on_death(self, worker: subprocess.Popen[str], code: int) -> None:
        if worker is not self._worker:
            return  # closed on purpose, or already replaced
        text = f"The worker process ended (exit code {code}). Resume to go on; finished calls are kept."
        for ask in self._asks.values():
            ask.error = text
            ask.event.set()
        self._asks.clear()
        if self._running:
            stopped = self._jobs[self._running].state == "cancelling"
            self._set(
                self._running,
                state="cancelled" if stopped else "failed",
                error="" if stopped else text,
                finished=time.time(),
            )
            self._running = ""
        self._worker = None
        if self._queue:
            self._ensure_worker()
            self._start_next()

    def _kill_if_stuck(self, job_id: str) -> None:
        with self._lock:
            if self._jobs[job_id].state == "cancelling" and self._running == job_id and self._worker:
                self._worker.kill()

    def _set(self, job_id: str, **changes: Any) -> None:
        self._jobs[job_id] = replace(self._jobs[job_id], **changes)
        # on a full disk the job goes on; the file's older state counts as interrupted once this server has ended
        with suppress(WriteError):
            self._save(self._jobs[job_id])

    def _save(self, job: Job) -> None:
        write_atomically(self._settings.jobs / f"{job.job_id}.json", dumps(asdict(job)).encode())

    def _load(self) -> None:
        for path in self._settings.jobs.glob("*.json"):
            try:
                held = json.loads(path.read_text(encoding="utf-8"))
                job = _JOB.validate_python({**held, "server": str(held.get("server", ""))})
            except (OSError, ValueError, TypeError, AttributeError, RecursionError):
                continue  # damaged or of another version; it stays on disk
            if job.active and (job.server == this_process() or not process_alive(job.server)):
                job = replace(job, state="interrupted", error=_INTERRUPTED)
            self._jobs[job.job_id] = job


def _start(errors: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "engine.jobs.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        encoding="utf-8",
    )


@lru_cache(maxsize=1)
def _manager_of(settings: Settings) -> JobManager:
    return JobManager(settings)


def manager() -> JobManager:
    """The process's manager; it outlives sessions and Streamlit's caches."""
    return _manager_of(get_settings())

"""The worker process: one per device, holds the model, runs jobs; `python -m engine.jobs.worker`.

JSON lines in, JSON lines out. Two lanes: between two batches of a running batch job every waiting interactive
job is answered, so the Attack lab stays live while a study runs. Exits when its input closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO

from pydantic import BaseModel, ValidationError

from engine.core.errors import Cancelled, EngineError, InputError, JobError, OutOfCalls
from engine.core.json import dumps
from engine.core.settings import Settings, get_settings
from engine.inference.hub_models import HubFetch, fetch_job
from engine.jobs.judge_preview import ApiTest, CardPreview, WarmConfig, api_test, card_preview, warm
from engine.judges.base import Checkpoint
from engine.runs.folder import broke_off
from engine.studies.registry import all_studies
from engine.studies.retry import RetryConfig, retry_job
from engine.studies.study import Context, Study

Run = Callable[[Any, Settings, Checkpoint], dict[str, Any]]
OWN_JOBS: dict[str, tuple[type[BaseModel], Run]] = {
    "api_test": (ApiTest, api_test),
    "card_preview": (CardPreview, card_preview),
    "hub_fetch": (HubFetch, fetch_job),
    "retry": (RetryConfig, retry_job),
    "warm": (WarmConfig, warm),
}
"""Jobs that belong to no study."""


def job_of(kind: str) -> tuple[type[BaseModel], Run]:
    """Parameters and function of a job: one of our own, a study by its name, or a quick job of a study's page.

    Raises:
        JobError: there is no such job.
    """
    if kind in OWN_JOBS:
        return OWN_JOBS[kind]
    for study in all_studies():
        if kind == study.kind or kind in study.names:
            return study.config, _runner(study, kind)
        if found := study.quick_jobs().get(kind):
            return found
    raise JobError(f"There is no job {kind!r}.")


def _runner(study: Study, name: str) -> Run:
    def run(config: Any, settings: Settings, checkpoint: Checkpoint) -> dict[str, Any]:
        return study.job(config, Context(settings, checkpoint), settings.runs, name)

    return run


Message = dict[str, Any]


class Worker:
    """Reads messages, runs jobs, writes events."""

    def __init__(self, source: TextIO, sink: TextIO, settings: Settings) -> None:
        self._source = source
        self._sink = sink
        self._settings = settings
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._interactive: deque[Message] = deque()
        self._batch: deque[Message] = deque()
        self._cancelled: set[str] = set()
        self._closed = False
        self._nested = False

    def serve(self) -> None:
        """Run until the input closes."""
        threading.Thread(target=self._read, daemon=True).start()
        self._send(event="hello", device=_device(self._settings))
        while not self._closed:  # a running job may be what has seen the end
            self._take(wait=not (self._interactive or self._batch))
            lane = self._interactive or self._batch
            if lane and not self._closed:
                self._run(lane.popleft())

    def _read(self) -> None:
        for line in self._source:
            self._inbox.put(json.loads(line))
        self._inbox.put(None)

    def _take(self, *, wait: bool) -> None:
        """Move what has arrived into its lane; waits for one message if asked to."""
        while True:
            try:
                message = self._inbox.get(block=wait)
            except queue.Empty:
                return
            wait = False
            if message is None:
                self._closed = True
                return
            if message["op"] == "cancel":
                self._cancelled.add(message["job_id"])
            else:
                (self._interactive if message["lane"] == "interactive" else self._batch).append(message)

    def _run(self, message: Message) -> None:
        job = message["job_id"]

        def checkpoint(done: int, total: int) -> None:
            self._take(wait=False)
            if job in self._cancelled or self._closed:
                raise Cancelled
            self._send(event="progress", job_id=job, done=done, total=total)
            if not self._nested and message["lane"] != "interactive":
                self._answer_waiting()

        self._send(event="started", job_id=job)
        try:
            model, run = job_of(message["kind"])
            result = run(_validated(model, message["params"]), self._settings, checkpoint)
        except OutOfCalls as error:
            self._close(message, "stopped", str(error))
            self._send(event="failed", job_id=job, error=str(error), user=True)
        except Cancelled:
            self._close(message, "stopped")
            self._send(event="cancelled", job_id=job)
        except EngineError as error:
            self._close(message, "failed", str(error))
            self._send(event="failed", job_id=job, error=str(error), user=isinstance(error, InputError))
        except Exception as error:  # noqa: BLE001 - the client raises errors of several libraries
            traceback.print_exc()
            self._close(message, "failed", type(error).__name__)
            self._send(event="failed", job_id=job, error=f"{type(error).__name__}: {error}", user=False)
        else:
            self._send(event="done", job_id=job, result=result)
        finally:
            self._cancelled.discard(job)

    def _close(self, message: Message, state: str, error: str = "") -> None:
        """Say in the run's manifest how it ended, where its study broke off too early to do so."""
        if run_id := message["params"].get("run_id"):
            broke_off(self._settings.runs, str(run_id), state, error)

    def _answer_waiting(self) -> None:
        self._nested = True
        try:
            while self._interactive:
                self._run(self._interactive.popleft())
        finally:
            self._nested = False

    def _send(self, **event: Any) -> None:
        self._sink.write(dumps(event) + "\n")
        self._sink.flush()


def _validated(model: type[BaseModel], params: Message) -> BaseModel:
    try:
        return model.model_validate(params)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def _device(settings: Settings) -> str:
    from engine.inference.loading import pick_device

    try:
        return pick_device(settings.device)
    except InputError as error:
        return str(error)


def main() -> None:
    """Take over stdout for events; whatever a library prints goes to stderr."""
    sink = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        Worker(sys.stdin, sink, replace(get_settings(), fetch_models=False)).serve()


if __name__ == "__main__":
    main()

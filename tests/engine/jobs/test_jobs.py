"""The worker and its manager, with a real subprocess and planted judges."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict

import pytest

from engine.core.errors import InputError, JobError, WriteError
from engine.data.store import DEMO_DIALOGUE
from engine.jobs import manager
from engine.jobs.manager import Job, JobManager
from engine.jobs.worker import Worker
from engine.runs.folder import _process, create_run, open_run
from tests.dashboard.near_worker import NearWorker

INJECTION = "planted:injection?strength=0.8&noise=0.2"
SCORE = {"judge": INJECTION, "data": DEMO_DIALOGUE, "attacks": ["dsi"], "defenses": ["none"]}
LONG = {**SCORE, "judge": INJECTION + "&delay=40"}
ONE = {"judge": INJECTION, "data": DEMO_DIALOGUE, "response_id": "d01-good", "attack": "dsi"}


@pytest.fixture
def jobs(settings):
    made = JobManager(settings)
    yield made
    made.close()


@pytest.fixture
def near(settings, monkeypatch):
    """The same with the worker in a thread, for what is not about its process."""
    monkeypatch.setattr(manager, "_start", NearWorker)
    made = JobManager(settings)
    yield made
    made.close()


def wait(jobs: JobManager, job_id: str, *states: str, seconds: float = 300) -> Job:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job = jobs.get(job_id)
        assert job is not None
        if job.state in states:
            return job
        _pause()
    raise AssertionError(f"still {jobs.get(job_id)}")


def _pause() -> None:
    threading.Event().wait(0.02)


def test_a_score_job_runs_to_a_run_folder(jobs, settings):
    job = wait(jobs, jobs.submit("score", SCORE), "done", "failed")
    assert job.state == "done", job.error
    assert job.fraction == 1
    run = open_run(settings.runs, job.result["run_id"])
    assert run.manifest()["state"] == "done"
    verdicts = run.table("verdicts")
    assert len(verdicts) == 48 * 2
    shift = run.table("metrics").query("metric == 'shift' and attack == 'dsi'").iloc[0]
    assert shift["lower"] < 0.8 < shift["upper"]
    assert jobs.get(job.job_id) == Job(**json.loads((settings.jobs / f"{job.job_id}.json").read_text()))


def test_an_interactive_call_is_answered_while_a_job_runs(near):
    job_id = near.submit("score", LONG)
    wait(near, job_id, "running")
    answer = near.ask("attack_one", ONE)
    assert answer["attacked"]["score"] > answer["clean"]["score"]
    assert near.get(job_id).state == "running"


def test_cancel_keeps_what_is_done_and_resume_completes_the_same_run(near, settings):
    job_id = near.submit("score", LONG)
    wait(near, job_id, "running")
    while near.get(job_id).done < 30:
        _pause()
    near.cancel(job_id)
    job = wait(near, job_id, "cancelled")
    run = open_run(settings.runs, job.params["run_id"])
    assert run.manifest()["state"] == "stopped"
    kept = len(run.table("verdicts"))
    assert 0 < kept < 96
    near.resume(job_id)
    job = wait(near, job_id, "done")
    assert job.result["run_id"] == run.run_id
    assert len(run.table("verdicts")) == 96


def test_a_worker_whose_input_ends_during_a_job_ends_too(settings):
    begun = threading.Event()

    def source():
        yield json.dumps({"op": "run", "lane": "batch", "job_id": "j", "kind": "score", "params": LONG})
        assert begun.wait(timeout=60)

    class Sink(io.StringIO):
        def write(self, text):
            if "progress" in text:
                begun.set()
            return super().write(text)

    sink = Sink()
    thread = threading.Thread(target=Worker(source(), sink, settings).serve, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert "cancelled" in sink.getvalue()


def test_a_queued_job_is_cancelled_at_once_and_the_next_one_runs(near):
    first = near.submit("score", {**SCORE, "judge": INJECTION + "&delay=20"})
    second, third = near.submit("score", SCORE), near.submit("score", SCORE)
    assert near.status().queued == 2
    near.cancel(second)
    assert near.get(second).state == "cancelled"
    near.cancel(first)
    assert wait(near, third, "done").state == "done"


def test_a_dead_worker_fails_its_job_and_the_next_one_runs(jobs):
    job_id = jobs.submit("score", LONG)
    wait(jobs, job_id, "running")
    os.kill(jobs._worker.pid, signal.SIGKILL)
    assert "Resume" in wait(jobs, job_id, "failed").error
    assert wait(jobs, jobs.submit("score", SCORE), "done").state == "done"


def test_wrong_parameters_are_the_users_and_named(near):
    with pytest.raises(InputError, match="no response 'nowhere'"):
        near.ask("attack_one", {**ONE, "response_id": "nowhere"})
    with pytest.raises(InputError, match="Unknown attack 'tickle'"):
        near.ask("attack_one", {**ONE, "attack": "tickle"})
    with pytest.raises(InputError, match="names no judge"):
        near.ask("attack_one", {**ONE, "judge": "oracle:me"})
    job = wait(near, near.submit("score", {**SCORE, "limit": 0}), "failed")
    assert job.error.startswith("limit")


def test_an_unknown_kind_is_not_run(near):
    with pytest.raises(JobError):
        near.ask("os.system", {"command": "true"})


@pytest.mark.slow
def test_a_stopped_server_leaves_interrupted_jobs(jobs, settings):
    job_id = jobs.submit("score", LONG)
    wait(jobs, job_id, "running")
    jobs.close()
    assert jobs.get(job_id).state == "interrupted"
    after = JobManager(settings)
    try:
        assert after.get(job_id).state == "interrupted"
        after.resume(job_id)
        assert wait(after, job_id, "done").state == "done"
    finally:
        after.close()


@pytest.mark.parametrize(
    "server",
    ["4194301:1", f"{os.getpid()}:1", f"{os.getppid()}:1", os.getppid(), "", "x"],
    ids=["nobody", "ours", "our parent's", "parent without start", "empty", "no number"],
)
def test_a_killed_server_leaves_interrupted_jobs_too_whoever_has_its_number_now(settings, server):
    settings.jobs.mkdir(parents=True)
    left = asdict(Job("left", "score", SCORE, state="running")) | {"server": server}
    (settings.jobs / "left.json").write_text(json.dumps(left))
    assert JobManager(settings).get("left").state == "interrupted"


def test_a_job_of_another_server_that_is_there_is_left_to_it(settings):
    settings.jobs.mkdir(parents=True)
    left = asdict(Job("left", "score", SCORE, state="running")) | {"server": _process(os.getppid())}
    (settings.jobs / "left.json").write_text(json.dumps(left))
    assert JobManager(settings).get("left").state == "running"


def test_damaged_job_files_do_not_hide_the_others(settings):
    settings.jobs.mkdir(parents=True)
    good = asdict(Job("good", "score", SCORE, state="done", created=2.0))
    odd = {"created": "soon", "params": [], "state": "lost", "result": 3, "job_id": None}
    for name, change in {"good": {}, **{k: {k: v} for k, v in odd.items()}}.items():
        (settings.jobs / f"{name}.json").write_text(json.dumps(good | change))
    for name, text in {"deep": "[" * 10**5, "list": "[]", "half": '{"job_id": "h'}.items():
        (settings.jobs / f"{name}.json").write_text(text)
    assert [job.job_id for job in JobManager(settings).recent()] == ["good"]


@pytest.mark.slow
def test_a_worker_that_dies_while_a_job_is_being_queued_is_replaced_and_fails_what_it_ran(jobs):
    first = jobs.submit("score", LONG)
    wait(jobs, first, "running")
    with jobs._lock:  # its listener cannot say that it died
        jobs._worker.kill()
        jobs._worker.wait()
        second = jobs.submit("score", SCORE)
    assert "Resume" in wait(jobs, first, "failed").error
    assert wait(jobs, second, "done").state == "done"
    jobs.resume(first)
    assert wait(jobs, first, "done").state == "done"


@pytest.mark.parametrize("line", [b'{"event": "hel', b"[]", b"\xff"])
def test_a_worker_that_says_what_is_no_event_counts_as_dead(jobs, monkeypatch, line):
    real, code = manager._start, "import sys; sys.stdin.readline(); sys.stdout.buffer.write(eval(sys.argv[1]))\n"
    code += "print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    first = subprocess.Popen([sys.executable, "-c", code, repr(line)], **pipes)
    workers = iter([first])
    monkeypatch.setattr(manager, "_start", lambda errors: next(workers, None) or real(errors))
    asked, behind = jobs.submit("score", SCORE), jobs.submit("score", SCORE)
    assert "Resume" in wait(jobs, asked, "failed").error
    assert first.wait(timeout=60) is not None
    assert wait(jobs, behind, "done").state == "done"


def test_a_job_that_cannot_be_kept_is_refused_and_a_running_one_goes_on(jobs, monkeypatch, settings):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    job_id = jobs.submit("score", {**SCORE, "judge": INJECTION + "&delay=5"})
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", full)
        with pytest.raises(WriteError, match=str(settings.jobs)):
            jobs.submit("score", SCORE)
        assert [job.job_id for job in jobs.recent()] == [job_id]
        assert wait(jobs, job_id, "done").state == "done"  # the worker writes; only this process cannot


def test_a_run_that_another_process_writes_is_left_alone(jobs, settings):
    held = create_run(settings.runs, "score", {}, "held")  # this process, not the worker
    before = held.manifest()
    job = wait(jobs, jobs.submit("score", {**SCORE, "run_id": "held"}), "failed")
    assert "held" in job.error
    assert held.manifest() == before
    held.release()
    jobs.resume(job.job_id)
    assert wait(jobs, job.job_id, "done").state == "done"


def test_a_finished_job_cannot_be_resumed(near):
    job_id = near.submit("score", SCORE)
    wait(near, job_id, "done")
    with pytest.raises(JobError, match="cannot be resumed"):
        near.resume(job_id)

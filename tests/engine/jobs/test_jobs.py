"""The worker and its manager, with a real subprocess and planted judges."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict

import pytest

from engine.core.errors import InputError, JobError
from engine.data.store import DEMO_DIALOGUE
from engine.jobs.manager import Job, JobManager
from engine.runs.folder import open_run

INJECTION = "planted:injection?strength=0.8&noise=0.2"
SCORE = {"judge": INJECTION, "data": DEMO_DIALOGUE, "attacks": ["dsi"], "defenses": ["none"]}
ONE = {"judge": INJECTION, "data": DEMO_DIALOGUE, "response_id": "d01-good", "attack": "dsi"}


@pytest.fixture
def jobs(settings):
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
    import threading

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


def test_an_interactive_call_is_answered_while_a_job_runs(jobs):
    job_id = jobs.submit("score", {**SCORE, "judge": INJECTION + "&delay=40"})
    wait(jobs, job_id, "running")
    answer = jobs.ask("attack_one", ONE)
    assert answer["attacked"]["score"] > answer["clean"]["score"]
    assert jobs.get(job_id).state == "running"


def test_cancel_keeps_what_is_done_and_resume_completes_the_same_run(jobs, settings):
    slow = {**SCORE, "judge": INJECTION + "&delay=40"}
    job_id = jobs.submit("score", slow)
    wait(jobs, job_id, "running")
    while jobs.get(job_id).done < 30:
        _pause()
    jobs.cancel(job_id)
    job = wait(jobs, job_id, "cancelled")
    run = open_run(settings.runs, job.params["run_id"])
    assert run.manifest()["state"] == "stopped"
    kept = len(run.table("verdicts"))
    assert 0 < kept < 96
    jobs.resume(job_id)
    job = wait(jobs, job_id, "done")
    assert job.result["run_id"] == run.run_id
    assert len(run.table("verdicts")) == 96


def test_a_queued_job_is_cancelled_at_once_and_the_next_one_runs(jobs):
    first = jobs.submit("score", {**SCORE, "judge": INJECTION + "&delay=20"})
    second, third = jobs.submit("score", SCORE), jobs.submit("score", SCORE)
    assert jobs.status().queued == 2
    jobs.cancel(second)
    assert jobs.get(second).state == "cancelled"
    jobs.cancel(first)
    assert wait(jobs, third, "done").state == "done"


def test_a_dead_worker_fails_its_job_and_the_next_one_runs(jobs):
    job_id = jobs.submit("score", {**SCORE, "judge": INJECTION + "&delay=40"})
    wait(jobs, job_id, "running")
    os.kill(jobs._worker.pid, signal.SIGKILL)
    assert "Resume" in wait(jobs, job_id, "failed").error
    assert wait(jobs, jobs.submit("score", SCORE), "done").state == "done"


def test_wrong_parameters_are_the_users_and_named(jobs):
    with pytest.raises(InputError, match="no response 'nowhere'"):
        jobs.ask("attack_one", {**ONE, "response_id": "nowhere"})
    with pytest.raises(InputError, match="Unknown attack 'tickle'"):
        jobs.ask("attack_one", {**ONE, "attack": "tickle"})
    with pytest.raises(InputError, match="names no judge"):
        jobs.ask("attack_one", {**ONE, "judge": "oracle:me"})
    job = wait(jobs, jobs.submit("score", {**SCORE, "limit": 0}), "failed")
    assert job.error.startswith("limit")


def test_an_unknown_kind_is_not_run(jobs):
    with pytest.raises(JobError):
        jobs.ask("os.system", {"command": "true"})


def test_a_stopped_server_leaves_interrupted_jobs(jobs, settings):
    job_id = jobs.submit("score", {**SCORE, "judge": INJECTION + "&delay=40"})
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


def test_a_killed_server_leaves_interrupted_jobs_too(settings):
    settings.jobs.mkdir(parents=True)
    left = Job("left", "score", SCORE, state="running", server=2**22 - 3)  # no such process
    (settings.jobs / "left.json").write_text(json.dumps(asdict(left)))
    assert JobManager(settings).get("left").state == "interrupted"


def test_a_finished_job_cannot_be_resumed(jobs):
    job_id = jobs.submit("score", SCORE)
    wait(jobs, job_id, "done")
    with pytest.raises(JobError, match="cannot be resumed"):
        jobs.resume(job_id)

"""The whole set under every attack and defense: choose, run as a job, watch, read the result."""

from __future__ import annotations

import streamlit as st

from dashboard import data, pinned, state, ui
from dashboard.panels.arms import results
from dashboard.panels.progress import progress
from dashboard.panels.setup import setup
from dashboard.watching import concerns, going_job
from engine import jobs
from engine.data.dataset import Dataset
from engine.errors import EngineError
from engine.jobs import Job

PARTIAL_POLL_S = 2.0


def whole_set(judge: str, dataset: Dataset) -> None:
    """Results first where there are any; the choices for a new run above them."""
    job = _watched(judge, dataset.dataset_id)
    busy = bool(job and job.active)
    setup(judge, dataset, busy=busy)
    if job:
        progress(job)
    job_id = job.job_id if job else ""
    st.fragment(_results, run_every=PARTIAL_POLL_S if busy else None)(judge, dataset, job_id)


def _watched(judge: str, dataset_id: str) -> Job | None:
    """The job of the URL if it is about this judge and this data, else one of theirs that is going now."""
    wanted = state.job_id()
    job = jobs.manager().get(wanted) if wanted else None
    if job is None or not concerns(job, "score", judge=judge, data=dataset_id):
        job = going_job("score", judge=judge, data=dataset_id)
    if job:
        state.watch_job(job.job_id)
    elif wanted:
        state.watch_job("")
    return job


def _results(judge: str, dataset: Dataset, job_id: str) -> None:
    job = jobs.manager().get(job_id) if job_id else None
    try:
        asked = pinned.about("score", judge, dataset.dataset_id)
        view = _view(job) if job and not asked else data.latest_run(judge, dataset.dataset_id)
    except EngineError as error:
        ui.show_error(error, "The run cannot be read.")
        return
    if view is None or not len(view.verdicts):
        if job and job.active:
            ui.note("The first results appear here after a few responses.")
        else:
            ui.nothing_yet("This judge has not been run on this data here yet. Choose attacks and defenses, then Run.")
        return
    results(view, dataset, live=bool(job and job.active))


def _view(job: Job) -> data.RunView | None:
    run_id = str(job.params.get("run_id", ""))
    return data.run_or_none(run_id, f"{job.state} {job.done} {job.finished}")

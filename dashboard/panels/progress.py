"""A job while it runs and when it has stopped: how far, how long still, Stop, Resume."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.panels import findings
from engine import jobs
from engine.errors import EngineError
from engine.jobs import Job

POLL_S = 1.0


def progress(job: Job) -> None:
    """Polls while the job is active; when it ends, the whole page is drawn once more."""
    st.fragment(_progress, run_every=POLL_S if job.active else None)(job.job_id, job.active)


def _progress(job_id: str, was_active: bool) -> None:
    job = jobs.manager().get(job_id)
    if job is None:
        return
    if was_active and not job.active:
        st.rerun()
    if job.state == "done":
        took = (job.finished or 0) - (job.started or job.finished or 0)
        ui.note(f"The run is done: {job.total:,} judge calls in {findings.duration(took)}.")
        return
    with st.container(border=True, key="job"):
        if job.active:
            _going(job)
        else:
            _ended(job)


def _going(job: Job) -> None:
    st.progress(job.fraction, text=_line(job))
    st.button(
        "Stop",
        icon=":material/stop:",
        key="stop_job",
        disabled=job.state == "cancelling",
        help="What is done is kept, and the run can be resumed.",
        on_click=jobs.manager().cancel,
        args=(job.job_id,),
    )


def _line(job: Job) -> str:
    if job.state == "queued":
        return "Waiting for the judge."
    if job.state == "cancelling":
        return "Stopping after the present batch; what is done is kept."
    if not job.total:
        return "Loading the judge."
    left = f", about {findings.duration(job.eta_seconds)} to go" if job.eta_seconds is not None else ""
    return f"{job.done:,} of {job.total:,} judge calls{left}"


def _ended(job: Job) -> None:
    if job.state == "cancelled":
        ui.note(f"Stopped at {job.done:,} of {job.total:,} judge calls. What is done is kept, see below.")
    else:
        ui.show_error(job.error or "No reason was given.", "The run ended early. What is done is kept.")
    if st.button("Resume", type="primary", icon=":material/play_arrow:", key="resume_job"):
        _resume(job.job_id)


def _resume(job_id: str) -> None:
    try:
        jobs.manager().resume(job_id)
    except EngineError as error:
        ui.show_error(error, "The run could not be resumed.")
        return
    st.rerun()

"""A job while it runs and when it has stopped: how far, how long still, Stop, Resume."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from engine import catalog
from engine.core.errors import EngineError, InputError
from engine.data.dataset import Dataset
from engine.jobs.manager import Job, manager
from engine.studies.registry import find_run

POLL_S = 1.0
BUSY = "A run is going; stop it or let it finish before you start another."
_LATELY = 50
"""Newest jobs that are looked through."""


def _jobs(kind: str, params: Mapping[str, str]) -> list[Job]:
    """The newest jobs of a kind with these parameters, newest first."""
    return [j for j in manager().recent(_LATELY) if _concerns(j, kind, params)]


def _concerns(job: Job, kind: str, params: Mapping[str, str]) -> bool:
    return job.kind == kind and all(job.params.get(name) == value for name, value in params.items())


def newest_job(kind: str, **params: str) -> Job | None:
    """The newest job of a kind with these parameters; one that is going comes first."""
    mine = _jobs(kind, params)
    return next((j for j in mine if j.active), mine[0] if mine else None)


def watched_job(kind: str, *, key: str = state.JOB, **params: str) -> Job | None:
    """The job that this session or its link names, if it is of a kind with these parameters; else one going now.

    Args:
        kind: of the job.
        key: under which the session and the address keep its id.
        params: settings of the job.
    """
    held = str(st.session_state.get(key) or st.query_params.get(key, ""))
    job = manager().get(held) if held else None
    if job and _concerns(job, kind, params):
        return job
    return next((j for j in _jobs(kind, params) if j.active), None)


def start_job(
    kind: str, params: Mapping[str, object], problem: str, keep: Callable[[str], object] = lambda _: None
) -> None:
    """Queue a job and draw the page anew; where it cannot be queued, the problem is said.

    Args:
        kind: of the job.
        params: of the job.
        problem: sentence that says nothing could be started.
        keep: takes the job's id.
    """
    try:
        job = manager().submit(kind, dict(params))
    except EngineError as error:
        ui.show_error(error, problem)
        return
    keep(job)
    st.rerun()


def progress(job: Job) -> None:
    """Polls while the job is active; when it ends, the whole page is drawn once more."""
    st.fragment(_progress, run_every=POLL_S if job.active else None)(job.job_id, job.active)


def _progress(job_id: str, was_active: bool) -> None:
    job = manager().get(job_id)
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
    ui.note(_step(job))
    st.button(
        "Stop",
        icon=":material/stop:",
        key="stop_job",
        disabled=job.state == "cancelling",
        help="What is done is kept, and the run can be resumed.",
        on_click=manager().cancel,
        args=(job.job_id,),
    )


def _step(job: Job) -> str:
    """The step that the run is at, as its manifest says; empty where it says none (yet)."""
    try:
        step = str(find_run(str(job.params.get("run_id", ""))).manifest().get("step", ""))
    except EngineError:
        return ""
    return f"{step} …" if step else ""


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
        manager().resume(job_id)
    except EngineError as error:
        ui.show_error(error, "The run could not be resumed.")
        return
    st.rerun()


# Cost of a run, beside the button that starts it: its pace, and the tokens and price of an API judge.


def api_cost(judge: str, dataset: Dataset, calls: int, *, texts: int = 1) -> str:
    """A sentence, or nothing for a judge that runs here.

    Args:
        judge: the judge's spec, with or without a card.
        dataset: whose texts stand in the prompts.
        calls: verdicts of the run.
        texts: responses, or texts as long as one, that stand in a prompt beside the context.
    """
    if not _is_api(judge) or not len(dataset.responses):
        return ""
    contexts = dataset.responses["item_id"].map(dataset.items.set_index("item_id")["context"])
    return cost_sentence(judge, calls, mean_bytes(contexts) + texts * mean_bytes(dataset.responses["text"]))


def mean_bytes(texts: pd.Series) -> float:
    """Mean length of texts [bytes of UTF-8]; 0 where there is none."""
    sizes = texts.fillna("").str.encode("utf-8", "replace").str.len()
    return float(sizes.mean()) if len(sizes) else 0.0


def cost_sentence(judge: str, calls: int, prompt_bytes: float) -> str:
    """As `api_cost`, for texts of so many bytes in a prompt on average."""
    if not _is_api(judge):
        return ""
    try:
        expense = catalog.rough_expense(catalog.split_spec(judge).model, calls, prompt_bytes)
    except InputError as error:
        return str(error)
    return f"At most {expense.sentence()} Kept answers are not sent again."


def _is_api(judge: str) -> bool:
    return catalog.is_served(catalog.split_spec(judge).model)


def pace(verdicts: pd.DataFrame) -> float:
    """Seconds a call of these verdicts took on average; 0 where none was asked anew."""
    seconds = verdicts["seconds"]
    mean = float(seconds[seconds > 0].mean())  # a call from the cache took no time
    return 0.0 if math.isnan(mean) else mean

"""Steering and anchors, put together: finding, diagnosis, and one tab for each part of the method."""

from __future__ import annotations

import streamlit as st

from dashboard import pinned, ui
from dashboard.panels import cap_findings, cap_run, findings
from dashboard.panels.cap_alpha import EXTEND, alpha
from dashboard.panels.cap_anchors import anchors
from dashboard.panels.cap_attacks import attacks
from dashboard.panels.cap_beside import beside
from dashboard.panels.cap_cost import cost
from dashboard.panels.cap_standards import standards
from dashboard.panels.cap_view import CAP, CapView, extended, latest, view_of
from dashboard.panels.progress import progress
from engine import jobs
from engine.data.dataset import Dataset
from engine.data.store import DEMO_DIALOGUE
from engine.errors import EngineError
from engine.jobs import Job

TABS = ("Standards", "Alpha", "Anchors", "Attacks", "Cost and agreement", "Two tutors")
TAB = "part"


def cap_page(judge: str, dataset: Dataset) -> None:
    """The newest run of this judge on this data, the controls for a new one, and what is going on."""
    job = cap_run.watched(judge, dataset.dataset_id)
    more = _extension(judge, dataset.dataset_id)
    try:
        asked = pinned.about(CAP, judge, dataset.dataset_id)
        view = _view(job) if job and not asked else latest(judge, dataset.dataset_id)
    except EngineError as error:
        ui.show_error(error, "The run cannot be read.")
        view = None
    if view is not None and len(view.layers):
        st.badge(findings.provenance(view.manifest, recorded=view.recorded), icon=":material/history:", color="gray")
        ui.finding(cap_findings.headline(view))
    elif job is None:
        ui.nothing_yet(_empty(dataset.dataset_id))
    cap_run.setup(judge, dataset, job)
    going = next((one for one in (job, more) if one and (one.active or one.state != "done")), None)
    if going:
        progress(going)
    if view is not None and len(view.layers):
        _diagnosis(view)
        _parts(view, judge, dataset, more)


def _empty(dataset_id: str) -> str:
    recorded = (
        "" if dataset_id == DEMO_DIALOGUE else " A recorded run comes with the demo dialogues and the bundled judge."
    )
    return f"The study has not been run with this judge on this data yet: open “Run the study on this data”.{recorded}"


def _view(job: Job) -> CapView | None:
    run_id = str(job.params.get("run_id", ""))
    return view_of(run_id, f"{job.state} {job.done} {job.finished} {extended({'run_id': run_id})}")


def _extension(judge: str, dataset_id: str) -> Job | None:
    held = jobs.manager().get(str(st.session_state.get(EXTEND, "")))
    return held or cap_run.watched(judge, dataset_id, EXTEND)


def _diagnosis(view: CapView) -> None:
    """The links of the chain from the tutor's activations to the judge's score, weakest ones plain to see."""
    answers = cap_findings.diagnosis(view)
    if not answers:
        return
    with st.container(border=True, key="cap_diagnosis", gap="small"):
        st.subheader("Why it holds, or does not", anchor=False)
        columns = st.columns(2, gap="medium")
        for k, one in enumerate(answers):
            colour = {True: "green", False: "orange", None: "gray"}[one.good]
            with (
                columns[2 * k // len(answers)],  # column by column, so that a phone keeps the chain's order
                st.container(gap=None),
            ):
                with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                    st.markdown(ui.plain(one.question), width="content")
                    st.badge(ui.plain(one.answer), color=colour)
                ui.note(one.brief)
        with st.expander("How each answer was reached"):
            ui.bullets([one.numbers for one in answers])


def _parts(view: CapView, judge: str, dataset: Dataset, more: Job | None) -> None:
    first, second, third, fourth, fifth, sixth = st.tabs(list(TABS), key=TAB, bind="query-params", on_change="rerun")
    if first.open:
        with first:
            standards(view)
    if second.open:
        with second:
            if len(view.sweep):
                alpha(view, more)
            else:
                ui.note("The sweep follows when the standards are found.")
    if third.open:
        with third:
            anchors(view, dataset)
    if fourth.open:
        with fourth:
            attacks(view)
    if fifth.open:
        with fifth:
            cost(view)
    if sixth.open:
        with sixth:
            beside(view, judge, dataset.dataset_id)

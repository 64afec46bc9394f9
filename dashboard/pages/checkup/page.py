"""Check-up: what can this judge be trusted with, in one run?"""

from __future__ import annotations

import streamlit as st

from dashboard import findings, state, ui
from dashboard.linked_run import latest
from dashboard.pages.checkup.data import CheckupRun, any_recorded, chosen
from dashboard.pages.checkup.results import results, so_far
from dashboard.pages.checkup.setup import setup
from dashboard.progress import newest_job
from engine.studies.figure import upper_first

st.title("Check-up", anchor=False)
ui.note(
    "Eleven probes ask the judge the same things in ways that should make no difference, or offer it texts that are no "
    "answer. Each effect is held against a threshold: the probe holds, fails, or cannot be decided with so few items."
)
judge, data_id = state.text(state.JUDGE), state.text(state.DATA)
job = newest_job(CheckupRun.kind, judge=judge, data=data_id)
run = latest(CheckupRun, judge, data_id)
setup(judge, data_id, job, chosen(run), run)
if job and job.active:
    so_far(str(job.params["run_id"]))
elif run:
    results(run)
elif recorded := any_recorded():
    ui.warn(
        f"{upper_first(findings.judge_name(judge))} has not been checked on these data here yet: press “Check up”. "
        f"Below is a recorded check-up of {findings.judge_name(recorded.judge)} on other data."
    )
    results(recorded)
else:
    ui.nothing_yet("This judge has not been checked on these data here yet. Press “Check up”.")

"""Check-up: what can this judge be trusted with, in one run?"""

from __future__ import annotations

from dashboard import datasets, findings, state, ui
from dashboard.linked_run import latest
from dashboard.pages.checkup.data import CheckupRun, any_recorded, chosen
from dashboard.pages.checkup.results import results, so_far
from dashboard.pages.checkup.setup import needed, setup
from dashboard.progress import newest_job, progress
from engine.studies.figure import upper_first

frame = ui.page_frame("Check-up")
judge, data_id = state.text(state.JUDGE), state.text(state.DATA)
job = newest_job(CheckupRun.kind, judge=judge, data=data_id)
run = latest(CheckupRun, judge, data_id)
going = bool(job and job.active)
recorded = None if run or going else any_recorded(judge)
with frame.banner:
    if recorded:
        name = datasets.titles().get(data_id, data_id)
        ui.banner(
            f"You see a recorded check-up of {findings.judge_name(recorded.judge)} on demo pairs. "
            f"{upper_first(findings.judge_name(judge))} has not been checked on “{name}” yet.",
            key="checkup",
        )
with frame.top:
    if not data_id.startswith("demo-"):
        ui.needs(needed(data_id), key="checkup")
    setup(judge, data_id, chosen(run), run, frame.actions, busy=going)
    if job:
        progress(job)
with frame.body:
    if going and job:
        so_far(str(job.params["run_id"]))
    elif shown := run or recorded:
        results(shown)
    else:
        ui.nothing_yet("This judge has not been checked on these data here yet. Press “Full check-up”.")

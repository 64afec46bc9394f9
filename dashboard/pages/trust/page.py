"""Trust: a judge's number corrected by people's labels, how many labels it takes, where not to use the judge."""

from __future__ import annotations

from dashboard import state, ui
from dashboard.pages.trust.numbers import TrustRun
from dashboard.pages.trust.results import results
from dashboard.pages.trust.setup import choose_run, setup, trust_runs
from dashboard.progress import newest_job, progress

frame = ui.page_frame("Trust")
job = newest_job(TrustRun.kind)
found = trust_runs()
with frame.actions:
    setup(busy=bool(job and job.active))
with frame.top:
    if job and (job.active or job.state == "failed"):
        progress(job)
    run = choose_run(found, state.text(state.DATA), job, frame.banner)
if run:
    results(run, frame)
else:
    with frame.body:
        ui.nothing_yet("No number has been corrected yet. Press “Use my labels”.")

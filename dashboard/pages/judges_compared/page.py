"""Compare judges: which one to ask, what is a panel of them worth, do attacks carry over, do they favour their own?"""

from __future__ import annotations

from dashboard import state, ui
from dashboard.pages.judges_compared.results import results
from dashboard.pages.judges_compared.setup import PanelRun, choose_panel, panels, setup
from dashboard.progress import newest_job, progress

frame = ui.page_frame("Compare judges")
data_id = state.text(state.DATA)
job = newest_job(PanelRun.kind)
found = panels()
with frame.actions:
    setup(data_id, busy=bool(job and job.active))
with frame.top:
    if job and (job.active or job.state == "failed"):
        progress(job)
    run = choose_panel(found, data_id, job, frame.banner)
if run:
    results(run, frame)
else:
    with frame.body:
        ui.nothing_yet("No two judges have been compared yet. Press “Compare runs”, or run a study for two judges.")

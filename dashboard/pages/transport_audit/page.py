"""Transport audit: which verdicts look unlike verified human preferences, and does flipping them help?"""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.linked_run import latest
from dashboard.pages.transport_audit.data import AuditRun
from dashboard.pages.transport_audit.planted import LESSON, lesson
from dashboard.pages.transport_audit.results import results
from dashboard.pages.transport_audit.setup import actions, choose, needed, watch

frame = ui.page_frame("Transport audit")
with frame.banner:
    chosen = choose()
if chosen:
    pairs, judge = chosen
    run = latest(AuditRun, judge, pairs.set_id)
    if run is None and pairs.set_id != state.text(state.DATA):
        run = latest(AuditRun, "", pairs.set_id)  # the demo under its banner, whoever judged it
    with frame.actions:
        actions(pairs, judge, quick=bool(run and run.config.get("quick")))
    with frame.banner:
        if run is None or not run.labelled:
            needed(pairs, judge)
        watch(pairs, judge)
    if run:
        results(frame, run, pairs)
    else:
        frame.headline("These verdicts have not been audited yet. “Quick audit” takes at most two minutes.")
    teaching = frame.drawer.expander(
        "Lesson: when does auditing help, when does it hurt?", icon=":material/school:", key="audit_lesson",
        on_change="rerun", expanded=LESSON in st.query_params,
    )  # fmt: skip
    with teaching:
        if teaching.open:
            lesson()

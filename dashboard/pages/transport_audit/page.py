"""Transport audit: which verdicts look unlike verified human preferences, and does flipping them help?"""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.linked_run import latest
from dashboard.pages.transport_audit.data import AuditRun
from dashboard.pages.transport_audit.planted import LESSON, lesson
from dashboard.pages.transport_audit.results import results
from dashboard.pages.transport_audit.setup import choose, run_panel, upload

st.title("Transport audit", anchor=False)
ui.note(
    "Pairs that people have judged show what a human preference looks like. Partial transport keeps the share m of a "
    "judge's verdicts that look most like them, and flips the rest (PUAudit, paper 002)."
)
chosen = choose()
if chosen:
    pairs, judge = chosen
    run = latest(AuditRun, judge, pairs.set_id)
    if run:
        results(run, pairs)
    else:
        ui.nothing_yet("This judge has not been audited on these pairs here yet. Choose below, then run the audit.")
    with st.expander("Run an audit on these pairs", expanded=run is None, icon=":material/play_arrow:"):
        run_panel(pairs, judge)
with st.expander("Bring pairs of your own", icon=":material/upload:"):
    upload()
teaching = st.expander(
    "Lesson: when does auditing help, when does it hurt?", icon=":material/school:", key="audit_lesson",
    on_change="rerun", expanded=LESSON in st.query_params,
)  # fmt: skip
with teaching:
    if teaching.open:
        lesson()

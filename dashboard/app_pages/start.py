"""Start: what is this, what does the bundled judge look like at a glance, where do I begin?"""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from dashboard.panels import findings
from dashboard.panels.glance import glance

st.title("What can your judge be trusted with?", anchor=False)
ui.finding("Attack an LLM judge, switch defenses on, and see how far its scores move, with honest intervals.")

with st.container(horizontal=True, gap="small"):
    if st.button("Attack one response now", type="primary", icon=":material/bolt:", key="go_attack"):
        state.put(state.TAB, state.TAB_ONE)
        st.switch_page("app_pages/attack_lab.py")
    if st.button("Bring your own responses", icon=":material/upload_file:", key="go_data"):
        st.switch_page("app_pages/data.py")

st.header("A recorded example", anchor=False)
demo = data.demo_run()
if demo is None:
    ui.nothing_yet(
        "The recorded run is missing from this copy of the project; make one of your own in the Attack lab.",
        "app_pages/attack_lab.py",
        "Attack lab",
    )
else:
    st.badge(findings.provenance(demo.manifest, recorded=True), icon=":material/history:", color="gray")
    headline, rest = findings.run_sentences(demo.metrics, findings.judge_name(demo.judge))
    ui.finding(headline)
    ui.note(rest)
    glance(demo)

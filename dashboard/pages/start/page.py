"""Start: what is this, what does my judge look like at a glance, where do I begin?"""

from __future__ import annotations

import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.attack_lab.effects import GridRun
from dashboard.pages.start.api import api_judges
from dashboard.pages.start.glance import at_a_glance, glance, lessons, next_step
from dashboard.run_view import load_or_none
from engine import catalog

judge, chosen_data = state.text(state.JUDGE), state.text(state.DATA)
st.title("What can your judge be trusted with?", anchor=False)
ui.finding("Attack an LLM judge, switch defenses on, and see how far its scores move, with honest intervals.")

with st.container(horizontal=True, gap="small"):
    if st.button("Attack one response now", type="primary", icon=":material/bolt:", key="go_attack"):
        state.put(state.TAB, state.TAB_ONE)
        st.switch_page("pages/attack_lab/page.py")
    if st.button("Bring your own responses", icon=":material/upload_file:", key="go_data"):
        st.switch_page("pages/data/page.py")
    if st.button("Write your judge's prompt", icon=":material/edit_note:", key="go_card"):
        st.switch_page("pages/judge_card/page.py")

st.header(f"{ui.plain(catalog.describe_judge(judge).title)} at a glance", anchor=False)
at_a_glance(judge, chosen_data)

next_step(judge, chosen_data)
api_judges()

st.header("Lessons", anchor=False)
ui.note("For a class or for yourself: guess first, try it with one click, then look at what was measured.")
lessons()

st.header("A recorded example", anchor=False)
demo = load_or_none(GridRun, "recorded:dialogue/run")
if demo is None:
    ui.nothing_yet(
        "The recorded run is missing from this copy of the project; make one of your own in the Attack lab.",
        "pages/attack_lab/page.py",
        "Attack lab",
    )
else:
    st.badge(findings.provenance(demo.manifest, recorded=True), icon=":material/history:", color="gray")
    headline, rest = findings.run_sentences(demo.metrics, findings.judge_name(demo.judge))
    ui.finding(headline)
    ui.note(rest)
    # three figures that most visits do not need: drawn when asked for, so that the page opens at once
    with st.expander("Its figures: attacks, defenses, responses", key="recorded_figures", on_change="rerun") as figures:
        if figures.open:
            glance(demo)

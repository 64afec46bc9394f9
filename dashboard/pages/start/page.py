"""Start: what is this, what does my judge look like at a glance, where do I begin?"""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.pages.lessons.texts import NAIVE
from dashboard.pages.lessons.view import open_preset
from dashboard.pages.start.api import api_judges
from dashboard.pages.start.glance import at_a_glance, lessons, next_step
from dashboard.pages.start.two_judges import attack_on, two_recipes
from engine import catalog

judge, chosen_data = state.text(state.JUDGE), state.text(state.DATA)
st.title("What can your judge be trusted with?", anchor=False)
ui.finding("Attack an LLM judge, switch defenses on, and see how far its scores move, with honest intervals.")

with st.container(horizontal=True, gap="small"):
    if st.button("Attack one response now", type="primary", icon=":material/bolt:", key="go_attack"):
        if (judge, chosen_data) == (state.DEFAULT_JUDGE, state.DEFAULT_DATA):  # nothing was chosen yet
            open_preset(attack_on(NAIVE))
        state.put(state.TAB, state.TAB_ONE)
        st.switch_page("pages/attack_lab/page.py")
    if st.button("Bring your own responses", icon=":material/upload_file:", key="go_data"):
        st.switch_page("pages/data/page.py")
    if st.button("Write your judge's prompt", icon=":material/edit_note:", key="go_card"):
        st.switch_page("pages/judge_card/page.py")

two_recipes()

st.header(f"{ui.plain(catalog.describe_judge(judge).title)} at a glance", anchor=False)
at_a_glance(judge, chosen_data)

next_step(judge, chosen_data)
api_judges()

st.header("Lessons", anchor=False)
ui.note("For a class or for yourself: guess first, try it with one click, then look at what was measured.")
lessons()

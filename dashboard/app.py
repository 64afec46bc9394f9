"""JudgeScope's entry script: the pages, the rail, the chosen page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import linked_run as pinned
from dashboard import state, ui
from dashboard.rail import machine, pinned_bar, rail, require_login

st.set_page_config(page_title="JudgeScope", page_icon="🔬", layout="wide")
st.logo(Path(__file__).with_name("logo.svg"), size="large")
ui.apply_style()
require_login()
page = st.navigation(
    [
        st.Page("pages/start/page.py", title="Start", icon=":material/home:", default=True),
        st.Page("pages/lessons/page.py", title="Lessons", icon=":material/school:", url_path="lessons"),
        st.Page("pages/judge_card/page.py", title="Judge card", icon=":material/edit_note:", url_path="judge-card"),
        st.Page("pages/data/page.py", title="Data", icon=":material/table:", url_path="data"),
        st.Page("pages/checkup/page.py", title="Check-up", icon=":material/stethoscope:", url_path="check-up"),
        st.Page("pages/attack_lab/page.py", title="Attack lab", icon=":material/bolt:", url_path="attack-lab"),
        st.Page(
            "pages/steering_and_anchors/page.py",
            title="Steering and anchors",
            icon=":material/explore:",
            url_path="steering-and-anchors",
        ),
        st.Page(
            "pages/reference_swap/page.py",
            title="Reference swap",
            icon=":material/swap_horiz:",
            url_path="reference-swap",
        ),
        st.Page(
            "pages/transport_audit/page.py",
            title="Transport audit",
            icon=":material/balance:",
            url_path="transport-audit",
        ),
        st.Page(
            "pages/protocols/page.py",
            title="Protocols and leaderboard",
            icon=":material/leaderboard:",
            url_path="protocols",
        ),
        st.Page("pages/runs/page.py", title="Runs", icon=":material/folder_open:", url_path="runs"),
        st.Page("pages/report/page.py", title="Report", icon=":material/description:", url_path="report"),
        st.Page("pages/methods/page.py", title="Methods", icon=":material/functions:", url_path="methods"),
    ],
    expanded=True,  # thirteen pages: none hides behind "view more"
)
pinned.arrive(page.title)
rail()
pinned_bar(page.title)
page.run()
machine()  # after the page, which may have woken the judge
if message := state.take_message():
    st.toast(ui.plain(message), icon=":material/check:")

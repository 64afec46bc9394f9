"""JudgeScope's entry script: the pages, the rail, the chosen page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import pinned, state, ui
from dashboard.panels.login import require_login
from dashboard.panels.pinned_bar import pinned_bar
from dashboard.panels.rail import machine, rail

st.set_page_config(page_title="JudgeScope", page_icon="🔬", layout="wide")
st.logo(Path(__file__).with_name("logo.svg"), size="large")
ui.apply_style()
require_login()
page = st.navigation(
    [
        st.Page("app_pages/start.py", title="Start", icon=":material/home:", default=True),
        st.Page("app_pages/lessons.py", title="Lessons", icon=":material/school:", url_path="lessons"),
        st.Page("app_pages/judge_card.py", title="Judge card", icon=":material/edit_note:", url_path="judge-card"),
        st.Page("app_pages/data.py", title="Data", icon=":material/table:", url_path="data"),
        st.Page("app_pages/checkup.py", title="Check-up", icon=":material/stethoscope:", url_path="check-up"),
        st.Page("app_pages/attack_lab.py", title="Attack lab", icon=":material/bolt:", url_path="attack-lab"),
        st.Page(
            "app_pages/steering_and_anchors.py",
            title="Steering and anchors",
            icon=":material/explore:",
            url_path="steering-and-anchors",
        ),
        st.Page(
            "app_pages/reference_swap.py",
            title="Reference swap",
            icon=":material/swap_horiz:",
            url_path="reference-swap",
        ),
        st.Page(
            "app_pages/transport_audit.py",
            title="Transport audit",
            icon=":material/balance:",
            url_path="transport-audit",
        ),
        st.Page(
            "app_pages/protocols.py",
            title="Protocols and leaderboard",
            icon=":material/leaderboard:",
            url_path="protocols",
        ),
        st.Page("app_pages/runs.py", title="Runs", icon=":material/folder_open:", url_path="runs"),
        st.Page("app_pages/report.py", title="Report", icon=":material/description:", url_path="report"),
        st.Page("app_pages/methods.py", title="Methods", icon=":material/functions:", url_path="methods"),
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

"""JudgeScope's entry script: the pages, the rail, the chosen page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import state, ui
from dashboard.panels.rail import machine, rail

st.set_page_config(page_title="JudgeScope", page_icon="🔬", layout="wide")
st.logo(Path(__file__).with_name("logo.svg"), size="large")
ui.apply_style()
page = st.navigation(
    [
        st.Page("app_pages/start.py", title="Start", icon=":material/home:", default=True),
        st.Page("app_pages/data.py", title="Data", icon=":material/table:", url_path="data"),
        st.Page("app_pages/attack_lab.py", title="Attack lab", icon=":material/bolt:", url_path="attack-lab"),
    ]
)
rail()
page.run()
machine()  # after the page, which may have woken the judge
if message := state.take_message():
    st.toast(ui.plain(message), icon=":material/check:")

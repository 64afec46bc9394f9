"""JudgeScope's entry script: the pages, the rail, the chosen page."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import linked_run, state, ui
from dashboard.rail import machine, pinned_bar, rail, require_login

st.set_page_config(page_title="JudgeScope", page_icon="🔬", layout="wide")
st.logo(Path(__file__).with_name("logo.svg"), size="large")
ui.apply_style()
require_login()
page = st.navigation(
    {
        group: [
            st.Page(file, title=title, icon=f":material/{icon}:", url_path=url, default=not url)
            for file, (title, icon, url) in pages.items()
        ]
        for group, pages in linked_run.GROUPS.items()
    },
    expanded=True,  # none hides behind "view more"
)
linked_run.arrive(page.title)
rail(page.title)
pinned_bar(page.title)
page.run()
machine()  # after the page, which may have woken the judge
if message := state.take_message():
    st.toast(ui.plain(message), icon=":material/check:")

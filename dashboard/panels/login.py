"""Who may see a page: what the guard in front cannot decide, since only a script run can show a login."""

from __future__ import annotations

import streamlit as st
from streamlit import config

from dashboard import ui
from dashboard.access import guarded, login_configured
from dashboard.guard import is_loopback
from engine.settings import get_settings


def require_login() -> None:
    """Stop the script here for a visitor who must log in first, or who came around the guard."""
    if login_configured() and not get_settings().token:
        if not st.user.get("is_logged_in", False):
            st.title("JudgeScope", anchor=False)
            ui.note("This dashboard is for people who are logged in.")
            st.button("Log in", type="primary", on_click=st.login, key="log_in")
            st.stop()
    elif not guarded() and not is_loopback(config.get_option("server.address") or ""):
        ui.show_error(
            "Start it with `judgescope dashboard --address …`, which asks for a token. "
            "`streamlit run dashboard/app.py` leaves the guard out and is for this machine only.",
            "This address can be reached from other machines.",
        )
        st.stop()

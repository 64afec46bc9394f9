"""Methods: each formula with its source and limits, which published findings hold here, and how fast the engine is."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.pages.methods.results import show_benches, show_findings, show_formulas
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.report import methods

st.title("Methods", anchor=False)
assets = get_settings().assets
try:
    found, speed = methods.findings(assets), methods.benches(assets)
    explained = methods.formulas(assets)
except EngineError as error:
    ui.show_error(error, "The committed results could not be read.")
    st.stop()
counts = found["seen"].value_counts()
ui.finding(
    f"Of {len(found)} published findings and checks put to the bundled judges, {counts.get('holds', 0)} hold, "
    f"{counts.get('not seen', 0)} are not seen, {counts.get('the other way', 0)} go the other way."
)
tabs = st.tabs(["What holds", "Formulas", "Speed"], key="methods_tab", on_change="rerun", bind="query-params")
for tab, show, table in zip(tabs, (show_findings, show_formulas, show_benches), (found, explained, speed), strict=True):
    if tab.open:
        with tab:
            show(table)

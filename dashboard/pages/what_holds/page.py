"""What holds: the claims of the four papers beside what judges show, the formulas behind them, the engine's speed."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.pages.what_holds.results import (
    choose_judge,
    counted,
    show_benches,
    show_formulas,
    show_paper,
    show_rules,
)
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.report import methods
from engine.studies.claims.figures import PAPERS, frozen_claims, stored_claims

st.title("What holds", anchor=False)
assets = get_settings().assets
try:
    frozen, table = frozen_claims(assets), stored_claims(assets)
    speed, explained = methods.benches(assets), methods.formulas(assets)
except EngineError as error:
    ui.show_error(error, "The committed results could not be read.")
    st.stop()
own = choose_judge(table)
ui.finding(counted(own))
names = {paper: "Pairwise or pointwise" if paper == "Protocols" else paper for paper in PAPERS}
tabs = st.tabs(  # the same for every judge: the tab that is open stays open when another judge is chosen
    [*names.values(), "Formulas", "Speed", "Rules"],
    key="holds_tab",
    default=next((name for paper, name in names.items() if (own["paper"] == paper).any()), None),
    on_change="rerun",
    bind="query-params",
)
for tab, paper in zip(tabs, names, strict=False):
    if tab.open:
        with tab:
            show_paper(own, frozen, paper)
for tab, show in zip(
    tabs[len(names) :],
    (lambda: show_formulas(explained), lambda: show_benches(speed), lambda: show_rules(frozen)),
    strict=True,
):
    if tab.open:
        with tab:
            show()

"""The recorded run at a glance: what the attacks do, what the defenses hold back, which responses move."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.data import RunView
from dashboard.panels import findings
from dashboard.panels.effects import dumbbells, forest, grid

MOST_MOVED = 14


def glance(view: RunView) -> None:
    """Two columns on a wide screen, one on a phone."""
    left, right = st.columns(2, gap="large")
    with left:
        forest(view, key="recorded_forest")
    with right:
        attack, defense = findings.strongest_arm(view.metrics)
        dumbbells(view, attack, defense, key="recorded_dumbbells", most=MOST_MOVED)
    grid(view, key="recorded_grid")
    ui.note(
        "A shift is the score with the attack minus the score without it, under the same defense; intervals treat "
        "all responses to one item as one observation."
    )

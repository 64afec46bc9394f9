"""The figures of the page Protocols and leaderboard; each returns what was clicked."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import ui
from dashboard.panels.protocols_choose import BoardSetting, Setting
from dashboard.panels.protocols_data import ProtocolRun
from engine.schema import Protocol


def _clickable(run: ProtocolRun, name: str, *, key: str, **settings: object) -> list[Any]:
    """A figure of the gallery whose points can be clicked; what the clicked point carries, or nothing."""
    prepared, draw, pick = ui.from_gallery(run.source, name, **settings)
    figure = draw(ui.mode())
    alt = str((figure.layout.meta or {}).get("alt", ""))
    config = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}
    event = st.plotly_chart(
        figure, theme=None, width="stretch", key=key, alt=alt, on_select="rerun", selection_mode="points", config=config
    )
    ui.save_bar(draw, prepared, key=key, pick=pick)
    points = ((event or {}).get("selection") or {}).get("points") or []
    held = points[0].get("customdata") if points else None
    return list(held) if isinstance(held, (list, tuple)) else []


def flips(run: ProtocolRun, setting: Setting, *, net: bool, key: str) -> list[Any]:
    """Flip rates of each arm, the one chosen first, or those less the placebo's."""
    return _clickable(run, "flips_net" if net else "flips", key=key, first=setting.arm, **setting.ties)


def copies(run: ProtocolRun, setting: Setting, *, ties: bool, key: str) -> list[Any]:
    """How often a rewriting beats its own original, or ties with it."""
    return _clickable(run, "ties" if ties else "copies", key=key, first=setting.arm, **setting.ties)


def ladder(run: ProtocolRun, setting: Setting, *, half: bool, key: str) -> list[Any]:
    """Accuracy by severity, clean and under one arm."""
    ties_are = "half right" if half else "wrong"
    return _clickable(run, "ladder", key=key, arm=setting.arm, ties_are=ties_are, **setting.ties)


def board(
    run: ProtocolRun, name: str, protocol: Protocol, arm: str, setting: Setting, asked: BoardSetting, *, key: str
) -> list[Any]:
    """Ranks before and after (slope), or the win matrix of the clean comparisons, best system first (matrix)."""
    return _clickable(
        run, name, key=key, protocol=protocol.value, arm=arm, lowest=asked.lowest, chosen_by=asked.chosen_by,
        **setting.ties,
    )  # fmt: skip

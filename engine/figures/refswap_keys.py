"""How often each master key is accepted, before and behind RefSwap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, fixed, label, level_text
from engine.figures.theme import SMALL_SIZE, frame, say

COLUMNS = ["key", "n", "before", "before_lower", "before_upper", "after", "after_lower", "after_upper"]
Row = tuple[str, int, float, float, float, float, float, float]


def prepare_keys(rows: Sequence[Row]) -> pd.DataFrame:
    """Keys with both shares and their intervals, the most accepted first; key, n, then the columns in order."""
    table = pd.DataFrame(list(rows), columns=COLUMNS)
    return table.sort_values("before", ascending=False, kind="stable").reset_index(drop=True)


def plot_keys(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    level: float = 0.95,
    title: str = "Which keys are accepted?",
    note: str = "",
) -> go.Figure:
    """A row per key: ring before, dot behind RefSwap, each with its interval, on one axis from zero.

    Args:
        prepared: from `prepare_keys`.
        mode: light, dark or print.
        level: of the intervals.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    rows = prepared[prepared["before"].notna()].reset_index(drop=True)
    for side, name, meaning, shift in (
        ("before", "undefended", "attacked", -0.14),
        ("after", "behind RefSwap", "defended", 0.14),
    ):
        if len(rows):
            fig.add_trace(_dots(rows, side, name, MEANING[mode][meaning], shift, mode))
    if rows.empty:
        say(fig, "no key has been tried yet", mode)
    top = max([5.0, *(100 * rows[["before_upper", "after_upper"]].max(axis=1))])
    fig.update_xaxes(range=[-0.02 * top, 1.03 * top], title="accepted (%)", fixedrange=True, zeroline=True)
    fig.update_yaxes(
        range=[max(len(rows), 1) - 0.4, -0.6],
        tickmode="array",
        tickvals=list(rows.index),
        ticktext=[label(key, 24) for key in rows["key"]],
        tickfont={"color": ROLES[mode]["ink"], "size": SMALL_SIZE},
        showgrid=False,
        fixedrange=True,
    )
    low, high = (int(rows["n"].min()), int(rows["n"].max())) if len(rows) else (0, 0)
    n = count(low) if low == high else f"{count(low)}–{count(high)}"
    notes = (f"{level_text(level)} Wilson intervals", f"n = {n} questions a key", label(note, 80) if note else "")
    said = "; ".join(
        f"{key}: {_percent(b)} before, {_percent(a)} after"
        for key, b, a in zip(rows["key"], rows["before"], rows["after"], strict=True)
    )
    alt = f"Share of questions on which each key is accepted. {said}"
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=34 * max(len(rows), 1) + 24, legend=len(rows) > 0)


def _dots(rows: pd.DataFrame, side: str, name: str, colour: str, shift: float, mode: Mode) -> go.Scatter:
    value = 100 * rows[side]
    solid = side == "after"
    return go.Scatter(
        x=value.tolist(),
        y=[i + shift for i in rows.index],
        mode="markers",
        name=name,
        marker={
            "size": 10,
            "symbol": "square" if solid else "circle",
            "color": colour if solid else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": (100 * rows[f"{side}_upper"] - value).tolist(),
            "arrayminus": (value - 100 * rows[f"{side}_lower"]).tolist(),
            "color": colour,
            "thickness": 2,
            "width": 4,
        },
        customdata=[[label(key, 40), text] for key, text in zip(rows["key"], _texts(rows, side), strict=True)],
        hovertemplate=f"%{{customdata[0]}}<br>{name}: %{{customdata[1]}}<extra></extra>",
    )


def _texts(rows: pd.DataFrame, side: str) -> list[str]:
    columns = zip(rows[side], rows[f"{side}_lower"], rows[f"{side}_upper"], strict=True)
    return [f"{_percent(v)} [{_percent(low)}, {_percent(high)}]" for v, low, high in columns]


def _percent(x: Any) -> str:
    return "unread" if math.isnan(x) else f"{fixed(100 * float(x), 1)} %"

"""Parts of a figure with one row for each effect: its words above, point and interval below, a line at no effect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import ROLES, Mode
from engine.figures.text import count, label
from engine.figures.theme import SMALL_SIZE


def point(
    row: Any, y: int, numbers: Sequence[float], text: str, *, marker: dict[str, Any], colour: str, thickness: float
) -> go.Scatter:
    """Value with its interval, as far as there is one; the row's name, n and unread on hovering.

    Args:
        row: has name, n and n_unread.
        y: number of the row.
        numbers: value, lower, upper.
        text: the numbers for a reader.
        marker: of the value.
        colour: of the interval.
        thickness: of the interval [px].
    """
    value, lower, upper = numbers
    bounded = math.isfinite(lower) and math.isfinite(upper)
    return go.Scatter(
        x=[value],
        y=[y],
        mode="markers",
        marker=marker,
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [upper - value if bounded else 0],
            "arrayminus": [value - lower if bounded else 0],
            "color": colour,
            "thickness": thickness,
            "width": 5 if bounded else 0,
            "visible": bounded,
        },
        customdata=[[label(row["name"], 60), text, count(whole(row["n"])), count(whole(row["n_unread"]))]],
        hovertemplate=(
            "%{customdata[0]}<br>%{customdata[1]}<br>n = %{customdata[2]}, %{customdata[3]} unread<extra></extra>"
        ),
        name=label(row["name"], 60),
    )


def words(x: float, y: int, text: str, colour: str, anchor: str, mode: Mode) -> dict[str, Any]:
    """An annotation above a row, at its left (x = 0) or right (x = 1) end."""
    return {
        "x": x,
        "xref": "paper",
        "y": y,
        "yshift": 19,
        "bgcolor": ROLES[mode]["background"],  # keeps the zero line out of the words
        "borderpad": 1,
        "text": text,
        "showarrow": False,
        "xanchor": anchor,
        "font": {"size": SMALL_SIZE + 1, "color": colour},
    }


def axes(fig: go.Figure, ends: Sequence[float], title: str, rows: int, mode: Mode) -> None:
    """Axes that hold all ends and rows, and the line at zero."""
    pad = 0.06 * (max(ends) - min(ends)) or 0.5
    fig.update_xaxes(range=[min(ends) - pad, max(ends) + pad], title=title, fixedrange=True, nticks=7)
    fig.update_yaxes(range=[max(rows, 1) - 0.45, -0.8], visible=False, fixedrange=True)
    zero = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line=zero, layer="below")


def span(numbers: pd.Series) -> str:
    """The one number, or the smallest and the largest."""
    low, high = int(numbers.min()), int(numbers.max())
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def whole(value: Any) -> int:
    """A count; 0 where it is missing."""
    return 0 if pd.isna(value) else int(value)

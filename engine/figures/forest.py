"""Shifts with their intervals as forest rows, the null drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.effects import EFFECTS, NOTHING, arm_title, arms, effect_notes
from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, interval_text, label
from engine.figures.theme import SMALL_SIZE, frame, say

COLUMNS = [
    "name",
    "attack",
    "defense",
    "metric",
    "value",
    "lower",
    "upper",
    "level",
    "method",
    "n",
    "n_clusters",
    "n_unread",
]


def prepare_forest(
    metrics: pd.DataFrame, *, metric: str = "shift", titles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """One row per arm, attacks in the order of the table, the undefended arm of each first.

    Args:
        metrics: table `metrics`, from `engine.metrics.shifts.shift_metrics`.
        metric: shift or relative_shift.
        titles: attack or defense name to what it is called.

    Returns:
        name, attack, defense, metric, value, lower, upper, level, method, n, n_clusters, n_unread.

    Raises:
        InputError: another metric.
    """
    rows = arms(metrics, metric)
    order = {attack: i for i, attack in enumerate(rows["attack"].unique())}
    rank = [(order[a], d != "none", i) for i, (a, d) in enumerate(zip(rows["attack"], rows["defense"], strict=True))]
    rows = rows.iloc[[i for *_, i in sorted(rank)]].reset_index(drop=True)
    rows["name"] = [arm_title(a, d, titles or {}) for a, d in zip(rows["attack"], rows["defense"], strict=True)]
    return rows[COLUMNS]


def plot_forest(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    title: str = "How far does each attack move the score?",
    note: str = "",
) -> go.Figure:
    """A row per arm: its name and numbers on one line, point and interval below, a line at zero.

    Names stand over the intervals rather than beside them, so that the plot keeps its width on a phone.

    Args:
        prepared: from `prepare_forest`.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    rows = prepared.reset_index(drop=True)
    effect = EFFECTS[str(rows["metric"].iloc[0])] if len(rows) else EFFECTS["shift"]
    fig = go.Figure()
    annotations: list[dict[str, Any]] = []
    ends, texts = [0.0], []
    for i, (_, row) in enumerate(rows.iterrows()):
        value, lower, upper = (effect.factor * float(row[k]) for k in ("value", "lower", "upper"))
        ends += [x for x in (value, lower, upper) if math.isfinite(x)]
        text = interval_text(
            value,
            lower,
            upper,
            signed=True,
            unit=effect.unit.replace("points", ""),
            method=str(row["method"]),
            n_clusters=_whole(row["n_clusters"]),
        )
        texts.append(text)
        known = math.isfinite(value)
        numbers = f"<b>{text}</b>" if known else "no read pair"
        if known:
            fig.add_trace(_row(row, i, (value, lower, upper), text, mode))
        colour = ROLES[mode]["ink"] if known else MEANING[mode]["unread"]
        annotations.append(_words(0, i, label(row["name"], 30), colour, "left", mode))
        annotations.append(_words(1, i, numbers, colour, "right", mode))
    low, high = min(ends), max(ends)
    pad = 0.06 * (high - low) or 0.5
    fig.update_xaxes(range=[low - pad, high + pad], title=effect.axis, fixedrange=True, nticks=7)
    fig.update_yaxes(range=[max(len(rows), 1) - 0.45, -0.8], visible=False, fixedrange=True)
    zero = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line=zero, layer="below")
    fig.update_layout(annotations=annotations)
    if rows.empty:
        say(fig, NOTHING, mode)
    alt = "Score shift by arm: " + "; ".join(f"{name} {text}" for name, text in zip(rows["name"], texts, strict=True))
    return frame(fig, mode, title=title, notes=effect_notes(rows, note), alt=alt, body=50 * max(len(rows), 1) + 16)


def _row(row: pd.Series, y: int, numbers: tuple[float, float, float], text: str, mode: Mode) -> go.Scatter:
    value, lower, upper = numbers
    bounded = math.isfinite(lower) and math.isfinite(upper)
    colour = MEANING[mode]["attacked" if row["defense"] == "none" else "defended"]
    defended = row["defense"] != "none"
    return go.Scatter(
        x=[value],
        y=[y],
        mode="markers",
        marker={
            "size": 11,
            "symbol": "square" if defended else "circle",
            "color": colour if bounded else ROLES[mode]["background"],
            "line": {"color": colour if bounded else MEANING[mode]["unread"], "width": 2},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [upper - value if bounded else 0],
            "arrayminus": [value - lower if bounded else 0],
            "color": colour,
            "thickness": 2.5,
            "width": 5 if bounded else 0,
            "visible": bounded,
        },
        customdata=[[label(row["name"], 60), text, count(_whole(row["n"])), count(_whole(row["n_unread"]))]],
        hovertemplate=(
            "%{customdata[0]}<br>%{customdata[1]}<br>n = %{customdata[2]}, %{customdata[3]} unread<extra></extra>"
        ),
        name=label(row["name"], 60),
    )


def _words(x: float, y: int, text: str, colour: str, anchor: str, mode: Mode) -> dict[str, Any]:
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


def _whole(value: Any) -> int:
    return 0 if pd.isna(value) else int(value)

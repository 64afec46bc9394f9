"""Shifts with their intervals as forest rows, the null drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.effects import EFFECTS, NOTHING, arm_title, arms, effect_notes
from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.rows import axes, point, whole, words
from engine.figures.text import interval_text, label
from engine.figures.theme import frame, say

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
            n_clusters=whole(row["n_clusters"]),
        )
        texts.append(text)
        known = math.isfinite(value)
        numbers = f"<b>{text}</b>" if known else "no read pair"
        if known:
            fig.add_trace(_row(row, i, (value, lower, upper), text, mode))
        colour = ROLES[mode]["ink"] if known else MEANING[mode]["unread"]
        annotations.append(words(0, i, label(row["name"], 30), colour, "left", mode))
        annotations.append(words(1, i, numbers, colour, "right", mode))
    axes(fig, ends, effect.axis, len(rows), mode)
    fig.update_layout(annotations=annotations)
    if rows.empty:
        say(fig, NOTHING, mode)
    alt = "Score shift by arm: " + "; ".join(f"{name} {text}" for name, text in zip(rows["name"], texts, strict=True))
    return frame(fig, mode, title=title, notes=effect_notes(rows, note), alt=alt, body=50 * max(len(rows), 1) + 16)


def _row(row: pd.Series, y: int, numbers: tuple[float, float, float], text: str, mode: Mode) -> go.Scatter:
    _, lower, upper = numbers
    bounded = math.isfinite(lower) and math.isfinite(upper)
    colour = MEANING[mode]["attacked" if row["defense"] == "none" else "defended"]
    defended = row["defense"] != "none"
    marker = {
        "size": 11,
        "symbol": "square" if defended else "circle",
        "color": colour if bounded else ROLES[mode]["background"],
        "line": {"color": colour if bounded else MEANING[mode]["unread"], "width": 2},
    }
    return point(row, y, numbers, text, marker=marker, colour=colour, thickness=2.5)

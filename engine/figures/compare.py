"""How far apart two runs are: a forest of differences, the null drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import ROLES, Mode
from engine.figures.text import count, interval_text, label, level_text, plural
from engine.figures.theme import SMALL_SIZE, frame, say

MOST_ROWS = 24
"""Rows of one forest; what follows is in the table."""
UNITS = {
    "points": (1.0, "second − first, points of the scale"),
    "share": (100.0, "second − first, percentage points"),
    "own unit": (1.0, "second − first, unit of the metric"),
}
"""Unit of a difference: factor to what is drawn, and the axis."""
NAMES = {
    "score": "Mean score",
    "shift": "Shift",
    "p_a": "Preference for response a",
    "first_slot": "First slot wins",
    "outcome_changed": "Verdicts that differ",
    "p_yes": "p(YES)",
    "accepted": "Accepted (YES)",
}
COLUMNS = [
    "name", "what", "value", "lower", "upper", "level", "method", "n", "n_clusters", "n_unread", "q_value", "paired",
    "factor", "axis",
]  # fmt: skip


def prepare_compare(
    differences: pd.DataFrame, *, unit: str, what: str = "", titles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """The rows of one unit, the first `MOST_ROWS` of them, in the order of the table.

    Args:
        differences: `engine.metrics.compare.Comparison.differences`.
        unit: a key of `UNITS`.
        what: only this quantity; empty for all.
        titles: attack or defense name to what it is called.
    """
    rows = differences[(differences["unit"] == unit) & (differences["what"].isin([what]) if what else True)]
    rows = rows.head(MOST_ROWS).reset_index(drop=True)
    factor, axis = UNITS[unit]
    variants = rows["variant"].nunique() > 1  # one wording for all rows tells nothing apart
    names = [_name(row, titles or {}, with_what=not what, variant=variants) for row in rows.to_dict("records")]
    return rows.assign(name=names, factor=factor, axis=axis)[COLUMNS]


def plot_compare(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    title: str = "How far apart are the two runs?",
    note: str = "",
) -> go.Figure:
    """A row per quantity and arm: name and numbers on one line, point and interval below, a line at zero.

    The point is solid where the interval excludes zero, hollow where it does not.

    Args:
        prepared: from `prepare_compare`.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    rows = prepared.reset_index(drop=True)
    fig = go.Figure()
    words: list[dict[str, Any]] = []
    ends, said = [0.0], []
    for i, row in enumerate(rows.to_dict("records")):
        numbers = tuple(row["factor"] * float(row[k]) for k in ("value", "lower", "upper"))
        ends += [x for x in numbers if math.isfinite(x)]
        text = interval_text(*numbers, signed=True, method=str(row["method"]), n_clusters=_whole(row["n_clusters"]))
        said.append(f"{row['name']} {text}")
        if math.isfinite(numbers[0]):
            fig.add_trace(_point(row, i, numbers, text, mode))
        words += [_words(0, i, label(row["name"], 46), "left", mode), _words(1, i, f"<b>{text}</b>", "right", mode)]
    pad = 0.06 * (max(ends) - min(ends)) or 0.5
    axis = str(rows["axis"].iloc[0]) if len(rows) else UNITS["points"][1]
    fig.update_xaxes(range=[min(ends) - pad, max(ends) + pad], title=axis, fixedrange=True, nticks=7)
    fig.update_yaxes(range=[max(len(rows), 1) - 0.45, -0.8], visible=False, fixedrange=True)
    zero = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line=zero, layer="below")
    fig.update_layout(annotations=words)
    if rows.empty:
        say(fig, "nothing that both runs measured", mode)
    alt = "Differences of two runs, second minus first: " + "; ".join(said)
    return frame(fig, mode, title=title, notes=_notes(rows, note), alt=alt, body=50 * max(len(rows), 1) + 16)


def _name(row: dict[Any, Any], titles: Mapping[str, str], *, with_what: bool, variant: bool) -> str:
    arms = [titles.get(str(row[k]), str(row[k])) for k in ("attack", "defense") if row[k] not in ("", "none")]
    more = [str(row["variant"] or "") if variant else "", str(row["group"] or "")]
    arm = ", ".join(part for part in (*arms, *more) if part) or "clean"
    return f"{NAMES.get(str(row['what']), str(row['what']))}: {arm}" if with_what else arm


def _point(row: dict[Any, Any], y: int, numbers: tuple[float, ...], text: str, mode: Mode) -> go.Scatter:
    value, lower, upper = numbers
    bounded = math.isfinite(lower) and math.isfinite(upper)
    ink, page = ROLES[mode]["ink"], ROLES[mode]["background"]
    clear = bounded and (lower > 0 or upper < 0)
    return go.Scatter(
        x=[value],
        y=[y],
        mode="markers",
        marker={"size": 11, "color": ink if clear else page, "line": {"color": ink, "width": 2}},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [upper - value if bounded else 0],
            "arrayminus": [value - lower if bounded else 0],
            "color": ink,
            "thickness": 2,
            "width": 5 if bounded else 0,
            "visible": bounded,
        },
        customdata=[[label(row["name"], 60), text, count(_whole(row["n"])), count(_whole(row["n_unread"]))]],
        hovertemplate=(
            "%{customdata[0]}<br>%{customdata[1]}<br>n = %{customdata[2]}, %{customdata[3]} unread<extra></extra>"
        ),
        name=label(row["name"], 60),
    )


def _words(x: float, y: int, text: str, anchor: str, mode: Mode) -> dict[str, Any]:
    role = ROLES[mode]
    return {
        "x": x,
        "xref": "paper",
        "y": y,
        "yshift": 19,
        "bgcolor": role["background"],  # keeps the zero line out of the words
        "borderpad": 1,
        "text": text,
        "showarrow": False,
        "xanchor": anchor,
        "font": {"size": SMALL_SIZE + 1, "color": role["ink"]},
    }


def _notes(rows: pd.DataFrame, note: str) -> tuple[str, ...]:
    """Small print: whether paired, level and method, n, items, unread."""
    parts: list[str] = []
    if len(rows):
        paired = bool((rows["paired"] == 1).all())
        parts.append("paired by what was asked" if paired else "not paired: two intervals joined")
        level = rows["level"].dropna()
        methods = [m for m in rows["method"].dropna().unique() if not str(m).startswith(("no ", "0"))]
        if len(level) and methods:
            parts.append(f"{level_text(float(level.iloc[0]))} intervals ({label('; '.join(map(str, methods)), 60)})")
        n, items = rows["n"].astype(int), rows["n_clusters"].fillna(0).astype(int)
        parts.append(f"n = {_span(n)}" + (f" of {_span(items)} items" if items.max() else ""))
        parts.append(f"{plural(int(rows['n_unread'].fillna(0).sum()), 'call')} left out as unread")
    parts.append(label(note, 90) if note else "")
    return tuple(parts)


def _span(numbers: pd.Series) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def _whole(value: Any) -> int:
    return 0 if pd.isna(value) else int(value)

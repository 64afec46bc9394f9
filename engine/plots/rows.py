"""Parts of a figure with one row for each effect: its words above, point and interval below, a line at no effect."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.errors import InputError
from engine.plots.text import count, interval_text, label, level_text, plural
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, whiskers, with_note


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
    return go.Scatter(
        x=[value],
        y=[y],
        mode="markers",
        marker=marker,
        error_x=whiskers(value, lower, upper, colour, thickness=thickness, width=5),
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


# Common parts of the two figures of effects: their metrics and words.

NOTHING = "no attacked responses have been judged yet"
_NO_METHOD = ("no data", "no variation", "no interval: one item")


@dataclass(frozen=True)
class Effect:
    """Drawing of a metric: factor to the shown unit, its axis title, and the least span of a colour scale."""

    factor: float
    unit: str
    axis: str
    least: float


EFFECTS = {
    "shift": Effect(1.0, "points", "score shift, attacked − clean (points)", 0.5),
    "relative_shift": Effect(100.0, "%", "score shift in % of the clean mean", 15.0),
    "from_undefended": Effect(1.0, "points", "attacked score − undefended clean score (points)", 0.5),
}


def arms(metrics: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of one metric, in order.

    Raises:
        InputError: a metric these figures do not draw.
    """
    if metric not in EFFECTS:
        raise InputError(f"This figure draws {' or '.join(EFFECTS)}, not {metric!r}.")
    return metrics[metrics["metric"] == metric].reset_index(drop=True)


def arm_title(attack: str, defense: str, titles: Mapping[str, str]) -> str:
    """Attack and defense in words, the attack alone where there is no defense. Raw text: not yet inert."""
    head = titles.get(attack, attack)
    return head if defense == "none" else f"{head}, {titles.get(defense, defense)}"


def effect_notes(prepared: pd.DataFrame) -> tuple[str, ...]:
    """Small print: level and method of the intervals, n, items, unread."""
    run = prepared[prepared["n"].notna()]
    rows = run[run["n"] > 0]
    parts: list[str] = []
    if len(rows):
        methods = [m for m in rows["method"].dropna().unique() if m not in _NO_METHOD]
        level = rows["level"].dropna()
        if methods and len(level):
            parts.append(f"{level_text(float(level.iloc[0]))} intervals ({label('; '.join(methods), 60)})")
        nouns = {"n": "response", "n_clusters": "item"}
        counted = (f"{span(rows[c])} {noun}{'' if rows[c].max() == 1 else 's'}" for c, noun in nouns.items())
        parts.append(f"n = {' of '.join(counted)}")
    if len(run):
        parts.append(f"{plural(int(run['n_unread'].fillna(0).sum()), 'pair')} unread")
    return tuple(parts)


# Shifts with their intervals as forest rows, the null drawn.

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
        metrics: table `metrics`, from `engine.stats.shifts.shift_metrics`.
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


def plot_forest(prepared: pd.DataFrame, *, mode: Mode = "light", note: str = "") -> go.Figure:
    """A row per arm: its name and numbers on one line, point and interval below, a line at zero.

    Names stand over the intervals rather than beside them, so that the plot keeps its width on a phone.

    Args:
        prepared: from `prepare_forest`.
        mode: light, dark or print.
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
    body = 50 * max(len(rows), 1) + 16
    return with_note(
        frame(
            fig, mode, title="How far does each attack move the score?", notes=effect_notes(rows), alt=alt, body=body
        ),
        note,
    )


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

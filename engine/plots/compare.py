"""Differences of two runs as a forest, the null drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.plots.rows import axes, point, span, whole, words
from engine.plots.text import interval_text, label, level_text, plural
from engine.plots.theme import ROLES, Mode, frame, say, with_note

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
        differences: `engine.runs.compare.Comparison.differences`.
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
    annotations: list[dict[str, Any]] = []
    ends, said = [0.0], []
    for i, row in enumerate(rows.to_dict("records")):
        numbers = tuple(row["factor"] * float(row[k]) for k in ("value", "lower", "upper"))
        ends += [x for x in numbers if math.isfinite(x)]
        text = interval_text(*numbers, signed=True, method=str(row["method"]), n_clusters=whole(row["n_clusters"]))
        said.append(f"{row['name']} {text}")
        if math.isfinite(numbers[0]):
            fig.add_trace(_point(row, i, numbers, text, mode))
        ink = ROLES[mode]["ink"]
        annotations.append(words(0, i, label(row["name"], 46), ink, "left", mode))
        annotations.append(words(1, i, f"<b>{text}</b>", ink, "right", mode))
    axis = str(rows["axis"].iloc[0]) if len(rows) else UNITS["points"][1]
    axes(fig, ends, axis, len(rows), mode)
    fig.update_layout(annotations=annotations)
    if rows.empty:
        say(fig, "nothing that both runs measured", mode)
    alt = "Differences of two runs, second minus first: " + "; ".join(said)
    body = 50 * max(len(rows), 1) + 16
    return with_note(frame(fig, mode, title=title, notes=_notes(rows), alt=alt, body=body), note)


def _name(row: dict[Any, Any], titles: Mapping[str, str], *, with_what: bool, variant: bool) -> str:
    arms = [titles.get(str(row[k]), str(row[k])) for k in ("attack", "defense") if row[k] not in ("", "none")]
    more = [str(row["variant"] or "") if variant else "", str(row["group"] or "")]
    arm = ", ".join(part for part in (*arms, *more) if part) or "clean"
    return f"{NAMES.get(str(row['what']), str(row['what']))}: {arm}" if with_what else arm


def _point(row: dict[Any, Any], y: int, numbers: tuple[float, ...], text: str, mode: Mode) -> go.Scatter:
    _, lower, upper = numbers
    ink, page = ROLES[mode]["ink"], ROLES[mode]["background"]
    clear = math.isfinite(lower) and math.isfinite(upper) and (lower > 0 or upper < 0)
    marker = {"size": 11, "color": ink if clear else page, "line": {"color": ink, "width": 2}}
    return point(row, y, numbers, text, marker=marker, colour=ink, thickness=2)


def _notes(rows: pd.DataFrame) -> tuple[str, ...]:
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
        parts.append(f"n = {span(n)}" + (f" of {span(items)} items" if items.max() else ""))
        parts.append(f"{plural(int(rows['n_unread'].fillna(0).sum()), 'call')} left out as unread")
    return tuple(parts)

"""What moved between two sides, each change beside what is tolerated and what asking again moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.plots.rows import axes, point, span, words
from engine.plots.text import interval_text, label, plural
from engine.plots.theme import MEANING, ROLES, Mode, frame, say, with_note

COLUMNS = [
    "name", "value", "lower", "upper", "level", "method", "n", "n_clusters", "n_unread", "threshold", "band", "unit",
    "verdict", "factor",
]  # fmt: skip
_LEAST = 1e-9


def prepare_drift(rows: pd.DataFrame, titles: Sequence[str]) -> pd.DataFrame:
    """The rows of the figure, the verdict drift first.

    Args:
        rows: `engine.runs.drift.Drift.rows`.
        titles: of each row.
    """
    shares = rows["unit"] == "share"
    named = rows.assign(name=list(titles), factor=shares.map({True: 100.0, False: 1.0}))
    rank = named["verdict"].map({"drift": 0, "cannot tell": 1}).fillna(2)
    return named.assign(_rank=rank).sort_values("_rank", kind="stable")[COLUMNS].reset_index(drop=True)


def plot_drift(prepared: pd.DataFrame, *, mode: Mode = "light", note: str = "") -> go.Figure:
    """A row per quantity: name and numbers above, change with its interval below, in units of what is tolerated.

    The shaded field is what is tolerated, the grey bar what asking again moves. Solid and coloured: a drift.

    Args:
        prepared: from `prepare_drift`.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig, annotations, said = go.Figure(), [], []
    ends = [-1.4, 1.4]
    for i, row in enumerate(prepared.to_dict("records")):
        scale = max(float(row["threshold"]), _LEAST)
        numbers = tuple(float(row[k]) / scale for k in ("value", "lower", "upper"))
        ends += [x for x in numbers if math.isfinite(x)]
        unit = "points" if row["unit"] == "points" else "points of 100"
        shown = [row["factor"] * float(row[k]) for k in ("value", "lower", "upper")]
        text = interval_text(*shown, signed=True, unit=unit, method=str(row["method"]))
        said.append(f"{row['name']} {text}: {row['verdict']}")
        if math.isfinite(row["band"]):
            fig.add_shape(_bar(i, float(row["band"]) / scale, mode))
        if math.isfinite(numbers[0]):
            fig.add_trace(_point(row, i, numbers, text, mode))
        ink = ROLES[mode]["ink"]
        annotations.append(words(0, i, label(row["name"], 40), ink, "left", mode))
        annotations.append(words(1, i, f"<b>{text}</b>", ink, "right", mode))
    tolerated = ROLES[mode]["faint"]
    axes(fig, ends, "change, in units of what is tolerated", len(prepared), mode)
    field = {"type": "rect", "x0": -1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "layer": "below"}
    fig.layout.shapes = [go.layout.Shape(**field, line={"width": 0}, fillcolor=tolerated), *fig.layout.shapes]
    fig.update_layout(annotations=annotations)
    if prepared.empty:
        say(fig, "nothing that both sides judged", mode)
    alt = "Changes from base to new: " + "; ".join(said)
    body = 50 * max(len(prepared), 1) + 16
    made = frame(fig, mode, title="Did the judge drift?", notes=_notes(prepared), alt=alt, body=body)
    return with_note(made, note)


def _bar(y: int, half: float, mode: Mode) -> dict[str, Any]:
    grey = MEANING[mode]["unread"]
    return {"type": "rect", "x0": -half, "x1": half, "y0": y - 0.09, "y1": y + 0.09, "line": {"width": 0},
            "fillcolor": grey, "opacity": 0.45, "layer": "below"}  # fmt: skip


def _point(row: dict[Any, Any], y: int, numbers: tuple[float, ...], text: str, mode: Mode) -> go.Scatter:
    colour = MEANING[mode]["attacked"] if row["verdict"] == "drift" else ROLES[mode]["ink"]
    hollow = row["verdict"] == "cannot tell"
    fill = ROLES[mode]["background"] if hollow else colour
    marker = {"size": 11, "color": fill, "line": {"color": colour, "width": 2}}
    return point(row, y, numbers, text, marker=marker, colour=colour, thickness=2)


def _notes(rows: pd.DataFrame) -> tuple[str, ...]:
    if rows.empty:
        return ()
    parts = ["shaded: tolerated"]
    if rows["band"].notna().any():
        parts.append("grey: what asking again moves")
    parts.append("hollow: cannot tell")
    parts.append(f"{100 * (1 - (1 - float(rows['level'].iloc[0])) * len(rows)):.0f} % intervals for all rows together")
    n, items = rows["n"].astype(int), rows["n_clusters"].fillna(0).astype(int)
    parts.append(f"n = {span(n)} of {span(items)} items")
    return (*parts, f"{plural(int(rows['n_unread'].fillna(0).sum()), 'call')} left out as unread")

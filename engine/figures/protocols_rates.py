"""Rates by distractor under both protocols: squares pairwise, circles pointwise, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import PALETTE, ROLES, Mode
from engine.figures.text import count, fixed, interval_text, label, level_text
from engine.figures.theme import SMALL_SIZE, frame, say

COLUMNS = ["group", "name", "protocol", "value", "lower", "upper", "n", "n_clusters", "method"]
PAIRWISE, POINTWISE = "pairwise", "pointwise"
SYMBOLS = {PAIRWISE: "square", POINTWISE: "circle"}
Row = tuple[str, str, str, float, float, float, int, int, str]


def protocol_colour(protocol: str, mode: Mode) -> str:
    """One colour a protocol, none of those that have another meaning."""
    return PALETTE[mode][9 if protocol == PAIRWISE else 7]


def prepare_rates(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a distractor and protocol, in the order given: group, name, protocol, value, bounds, n, items, method."""
    return pd.DataFrame(list(rows), columns=COLUMNS)


def plot_rates(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    title: str = "Which verdicts flip?",
    axis: str = "flips (%)",
    null: float | None = 0.0,
    level: float = 0.95,
    note: str = "",
) -> go.Figure:
    """A block a distractor: name over two rows, pairwise above pointwise, numbers at the right.

    Args:
        prepared: from `prepare_rates`; values are shares.
        mode: light, dark or print.
        title: the question on top.
        axis: what the axis counts.
        null: where a dashed line is drawn, as a share; None draws none.
        level: of the intervals.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    groups = list(dict.fromkeys(prepared["group"]))
    annotations: list[dict[str, Any]] = []
    ends = [0.0 if null is None else 100 * null]
    for protocol in (PAIRWISE, POINTWISE):
        rows = prepared[(prepared["protocol"] == protocol) & prepared["value"].notna()]
        if len(rows):
            fig.add_trace(_dots(rows, groups, protocol, mode))
        ends += [100 * x for x in rows[["value", "lower", "upper"]].to_numpy().ravel() if math.isfinite(x)]
    for row in _records(prepared):
        y = groups.index(row.group) + (-0.02 if row.protocol == PAIRWISE else 0.3)
        if row.protocol == PAIRWISE:
            annotations.append(_words(0, y, label(row.name, 34), ROLES[mode]["ink"], "left", mode, 24))
        annotations.append(_words(1, y, f"<b>{_text(row)}</b>", ROLES[mode]["ink"], "right", mode, 0))
    low, high = min(ends), max(ends)
    pad = 0.05 * (high - low) or 5.0
    # room at the right for the numbers, so that no interval runs under them
    ticks = _ticks(low - pad, high + pad)
    reach = [low - pad, high + 0.75 * (high - low) + 2 * pad]
    fig.update_xaxes(range=reach, tickmode="array", tickvals=ticks, title=axis, fixedrange=True)
    fig.update_yaxes(range=[max(len(groups), 1) - 0.4, -0.55], visible=False, fixedrange=True)
    if null is not None:
        dashed = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
        fig.add_shape(type="line", x0=100 * null, x1=100 * null, y0=0, y1=1, yref="paper", line=dashed, layer="below")
    fig.update_layout(annotations=annotations)
    if prepared.empty:
        say(fig, "nothing has been judged yet", mode)
    said = "; ".join(f"{r.name} {r.protocol}: {_text(r)}" for r in _records(prepared))
    notes = (f"{level_text(level)} intervals, items as clusters", _counts(prepared), label(note, 80) if note else "")
    body = 66 * max(len(groups), 1) + 10
    return frame(fig, mode, title=title, notes=notes, alt=f"{axis}. {said}", body=body, legend=len(groups) > 0)


def _dots(rows: pd.DataFrame, groups: list[str], protocol: str, mode: Mode) -> go.Scatter:
    colour, shift = protocol_colour(protocol, mode), -0.02 if protocol == PAIRWISE else 0.3
    bounded = rows["lower"].notna()
    return go.Scatter(
        x=(100 * rows["value"]).tolist(),
        y=[groups.index(g) + shift for g in rows["group"]],
        mode="markers",
        name=protocol,
        marker={"symbol": SYMBOLS[protocol], "size": 11, "color": colour},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": (100 * (rows["upper"] - rows["value"])).where(bounded, 0).tolist(),
            "arrayminus": (100 * (rows["value"] - rows["lower"])).where(bounded, 0).tolist(),
            "color": colour,
            "thickness": 2.5,
            "width": 5,
        },
        customdata=[[r.group, protocol, _text(r), count(int(r.n))] for r in _records(rows)],
        hovertemplate="%{customdata[1]}: %{customdata[2]}<br>n = %{customdata[3]}, click for the cases<extra></extra>",
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within the data's reach, about five of them."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if (high - low) / s <= 6 or s == 100)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _records(rows: pd.DataFrame) -> Iterable[Any]:
    return rows.itertuples(index=False)


def _text(row: Any) -> str:
    """A share in percent; for no event the count and the bound."""
    if not math.isfinite(row.value):
        return "no data"
    if row.value == 0 and math.isfinite(row.upper) and row.lower == 0:
        return f"0 of {count(int(row.n))}, at most {fixed(100 * row.upper, 1)} %"
    ends = (100 * row.value, 100 * row.lower, 100 * row.upper)
    return interval_text(*ends, method=str(row.method), n_clusters=int(row.n_clusters))


def _counts(prepared: pd.DataFrame) -> str:
    parts = []
    for protocol in (PAIRWISE, POINTWISE):
        n = prepared.loc[prepared["protocol"] == protocol, "n"]
        if len(n):
            span = count(int(n.min())) if n.min() == n.max() else f"{count(int(n.min()))}–{count(int(n.max()))}"
            parts.append(f"n {span} {protocol}")
    return ", ".join(parts)


def _words(x: float, y: float, text: str, colour: str, anchor: str, mode: Mode, up: int) -> dict[str, Any]:
    return {
        "x": x,
        "xref": "paper",
        "y": y,
        "yshift": up,
        "bgcolor": ROLES[mode]["background"],
        "borderpad": 1,
        "text": text,
        "showarrow": False,
        "xanchor": anchor,
        "font": {"size": SMALL_SIZE, "color": colour},
    }

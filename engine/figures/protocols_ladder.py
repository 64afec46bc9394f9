"""Accuracy by severity, with and without a distractor, under both protocols (paper 004, figure 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import ROLES, Mode
from engine.figures.protocols_rates import PAIRWISE, POINTWISE, SYMBOLS, protocol_colour
from engine.figures.text import count, interval_text, label, level_text
from engine.figures.theme import frame, say

COLUMNS = ["severity", "arm", "protocol", "value", "lower", "upper", "n", "excluded"]
Row = tuple[int, str, str, float, float, float, int, int]
_SHIFT = {(PAIRWISE, False): -0.24, (PAIRWISE, True): -0.08, (POINTWISE, False): 0.08, (POINTWISE, True): 0.24}


def prepare_ladder(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a severity, arm (`none` or a distractor) and protocol; values are shares."""
    return pd.DataFrame(list(rows), columns=COLUMNS)


def plot_ladder(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    level: float = 0.95,
    title: str = "Does the better response still win?",
    note: str = "",
) -> go.Figure:
    """Severity on the x axis, accuracy on the y axis; hollow without the distractor, solid with it.

    Args:
        prepared: from `prepare_ladder`, of one distractor.
        mode: light, dark or print.
        level: of the intervals.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    for protocol in (PAIRWISE, POINTWISE):
        for distracted in (False, True):
            mask = (prepared["protocol"] == protocol) & ((prepared["arm"] != "none") == distracted)
            rows = prepared[mask & prepared["value"].notna()]
            if len(rows):
                fig.add_trace(_series(rows, protocol, mode, distracted=distracted))
    levels = sorted({int(s) for s in prepared["severity"]}) or [1, 2, 3]
    fig.update_xaxes(
        tickmode="array",
        tickvals=levels,
        ticktext=[f"{s} rule{'s' if s > 1 else ''} broken" for s in levels],
        range=[levels[0] - 0.5, levels[-1] + 0.5],
        showgrid=False,
        fixedrange=True,
    )
    fig.update_yaxes(range=[-4, 104], title="accuracy (%)", fixedrange=True)
    line = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=50, y1=50, line=line, layer="below")
    if prepared.empty:
        say(fig, "the data do not say which rules a response keeps", mode)
    out = int(prepared["excluded"].sum()) if len(prepared) else 0
    n = f"n {count(int(prepared['n'].min()))}–{count(int(prepared['n'].max()))} pairs" if len(prepared) else ""
    notes = (f"{level_text(level)} intervals", n, f"{count(out)} left out", label(note, 80) if note else "")
    said = "; ".join(
        f"severity {r.severity!s}, {r.protocol!s}, {'clean' if r.arm == 'none' else str(r.arm)}: {_text(r)}"
        for r in _records(prepared)
    )
    return frame(
        fig,
        mode,
        title=title,
        notes=notes,
        alt=f"Accuracy by severity. {said}",
        body=300,
        legend=True,
        above=44,
        below=64,
    )


def _series(rows: pd.DataFrame, protocol: str, mode: Mode, *, distracted: bool) -> go.Scatter:
    colour = protocol_colour(protocol, mode)
    bounded = rows["lower"].notna()
    return go.Scatter(
        x=[s + _SHIFT[protocol, distracted] for s in rows["severity"]],
        y=(100 * rows["value"]).tolist(),
        mode="markers",
        name=f"{protocol}, {'distracted' if distracted else 'clean'}",
        marker={
            "symbol": SYMBOLS[protocol],
            "size": 11,
            "color": colour if distracted else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_y={
            "type": "data",
            "symmetric": False,
            "array": (100 * (rows["upper"] - rows["value"])).where(bounded, 0).tolist(),
            "arrayminus": (100 * (rows["value"] - rows["lower"])).where(bounded, 0).tolist(),
            "color": colour,
            "thickness": 2,
            "width": 4,
        },
        customdata=[[row.arm, protocol, _text(row), count(int(row.n)), int(row.severity)] for row in _records(rows)],
        hovertemplate="%{customdata[1]}: %{customdata[2]}<br>n = %{customdata[3]}, click for the cases<extra></extra>",
    )


def _records(rows: pd.DataFrame) -> Iterable[Any]:
    return rows.itertuples(index=False)


def _text(row: Any) -> str:
    return interval_text(100 * row.value, 100 * row.lower, 100 * row.upper, unit="%")

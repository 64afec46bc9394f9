"""Leaderboards before and after the lowest systems are distracted, and the win matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, fixed, label, level_text
from engine.figures.theme import SMALL_SIZE, frame, heat_scale, say

COLUMNS = [
    "system",
    "distracted",
    "rating_before",
    "rating_after",
    "rank_before",
    "rank_before_lower",
    "rank_before_upper",
    "rank_after",
    "rank_after_lower",
    "rank_after_upper",
    "n",
]
Row = tuple[str, bool, float, float, float, float, float, float, float, float, int]


def prepare_slope(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a system, sorted by its rank before."""
    table = pd.DataFrame(list(rows), columns=COLUMNS)
    return table.sort_values(["rank_before", "system"], kind="stable").reset_index(drop=True)


def plot_slope(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    level: float = 0.95,
    title: str = "Who climbs?",
    note: str = "",
) -> go.Figure:
    """Ranks before at the left, after at the right, rank 1 on top; distracted systems in vermilion.

    Args:
        prepared: from `prepare_slope`.
        mode: light, dark or print.
        level: of the rank intervals, drawn as bars.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    rows = prepared[prepared["rank_before"].notna() & prepared["rank_after"].notna()]
    n = len(rows)
    for i, row in enumerate(rows.itertuples(index=False)):
        fig.add_trace(_line(row, 0.12 * (i - (n - 1) / 2) / max(n, 1), mode))
    fig.update_layout(annotations=[*_names(rows, 0, mode), *_names(rows, 1, mode)])
    fig.update_xaxes(
        range=[-0.85, 1.8], tickmode="array", tickvals=[0, 1], ticktext=["clean", "distracted"], showgrid=False,
        fixedrange=True,
    )  # fmt: skip
    fig.update_yaxes(range=[n + 0.6, 0.4], dtick=1, title="rank", fixedrange=True, zeroline=False)
    if not n:
        say(fig, "no ranks: systems that never met cannot be ranked together", mode)
    battles = f"{count(int(rows['n'].sum()) // 2)} comparisons" if n else ""
    notes = (f"bars: {level_text(level)} rank intervals", battles, label(note, 80) if note else "")
    said = "; ".join(f"{r.system}: {r.rank_before:g} to {r.rank_after:g}" for r in rows.itertuples(index=False))
    alt = f"Ranks before and after the lowest systems were rewritten. {said}"
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=58 * max(n, 3) + 20)


def _line(row: Any, nudge: float, mode: Mode) -> go.Scatter:
    colour = MEANING[mode]["attacked" if row.distracted else "clean"]
    up = [row.rank_before - row.rank_before_lower, row.rank_after - row.rank_after_lower]
    down = [row.rank_before_upper - row.rank_before, row.rank_after_upper - row.rank_after]
    return go.Scatter(
        x=[nudge, 1 + nudge],
        y=[row.rank_before, row.rank_after],
        mode="lines+markers",
        name=label(row.system, 30),
        line={"color": colour, "width": 3.5 if row.distracted else 1.8},
        marker={"size": 9, "color": colour, "symbol": "circle"},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [0 if math.isnan(x) else max(0.0, x) for x in down],
            "arrayminus": [0 if math.isnan(x) else max(0.0, x) for x in up],
            "color": colour,
            "thickness": 1.2,
            "width": 3,
        },
        customdata=[[row.system, "clean"], [row.system, "distracted"]],
        hovertemplate="%{customdata[0]}, %{customdata[1]}: rank %{y}<br>click for the cases<extra></extra>",
    )


def _names(rows: pd.DataFrame, side: int, mode: Mode) -> list[dict[str, Any]]:
    """System and rating beside each end; systems that share a rank stand in one label."""
    rank, rating = ("rank_after", "rating_after") if side else ("rank_before", "rating_before")
    out = []
    sharing: dict[float, list[str]] = {}
    for row in rows.sort_values(rank, kind="stable").itertuples(index=False):
        name, points = label(row.system, 16), fixed(getattr(row, rating), 0)
        sharing.setdefault(getattr(row, rank), []).append(
            f"<b>{name}</b> {points}" if row.distracted else f"{name} {points}"
        )
    for value, names in sharing.items():
        out.append(
            {
                "x": side,
                "y": value,
                "xshift": 14 if side else -14,
                "text": "<br>".join(names),
                "showarrow": False,
                "xanchor": "left" if side else "right",
                "align": "left" if side else "right",
                "font": {"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
            }
        )
    return out


def prepare_matrix(systems: Sequence[str], shares: npt.NDArray[np.float64], n: npt.NDArray[np.float64]) -> pd.DataFrame:
    """One row an ordered pair of systems: row, column, share that row won (ties half), comparisons."""
    cells = [
        (a, b, float(shares[i, j]), int(n[i, j]))
        for i, a in enumerate(systems)
        for j, b in enumerate(systems)
        if i != j
    ]
    return pd.DataFrame(cells, columns=["row", "column", "share", "n"])


def _span(n: pd.Series) -> str:
    low, high = int(n.min()), int(n.max())
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def _cells(prepared: pd.DataFrame) -> Iterable[tuple[str, str, float]]:
    return zip(prepared["row"], prepared["column"], prepared["share"], strict=True)


def plot_matrix(
    prepared: pd.DataFrame, *, mode: Mode = "light", title: str = "Who beats whom?", note: str = ""
) -> go.Figure:
    """A cell a pair: share of comparisons that the row won against the column, ties half; colour around 50 %.

    Args:
        prepared: from `prepare_matrix`; systems in the order they are drawn.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    systems = list(dict.fromkeys(prepared["row"])) or ["–"]
    at = {system: i for i, system in enumerate(systems)}
    z = np.full((len(systems), len(systems)), np.nan)
    for row, column, share in _cells(prepared):
        z[at[row], at[column]] = share
    names = [label(s, 14) for s in systems]
    fig = go.Figure(
        go.Heatmap(
            z=100 * z,
            x=list(range(len(systems))),
            y=list(range(len(systems))),
            zmin=0,
            zmax=100,
            colorscale=heat_scale(mode),
            showscale=False,
            text=[["" if math.isnan(v) else fixed(100 * v, 0) for v in line] for line in z],
            texttemplate="%{text}",
            textfont={"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
            customdata=[[[a, b] for b in systems] for a in systems],
            hovertemplate="%{customdata[0]} against %{customdata[1]}: %{text} %<extra></extra>",
            xgap=2,
            ygap=2,
        )
    )
    cells = [(i, j) for i in range(len(systems)) for j in range(len(systems)) if i != j]
    fig.add_trace(  # a heat map's cells cannot be selected; nearly clear squares over them can
        go.Scatter(
            x=[j for _, j in cells],
            y=[i for i, _ in cells],
            mode="markers",
            marker={"symbol": "square", "size": 34, "opacity": 0.01, "color": ROLES[mode]["background"]},
            customdata=[[systems[i], systems[j]] for i, j in cells],
            hovertemplate="%{customdata[0]} against %{customdata[1]}, click for the cases<extra></extra>",
            showlegend=False,
        )
    )
    ticks = {"tickmode": "array", "tickvals": list(range(len(systems))), "ticktext": names, "fixedrange": True}
    fig.update_xaxes(side="bottom", showgrid=False, tickangle=-35, **ticks)
    fig.update_yaxes(autorange="reversed", showgrid=False, **ticks)
    n = f"{_span(prepared['n'])} comparisons a cell" if len(prepared) else ""
    notes = ("row against column, % won, ties half", n, label(note, 80) if note else "")
    said = "; ".join(f"{a} over {b} {fixed(100 * float(share), 0)} %" for a, b, share in _cells(prepared))
    return frame(fig, mode, title=title, notes=notes, alt=f"Win matrix. {said}", body=44 * len(systems) + 40, below=76)

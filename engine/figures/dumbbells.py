"""Before and after of each response on one score axis, sorted by change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, decimals_for, fixed, label, plural, three_digits
from engine.figures.theme import SMALL_SIZE, frame, say

MOST = 40
"""Rows drawn at most: the most changed ones."""
COLUMNS = [
    "name",
    "response_id",
    "item_id",
    "clean",
    "attacked",
    "shift",
    "unread_reason",
    "n_read",
    "n_unread",
    "n_raised",
    "n_lowered",
]


def prepare_dumbbells(
    shifts: pd.DataFrame,
    *,
    attack: str,
    defense: str = "none",
    names: Mapping[str, str] | None = None,
    most: int = MOST,
) -> pd.DataFrame:
    """The most changed responses of one arm, largest rise first, unread ones last.

    Args:
        shifts: from `engine.metrics.shifts.paired_shifts`.
        attack: the arm's attack.
        defense: the arm's defense.
        names: response id to what it is called; without it the id.
        most: rows kept at most. Read rows come first, by size of change whatever its sign.

    Returns:
        name, response_id, item_id, clean, attacked, shift, unread_reason; and on every row the arm's totals
        n_read, n_unread, n_raised, n_lowered (also of the rows not kept).
    """
    arm = shifts[(shifts["attack"] == attack) & (shifts["defense"] == defense)]
    shift = arm["shift"].to_numpy(dtype=float)
    read = ~np.isnan(shift)
    # Sorting by -|shift| puts NaN last; "stable" keeps ties in the order of the data.
    kept = arm.iloc[np.argsort(-np.abs(shift), kind="stable")[:most]]
    out = kept.iloc[np.argsort(-kept["shift"].to_numpy(dtype=float), kind="stable")].reset_index(drop=True)
    called = names or {}
    out["name"] = [called.get(r, r) for r in out["response_id"]]
    out["n_read"], out["n_unread"] = int(read.sum()), int((~read).sum())
    out["n_raised"], out["n_lowered"] = int((shift > 0).sum()), int((shift < 0).sum())
    return out[COLUMNS]


def plot_dumbbells(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    scale: tuple[float, float] = (1.0, 5.0),
    names: tuple[str, str] = ("without attack", "with attack"),
    title: str = "Which responses does the attack move?",
    note: str = "",
) -> go.Figure:
    """A row per response: hollow before, solid after, the shift at the right; a dashed line at no change.

    Args:
        prepared: from `prepare_dumbbells`.
        mode: light, dark or print.
        names: what before and after are called.
        scale: lowest and highest score; the axis is fixed to it.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    rows = prepared.reset_index(drop=True)
    fig = go.Figure()
    span = scale[1] - scale[0]
    read = rows[rows["shift"].notna()]
    x: list[float | None] = []
    y: list[int | None] = []
    for i, clean, attacked in zip(read.index, read["clean"], read["attacked"], strict=True):
        x += [clean, attacked, None]
        y += [i, i, None]
    line = {"color": ROLES[mode]["line"], "width": 2}
    fig.add_trace(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False))
    fig.add_trace(_dots(read, "clean", label(names[0], 24), mode))
    fig.add_trace(_dots(read, "attacked", label(names[1], 24), mode))
    unread = rows[rows["shift"].isna()]
    if len(unread):
        fig.add_trace(_unread(unread, mode))
    _shift_column(fig, rows, mode)
    fig.update_xaxes(range=[scale[0] - 0.04 * span, scale[1] + 0.04 * span], title="expected score", fixedrange=True)
    if span <= 12:
        fig.update_xaxes(dtick=1)
    fig.update_yaxes(
        range=[max(len(rows), 1) - 0.4, -1.3],
        tickmode="array",
        tickvals=list(rows.index),
        ticktext=[label(name, 22) for name in rows["name"]],
        showgrid=False,
        fixedrange=True,
    )
    fig.update_layout(margin={"r": 74})
    return frame(
        fig,
        mode,
        title=title,
        notes=_notes(rows, note),
        alt=_alt(rows),
        body=24 * max(len(rows), 1) + 34,
        legend=len(rows) > 0,
    )


def _dots(rows: pd.DataFrame, side: str, name: str, mode: Mode) -> go.Scatter:
    """The ring of "before" is wider than the dot of "after", so that no change shows as a target."""
    colour, before = MEANING[mode][side], side == "clean"
    return go.Scatter(
        x=rows[side].tolist(),
        y=rows.index.tolist(),
        mode="markers",
        name=name,
        marker={
            "size": 12 if before else 9,
            "symbol": "circle",
            "color": ROLES[mode]["background"] if before else colour,
            "line": {"color": colour, "width": 2 if before else 0},
        },
        customdata=[
            [label(n, 60), three_digits(c), three_digits(a), three_digits(s, signed=True)]
            for n, c, a, s in zip(rows["name"], rows["clean"], rows["attacked"], rows["shift"], strict=True)
        ],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} → %{customdata[2]}, shift %{customdata[3]}<extra></extra>",
    )


def _unread(rows: pd.DataFrame, mode: Mode) -> go.Scatter:
    """A grey cross at the side that was read, if one was."""
    known = rows["clean"].fillna(rows["attacked"])
    return go.Scatter(
        x=[None if math.isnan(v) else v for v in known],
        y=rows.index.tolist(),
        mode="markers",
        name="unread",
        showlegend=False,
        marker={"size": 9, "symbol": "x-thin", "line": {"color": MEANING[mode]["unread"], "width": 2}},
        customdata=[[label(n, 60), label(r, 60)] for n, r in zip(rows["name"], rows["unread_reason"], strict=True)],
        hovertemplate="%{customdata[0]}<br>unread: %{customdata[1]}<extra></extra>",
    )


def _shift_column(fig: go.Figure, rows: pd.DataFrame, mode: Mode) -> None:
    """The shifts as a column right of the plot, with the dashed line where rises end."""
    role, meaning = ROLES[mode], MEANING[mode]

    def cell(y: float, text: str, colour: str) -> dict[str, Any]:
        return {
            "x": 1,
            "xref": "paper",
            "y": y,
            "yref": "y",
            "text": text,
            "showarrow": False,
            "xanchor": "right",
            "xshift": 62,
            "font": {"size": SMALL_SIZE, "color": colour},
        }

    places = decimals_for(*rows["shift"])
    cells = [
        cell(i, "unread", meaning["unread"])
        if math.isnan(shift)
        else cell(i, fixed(shift, places, signed=True) if shift else "0", role["ink"])
        for i, shift in zip(rows.index, rows["shift"], strict=True)
    ]
    if len(rows):
        cells.append(cell(-1, "shift", role["muted"]))
        rises, n_read = int((rows["shift"] > 0).sum()), int(rows["shift"].notna().sum())
        if 0 < rises < n_read:
            fig.add_shape(
                type="line",
                x0=0,
                x1=1,
                xref="paper",
                y0=rises - 0.5,
                y1=rises - 0.5,
                line={"color": role["line"], "width": 1.5, "dash": "dash"},
            )
            cells.append({**cell(rises - 0.5, "0", role["muted"]), "xshift": 14})
        fig.update_layout(annotations=cells)
    else:
        say(fig, "no responses under this attack have been judged yet", mode)


def _notes(rows: pd.DataFrame, note: str) -> tuple[str, ...]:
    if rows.empty:
        return (label(note, 80) if note else "",)
    first = rows.iloc[0]
    n = int(first["n_read"])
    shown = int(rows["shift"].notna().sum())
    cut = f"the {count(shown)} most changed of {plural(n, 'response')}" if shown < n else plural(n, "response")
    return (
        cut,
        f"{count(int(first['n_raised']))} raised, {count(int(first['n_lowered']))} lowered",
        f"{count(int(first['n_unread']))} unread",
        label(note, 80) if note else "",
    )


def _alt(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "No verdicts under this attack yet."
    first = rows.iloc[0]
    return (
        f"Score before and after the attack for {len(rows)} responses: of {first['n_read']} read, "
        f"{first['n_raised']} were raised and {first['n_lowered']} lowered."
    )

"""Where max_p_cf lies for correct responses and for master keys that a verifier accepts, with gamma drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, fixed, label, plural, three_digits
from engine.figures.theme import SMALL_SIZE, frame, say

CORRECT, KEY = "correct", "key"
GROUPS = {CORRECT: ("correct responses", "clean"), KEY: ("master keys", "attacked")}
"""Population to its name and the meaning of its colour."""
LEAST = 1e-5
"""Probabilities below this are drawn as a rug at the left end of the log axis, with their number."""
MOST_DOTS = 400
DENSITY_FROM = 200
COLUMNS = ["group", "item_id", "name", "max_p_cf"]


def prepare_swaps(
    scores: Sequence[float], groups: Sequence[str], item_ids: Sequence[str], names: Sequence[str]
) -> pd.DataFrame:
    """One row per accepted sample.

    Args:
        scores: max_p_cf in [0, 1]; NaN unread.
        groups: correct or key.
        item_ids: the item asked about.
        names: the response's id or the key.
    """
    rows = zip(groups, item_ids, names, scores, strict=True)
    return pd.DataFrame([dict(zip(COLUMNS, row, strict=True)) for row in rows], columns=COLUMNS)


def plot_swaps(
    prepared: pd.DataFrame,
    *,
    gamma: float,
    mode: Mode = "light",
    title: str = "What survives a swap of the reference?",
    note: str = "",
) -> go.Figure:
    """A strip and a box for each population (a density from 200 samples on), on a log axis, and a line at gamma.

    Args:
        prepared: from `prepare_swaps`.
        gamma: the threshold; what lies left of it loses its YES.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    words: list[dict[str, Any]] = []
    read = prepared[prepared["max_p_cf"].notna()]
    for row, group in enumerate(GROUPS):
        own = read.loc[read["group"] == group, "max_p_cf"].to_numpy(dtype=float)
        _row(fig, own, row, group, mode)
        words.append(_heading(own, row, group, mode))
        low = int((own < LEAST).sum())
        if low:
            words.append(_rug_words(low, row, mode))
    if read.empty:
        say(fig, "no accepted sample has been checked yet", mode)
    else:
        words.append(_gamma(fig, gamma, mode))
    fig.update_xaxes(
        range=[math.log10(LEAST) - 0.55, 0.12],
        tickmode="array",
        tickvals=[-4, -3, -2, -1, 0],
        ticktext=["0.0001", "0.001", "0.01", "0.1", "1"],
        title="max_p_cf, largest p(YES) over the swapped references (log)",
        fixedrange=True,
    )
    fig.update_yaxes(range=[1.55, -0.85], visible=False, fixedrange=True)
    fig.update_layout(annotations=[*fig.layout.annotations, *words])
    return frame(fig, mode, title=title, notes=_notes(prepared, note), alt=_alt(read, gamma), body=270)


def _row(fig: go.Figure, own: Any, row: int, group: str, mode: Mode) -> None:
    if not len(own):
        return
    name, meaning = GROUPS[group]
    colour = MEANING[mode][meaning]
    above = own[own >= LEAST]
    logs = np.log10(above)
    if len(above):
        common = {"x": logs, "y0": row, "orientation": "h", "name": name, "hoverinfo": "skip", "line_color": colour}
        if len(own) >= DENSITY_FROM and np.ptp(logs) > 0:
            fig.add_trace(go.Violin(**common, side="negative", width=0.75, points=False, spanmode="hard", opacity=0.6))
        fig.add_trace(go.Box(**common, width=0.18, boxpoints=False, fillcolor="rgba(0,0,0,0)", whiskerwidth=0.6))
    shown = own if len(own) <= MOST_DOTS else own[np.random.default_rng(0).permutation(len(own))[:MOST_DOTS]]
    spread = np.random.default_rng(len(own)).uniform(0.16, 0.42, len(shown))
    x = np.where(shown >= LEAST, np.log10(np.maximum(shown, LEAST)), math.log10(LEAST) - 0.3)
    fig.add_trace(
        go.Scatter(
            x=x,
            y=row + spread,
            mode="markers",
            name=name,
            marker={
                "size": 6,
                "color": colour,
                "opacity": 0.55,
                "symbol": "circle" if group == CORRECT else "x-thin",
                "line": {"color": colour, "width": 0 if group == CORRECT else 1.5},
            },
            customdata=[three_digits(float(v)) for v in shown],
            hovertemplate=f"{name}<br>max_p_cf %{{customdata}}<extra></extra>",
        )
    )


def _heading(own: Any, row: int, group: str, mode: Mode) -> dict[str, Any]:
    name, meaning = GROUPS[group]
    median = f", median {three_digits(float(np.median(own)))}" if len(own) else ""
    return {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": row - 0.47,
        "text": f"<b>{name}</b> accepted: {count(len(own))}{median}",
        "showarrow": False,
        "bgcolor": ROLES[mode]["background"],
        "font": {"color": MEANING[mode][meaning], "size": SMALL_SIZE + 1},
    }


def _rug_words(low: int, row: int, mode: Mode) -> dict[str, Any]:
    return {
        "x": math.log10(LEAST) - 0.3,
        "y": row + 0.02,
        "text": f"{count(low)} below<br>0.00001",
        "showarrow": False,
        "font": {"color": ROLES[mode]["muted"], "size": SMALL_SIZE - 1},
    }


def _gamma(fig: go.Figure, gamma: float, mode: Mode) -> dict[str, Any]:
    """The dashed line, and its word above the plot on the side with room."""
    at = math.log10(max(gamma, LEAST)) if gamma > 0 else math.log10(LEAST) - 0.5
    ink = ROLES[mode]["ink"]
    fig.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", line={"color": ink, "width": 2, "dash": "dash"})
    return {
        "x": at,
        "y": 1,
        "yref": "paper",
        "yanchor": "top",
        "xanchor": "right" if at > -1.5 else "left",
        "xshift": -5 if at > -1.5 else 5,
        "text": f"γ = {three_digits(gamma)}",
        "showarrow": False,
        "font": {"color": ink, "size": SMALL_SIZE + 1},
    }


def _notes(prepared: pd.DataFrame, note: str) -> tuple[str, ...]:
    unread = int(prepared["max_p_cf"].isna().sum())
    n = plural(prepared["item_id"].nunique(), "item")
    cut = "dots are a sample" if (prepared.groupby("group").size() > MOST_DOTS).any() else ""
    return (n, f"{count(unread)} unread", cut, label(note, 80) if note else "")


def _alt(read: pd.DataFrame, gamma: float) -> str:
    parts = []
    for group, (name, _) in GROUPS.items():
        own = read.loc[read["group"] == group, "max_p_cf"]
        passing = f"{fixed(100 * float((own >= gamma).mean()), 0)} % reach gamma" if len(own) else "none accepted"
        parts.append(f"{name}: n {len(own)}, {passing}")
    return f"Distribution of max_p_cf on a log axis, gamma {three_digits(gamma)}. " + "; ".join(parts) + "."

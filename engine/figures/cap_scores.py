"""The judge's scores of the tutor's candidates, with the thresholds that make two standards of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, label, plural, three_digits
from engine.figures.theme import frame, say

COLUMNS = ["pool", "side", "score", "text_id", "text", "threshold_high", "threshold_low", "n_unread"]
_NAMES = {
    "": "first pool: sets the thresholds",
    "high": "retained, high",
    "low": "retained, low",
    "none": "not retained",
}


def prepare_cap_scores(texts: pd.DataFrame, high: float, low: float) -> pd.DataFrame:
    """One row per read candidate.

    Args:
        texts: table `cap_texts`.
        high: threshold of the high standard.
        low: threshold of the low standard.

    Returns:
        pool, side (empty for the first pool, else high, low or none), score, text_id, text, both thresholds and the
        number of candidates without a score, on each row.
    """
    out = texts[["pool", "score", "text_id", "text"]].copy()
    score = out["score"].to_numpy(dtype=float)
    side = np.where(score >= high, "high", np.where(score <= low, "low", "none"))
    out["side"] = np.where(out["pool"].to_numpy() == 1, "", side)
    unread = int(np.isnan(score).sum())
    out["threshold_high"], out["threshold_low"], out["n_unread"] = high, low, unread
    return out[out["score"].notna()].reset_index(drop=True)[COLUMNS]


def plot_cap_scores(prepared: pd.DataFrame, *, mode: Mode = "light", note: str = "") -> go.Figure:
    """A strip for each pool, the second one coloured by side, thresholds as lines through both.

    Args:
        prepared: from `prepare_cap_scores`.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    colours = {"": meaning["clean"], "high": meaning["high"], "low": meaning["low"], "none": meaning["unread"]}
    symbols = {"": "circle-open", "high": "triangle-up", "low": "triangle-down", "none": "diamond-open"}
    rng = np.random.default_rng(0)
    for side, name in _NAMES.items():
        own = prepared[prepared["side"] == side]
        if own.empty:
            continue
        height = (1.0 if side == "" else 0.0) + rng.uniform(-0.28, 0.28, len(own))
        fig.add_trace(
            go.Scatter(
                x=own["score"].tolist(),
                y=height.tolist(),
                mode="markers",
                name=f"{name} ({count(len(own))})",
                marker={"size": 8, "color": colours[side], "symbol": symbols[side], "line": {"width": 1.2}},
                customdata=[label(text, 70) for text in own["text"]],
                hovertemplate="%{x:.2f}: %{customdata}<extra></extra>",
            )
        )
    fig.update_yaxes(
        tickvals=[1, 0], ticktext=["first pool", "second pool"], range=[-0.55, 1.6], showgrid=False, fixedrange=True
    )
    fig.update_xaxes(title="undefended judge's score", fixedrange=True)
    if prepared.empty:
        say(fig, "no candidate has been scored yet", mode)
        return frame(fig, mode, title="Where do the standards lie?", notes=(note,), alt="No scores yet.", body=240)
    ends = {"high": float(prepared["threshold_high"].iloc[0]), "low": float(prepared["threshold_low"].iloc[0])}
    for side, value in ends.items():
        if math.isfinite(value):
            line = {"color": meaning[side], "width": 2, "dash": "dash"}
            fig.add_shape(type="line", x0=value, x1=value, y0=0, y1=1, yref="paper", line=line)
            fig.add_annotation(
                x=value, y=1, yref="paper", yanchor="bottom", showarrow=False, text=f"{side} {three_digits(value)}",
                xanchor="left" if side == "high" else "right", font={"color": meaning[side]},
                bgcolor=role["background"],
            )  # fmt: skip
    unread = int(prepared["n_unread"].iloc[0])
    notes = (plural(len(prepared), "candidate"), f"{count(unread)} unread", label(note, 80) if note else "")
    alt = (
        f"Scores of {len(prepared)} candidates; thresholds {three_digits(ends['low'])} and "
        f"{three_digits(ends['high'])}; "
        f"{(prepared['side'] == 'high').sum()} retained high, {(prepared['side'] == 'low').sum()} low."
    )
    fig = frame(fig, mode, title="Where do the standards lie?", notes=notes, alt=alt, body=240, legend=True, above=76)
    return fig.update_layout(legend={"y": 1.1})  # above the words at the thresholds

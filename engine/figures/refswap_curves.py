"""RefSwap's operating points: pass rates against gamma, ROC, and accuracy against robustness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.refswap import CORRECT, GROUPS, KEY, LEAST
from engine.figures.text import count, fixed, label, three_digits
from engine.figures.theme import SMALL_SIZE, frame, say

NOTHING = "both correct responses and keys must be accepted to draw this"


def prepare_passing(prepared: pd.DataFrame) -> pd.DataFrame:
    """Shares of both populations that reach each threshold.

    Args:
        prepared: from `engine.figures.refswap.prepare_swaps`.

    Returns:
        gamma, correct, key (shares in [0, 1]; NaN for an empty population), from 0 up through every score.
    """
    read = prepared[prepared["max_p_cf"].notna()]
    cuts = np.unique(np.concatenate([[0.0], read["max_p_cf"].to_numpy(dtype=float), [1.0]]))
    out = {"gamma": cuts}
    for group in (CORRECT, KEY):
        own = np.sort(read.loc[read["group"] == group, "max_p_cf"].to_numpy(dtype=float))
        out[group] = (len(own) - np.searchsorted(own, cuts, side="left")) / len(own) if len(own) else cuts * np.nan
    return pd.DataFrame(out)


def plot_passing(
    prepared: pd.DataFrame,
    *,
    gamma: float,
    mode: Mode = "light",
    title: str = "Who keeps the YES at which γ?",
    note: str = "",
) -> go.Figure:
    """Two step curves over a log axis, gamma drawn.

    Args:
        prepared: from `prepare_passing`.
        gamma: the chosen threshold.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    x = np.maximum(prepared["gamma"].to_numpy(dtype=float), LEAST)
    said = []
    for group, (name, meaning) in GROUPS.items():
        share = prepared[group].to_numpy(dtype=float)
        if np.isnan(share).all():
            continue
        at = float(share[np.searchsorted(prepared["gamma"].to_numpy(dtype=float), gamma, side="left")])
        said.append(f"{name} {fixed(100 * at, 1)} %")
        dash = "solid" if group == CORRECT else "dot"
        line = {"shape": "vh", "color": MEANING[mode][meaning], "width": 2.5, "dash": dash}
        fig.add_trace(
            go.Scatter(
                x=x,
                y=100 * share,
                mode="lines",
                line=line,
                name=name,
                hovertemplate="γ %{x:.3g}: %{y:.1f} %<extra></extra>",
            )
        )
    if not said:
        say(fig, NOTHING, mode)
    ink = ROLES[mode]["ink"]
    at = max(gamma, LEAST)
    fig.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", line={"color": ink, "width": 2, "dash": "dash"})
    fig.update_xaxes(type="log", range=[math.log10(LEAST), 0.05], title="γ (log)", fixedrange=True, **_TICKS)
    fig.update_yaxes(range=[-3, 103], title="accepted samples that pass (%)", fixedrange=True)
    notes = (f"at γ = {three_digits(gamma)}: {', '.join(said)}" if said else "", label(note, 80) if note else "")
    alt = f"Share that keeps the YES against gamma. At {three_digits(gamma)}: {'; '.join(said) or 'nothing accepted'}."
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=250, legend=bool(said))


_TICKS: dict[str, Any] = {
    "tickmode": "array",
    "tickvals": [1e-4, 1e-3, 1e-2, 1e-1, 1],
    "ticktext": ["0.0001", "0.001", "0.01", "0.1", "1"],
}


def plot_roc(
    prepared: pd.DataFrame,
    *,
    gamma: float,
    auc: str,
    mode: Mode = "light",
    title: str = "Does max_p_cf tell them apart?",
    note: str = "",
) -> go.Figure:
    """The ROC curve of max_p_cf with the chosen point; the diagonal is chance.

    Args:
        prepared: from `prepare_passing`.
        gamma: the chosen threshold.
        auc: the AUC and its interval as text.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    x, y = 100 * prepared[KEY], 100 * prepared[CORRECT]
    known = not (x.isna().all() or y.isna().all())
    if known:
        xs, ys = [*x.tolist()[::-1]], [*y.tolist()[::-1]]
        line = {"color": MEANING[mode]["defended"], "width": 2.5}
        curve = go.Scatter(x=[0, *xs], y=[0, *ys], mode="lines", line=line, name="ROC", hoverinfo="skip")
        fig.add_trace(curve)
        i = int(np.searchsorted(prepared["gamma"].to_numpy(dtype=float), gamma, side="left"))
        fig.add_trace(_chosen(float(x.iloc[i]), float(y.iloc[i]), f"γ = {three_digits(gamma)}", mode))
    else:
        say(fig, NOTHING, mode)
    rule = {"color": ROLES[mode]["line"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=100, y0=0, y1=100, line=rule, layer="below")
    fig.update_xaxes(range=[-3, 103], title="accepted keys that pass (%)", fixedrange=True)
    fig.update_yaxes(range=[-3, 103], title="correct responses that pass (%)", fixedrange=True)
    notes = (f"AUC {auc}, signed" if known else "", label(note, 80) if note else "")
    return frame(fig, mode, title=title, notes=notes, alt=f"ROC curve of max_p_cf, AUC {auc}.", body=250)


def _chosen(x: float, y: float, text: str, mode: Mode) -> go.Scatter:
    marker = {
        "size": 13,
        "symbol": "diamond",
        "color": MEANING[mode]["defended"],
        "line": {"color": ROLES[mode]["ink"], "width": 1.5},
    }
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers",
        marker=marker,
        name=text,
        hovertemplate=f"{text}<br>%{{x:.1f}}, %{{y:.1f}}<extra></extra>",
    )


def prepare_frontier(
    cut: Sequence[float], accuracy: Sequence[float], fpr: Sequence[float], worst: Sequence[float], best: Sequence[bool]
) -> pd.DataFrame:
    """Operating points by threshold: gamma, accuracy, fpr, fpr_worst (shares), pareto."""
    table = {"gamma": cut, "accuracy": accuracy, "fpr": fpr, "fpr_worst": worst, "pareto": best}
    return pd.DataFrame(table)


def plot_frontier(
    prepared: pd.DataFrame,
    *,
    gamma: float,
    mode: Mode = "light",
    title: str = "What does robustness cost?",
    note: str = "",
) -> go.Figure:
    """Accuracy on responses against the mean share of keys accepted, the undefended and the chosen point marked.

    Args:
        prepared: from `prepare_frontier`, thresholds ascending; the first one keeps everything.
        gamma: the chosen threshold.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    x, y = 100 * prepared["fpr"].to_numpy(dtype=float), 100 * prepared["accuracy"].to_numpy(dtype=float)
    known = bool(len(x)) and not (np.isnan(x).all() or np.isnan(y).all())
    notes: tuple[str, ...] = ()
    if known:
        i = min(int(np.searchsorted(prepared["gamma"].to_numpy(dtype=float), gamma, side="left")), len(x) - 1)
        _operating_points(fig, prepared, x, y, mode)
        fig.add_trace(_chosen(float(x[i]), float(y[i]), f"chosen, γ = {three_digits(gamma)}", mode))
        notes = (
            f"undefended: keys {fixed(float(x[0]), 1)} %, accuracy {fixed(float(y[0]), 1)} %",
            f"chosen: keys {fixed(float(x[i]), 1)} %, accuracy {fixed(float(y[i]), 1)} %",
            f"{count(len(x))} thresholds",
        )
    else:
        say(fig, NOTHING, mode)
    fig.update_xaxes(title="master keys accepted, mean over the keys (%)", fixedrange=True)
    fig.update_yaxes(title="accuracy on responses (%)", fixedrange=True)
    alt = "Accuracy against the share of keys accepted. " + "; ".join(notes)
    more = (label(note, 80),) if note else ()
    made = frame(fig, mode, title=title, notes=(*notes, *more), alt=alt, body=270, legend=known)
    if known:  # four names need more room above the plot than the two that `frame` allows for
        made.update_layout(margin_t=made.layout.margin.t + 2 * SMALL_SIZE + 22, height=made.layout.height + 46)
    return made


def _operating_points(fig: go.Figure, prepared: pd.DataFrame, x: Any, y: Any, mode: Mode) -> None:
    """The path through all thresholds, the Pareto points on it, and where it starts."""
    path = {"color": ROLES[mode]["line"], "width": 1.5}
    fig.add_trace(go.Scatter(x=x, y=y, mode="lines", line=path, name="every γ", hoverinfo="skip"))
    best = prepared["pareto"].to_numpy(dtype=bool)
    fig.add_trace(
        go.Scatter(
            x=x[best],
            y=y[best],
            mode="markers",
            marker={"size": 7, "color": MEANING[mode]["defended"]},
            name="no better point (Pareto)",
            customdata=[f"γ {three_digits(g)}" for g in prepared["gamma"][best]],
            hovertemplate="%{customdata}<br>keys %{x:.1f} %, accuracy %{y:.1f} %<extra></extra>",
        )
    )
    ring = {"size": 12, "color": ROLES[mode]["background"], "line": {"color": MEANING[mode]["attacked"], "width": 2}}
    fig.add_trace(go.Scatter(x=x[:1], y=y[:1], mode="markers", marker=ring, name="undefended", hoverinfo="skip"))
    fig.update_xaxes(range=[-2, max(10.0, float(np.nanmax(x)) * 1.06)])
    fig.update_yaxes(range=[max(0.0, float(np.nanmin(y)) - 6), min(104.0, float(np.nanmax(y)) + 5)])

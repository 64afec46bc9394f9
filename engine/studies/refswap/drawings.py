"""Where max_p_cf lies for correct responses and for master keys that a verifier accepts, with gamma drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import count, fixed, label, level_text, plural, three_digits
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, whiskers

CORRECT, RESPONSE, KEY = "correct", "response", "key"
GROUPS = {
    CORRECT: ("correct responses", "clean"), RESPONSE: ("responses, unchecked", "clean"),
    KEY: ("master keys", "attacked"),
}  # fmt: skip
"""Population to its name and the meaning of its colour; responses are unchecked where the data do not say which are
correct."""
LEAST = 1e-5
"""Probabilities below this are drawn as a rug at the left end of the log axis, with their number."""
LINEAR_FROM = 0.01
"""The axis is linear where no score but 0 lies below this."""
REMOVED = 0.22
"""Opacity of what loses its YES."""
MOST_DOTS = 400
DENSITY_FROM = 200
COLUMNS = ["group", "item_id", "name", "max_p_cf"]


@dataclass(frozen=True)
class Scale:
    """The axis of max_p_cf, to the data: linear, or logarithmic where scores are small.

    Attributes:
        log: logarithmic.
        low, high: ends, in max_p_cf; of a logarithmic axis the rug of what lies below `LEAST` is left of `low`.
        rug: where that rug is, on a logarithmic axis.
    """

    log: bool
    low: float
    high: float

    def at(self, value: float) -> float:
        """Place on the axis."""
        if not self.log:
            return value
        return math.log10(value) if value >= LEAST else self.rug

    @property
    def rug(self) -> float:
        """Place of what lies below `LEAST`."""
        return math.log10(self.low) - 0.35

    @property
    def gammas(self) -> list[float]:
        """Thresholds in even steps over this axis, 0 and 1 among them."""
        if not self.log:
            return [round(0.01 * k, 2) for k in range(101)]
        decades = -math.log10(self.low)
        n = max(60, round(12 * decades))
        return [0.0, *(float(f"{10 ** (decades * (k / n - 1)):.3g}") for k in range(n + 1))]


def scale_of(scores: Any, gamma: float = 0.0) -> Scale:
    """The scale for some scores (NaN is left out) and a threshold."""
    read = np.asarray(scores, dtype=float)
    read = read[~np.isnan(read)]
    shown = [*read.tolist(), *([gamma] if gamma > 0 else [])]
    if (read[read > 0] >= LINEAR_FROM).all():
        low, high = (min(shown), max(shown)) if shown else (0.0, 1.0)
        pad = max(0.02, 0.06 * (high - low))
        return Scale(False, max(-0.03, low - pad), min(1.03, high + pad))
    smallest = max(LEAST, min(v for v in [*shown, 1.0] if v > 0))
    return Scale(True, 10.0 ** math.floor(math.log10(smallest)), 10 ** min(0.05, math.log10(max(shown)) + 0.1))


def groups_of(prepared: pd.DataFrame) -> tuple[str, str]:
    """The two populations of a table: correct responses, or unchecked ones, and keys."""
    return (RESPONSE if (prepared["group"] == RESPONSE).any() else CORRECT, KEY)


def plot_swaps(prepared: pd.DataFrame, *, gamma: float, mode: Mode = "light") -> go.Figure:
    """A strip and a box for each population (a density from 200 samples on), and a line at gamma.

    Args:
        prepared: one row per accepted sample, columns `COLUMNS`; max_p_cf in [0, 1], NaN unread.
        gamma: the threshold; what lies left of it loses its YES and is dimmed.
        mode: light, dark or print.
    """
    fig = go.Figure()
    words: list[dict[str, Any]] = []
    read = prepared[prepared["max_p_cf"].notna()]
    scale = scale_of(read["max_p_cf"], gamma)
    for row, group in enumerate(groups_of(prepared)):
        own = read.loc[read["group"] == group, "max_p_cf"].to_numpy(dtype=float)
        _row(fig, own, row, group, scale, gamma, mode)
        words.append(_heading(own, row, group, gamma, mode))
        low = int((own < LEAST).sum()) if scale.log else 0
        if low:
            words.append(_rug_words(low, row, scale, mode))
    if read.empty:
        say(fig, "no accepted sample has been checked yet", mode)
    else:
        words.append(_gamma(fig, gamma, scale, mode))
    _score_axis(fig, scale, rug=bool((read["max_p_cf"] < LEAST).any()))
    fig.update_yaxes(range=[1.55, -0.85], visible=False, fixedrange=True)
    fig.update_layout(annotations=[*fig.layout.annotations, *words])
    title, notes = "What survives a swap of the reference?", _notes(prepared)
    return frame(fig, mode, title=title, notes=notes, alt=_alt(read, gamma), body=250)


def _score_axis(fig: go.Figure, scale: Scale, *, rug: bool) -> None:
    """Ticks and ends of the axis of max_p_cf."""
    title = "max_p_cf: largest p(YES) over the swapped references"
    if not scale.log:
        fig.update_xaxes(range=[scale.low, scale.high], title=title, fixedrange=True)
        return
    ticks = [k for k in range(-5, 1) if 10.0**k >= scale.low * 0.99]
    left = scale.rug - 0.25 if rug else math.log10(scale.low) - 0.1
    fig.update_xaxes(
        range=[left, math.log10(scale.high) + 0.07], tickmode="array", tickvals=ticks,
        ticktext=[f"{10.0**k:.{max(0, -k)}f}" for k in ticks], title=f"{title} (log)", fixedrange=True,
    )  # fmt: skip


def _row(fig: go.Figure, own: Any, row: int, group: str, scale: Scale, gamma: float, mode: Mode) -> None:
    if not len(own):
        return
    name, meaning = GROUPS[group]
    colour = MEANING[mode][meaning]
    above = own[own >= LEAST] if scale.log else own
    places = np.array([scale.at(float(v)) for v in above])
    if len(above):
        common = {"x": places, "y0": row, "orientation": "h", "name": name, "hoverinfo": "skip", "line_color": colour}
        if len(own) >= DENSITY_FROM and np.ptp(places) > 0:
            fig.add_trace(go.Violin(**common, side="negative", width=0.75, points=False, spanmode="hard", opacity=0.6))
        fig.add_trace(go.Box(**common, width=0.18, boxpoints=False, fillcolor="rgba(0,0,0,0)", whiskerwidth=0.6))
    shown = own if len(own) <= MOST_DOTS else own[np.random.default_rng(0).permutation(len(own))[:MOST_DOTS]]
    spread = np.random.default_rng(len(own)).uniform(0.16, 0.42, len(shown))
    kept = shown >= gamma
    fig.add_trace(
        go.Scatter(
            x=[scale.at(float(v)) for v in shown],
            y=row + spread,
            mode="markers",
            name=name,
            marker={
                "size": 7,
                "color": colour,
                "opacity": np.where(kept, 0.75, REMOVED).tolist(),
                "symbol": "circle" if group != KEY else "x-thin",
                "line": {"color": colour, "width": 0 if group != KEY else 1.5},
            },
            customdata=[[three_digits(float(v)), "kept" if k else "removed"] for v, k in zip(shown, kept, strict=True)],
            hovertemplate=f"{name}<br>max_p_cf %{{customdata[0]}}, %{{customdata[1]}}<extra></extra>",
        )
    )


def _heading(own: Any, row: int, group: str, gamma: float, mode: Mode) -> dict[str, Any]:
    name, meaning = GROUPS[group]
    kept = f", kept {count(int((own >= gamma).sum()))}" if len(own) else ""
    return {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": row - 0.47,
        "text": f"<b>{name}</b> accepted {count(len(own))}{kept}",
        "showarrow": False,
        "bgcolor": ROLES[mode]["background"],
        "font": {"color": MEANING[mode][meaning], "size": SMALL_SIZE + 1},
    }


def _rug_words(low: int, row: int, scale: Scale, mode: Mode) -> dict[str, Any]:
    return {
        "x": scale.rug,
        "y": row + 0.02,
        "text": f"{count(low)} below<br>0.00001",
        "showarrow": False,
        "font": {"color": ROLES[mode]["muted"], "size": SMALL_SIZE - 1},
    }


def _gamma(fig: go.Figure, gamma: float, scale: Scale, mode: Mode) -> dict[str, Any]:
    """The dashed line, and its word above the plot on the side with room."""
    at = scale.at(gamma) if gamma > 0 or not scale.log else scale.rug - 0.15
    ink = ROLES[mode]["ink"]
    fig.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", line={"color": ink, "width": 2, "dash": "dash"})
    right = at > (scale.at(max(scale.low, LEAST)) + scale.at(scale.high)) / 2
    return {
        "x": at,
        "y": 1,
        "yref": "paper",
        "yanchor": "top",
        "xanchor": "right" if right else "left",
        "xshift": -5 if right else 5,
        "text": f"γ = {three_digits(gamma)}",
        "showarrow": False,
        "bgcolor": ROLES[mode]["background"],
        "font": {"color": ink, "size": SMALL_SIZE + 1},
    }


def _notes(prepared: pd.DataFrame) -> tuple[str, ...]:
    unread = int(prepared["max_p_cf"].isna().sum())
    n = plural(prepared["item_id"].nunique(), "item")
    cut = "dots are a sample" if (prepared.groupby("group").size() > MOST_DOTS).any() else ""
    return (n, f"{count(unread)} unread", cut)


def _alt(read: pd.DataFrame, gamma: float) -> str:
    parts = []
    for group in groups_of(read):
        name, own = GROUPS[group][0], read.loc[read["group"] == group, "max_p_cf"]
        passing = f"{fixed(100 * float((own >= gamma).mean()), 0)} % reach gamma" if len(own) else "none accepted"
        parts.append(f"{name}: n {len(own)}, {passing}")
    return f"Distribution of max_p_cf, gamma {three_digits(gamma)}. " + "; ".join(parts) + "."


# RefSwap's operating points: pass rates against gamma, ROC, and accuracy against robustness.

NOTHING = "both correct responses and keys must be accepted to draw this"


def prepare_passing(prepared: pd.DataFrame) -> pd.DataFrame:
    """Shares of both populations that reach each threshold.

    Args:
        prepared: as `plot_swaps` takes it.

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


def plot_passing(prepared: pd.DataFrame, *, gamma: float, mode: Mode = "light") -> go.Figure:
    """Two step curves over a log axis, gamma drawn.

    Args:
        prepared: from `prepare_passing`.
        gamma: the chosen threshold.
        mode: light, dark or print.
    """
    fig = go.Figure()
    x = np.maximum(prepared["gamma"].to_numpy(dtype=float), LEAST)
    said = []
    for group in (CORRECT, KEY):
        name, meaning = GROUPS[group]
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
    notes = (f"at γ = {three_digits(gamma)}: {', '.join(said)}",) if said else ()
    alt = f"Share that keeps the YES against gamma. At {three_digits(gamma)}: {'; '.join(said) or 'nothing accepted'}."
    return frame(fig, mode, title="Who keeps the YES at which γ?", notes=notes, alt=alt, body=250, legend=bool(said))


_TICKS: dict[str, Any] = {
    "tickmode": "array",
    "tickvals": [1e-4, 1e-3, 1e-2, 1e-1, 1],
    "ticktext": ["0.0001", "0.001", "0.01", "0.1", "1"],
}


def plot_roc(prepared: pd.DataFrame, *, gamma: float, auc: str, mode: Mode = "light") -> go.Figure:
    """The ROC curve of max_p_cf with the chosen point; the diagonal is chance.

    Args:
        prepared: from `prepare_passing`.
        gamma: the chosen threshold.
        auc: the AUC and its interval as text.
        mode: light, dark or print.
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
    notes = (f"AUC {auc}, signed",) if known else ()
    return frame(
        fig,
        mode,
        title="Does max_p_cf tell them apart?",
        notes=notes,
        alt=f"ROC curve of max_p_cf, AUC {auc}.",
        body=250,
    )


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


def plot_frontier(prepared: pd.DataFrame, *, gamma: float, mode: Mode = "light") -> go.Figure:
    """Accuracy on responses against the mean share of keys accepted, the undefended and the chosen point marked.

    Args:
        prepared: from `prepare_frontier`, thresholds ascending; the first one keeps everything.
        gamma: the chosen threshold.
        mode: light, dark or print.
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
    made = frame(fig, mode, title="What does robustness cost?", notes=notes, alt=alt, body=270, legend=known)
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


# Acceptance of each master key, before and behind RefSwap.

KEY_COLUMNS = ["key", "n", "before", "before_lower", "before_upper", "after", "after_lower", "after_upper"]
Row = tuple[str, int, float, float, float, float, float, float]


def prepare_keys(rows: Sequence[Row]) -> pd.DataFrame:
    """Keys with both shares and their intervals, the most accepted first; key, n, then the columns in order."""
    table = pd.DataFrame(list(rows), columns=KEY_COLUMNS)
    return table.sort_values("before", ascending=False, kind="stable").reset_index(drop=True)


def plot_keys(prepared: pd.DataFrame, *, mode: Mode = "light", level: float = 0.95) -> go.Figure:
    """A row per key: ring before, dot behind RefSwap, each with its interval, on one axis from zero.

    Args:
        prepared: from `prepare_keys`.
        mode: light, dark or print.
        level: of the intervals.
    """
    fig = go.Figure()
    rows = prepared[prepared["before"].notna()].reset_index(drop=True)
    for side, name, meaning, shift in (
        ("before", "undefended", "attacked", -0.14),
        ("after", "behind RefSwap", "defended", 0.14),
    ):
        if len(rows):
            fig.add_trace(_dots(rows, side, name, MEANING[mode][meaning], shift, mode))
    if rows.empty:
        say(fig, "no key has been tried yet", mode)
    top = max([5.0, *(100 * rows[["before_upper", "after_upper"]].max(axis=1))])
    fig.update_xaxes(range=[-0.02 * top, 1.03 * top], title="accepted (%)", fixedrange=True, zeroline=True)
    fig.update_yaxes(
        range=[max(len(rows), 1) - 0.4, -0.6],
        tickmode="array",
        tickvals=list(rows.index),
        ticktext=[label(key, 24) for key in rows["key"]],
        tickfont={"color": ROLES[mode]["ink"], "size": SMALL_SIZE},
        showgrid=False,
        fixedrange=True,
    )
    low, high = (int(rows["n"].min()), int(rows["n"].max())) if len(rows) else (0, 0)
    n = count(low) if low == high else f"{count(low)}–{count(high)}"
    notes = (f"{level_text(level)} Wilson intervals", f"n = {n} questions a key")
    said = "; ".join(
        f"{key}: {_percent(b)} before, {_percent(a)} after"
        for key, b, a in zip(rows["key"], rows["before"], rows["after"], strict=True)
    )
    alt = f"Share of questions on which each key is accepted. {said}"
    return frame(
        fig,
        mode,
        title="Which keys are accepted?",
        notes=notes,
        alt=alt,
        body=34 * max(len(rows), 1) + 24,
        legend=len(rows) > 0,
    )


def _dots(rows: pd.DataFrame, side: str, name: str, colour: str, shift: float, mode: Mode) -> go.Scatter:
    value = 100 * rows[side]
    solid = side == "after"
    return go.Scatter(
        x=value.tolist(),
        y=[i + shift for i in rows.index],
        mode="markers",
        name=name,
        marker={
            "size": 10,
            "symbol": "square" if solid else "circle",
            "color": colour if solid else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_x=whiskers(value, 100 * rows[f"{side}_lower"], 100 * rows[f"{side}_upper"], colour),
        customdata=[[label(key, 40), text] for key, text in zip(rows["key"], _texts(rows, side), strict=True)],
        hovertemplate=f"%{{customdata[0]}}<br>{name}: %{{customdata[1]}}<extra></extra>",
    )


def _texts(rows: pd.DataFrame, side: str) -> list[str]:
    columns = zip(rows[side], rows[f"{side}_lower"], rows[f"{side}_upper"], strict=True)
    return [f"{_percent(v)} [{_percent(low)}, {_percent(high)}]" for v, low, high in columns]


def _percent(x: Any) -> str:
    return "unread" if math.isnan(x) else f"{fixed(100 * float(x), 1)} %"

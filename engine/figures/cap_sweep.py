"""What alpha does: the judge's score, the size of the edit, and whether the text still reads like one."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import count, label, three_digits
from engine.figures.theme import frame, say

COLUMNS = [
    "side", "alpha", "mean", "lower", "upper", "sd", "n", "n_unread", "relative_edit", "perplexity", "repetition",
]  # fmt: skip
_PANELS = (("mean", "score"), ("relative_edit", "edit, %"), ("perplexity", "perplexity"), ("repetition", "repeated, %"))
_LOG_TICKS = [1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000]
_DOMAINS = ((0.52, 1.0), (0.35, 0.48), (0.18, 0.31), (0.0, 0.13))


def prepare_cap_sweep(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns drawn, in order.

    Args:
        rows: one row per side and alpha, with the mean score, its interval and sd, and means of the meters.
    """
    return rows.sort_values(["side", "alpha"]).reset_index(drop=True)[COLUMNS]


def plot_cap_sweep(
    prepared: pd.DataFrame,
    *,
    standards: tuple[float, float],
    marked: tuple[float, float],
    mode: Mode = "light",
    note: str = "",
) -> go.Figure:
    """Four panels over alpha, one line a side; standards as dashed lines, the alphas looked at as rings.

    Args:
        prepared: from `prepare_cap_sweep`.
        standards: score of the high and of the low standard.
        marked: alpha looked at on the high and on the low side.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    meaning = MEANING[mode]
    title = "What does steering do to the text?"
    if prepared.empty:
        say(fig, "no alpha has been tried yet", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No sweep yet.", body=420)
    for side, symbol, alpha in (("high", "triangle-up", marked[0]), ("low", "triangle-down", marked[1])):
        own = prepared[prepared["side"] == side]
        for k, (column, _) in enumerate(_PANELS):
            factor = 100 if column in {"relative_edit", "repetition"} else 1
            fig.add_trace(_line(own, side, column, factor, k, symbol, mode))
        here = own[own["alpha"] == alpha]
        if len(here) and math.isfinite(float(here["mean"].iloc[0])):
            fig.add_trace(
                go.Scatter(
                    x=[alpha], y=[float(here["mean"].iloc[0])], yaxis="y", mode="markers", showlegend=False,
                    hoverinfo="skip",
                    marker={"size": 20, "symbol": "circle-open", "color": meaning[side], "line": {"width": 2.5}},
                )
            )  # fmt: skip
    _dress(fig, standards, mode)
    known = prepared[prepared["n"] > 0]
    notes = (
        f"n = {int(known['n'].min()) if len(known) else 0} training contexts a point",
        f"{int(prepared['n_unread'].sum())} unread",
        "95 % intervals over contexts",
        label(note, 80) if note else "",
    )
    alt = "Judged score by alpha: " + "; ".join(
        f"{side} {three_digits(alpha)}: {three_digits(mean)}, edit {three_digits(100 * edit)} %"
        for side, (alpha, mean, edit) in zip(
            prepared["side"], prepared[["alpha", "mean", "relative_edit"]].to_numpy(dtype=float), strict=True
        )
    )
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=470, legend=True)


def _line(own: pd.DataFrame, side: str, column: str, factor: float, k: int, symbol: str, mode: Mode) -> go.Scatter:
    colour = MEANING[mode][side]
    error = None
    if column == "mean":
        error = {
            "type": "data", "symmetric": False, "color": colour, "thickness": 1.3, "width": 3,
            "array": (own["upper"] - own["mean"]).fillna(0).tolist(),
            "arrayminus": (own["mean"] - own["lower"]).fillna(0).tolist(),
        }  # fmt: skip
    return go.Scatter(
        x=own["alpha"].tolist(),
        y=(factor * own[column]).tolist(),
        yaxis="y" if not k else f"y{k + 1}",
        mode="lines+markers",
        name=f"steered {side}",
        showlegend=not k,
        line={"color": colour, "width": 2, "dash": "solid" if side == "high" else "dot"},
        marker={"size": 8, "symbol": symbol, "color": colour},
        error_y=error,
        hovertemplate=f"alpha %{{x:.4g}}: %{{y:.3g}}<extra>{side}</extra>",
    )


def _dress(fig: go.Figure, standards: tuple[float, float], mode: Mode) -> None:
    """The standards as lines through the first panel, and the axes of all four."""
    role, meaning = ROLES[mode], MEANING[mode]
    for side, value in zip(("high", "low"), standards, strict=True):
        fig.add_shape(
            type="line", x0=0, x1=1, xref="paper", y0=value, y1=value, yref="y",
            line={"color": meaning[side], "width": 1.5, "dash": "dash"},
        )  # fmt: skip
        fig.add_annotation(
            x=1, xref="paper", xanchor="right", y=value, yref="y", showarrow=False, bgcolor=role["background"],
            text=f"{side} standard {three_digits(value)}", font={"color": meaning[side], "size": 12},
            yanchor="bottom" if side == "high" else "top",
        )  # fmt: skip
    axes = {}
    for k, ((column, name), domain) in enumerate(zip(_PANELS, _DOMAINS, strict=True)):
        axes["yaxis" if not k else f"yaxis{k + 1}"] = {
            "domain": list(domain), "title": name, "fixedrange": True, "nticks": 6 if not k else 3,
            "type": "log" if column == "perplexity" else "linear", "anchor": "x",
        }  # fmt: skip
    # In so low a panel Plotly would name the ticks between powers of ten by their last digit: 5, 2, 10, 5.
    axes["yaxis3"] |= {"tickmode": "array", "tickvals": _LOG_TICKS, "ticktext": [count(t) for t in _LOG_TICKS]}
    fig.update_layout(**axes)
    fig.update_xaxes(title="steering strength alpha", fixedrange=True, anchor="y4")

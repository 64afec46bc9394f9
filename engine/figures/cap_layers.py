"""Separability of the two standards at every layer, beside its permutation null (equation 3)."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import label, plural, three_digits
from engine.figures.theme import frame, say

COLUMNS = [
    "space",
    "layer",
    "fitted",
    "value",
    "lower",
    "upper",
    "null_mean",
    "null_high",
    "p_value",
    "n_high",
    "n_low",
]


_TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
_LONG = 4
"""An interval that reaches so many times the largest value would press the curve to the ground of a linear axis."""


def prepare_cap_layers(layers: pd.DataFrame, space: str = "pca") -> pd.DataFrame:
    """The rows of one space, in the order of the layers.

    Args:
        layers: table `cap_layers`.
        space: pca or raw.
    """
    return layers[layers["space"] == space].sort_values("layer").reset_index(drop=True)[COLUMNS]


def plot_cap_layers(prepared: pd.DataFrame, *, chosen: int, mode: Mode = "light", note: str = "") -> go.Figure:
    """Value and interval on texts that were not fitted, the null as a grey ground, the chosen layer marked.

    Args:
        prepared: from `prepare_cap_layers`.
        chosen: the layer that was chosen on the fitting half.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    space = "after PCA" if not len(prepared) or prepared["space"].iloc[0] == "pca" else "in the raw space"
    title = "At which layer do the standards part?"
    if prepared.empty:
        say(fig, "no layer has been measured yet", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No layers yet.", body=280)
    x = prepared["layer"].tolist()
    fig.add_trace(
        go.Scatter(
            x=x, y=prepared["null_high"].tolist(), mode="lines", name="95 % of sides shuffled in their contexts",
            line={"color": meaning["unread"], "width": 1}, fill="tozeroy", fillcolor=role["blank"],
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=x, y=prepared["value"].tolist(), mode="lines+markers", name="on texts not fitted, with interval",
            line={"color": meaning["clean"], "width": 2}, marker={"size": 7},
            error_y={
                "type": "data", "symmetric": False, "thickness": 1.2, "width": 3, "color": meaning["clean"],
                "array": (prepared["upper"] - prepared["value"]).clip(lower=0).tolist(),
                "arrayminus": (prepared["value"] - prepared["lower"]).clip(lower=0).tolist(),
            },
            customdata=prepared[["p_value", "fitted"]].to_numpy().tolist(),
            hovertemplate="layer %{x}: %{y:.2f}, p = %{customdata[0]:.3f}; fitted half %{customdata[1]:.2f}"
            "<extra></extra>",
        )
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(
            x=x, y=prepared["fitted"].tolist(), mode="lines", name="on the half that chose the layer",
            line={"color": meaning["human"], "width": 1.5, "dash": "dot"}, hoverinfo="skip",
        )
    )  # fmt: skip
    mark = {"color": role["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=chosen, x1=chosen, y0=0, y1=1, yref="paper", line=mark, layer="below")
    _axes(fig, prepared, space)
    own = prepared[prepared["layer"] == chosen]
    row = own.iloc[0] if len(own) else prepared.iloc[0]
    notes = (
        f"n = {int(row['n_high'])} high and {int(row['n_low'])} low texts of the other half",
        "intervals: bootstrap of contexts",
        f"layer {chosen} marked",
        label(note, 80) if note else "",
    )
    alt = (
        f"Separability {space} by layer over {plural(len(prepared), 'layer')}; at layer {chosen} "
        f"{three_digits(float(row['value']))}, shuffled sides reach {three_digits(float(row['null_high']))}."
    )
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=290, legend=True, above=14)


def _axes(fig: go.Figure, prepared: pd.DataFrame, space: str) -> None:
    """Linear from zero; logarithmic where intervals are many times as long as the values are high."""
    log = _is_log(prepared)
    fig.update_xaxes(title="layer (output of this block)", fixedrange=True)
    fig.update_yaxes(title=f"separability {space}{' (log)' if log else ''}", fixedrange=True)
    if not log:
        fig.update_yaxes(rangemode="tozero")
        return
    named = [f"{tick:g}" for tick in _TICKS]
    fig.update_yaxes(type="log", tickmode="array", tickvals=_TICKS, ticktext=named, range=_ends(prepared))


def _is_log(prepared: pd.DataFrame) -> bool:
    drawn = prepared[["value", "upper", "null_high", "fitted"]]
    longest, highest = float(prepared["upper"].max()), float(prepared["value"].max())
    return bool((drawn.fillna(1.0) > 0).all(axis=None)) and longest > _LONG * highest


def _ends(prepared: pd.DataFrame) -> list[float]:
    """Ends of the logarithmic axis, as powers of ten: all values and intervals lie within."""
    drawn = prepared[["value", "lower", "upper", "null_high", "fitted"]].to_numpy(dtype=float)
    drawn = drawn[drawn > 0]
    return [math.log10(0.85 * drawn.min()), math.log10(1.1 * drawn.max())]

"""The retained texts as points: activations of one layer on a plane, coloured by side or by score."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import label, plural
from engine.figures.theme import frame, say

COLUMNS = ["text_id", "side", "half", "score", "text", "x", "y"]


def prepare_cap_map(texts: pd.DataFrame, points: pd.DataFrame, layer: int) -> pd.DataFrame:
    """One row per retained text.

    Args:
        texts: table `cap_texts`.
        points: table `cap_points`.
        layer: whose components are drawn; 0 takes the UMAP of the chosen layer.
    """
    own = texts[texts["side"].notna()]
    if layer:
        places = points[points["layer"] == layer][["text_id", "x", "y"]]
        return own.merge(places, on="text_id").reset_index(drop=True)[COLUMNS]
    return own.rename(columns={"umap_x": "x", "umap_y": "y"}).dropna(subset=["x"]).reset_index(drop=True)[COLUMNS]


def plot_cap_map(
    prepared: pd.DataFrame, *, by_score: bool, method: str, layer: int, mode: Mode = "light", note: str = ""
) -> go.Figure:
    """A scatter; each point carries its text.

    Args:
        prepared: from `prepare_cap_map`.
        by_score: colour by the judge's score, else by side.
        method: PCA or UMAP, for the axis titles.
        layer: of the activations.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    for side, symbol in (("high", "triangle-up"), ("low", "triangle-down")):
        own = prepared[prepared["side"] == side]
        if own.empty:
            continue
        colour: dict[str, object] = {"color": meaning[side]}
        if by_score:
            colour = {
                "color": own["score"].tolist(),
                "colorscale": [[0, meaning["low"]], [0.5, role["zero"]], [1, meaning["high"]]],
                "cmin": float(prepared["score"].min()),
                "cmax": float(prepared["score"].max()),
                "showscale": side == "high",
                "colorbar": {"title": {"text": "score"}, "thickness": 12},
            }
        fig.add_trace(
            go.Scatter(
                x=own["x"].tolist(),
                y=own["y"].tolist(),
                mode="markers",
                name=f"{side} standard ({len(own)})",
                marker={"size": 10, "symbol": symbol, "line": {"width": 1, "color": role["line"]}, **colour},
                customdata=[
                    [i, label(t, 70), s] for i, t, s in zip(own["text_id"], own["text"], own["score"], strict=True)
                ],
                hovertemplate="%{customdata[2]:.2f}: %{customdata[1]}<extra></extra>",
            )
        )
    axis = {"PCA": "principal component", "UMAP": "UMAP coordinate"}[method]
    fig.update_xaxes(title=f"{axis} 1", fixedrange=True)
    fig.update_yaxes(title=f"{axis} 2", fixedrange=True)
    title = "Do the two sides lie apart?"
    if prepared.empty:
        say(fig, "no map of this layer was stored", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No points.", body=330)
    high = int((prepared["side"] == "high").sum())
    alt = f"{method} of {len(prepared)} retained texts at layer {layer}, {high} of them high."
    notes = (plural(len(prepared), "retained text"), f"layer {layer}", label(note, 80) if note else "")
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=330, legend=True)

"""The map of difference embeddings: which comparisons lie where, and what the audit makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.puaudit_curves import TRUTHS, thinned, truth_colour, truth_of
from engine.figures.text import count, label, plural
from engine.figures.theme import SMALL_SIZE, frame, say

COLOURS = ("entry mass", "decision", "truth")
MAPS = ("PCA", "UMAP")
POSITIVE = "verified positive"


def prepare_map(rows: pd.DataFrame, kind: str = "PCA") -> pd.DataFrame:
    """Every pair of the split shown that has coordinates, at most 5,000, every role and type with its share.

    Args:
        rows: rows of the table `audit` of the split shown, with `flip`: what the audit decides.
        kind: PCA or UMAP.

    Returns:
        comparison_id, type, role, x, y, entry_mass, truth, decision (kept | flipped | a positive's role).
    """
    prefix = "umap" if kind == "UMAP" else "pca"
    own = rows[rows[f"{prefix}_x"].notna()]
    unlabelled = (own["role"] == "unlabelled").to_numpy()
    decision = np.where(
        unlabelled, np.where(own["flip"].to_numpy(dtype=bool), "flipped", "kept"), own["role"].to_numpy()
    )
    made = pd.DataFrame(
        {
            "comparison_id": own["comparison_id"].to_numpy(),
            "type": own["type"].to_numpy(),
            "role": own["role"].to_numpy(),
            "x": own[f"{prefix}_x"].to_numpy(),
            "y": own[f"{prefix}_y"].to_numpy(),
            "entry_mass": own["entry_mass"].to_numpy(),
            "truth": np.where(unlabelled, truth_of(own["agrees"].to_numpy()), POSITIVE),
            "decision": decision,
        }
    )
    return thinned(made, ["role", "type"])


def plot_map(
    prepared: pd.DataFrame, colour: str = "entry mass", *, kind: str = "PCA", mode: Mode = "light", note: str = ""
) -> go.Figure:
    """Positives as small gold diamonds, unlabelled pairs by the chosen colour; ids are in `customdata`."""
    fig = go.Figure()
    for role, name in (("positive", POSITIVE), ("denoised", "positive, filtered out")):
        own = prepared[prepared["role"] == role]
        if len(own):
            filled = {"color": MEANING[mode]["human"]} if role == "positive" else {"color": ROLES[mode]["background"]}
            marker = {"size": 8, "symbol": "diamond", "line": {"color": MEANING[mode]["human"], "width": 1.5}, **filled}
            fig.add_trace(_dots(own, f"{name} ({count(len(own))})", marker))
    unlabelled = prepared[prepared["role"] == "unlabelled"]
    for name, own, marker in _parts(unlabelled, colour, mode):
        fig.add_trace(_dots(own, f"{name} ({count(len(own))})", marker))
    equal = {"scaleanchor": "x"} if kind == "PCA" else {}
    axis = {"showticklabels": False, "zeroline": False}
    fig.update_xaxes(title=f"{kind} 1", **axis)
    fig.update_yaxes(title=f"{kind} 2", **axis, **equal)
    fig.update_layout(dragmode="lasso", coloraxis=_scale(mode, colour))
    if prepared.empty:
        say(fig, f"this run has no {kind} map", mode)
    far = "distances between far groups mean nothing" if kind == "UMAP" else ""
    notes = (f"{plural(len(prepared), 'pair')}; draw a lasso to read some", far, label(note, 90))
    alt = f"{kind} map of {len(prepared)} difference embeddings coloured by {colour}."
    return frame(
        fig, mode, title="Which comparisons look alike?", notes=notes, alt=alt, body=380, legend=True, above=22
    )


def _parts(rows: pd.DataFrame, colour: str, mode: Mode) -> list[tuple[str, pd.DataFrame, dict[str, Any]]]:
    line = {"color": ROLES[mode]["background"], "width": 0.5}
    if colour == "entry mass":
        marker = {"size": 9, "color": rows["entry_mass"].to_numpy(), "coloraxis": "coloraxis", "line": line}
        return [("unlabelled", rows, marker)] if len(rows) else []
    if colour == "decision":
        looks = {"kept": (MEANING[mode]["clean"], "circle"), "flipped": (MEANING[mode]["defended"], "square")}
    else:
        looks = {t: (truth_colour(t, mode), "x" if t == "disagrees" else "circle") for t in TRUTHS}
    found = []
    for value, (shade, symbol) in looks.items():
        own = rows[rows[colour] == value]
        if len(own):
            found.append((value, own, {"size": 9, "color": shade, "symbol": symbol, "line": line}))
    return found


def _dots(own: pd.DataFrame, name: str, marker: dict[str, Any]) -> go.Scatter:
    """One kind of pair; where a colour bar says what the colours mean, the legend need not.

    Drawn as SVG: Plotly's WebGL traces compile code in the page, which the dashboard's content policy forbids.
    """
    return go.Scatter(
        x=own["x"].to_numpy(dtype=np.float32),
        y=own["y"].to_numpy(dtype=np.float32),
        mode="markers",
        name=name,
        showlegend="coloraxis" not in marker,
        marker=marker,
        customdata=own["comparison_id"].to_numpy(),
        hovertemplate="%{customdata}<extra></extra>",
    )


def _scale(mode: Mode, colour: str) -> dict[str, Any]:
    """Early entry in blue, late in vermilion, one lightness rising: no rainbow."""
    role = ROLES[mode]
    bar = {"title": {"text": "entry mass", "font": {"size": SMALL_SIZE}}, "thickness": 10, "len": 0.8}
    return {
        "colorscale": [[0.0, MEANING[mode]["clean"]], [0.5, role["grid"]], [1.0, MEANING[mode]["attacked"]]],
        "cmin": 0,
        "cmax": 1,
        "colorbar": bar,
        "showscale": colour == "entry mass",
    }

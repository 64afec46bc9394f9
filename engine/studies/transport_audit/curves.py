"""Audit figures over the transported mass: the price curve with its items, entry masses by truth, consistency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import count, label, level_text, plural
from engine.plots.theme import MEANING, PALETTE, ROLES, SMALL_SIZE, Mode, frame, say

TRUTHS = ("agrees", "disagrees", "unknown")
"""Whether a verdict is the human's."""
_SYMBOLS = {"agrees": "circle", "disagrees": "x-thin", "unknown": "circle-open"}
MOST_DRAWN = 5000
FEW = 200
"""Pairs below which every one is drawn."""
MOST_MARKS = 300
"""Marks on the price curve, and bars below it; every one is an element of the page and is drawn anew at each mass."""
_BINS = 20


def truth_colour(truth: str, mode: Mode) -> str:
    """Gold where a verdict is the human's, pink where it is not, grey where nobody knows."""
    return {"agrees": MEANING[mode]["human"], "disagrees": PALETTE[mode][7]}.get(truth, MEANING[mode]["unread"])


def truth_of(agrees: npt.ArrayLike) -> list[str]:
    """The words for agreement 1, 0 and NaN."""
    return ["unknown" if np.isnan(a) else TRUTHS[int(a < 0.5)] for a in np.asarray(agrees, dtype=np.float64)]


def prepare_items(rows: pd.DataFrame) -> pd.DataFrame:
    """The unlabelled pairs in the order in which they enter.

    Args:
        rows: rows of the table `audit` of the split shown, with `flip` (what the audit decides at the mass) and
            `stability` (share of bootstraps that keep the pair; NaN where there are none).

    Returns:
        comparison_id, type, entry_mass, entry_price, truth, kept, stability (NaN without bootstraps).
    """
    own = rows[rows["role"] == "unlabelled"]
    made = pd.DataFrame(
        {
            "comparison_id": own["comparison_id"].to_numpy(),
            "type": own["type"].to_numpy(),
            "entry_mass": own["entry_mass"].to_numpy(),
            "entry_price": own["entry_price"].to_numpy(),
            "truth": truth_of(own["agrees"].to_numpy()),
            "kept": ~own["flip"].to_numpy(dtype=bool),
            "stability": own["stability"].to_numpy(dtype=np.float64),
        }
    )
    return made.sort_values("entry_mass", kind="stable").reset_index(drop=True)


Cuts = float | Sequence[float]
"""The mass, or those of the question types where each has its own."""


def mass_words(mass: Cuts) -> str:
    """A mass as text: "0.59", or "0.03 to 0.97" where types have their own."""
    own = _masses(mass)
    return f"{own[0]:.2f}" if len(own) == 1 else f"{own[0]:.2f} to {own[-1]:.2f}"


def _masses(mass: Cuts) -> list[float]:
    return sorted(mass) if isinstance(mass, Sequence) else [float(mass)]


def plot_items(prepared: pd.DataFrame, mass: Cuts, *, mode: Mode = "light", note: str = "") -> go.Figure:
    """The price curve lambda(m), each pair a mark where it enters, the cut at the mass, bootstraps below."""
    fig = go.Figure()
    if prepared.empty:
        say(fig, "nothing to audit", mode)
    drawn = thinned(prepared, "truth", MOST_MARKS)
    if len(drawn) < len(prepared):
        fig.add_trace(_curve(prepared, mode))
    for truth in [t for t in TRUTHS if (drawn["truth"] == t).any()]:
        own = drawn[drawn["truth"] == truth]
        colour = truth_colour(truth, mode)
        fig.add_trace(
            go.Scatter(
                x=own["entry_mass"].to_numpy(),
                y=own["entry_price"].to_numpy(),
                mode="markers",
                name=f"{truth} ({count(int((prepared['truth'] == truth).sum()))})",
                marker={"size": 8, "symbol": _SYMBOLS[truth], "color": colour, "line": {"color": colour, "width": 2}},
                customdata=own["comparison_id"].to_numpy(),
                hovertemplate="%{customdata}<br>mass %{x:.3f}, price %{y:.3f}<extra></extra>",
            )
        )
    known = prepared["stability"].notna().any()
    if known:
        _kept_bars(fig, prepared, mode)
    _cut(fig, mass, mode)
    fig.update_xaxes(
        title="entry mass (in order of entry)", range=[-0.01, 1.01], fixedrange=True, anchor="y2" if known else "y"
    )
    price = {"title": {"text": "price λ(m), 1 − cos"}, "rangemode": "tozero", "fixedrange": True}
    fig.update_layout(yaxis={**price, "domain": [0.34 if known else 0, 1]})  # the bars below have an axis of their own
    kept = int(prepared["kept"].sum())
    cut = "the cut" if len(_masses(mass)) == 1 else "the cut of their type"
    notes = (
        f"{count(kept)} of {plural(len(prepared), 'pair')} left of {cut}: an input, not a finding",
        "below: share of bootstraps of the positives that keep a pair" if known else "",
        f"{count(len(drawn))} of them drawn as marks" if len(drawn) < len(prepared) else "",
        label(note, 90),
    )
    alt = f"Price of transported mass against mass; {cut} at {mass_words(mass)} keeps {kept} of {len(prepared)} pairs."
    return frame(
        fig, mode, title="In which order do verdicts enter?", notes=notes, alt=alt, body=330, legend=True, above=16
    )


def _curve(prepared: pd.DataFrame, mode: Mode) -> go.Scatter:
    """The price at every entry, as a thin line behind the marks."""
    return go.Scatter(
        x=prepared["entry_mass"].to_numpy(),
        y=prepared["entry_price"].to_numpy(),
        mode="lines",
        line={"color": ROLES[mode]["line"], "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
    )


def _kept_bars(fig: go.Figure, prepared: pd.DataFrame, mode: Mode) -> None:
    """The share of bootstraps that keep each pair, below the curve; means of neighbours where there are many pairs."""
    own = prepared[["comparison_id", "entry_mass", "stability"]].dropna()
    together = max(1, math.ceil(len(own) / MOST_MARKS))
    groups = own.groupby(np.arange(len(own)) // together)
    many = f"mean of {together} pairs from " if together > 1 else ""
    fig.add_trace(
        go.Bar(
            x=groups["entry_mass"].mean().to_numpy(),
            y=groups["stability"].mean().to_numpy(),
            yaxis="y2",
            name="kept when resampled",
            marker={"color": MEANING[mode]["defended"], "line": {"width": 0}},
            width=0.9 * together / max(len(prepared), 1),
            customdata=groups["comparison_id"].first().to_numpy(),
            hovertemplate=f"{many}%{{customdata}}<br>kept in %{{y:.0%}} of the bootstraps<extra></extra>",
        )
    )
    axis = {"domain": [0, 0.24], "range": [0, 1], "tickformat": ".0%", "fixedrange": True, "nticks": 3}
    fig.update_layout(yaxis2={**axis, "title": {"text": "kept"}})


def prepare_density(entry: npt.ArrayLike, agrees: npt.ArrayLike) -> pd.DataFrame:
    """Entry masses of verdicts that agree and of those that do not.

    Args:
        entry: mean entry mass of each pair over the splits (n,).
        agrees: 1, 0 or NaN (n,).

    Returns:
        truth, entry_mass; one row per pair that was ever unlabelled, truths in the order of `TRUTHS`.
    """
    made = pd.DataFrame({"truth": truth_of(agrees), "entry_mass": np.asarray(entry, dtype=np.float64)})
    made = made[np.isfinite(made["entry_mass"])]
    return made.sort_values("truth", key=lambda t: t.map(TRUTHS.index), kind="stable").reset_index(drop=True)


def plot_density(prepared: pd.DataFrame, mass: Cuts, *, mode: Mode = "light", note: str = "") -> go.Figure:
    """Strips with boxes for fewer than 200 pairs, outlines of shares above; the cut at the mass."""
    fig, few = go.Figure(), len(prepared) < FEW
    for truth in [t for t in TRUTHS if (prepared["truth"] == t).any()]:
        own = prepared.loc[prepared["truth"] == truth, "entry_mass"].to_numpy()
        fig.add_trace((_strip if few else _outline)(own, truth, mode))
    _cut(fig, mass, mode)
    fig.update_xaxes(title="entry mass", range=[-0.01, 1.01], fixedrange=True)
    if few:
        fig.update_yaxes(showticklabels=True, fixedrange=True, tickfont={"color": ROLES[mode]["ink"]})
    else:
        fig.update_yaxes(title="share of pairs", tickformat=".0%", rangemode="tozero", fixedrange=True)
    if prepared.empty:
        say(fig, "nothing to audit", mode)
    notes = ("verdicts that disagree should enter late, right of the cut", label(note, 90))
    alt = "Distribution of entry masses by whether the verdict is the human's."
    return frame(
        fig, mode, title="Do wrong verdicts enter later?", notes=notes, alt=alt, body=240, legend=not few, above=16
    )


def _strip(own: npt.NDArray[np.float64], truth: str, mode: Mode) -> go.Box:
    colour = truth_colour(truth, mode)
    return go.Box(
        x=own,
        name=f"{truth} (n = {count(len(own))})",
        boxpoints="all",
        jitter=0.5,
        pointpos=0,
        marker={"color": colour, "size": 7, "opacity": 0.75},
        line={"color": colour, "width": 1.5},
        fillcolor="rgba(0,0,0,0)",
        hovertemplate="%{x:.3f}<extra></extra>",
    )


def _outline(own: npt.NDArray[np.float64], truth: str, mode: Mode) -> go.Scatter:
    counts, edges = np.histogram(own, np.linspace(0, 1, _BINS + 1))
    share = counts / len(own)
    dash = "dot" if truth == "disagrees" else "solid"
    return go.Scatter(
        x=edges,
        y=[*share, share[-1]],
        mode="lines",
        line={"shape": "hv", "width": 2.5, "color": truth_colour(truth, mode), "dash": dash},
        name=f"{truth} (n = {count(len(own))})",
        hovertemplate="%{x:.2f}: %{y:.0%}<extra></extra>",
    )


def prepare_sensitivity(metrics: pd.DataFrame, random: pd.DataFrame) -> pd.DataFrame:
    """Consistency after the audit at each mass, and what random flips would give there.

    Args:
        metrics: rows `sensitivity_cons_adj` of one attack, `group` holding the mass.
        random: mass, random, random_lower, random_upper at the same masses (`metrics.random_curve`).

    Returns:
        mass, value, lower, upper, random, random_lower, random_upper, level, n.
    """
    own = metrics[metrics["metric"] == "sensitivity_cons_adj"]
    made = own.assign(mass=own["group"].astype(float))[["mass", "value", "lower", "upper", "level", "n"]]
    names = ["mass", "random", "random_lower", "random_upper"]
    return made.merge(random[names], on="mass", how="left").sort_values("mass").reset_index(drop=True)


def plot_sensitivity(
    prepared: pd.DataFrame, mass: Cuts, marks: dict[str, float], *, mode: Mode = "light", note: str = ""
) -> go.Figure:
    """Consistency against the mass, with its interval; random flips dashed in their band; named masses as ticks.

    Args:
        prepared: from `prepare_sensitivity`.
        mass: the cut.
        marks: name -> mass, such as the estimate from clean labels.
        mode: light, dark or print.
        note: a last part of the small print.
    """
    fig = go.Figure()
    colour, grey = MEANING[mode]["defended"], MEANING[mode]["unread"]
    fig.add_trace(_band(prepared, "lower", "upper", ROLES[mode]["faint"], 1.0))
    fig.add_trace(_band(prepared, "random_lower", "random_upper", grey, 0.3))
    x = prepared["mass"].to_numpy()
    for name, y, dash, shade in (
        ("after the audit", prepared["value"], "solid", colour),
        ("after as many random flips", prepared["random"], "dash", grey),
    ):
        fig.add_trace(
            go.Scatter(
                x=x,
                y=y.to_numpy(),
                mode="lines+markers",
                name=name,
                line={"color": shade, "dash": dash, "width": 2.5},
                marker={"size": 7},
                hovertemplate="mass %{x:.2f}: %{y:.3f}<extra></extra>",
            )
        )
    _cut(fig, mass, mode)
    _marks(fig, marks, mode)
    fig.update_xaxes(title="transported mass m", range=[-0.01, 1.02], fixedrange=True)
    fig.update_yaxes(title="consistency", range=[0, 1.01], fixedrange=True)
    level = prepared["level"].dropna()
    how = (
        f"{level_text(float(level.iloc[0]))} bands: bootstrap of items; grey: where random flips land"
        if len(level)
        else ""
    )
    n = f"n = {plural(int(prepared['n'].max()), 'pair')}" if len(prepared) else ""
    notes = (how, n, label(note, 90))
    alt = "Consistency after the audit against the transported mass, with random flips beside it."
    return frame(fig, mode, title="Which mass would have been right?", notes=notes, alt=alt, body=280, legend=True)


def _band(prepared: pd.DataFrame, lower: str, upper: str, colour: str, opacity: float) -> go.Scatter:
    """The area between two columns, where both are known."""
    own = prepared.dropna(subset=[lower, upper])
    return go.Scatter(
        x=np.concatenate([own["mass"], own["mass"][::-1]]),
        y=np.concatenate([own[upper], own[lower][::-1]]),
        fill="toself",
        mode="none",
        fillcolor=colour,
        opacity=opacity,
        hoverinfo="skip",
        showlegend=False,
    )


def thinned(rows: pd.DataFrame, by: str | list[str], most: int = MOST_DRAWN) -> pd.DataFrame:
    """About so many rows at most: every value of `by` has its share and one at least, spread evenly over the order."""
    if len(rows) <= most:
        return rows
    parts = []
    for _, own in rows.groupby(by, sort=False):
        n = max(1, int(most * len(own) / len(rows)))
        parts.append(own.iloc[np.linspace(0, len(own) - 1, n).round().astype(int)])
    return pd.concat(parts)


def _cut(fig: go.Figure, mass: Cuts, mode: Mode) -> None:
    """The mass as a line, named inside the plot, where no legend is; thin lines under one name where there are more."""
    own = _masses(mass)
    line = {"color": ROLES[mode]["ink"], "width": 1.5 if len(own) == 1 else 1, "dash": "dash"}
    for at in own:
        fig.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", line=line)
    left = own[0] > 0.8 or (len(own) > 1 and own[0] > 0.5)
    fig.add_annotation(
        x=own[0],
        y=1,
        yref="paper",
        yanchor="top",
        xanchor="right" if left else "left",
        xshift=-4 if left else 4,
        text=f"m = {mass_words(mass)}" + (" by type" if len(own) > 1 else ""),
        showarrow=False,
        bgcolor=ROLES[mode]["background"],
        font={"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
    )


def _marks(fig: go.Figure, marks: dict[str, float], mode: Mode) -> None:
    """Named masses as ticks at the foot of the plot."""
    for i, (name, at) in enumerate(marks.items()):
        fig.add_annotation(
            x=at,
            y=0.02 + 0.075 * i,
            text=f"{label(name, 30)} {at:.2f} ",
            xanchor="right" if at > 0.5 else "left",
            showarrow=False,
            font={"size": SMALL_SIZE, "color": ROLES[mode]["muted"]},
            bgcolor=ROLES[mode]["background"],
        )
        fig.add_shape(
            type="line", x0=at, x1=at, y0=0, y1=0.05 + 0.075 * i, line={"color": ROLES[mode]["line"], "width": 2}
        )


# The map of difference embeddings: which comparisons lie where, and what the audit makes of them.

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

"""Figures of a CAP run's steering: scores and standards, layers, the map of the texts, the sweep of alphas.

Each figure stands with its settings; the attacks' figures are in `engine.studies.cap.figures`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import count, label, plural, three_digits
from engine.plots.theme import MEANING, ROLES, Mode, frame, say, whiskers
from engine.steering.references import Thresholds, retained
from engine.steering.vectors import SIDES
from engine.studies.cap.metrics import Standard, by_alpha, standard_at
from engine.studies.cap.study import CAP
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table


def standard_of(source: Source, high_percentile: int, low_percentile: int) -> Standard:
    """The standards of a run at two percentiles; computed once for each pair of them."""
    key = ("cap standard", high_percentile, low_percentile)
    return source.memo(key, lambda: standard_at(source.table("cap_texts"), high_percentile, low_percentile))


def alpha_rows(source: Source) -> pd.DataFrame:
    """The sweep of a run by side and alpha (`by_alpha`); computed once."""
    return source.memo("cap by alpha", lambda: by_alpha(source.table("cap_sweep")))


def _cap(source: Source) -> dict[str, Any]:
    return dict(source.manifest.get("cap") or {})


# The judge's scores of the tutor's candidates, with the thresholds that make two standards of them.

SCORE_COLUMNS = ["pool", "side", "score", "text_id", "text", "threshold_high", "threshold_low", "n_unread"]
_POOLS = {
    "": "first pool: sets the thresholds",
    "high": "retained, high",
    "low": "retained, low",
    "none": "not retained",
}


def prepare_scores(texts: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """One row per read candidate.

    Args:
        texts: table `cap_texts`.
        thresholds: scores of the high and the low standard.

    Returns:
        pool, side (empty for the first pool, else high, low or none), score, text_id, text, both thresholds and the
        number of candidates without a score, on each row.
    """
    out = texts[["pool", "score", "text_id", "text"]].copy()
    score = out["score"].to_numpy(dtype=float)
    high, low = retained(score, thresholds)
    side = np.where(high, "high", np.where(low, "low", "none"))
    out["side"] = np.where(out["pool"].to_numpy() == 1, "", side)
    unread = int(np.isnan(score).sum())
    out["threshold_high"], out["threshold_low"], out["n_unread"] = thresholds.high, thresholds.low, unread
    return out[out["score"].notna()].reset_index(drop=True)[SCORE_COLUMNS]


def plot_scores(prepared: pd.DataFrame, *, mode: Mode = "light") -> go.Figure:
    """A strip for each pool, the second one coloured by side, thresholds as lines through both.

    Args:
        prepared: from `prepare_scores`.
        mode: light, dark or print.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    colours = {"": meaning["clean"], "high": meaning["high"], "low": meaning["low"], "none": meaning["unread"]}
    symbols = {"": "circle-open", "high": "triangle-up", "low": "triangle-down", "none": "diamond-open"}
    rng = np.random.default_rng(0)
    for side, name in _POOLS.items():
        texts = prepared[prepared["side"] == side]
        if texts.empty:
            continue
        height = (1.0 if side == "" else 0.0) + rng.uniform(-0.28, 0.28, len(texts))
        fig.add_trace(
            go.Scatter(
                x=texts["score"].tolist(),
                y=height.tolist(),
                mode="markers",
                name=f"{name} ({count(len(texts))})",
                marker={"size": 8, "color": colours[side], "symbol": symbols[side], "line": {"width": 1.2}},
                customdata=[label(text, 70) for text in texts["text"]],
                hovertemplate="%{x:.2f}: %{customdata}<extra></extra>",
            )
        )
    fig.update_yaxes(
        tickvals=[1, 0], ticktext=["first pool", "second pool"], range=[-0.55, 1.6], showgrid=False, fixedrange=True
    )
    fig.update_xaxes(title="undefended judge's score", fixedrange=True)
    if prepared.empty:
        say(fig, "no candidate has been scored yet", mode)
        return frame(fig, mode, title="Where do the standards lie?", notes=(), alt="No scores yet.", body=240)
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
    notes = (plural(len(prepared), "candidate"), f"{count(unread)} unread")
    alt = (
        f"Scores of {len(prepared)} candidates; thresholds {three_digits(ends['low'])} and "
        f"{three_digits(ends['high'])}; "
        f"{(prepared['side'] == 'high').sum()} retained high, {(prepared['side'] == 'low').sum()} low."
    )
    fig = frame(fig, mode, title="Where do the standards lie?", notes=notes, alt=alt, body=240, legend=True, above=76)
    return fig.update_layout(legend={"y": 1.1})  # above the words at the thresholds


def _scores(source: Source, at: Values) -> FigureData:
    standard = standard_of(source, int(at["high"]), int(at["low"]))
    made = prepare_scores(source.table("cap_texts"), standard.thresholds)
    facts = (f"n = {len(made)} texts read", "single texts, so no interval")
    return FigureData(made, {}, facts)


# Separability of the two standards at every layer, beside its permutation null (equation 3).

LAYER_COLUMNS = [
    "space", "layer", "fitted", "value", "lower", "upper", "null_mean", "null_high", "p_value", "n_high", "n_low",
]  # fmt: skip
_TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
_LONG = 4
"""An interval that reaches so many times the largest value would press the curve to the ground of a linear axis."""


SPACES = {"pca": "after PCA", "raw": "in the raw space", "pca-written": "after PCA, no degraded texts"}
"""Spaces of the table `cap_layers`, in words."""


def prepare_layers(layers: pd.DataFrame, space: str = "pca") -> pd.DataFrame:
    """The rows of one space, in the order of the layers.

    Args:
        layers: table `cap_layers`.
        space: one of `SPACES`.
    """
    return layers[layers["space"] == space].sort_values("layer").reset_index(drop=True)[LAYER_COLUMNS]


def plot_layers(prepared: pd.DataFrame, *, chosen: int, mode: Mode = "light") -> go.Figure:
    """Value and interval on texts that were not fitted, the null as a grey ground, the chosen layer marked.

    Args:
        prepared: from `prepare_layers`.
        chosen: the layer that was chosen on the fitting half.
        mode: light, dark or print.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    space = SPACES[str(prepared["space"].iloc[0]) if len(prepared) else "pca"]
    title = "At which layer do the standards part?"
    if prepared.empty:
        say(fig, "no layer has been measured yet", mode)
        return frame(fig, mode, title=title, notes=(), alt="No layers yet.", body=280)
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
            error_y=whiskers(
                prepared["value"], prepared["lower"], prepared["upper"], meaning["clean"], thickness=1.2, width=3
            ),
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
    _layer_axes(fig, prepared, space)
    marked = prepared[prepared["layer"] == chosen]
    row = marked.iloc[0] if len(marked) else prepared.iloc[0]
    notes = (
        f"n = {int(row['n_high'])} high and {int(row['n_low'])} low texts of the other half",
        "intervals: bootstrap of contexts",
        f"layer {chosen} marked",
    )
    alt = (
        f"Separability {space} by layer over {plural(len(prepared), 'layer')}; at layer {chosen} "
        f"{three_digits(float(row['value']))}, shuffled sides reach {three_digits(float(row['null_high']))}."
    )
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=290, legend=True, above=14)


def _layer_axes(fig: go.Figure, prepared: pd.DataFrame, space: str) -> None:
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


def _layers(source: Source, at: Values) -> FigureData:
    made = prepare_layers(source.table("cap_layers"), str(at["space"]))
    unread = int(source.table("cap_texts")["score"].isna().sum())
    return FigureData(made, {"chosen": int(_cap(source)["layer"])}, (f"{unread} texts unread",))


# The retained texts as points: activations of one layer on a plane, coloured by side or by score.

BY_SIDE, BY_SCORE = "side", "score"
MAP_COLUMNS = ["text_id", "side", "half", "score", "text", "x", "y"]


def prepare_map(texts: pd.DataFrame, points: pd.DataFrame, layer: int) -> pd.DataFrame:
    """One row per retained text.

    Args:
        texts: table `cap_texts`.
        points: table `cap_points`.
        layer: whose components are drawn; 0 takes the UMAP of the chosen layer.
    """
    kept = texts[texts["side"].notna()]
    if layer:
        places = points[points["layer"] == layer][["text_id", "x", "y"]]
        return kept.merge(places, on="text_id").reset_index(drop=True)[MAP_COLUMNS]
    kept = kept.rename(columns={"umap_x": "x", "umap_y": "y"}).dropna(subset=["x"])
    return kept.reset_index(drop=True)[MAP_COLUMNS]


def plot_map(prepared: pd.DataFrame, *, by_score: bool, method: str, layer: int, mode: Mode = "light") -> go.Figure:
    """A scatter; each point carries its text.

    Args:
        prepared: from `prepare_map`.
        by_score: colour by the judge's score, else by side.
        method: PCA or UMAP, for the axis titles.
        layer: of the activations.
        mode: light, dark or print.
    """
    fig = go.Figure()
    role, meaning = ROLES[mode], MEANING[mode]
    for side, symbol in (("high", "triangle-up"), ("low", "triangle-down")):
        texts = prepared[prepared["side"] == side]
        if texts.empty:
            continue
        colour: dict[str, object] = {"color": meaning[side]}
        if by_score:
            colour = {
                "color": texts["score"].tolist(),
                "colorscale": [[0, meaning["low"]], [0.5, role["zero"]], [1, meaning["high"]]],
                "cmin": float(prepared["score"].min()),
                "cmax": float(prepared["score"].max()),
                "showscale": side == "high",
                "colorbar": {"title": {"text": "score"}, "thickness": 12},
            }
        fig.add_trace(
            go.Scatter(
                x=texts["x"].tolist(),
                y=texts["y"].tolist(),
                mode="markers",
                name=f"{side} standard ({len(texts)})",
                marker={"size": 10, "symbol": symbol, "line": {"width": 1, "color": role["line"]}, **colour},
                customdata=[
                    [i, label(t, 70), s]
                    for i, t, s in zip(texts["text_id"], texts["text"], texts["score"], strict=True)
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
        return frame(fig, mode, title=title, notes=(), alt="No points.", body=330)
    high = int((prepared["side"] == "high").sum())
    alt = f"{method} of {len(prepared)} retained texts at layer {layer}, {high} of them high."
    notes = (plural(len(prepared), "retained text"), f"layer {layer}")
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=330, legend=True)


def _map(source: Source, at: Values) -> FigureData:
    by_pca = at["method"] == "PCA"
    layer = int(at["layer"]) if by_pca else int(_cap(source)["layer"])
    texts = source.table("cap_texts")
    made = prepare_map(texts, source.table("cap_points"), layer if by_pca else 0)
    more = {"by_score": at["colour"] == BY_SCORE, "method": str(at["method"]), "layer": layer}
    unread = int(texts["score"].isna().sum())
    return FigureData(made, more, (f"n = {len(made)} texts, {unread} unread", "single texts, so no interval"))


# Score against alpha, one line a direction: the page's main figure, with points that were tried just now.

HERO_COLUMNS = ["side", "alpha", "mean", "lower", "upper", "n", "n_unread", "live"]


def prepare_alpha(rows: pd.DataFrame, live: pd.DataFrame | None = None) -> pd.DataFrame:
    """Mean score by side and alpha; `live` is 1 for what was tried just now on a few contexts.

    Args:
        rows: from `engine.studies.cap.metrics.by_alpha`.
        live: the same of texts that the run does not hold; None for none.
    """
    parts = [rows.assign(live=0)] + ([live.assign(live=1)] if live is not None and len(live) else [])
    return pd.concat(parts).sort_values(["live", "side", "alpha"]).reset_index(drop=True)[HERO_COLUMNS]


def plot_alpha(
    prepared: pd.DataFrame, *, alpha: float, standards: Sequence[float], mode: Mode = "light", note: str = ""
) -> go.Figure:
    """One line with its band for each direction, hollow points for what was tried just now, a line at `alpha`.

    Args:
        prepared: from `prepare_alpha`.
        alpha: the strength looked at.
        standards: score of the high and of the low standard.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    title = "How does steering move the judged score?"
    if prepared.empty:
        say(fig, "no alpha has been tried yet", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No sweep yet.", body=330)
    for side, value in zip(SIDES, standards, strict=True):
        rows = prepared[(prepared["side"] == side) & prepared["mean"].notna()]
        _direction(fig, rows, side, mode)
        line = {"color": MEANING[mode][side], "width": 1, "dash": "dot"}
        fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=value, y1=value, line=line, layer="below")
        fig.add_annotation(
            x=1, xref="paper", xanchor="left", xshift=4, y=value, showarrow=False, text=f"{side}<br>standard",
            font={"color": MEANING[mode][side], "size": 11}, align="left",
        )  # fmt: skip
    mark = {"color": ROLES[mode]["ink"], "width": 2, "dash": "dash"}
    fig.add_shape(type="line", x0=alpha, x1=alpha, y0=0, y1=1, yref="paper", line=mark)
    fig.update_xaxes(title="alpha, strength of steering", fixedrange=True, rangemode="tozero")
    fig.update_yaxes(title="judged score of the text", fixedrange=True)
    stored = prepared[(prepared["live"] == 0) & (prepared["n"] > 0)]
    tried = int((prepared["live"] == 1).sum())
    notes = (
        f"n = {int(stored['n'].min()) if len(stored) else 0} contexts a point",
        f"{int(prepared['n_unread'].sum())} unread",
        "bands: 95 % intervals over contexts",
        f"{tried} hollow: tried just now on a few contexts" if tried else "",
        label(note, 80) if note else "",
    )
    alt = f"Judged score by alpha, looked at {three_digits(alpha)}: " + "; ".join(
        f"{side} {three_digits(a)}: {three_digits(mean)}"
        for side, (a, mean) in zip(prepared["side"], prepared[["alpha", "mean"]].to_numpy(dtype=float), strict=True)
    )
    made = frame(fig, mode, title=title, notes=notes, alt=alt, body=300, legend=True)
    return made.update_layout(margin_r=74)


def _direction(fig: go.Figure, rows: pd.DataFrame, side: str, mode: Mode) -> None:
    """A side's band, its line through the stored points, and its hollow points."""
    colour = MEANING[mode][side]
    stored, live = rows[rows["live"] == 0], rows[rows["live"] == 1]
    known = stored[stored["lower"].notna() & stored["upper"].notna()]
    if len(known) > 1:
        band = {"x": [*known["alpha"], *known["alpha"][::-1]], "y": [*known["upper"], *known["lower"][::-1]]}
        fig.add_trace(
            go.Scatter(
                **band, fill="toself", mode="lines", line={"width": 0}, fillcolor=colour, opacity=0.16,
                showlegend=False, hoverinfo="skip", name=f"{side} interval",
            )
        )  # fmt: skip
    symbol = "triangle-up" if side == "high" else "triangle-down"
    hover = f"alpha %{{x:.4g}}: %{{y:.2f}}<extra>steered {side}</extra>"
    fig.add_trace(
        go.Scatter(
            x=stored["alpha"].tolist(), y=stored["mean"].tolist(), mode="lines+markers", name=f"steered {side}",
            line={"color": colour, "width": 2.5, "dash": "solid" if side == "high" else "dot"},
            marker={"size": 10, "symbol": symbol, "color": colour}, hovertemplate=hover,
        )
    )  # fmt: skip
    if len(live):
        fig.add_trace(
            go.Scatter(
                x=live["alpha"].tolist(), y=live["mean"].tolist(), mode="markers", showlegend=False,
                name=f"steered {side}, just now", hovertemplate=hover,
                marker={
                    "size": 13, "symbol": symbol, "color": ROLES[mode]["background"],
                    "line": {"color": colour, "width": 2.5},
                },
            )
        )  # fmt: skip


def _alpha(source: Source, at: Values) -> FigureData:
    cap = _cap(source)
    standards = [float(cap["standard_high"]), float(cap["standard_low"])]
    return FigureData(prepare_alpha(alpha_rows(source)), {"alpha": float(at["alpha"]), "standards": standards})


# The sweep: score, size of the edit and fluency of the text by alpha.

SWEEP_COLUMNS = [
    "side", "alpha", "mean", "lower", "upper", "sd", "n", "n_unread", "relative_edit", "perplexity", "repetition",
]  # fmt: skip
_PANELS = (("mean", "score"), ("relative_edit", "edit, %"), ("perplexity", "perplexity"), ("repetition", "repeated, %"))
_LOG_TICKS = [1, 3, 10, 30, 100, 300, 1000, 10_000, 100_000]
_DOMAINS = ((0.52, 1.0), (0.35, 0.48), (0.18, 0.31), (0.0, 0.13))


def prepare_sweep(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns drawn, in order.

    Args:
        rows: from `engine.studies.cap.metrics.by_alpha`.
    """
    return rows.sort_values(["side", "alpha"]).reset_index(drop=True)[SWEEP_COLUMNS]


def plot_sweep(
    prepared: pd.DataFrame, *, standards: tuple[float, float], marked: tuple[float, float], mode: Mode = "light"
) -> go.Figure:
    """Four panels over alpha, one line a side; standards as dashed lines, the alphas looked at as rings.

    Args:
        prepared: from `prepare_sweep`.
        standards: score of the high and of the low standard.
        marked: alpha looked at on the high and on the low side.
        mode: light, dark or print.
    """
    fig = go.Figure()
    meaning = MEANING[mode]
    title = "What does steering do to the text?"
    if prepared.empty:
        say(fig, "no alpha has been tried yet", mode)
        return frame(fig, mode, title=title, notes=(), alt="No sweep yet.", body=420)
    for side, symbol, alpha in (("high", "triangle-up", marked[0]), ("low", "triangle-down", marked[1])):
        rows = prepared[prepared["side"] == side]
        for k, (column, _) in enumerate(_PANELS):
            factor = 100 if column in {"relative_edit", "repetition"} else 1
            fig.add_trace(_sweep_line(rows, side, column, factor, k, symbol, mode))
        here = rows[rows["alpha"] == alpha]
        if len(here) and math.isfinite(float(here["mean"].iloc[0])):
            fig.add_trace(
                go.Scatter(
                    x=[alpha], y=[float(here["mean"].iloc[0])], yaxis="y", mode="markers", showlegend=False,
                    hoverinfo="skip",
                    marker={"size": 20, "symbol": "circle-open", "color": meaning[side], "line": {"width": 2.5}},
                )
            )  # fmt: skip
    _sweep_axes(fig, standards, mode)
    known = prepared[prepared["n"] > 0]
    notes = (
        f"n = {int(known['n'].min()) if len(known) else 0} training contexts a point",
        f"{int(prepared['n_unread'].sum())} unread",
        "95 % intervals over contexts",
    )
    alt = "Judged score by alpha: " + "; ".join(
        f"{side} {three_digits(alpha)}: {three_digits(mean)}, edit {three_digits(100 * edit)} %"
        for side, (alpha, mean, edit) in zip(
            prepared["side"], prepared[["alpha", "mean", "relative_edit"]].to_numpy(dtype=float), strict=True
        )
    )
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=470, legend=True)


def _sweep_line(
    rows: pd.DataFrame, side: str, column: str, factor: float, k: int, symbol: str, mode: Mode
) -> go.Scatter:
    colour = MEANING[mode][side]
    error = None
    if column == "mean":
        error = whiskers(rows["mean"], rows["lower"], rows["upper"], colour, thickness=1.3, width=3)
    return go.Scatter(
        x=rows["alpha"].tolist(),
        y=(factor * rows[column]).tolist(),
        yaxis="y" if not k else f"y{k + 1}",
        mode="lines+markers",
        name=f"steered {side}",
        showlegend=not k,
        line={"color": colour, "width": 2, "dash": "solid" if side == "high" else "dot"},
        marker={"size": 8, "symbol": symbol, "color": colour},
        error_y=error,
        hovertemplate=f"alpha %{{x:.4g}}: %{{y:.3g}}<extra>{side}</extra>",
    )


def _sweep_axes(fig: go.Figure, standards: tuple[float, float], mode: Mode) -> None:
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


def _alphas(side: str) -> Any:
    def of(source: Source) -> tuple[float, ...]:
        sweep = source.table("cap_sweep")
        return tuple(sorted(map(float, sweep.loc[sweep["side"] == side, "alpha"].unique())))

    return of


def _chosen_alpha(side: str) -> Any:
    def of(source: Source) -> float:
        known = _alphas(side)(source)
        wrote = float(_cap(source).get(f"alpha_{side}") or 0)
        return wrote if wrote in known else next(iter(known), math.nan)

    return of


def _sweep(source: Source, at: Values) -> FigureData:
    made = prepare_sweep(alpha_rows(source))
    cap = _cap(source)
    marked = [float(at[f"alpha_{side}"]) for side in SIDES]
    standards = [float(cap["standard_high"]), float(cap["standard_low"])]
    return FigureData(made, {"standards": standards, "marked": marked})


LOW = Setting("low", "low percentile", "whole", lambda s: int(s.config["low_percentile"]), lambda _: 0, lambda _: 100)
HIGH = Setting(
    "high", "high percentile", "whole", lambda s: int(s.config["high_percentile"]), lambda _: 0, lambda _: 100
)
SPACE = Setting(
    "space", "separability in the space", "choice", lambda _: "pca",
    choices=lambda s: tuple(w for w in SPACES if w in set(s.table("cap_layers")["space"])) or ("pca", "raw"),
)  # fmt: skip
LAYER = Setting(
    "layer", "layer", "whole", lambda s: int(_cap(s).get("layer", 1)), lambda _: 1,
    lambda s: int(s.table("cap_layers")["layer"].max()),
)  # fmt: skip
METHOD = Setting("method", "map", "choice", lambda _: "PCA", choices=lambda _: ("PCA", "UMAP"))
COLOUR = Setting("colour", "colour", "choice", lambda _: BY_SIDE, choices=lambda _: (BY_SIDE, BY_SCORE))
ALPHA_HIGH = Setting("alpha_high", "alpha steered high", "listed", _chosen_alpha("high"), choices=_alphas("high"))
ALPHA_LOW = Setting("alpha_low", "alpha steered low", "listed", _chosen_alpha("low"), choices=_alphas("low"))
ALPHA = Setting("alpha", "alpha", "number", lambda s: _chosen_alpha("high")(s), high=lambda _: 1e9)
_NO_TEXTS = has_table("cap_texts", "the tutor has written nothing yet.")
_NO_LAYERS = has_table("cap_layers", "the standards are not found yet.")
_NO_SWEEP = has_table("cap_sweep", "no alpha has been tried yet.")

STEERING_FIGURES = (
    FigureSpec(
        CAP, "alpha", "How does steering move the judged score?", _alpha, plot_alpha, (ALPHA,), _NO_SWEEP,
    ),
    FigureSpec(
        CAP, "scores", "Where do the standards lie?", _scores, plot_scores, (LOW, HIGH), _NO_TEXTS,
    ),
    FigureSpec(
        CAP, "layers", "At which layer do the standards part?", _layers, plot_layers,
        (SPACE,), _NO_LAYERS,
    ),
    FigureSpec(
        CAP, "map", "Do the two sides lie apart?", _map, plot_map,
        (LAYER, METHOD, COLOUR), _NO_LAYERS,
    ),
    FigureSpec(
        CAP, "sweep", "What does steering do to the text?", _sweep, plot_sweep, (ALPHA_HIGH, ALPHA_LOW), _NO_SWEEP
    ),
)  # fmt: skip

"""Separability of the two standards at every layer, beside its permutation null (equation 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import count, label, plural, three_digits
from engine.plots.theme import MEANING, ROLES, Mode, frame, say

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


# The mean score against the length of a suffix, undefended and behind CAP (figures 6 and 7 of paper 001).

LENGTH_COLUMNS = ["defense", "words", "value", "lower", "upper", "n", "n_unread"]
_LENGTH = re.compile(r"suffix(?::(\d+))?$")


def prepare_cap_lengths(metrics: pd.DataFrame, default_words: int) -> pd.DataFrame:
    """Mean score by words of the suffix, 0 words being the clean score.

    Args:
        metrics: table `metrics`.
        default_words: words of the attack `suffix` without a number.
    """
    means = metrics[metrics["metric"] == "mean"].copy()
    means["words"] = [_words(name, default_words) for name in means["attack"]]
    out = means[means["words"] >= 0]
    wide = [d for d in out["defense"].unique() if out.loc[out["defense"] == d, "words"].nunique() > 2]
    return out[out["defense"].isin(wide)].sort_values(["defense", "words"]).reset_index(drop=True)[LENGTH_COLUMNS]


def _words(attack: str, default: int) -> int:
    if attack == "none":
        return 0
    found = _LENGTH.match(attack)
    return int(found.group(1) or default) if found else -1


def plot_cap_lengths(
    prepared: pd.DataFrame, *, titles: Mapping[str, str], mode: Mode = "light", note: str = ""
) -> go.Figure:
    """One line per defense, its clean score dashed through the plot.

    Args:
        prepared: from `prepare_cap_lengths`.
        titles: defense to what it is called.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    title = "How long a suffix does it withstand?"
    if prepared.empty:
        say(fig, "no suffix of several lengths was run", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No lengths.", body=260)
    said = []
    for k, (defense, own) in enumerate(sorted(prepared.groupby("defense"), key=lambda pair: pair[0] != "none")):
        name = titles.get(str(defense), str(defense))
        _line(fig, own, str(defense), name, 0.06 * (k - 0.5), mode)
        values = zip(own["words"], own["value"], strict=True)
        said.append(f"{name}: " + ", ".join(f"{w} words {three_digits(v)}" for w, v in values))
    fig.update_xaxes(title="words of the suffix", dtick=1, fixedrange=True)
    fig.update_yaxes(title="mean score", fixedrange=True)
    notes = (
        "95 % intervals, clustered by item",
        f"n = {count(int(prepared['n'].min()))} responses",
        f"{count(int(prepared['n_unread'].sum()))} unread",
        "dashed: the clean score",
        label(note, 80) if note else "",
    )
    return frame(
        fig,
        mode,
        title=title,
        notes=notes,
        alt="Mean score by suffix length. " + "; ".join(said),
        body=280,
        legend=True,
    )


def _line(fig: go.Figure, own: pd.DataFrame, defense: str, name: str, shift: float, mode: Mode) -> None:
    """One defense's scores, moved a little to the side so that intervals do not cover one another."""
    bare = defense == "none"
    colour = MEANING[mode]["attacked" if bare else "defended"]
    fig.add_trace(
        go.Scatter(
            x=[w + shift for w in own["words"]],
            y=own["value"].tolist(),
            mode="lines+markers",
            name=label(name, 30),
            line={"color": colour, "width": 2, "dash": "solid" if bare else "dot"},
            marker={"size": 9, "symbol": "circle" if bare else "square"},
            error_y={
                "type": "data",
                "symmetric": False,
                "color": colour,
                "thickness": 1.3,
                "width": 3,
                "array": (own["upper"] - own["value"]).fillna(0).tolist(),
                "arrayminus": (own["value"] - own["lower"]).fillna(0).tolist(),
            },
            hovertemplate="%{x:.0f} words: %{y:.2f}<extra></extra>",
        )
    )
    clean = float(own.loc[own["words"] == 0, "value"].iloc[0])
    line = {"color": colour, "width": 1.2, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=clean, y1=clean, line=line, layer="below")


# The judge's scores of the tutor's candidates, with the thresholds that make two standards of them.

SCORE_COLUMNS = ["pool", "side", "score", "text_id", "text", "threshold_high", "threshold_low", "n_unread"]
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
    return out[out["score"].notna()].reset_index(drop=True)[SCORE_COLUMNS]


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


# What alpha does: the judge's score, the size of the edit, and whether the text still reads like one.

SWEEP_COLUMNS = [
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
    return rows.sort_values(["side", "alpha"]).reset_index(drop=True)[SWEEP_COLUMNS]


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
            fig.add_trace(_sweep_line(own, side, column, factor, k, symbol, mode))
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


def _sweep_line(
    own: pd.DataFrame, side: str, column: str, factor: float, k: int, symbol: str, mode: Mode
) -> go.Scatter:
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

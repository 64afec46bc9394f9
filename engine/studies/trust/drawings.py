"""Drawings of the study `trust`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from engine.plots.dots import plot_dots
from engine.plots.text import count, fixed, label, plural, three_digits
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, whiskers

COLOURS = {"Raw": "attacked", "Corrected": "defended", "Labels alone": "human", "Rogan-Gladen": "high"}
"""Names of the estimates and the palette's meanings they take: the raw one is the one to doubt."""
NOTHING = "nothing has been measured yet"


def plot_estimates(
    prepared: pd.DataFrame, *, title: str, axis: str, truth: float | None = None, mode: Mode = "light"
) -> go.Figure:
    """Raw, corrected and labels-only numbers side by side, and the truth where it is known.

    Args:
        prepared: from `engine.plots.dots.prepare_dots`.
        title: the question on top.
        axis: title of the number axis.
        truth: the number by all labels; None where nobody knows.
        mode: light, dark or print.
    """
    shown = {name: COLOURS[name] for name in dict.fromkeys(prepared["series"])}
    note = f"true, by all labels: {three_digits(truth)}" if truth is not None else ""
    fig = plot_dots(prepared, title=title, axis=axis, colours=shown, mode=mode, positive=True, note=note)
    if len(prepared):
        ends = prepared[["value", "lower", "upper"]].to_numpy(dtype=float)
        fig.update_xaxes(range=_room([*ends[np.isfinite(ends)], *([] if truth is None else [truth])]))
    if truth is not None:
        line = {"color": ROLES[mode]["ink"], "width": 1.5, "dash": "dot"}
        fig.add_shape(type="line", x0=truth, x1=truth, y0=0, y1=1, yref="paper", line=line, layer="below")
    return fig


plot_differences = partial(plot_dots, title="Which system is better?", axis="first less second system", colours=COLOURS)
"""Differences of systems around a line at zero."""


def _room(values: list[float]) -> list[float]:
    low, high = min(values), max(values)
    pad = max(0.08 * (high - low), 0.01)
    return [low - pad, high + pad]


def plot_confusion(prepared: pd.DataFrame, *, mode: Mode = "light") -> go.Figure:
    """Labelled rows by what judge and people said; the shade is the share of the people's column.

    Args:
        prepared: table `trust_confusion`.
        mode: light, dark or print.
    """
    names = list(dict.fromkeys(prepared["label"]))
    shares = prepared.pivot(index="verdict", columns="label", values="share").reindex(index=names, columns=names)
    counts = prepared.pivot(index="verdict", columns="label", values="n").reindex(index=names, columns=names)
    fig = go.Figure()
    if len(names):
        role = ROLES[mode]
        fig.add_trace(
            go.Heatmap(
                z=shares.to_numpy(dtype=float).tolist(), x=names, y=names, zmin=0, zmax=1, showscale=False,
                xgap=3, ygap=3,
                colorscale=[[0, role["zero"]], [1, role["below"]]], hoverinfo="skip",
            )
        )  # fmt: skip
        wide = len(names) <= 5
        for said in names:
            for wanted in names:
                n, share = int(counts.loc[said, wanted]), float(shares.loc[said, wanted])
                text = f"<b>{share:.0%}</b><br>{count(n)}" if wide else f"{count(n)}"
                ink = {"color": role["ink"], "size": SMALL_SIZE}
                fig.add_annotation(x=wanted, y=said, text=text, showarrow=False, font=ink)
    else:
        say(fig, NOTHING, mode)
    fig.update_xaxes(title="people said", showgrid=False, side="top", type="category", fixedrange=True)
    fig.update_yaxes(
        title="the judge said", showgrid=False, autorange="reversed", type="category", fixedrange=True
    )  # fmt: skip
    said = "; ".join(f"judge {r.verdict}, people {r.label}: {r.n}" for r in prepared.itertuples())
    notes = ("percent of the rows that people labelled so", f"n = {plural(int(prepared['n'].sum()), 'label')}")
    title = "Where do judge and people differ?"
    return frame(
        fig, mode, title=title, notes=notes, alt=f"{title} {said}", body=max(150, 64 * len(names)), above=40, below=20
    )


def plot_calibration(prepared: pd.DataFrame, *, share: bool, errors: dict[str, str], mode: Mode = "light") -> go.Figure:
    """Mean label by mean prediction in bins of equal count; on the line the judge means what it says.

    Args:
        prepared: table `trust_calibration`.
        share: predictions and labels are shares; else scores.
        errors: calibration error of each method, in words.
        mode: light, dark or print.
    """
    fig = go.Figure()
    values = prepared[["predicted", "observed", "lower", "upper"]].to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    ends = [0.0, 1.0] if share or not len(values) else [float(values.min()), float(values.max())]
    line = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=ends[0], x1=ends[1], y0=ends[0], y1=ends[1], line=line, layer="below")
    palette = dict(zip(dict.fromkeys(prepared["method"]), ("attacked", "defended", "high"), strict=False))
    for k, (method, meaning) in enumerate(palette.items()):
        own, colour = prepared[prepared["method"] == method], MEANING[mode][meaning]
        fig.add_trace(
            go.Scatter(
                x=own["predicted"].tolist(), y=own["observed"].tolist(), mode="lines+markers",
                name=label(f"{method}, error {errors.get(str(method), '')}", 60), line={"color": colour, "width": 2},
                marker={"size": 8, "symbol": ("circle", "square", "diamond")[k % 3], "color": colour},
                error_y=None if k else whiskers(own["observed"], own["lower"], own["upper"], colour, thickness=1.5),
                customdata=[[plural(int(n), "label")] for n in own["n"]],
                hovertemplate="says %{x:.3f}, is %{y:.3f}<br>%{customdata[0]}<extra></extra>",
            )
        )  # fmt: skip
    if prepared.empty:
        say(fig, NOTHING, mode)
    across, up = ("the judge's probability", "share by people") if share else ("the judge's score", "mean label")
    fig.update_xaxes(title=across, range=_room(ends), fixedrange=True)
    fig.update_yaxes(title=up, range=_room(ends), fixedrange=True)
    n = int(prepared.loc[prepared["method"] == next(iter(palette), ""), "n"].sum())
    notes = (f"n = {plural(n, 'label')}, bins of equal count", "95 % intervals by item; recalibrated on other items")
    title = "Does the judge mean what it says?"
    said = "; ".join(f"{r.method} says {r.predicted:.2f}, is {r.observed:.2f}" for r in prepared.itertuples())
    above = 24 if len(palette) > 2 else 0
    return frame(fig, mode, title=title, notes=notes, alt=f"{title} {said}", body=340, legend=True, above=above)


def plot_selection(prepared: pd.DataFrame, *, bound: float, sure: float, mode: Mode = "light") -> go.Figure:
    """Error among kept verdicts, and its upper bound, by the share of verdicts kept.

    Args:
        prepared: table `trust_selection`.
        bound: largest error allowed.
        sure: chance with which the bound holds, in (0, 1).
        mode: light, dark or print.
    """
    fig = go.Figure()
    rows = prepared[prepared["error"].notna()]
    for column, name, meaning, dash in (
        ("upper", f"at most, {sure:.0%} sure", "low", "dash"),
        ("error", "error seen", "clean", "solid"),
    ):
        fig.add_trace(
            go.Scatter(
                x=rows["kept"].tolist(), y=rows[column].tolist(), mode="lines+markers", name=name,
                line={"color": MEANING[mode][meaning], "width": 2, "dash": dash}, marker={"size": 5},
                customdata=[[r.n_labels, r.errors, r.threshold] for r in rows.itertuples()],
                hovertemplate="kept %{x:.0%}: %{y:.3f}<br>%{customdata[1]} of %{customdata[0]} labelled wrong"
                "<br>confidence from %{customdata[2]:.3f}<extra></extra>",
            )
        )  # fmt: skip
    line = {"color": ROLES[mode]["ink"], "width": 1.5, "dash": "dot"}
    fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=bound, y1=bound, line=line, layer="below")
    chosen = rows[rows["chosen"] == 1]
    if len(chosen):
        row = chosen.iloc[0]
        marker = {"size": 13, "symbol": "star", "color": MEANING[mode]["human"]}
        fig.add_trace(
            go.Scatter(
                x=[row["kept"]], y=[row["error"]], mode="markers", marker=marker, hoverinfo="skip",
                name=f"chosen: keep {row['kept']:.0%}",
            )
        )  # fmt: skip
    if rows.empty:
        say(fig, "no row has a label", mode)
    fig.update_xaxes(title="share of verdicts kept; people read the rest", range=[0, 1.02], tickformat=".0%")
    fig.update_yaxes(title="error among kept verdicts", range=[0, 1.05 * _most(rows, bound)])
    n = int(rows["n_labels"].max()) if len(rows) else 0
    verdict = "" if len(chosen) else "no threshold keeps the bound"
    notes = (f"n = {plural(n, 'labelled item')}", f"bound {fixed(bound, 2)}", verdict)
    title = "Which verdicts can go without people?"
    alt = f"{title} " + "; ".join(f"keep {r.kept:.2f}: error {r.error:.2f}" for r in rows.itertuples())
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=300, legend=True, above=24)


def _most(rows: pd.DataFrame, bound: float) -> float:
    """Top of the error axis: the bound and every error seen; not the bounds of a handful of labels."""
    return float(np.nanmax([2 * bound, rows["error"].max() * 1.3 if len(rows) else 0.0, 0.05]))


def plot_needed(prepared: pd.DataFrame, *, now: dict[str, Any], unit: str, mode: Mode = "light") -> go.Figure:
    """Labels by half width of the interval: in the worst case, without the judge, with it.

    Args:
        prepared: table `trust_needed`.
        now: `labels` there are and `half` width they give.
        unit: of the half width.
        mode: light, dark or print.
    """
    fig = go.Figure()
    for column, name, meaning, dash in (
        ("before", "before any label: worst case", "unread", "dot"),
        ("assumed", "before any label: with a judge as assumed", "high", "dashdot"),
        ("labels_only", "labels alone", "human", "dash"),
        ("with_judge", "with the judge", "defended", "solid"),
    ):
        own = prepared[prepared[column].notna() & (prepared[column] > 0)]
        if len(own):
            fig.add_trace(
                go.Scatter(
                    x=own["half"].tolist(), y=own[column].tolist(), mode="lines+markers", name=name,
                    line={"color": MEANING[mode][meaning], "width": 2, "dash": dash}, marker={"size": 6},
                    hovertemplate="±%{x:.3f}: %{y:,.0f} labels<extra></extra>",
                )
            )  # fmt: skip
    if np.isfinite(now["half"]):
        marker = {"size": 13, "symbol": "star", "color": MEANING[mode]["clean"]}
        fig.add_trace(
            go.Scatter(x=[now["half"]], y=[now["labels"]], mode="markers", marker=marker, name="where you are")
        )
    if not fig.data:
        say(fig, NOTHING, mode)
    fig.update_xaxes(title=f"half width of the interval ({unit})", fixedrange=True)
    fig.update_yaxes(title="labels", type="log", fixedrange=True, dtick=1)
    reach = prepared["reason"].dropna()
    notes = (f"n = {plural(int(now['labels']), 'label')} now", label(reach.iloc[0], 110) if len(reach) else "")
    title = "How many labels do I need?"
    said = "; ".join(
        f"±{r.half:.3f}: {r.with_judge:.0f} with, {r.labels_only:.0f} without" for r in prepared.itertuples()
    )
    return frame(fig, mode, title=title, notes=notes, alt=f"{title} {said}", body=320, legend=True, above=72)


CASES = {"after": "after the labels", "alike": "labelled rows too"}


def plot_attacked(prepared: pd.DataFrame, *, axis: str, least: float, mode: Mode = "light") -> go.Figure:
    """Each number by the share of attacked rows: above only rows without a label are hit, below all.

    Args:
        prepared: table `trust_attacked` with `name`.
        axis: title of the number axis.
        least: smallest share that the labels notice in 80 % of cases; above 1 for none.
        mode: light, dark or print.
    """
    fig = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.1)
    for row, (case, called) in enumerate(CASES.items(), 1):
        fig.update_yaxes(title=f"{axis}<br>{called}", row=row, fixedrange=True)
        for k, name in enumerate(dict.fromkeys(prepared["name"])):
            own = prepared[(prepared["case"] == case) & (prepared["name"] == name)]
            for trace in _band(own, name, COLOURS[name], k, mode):
                fig.add_trace(trace.update(showlegend=row == 1 and trace.fill is None), row=row, col=1)
    if least <= 1:
        line = {"color": ROLES[mode]["ink"], "width": 1.5, "dash": "dot"}
        fig.add_vline(x=least, line=line, row=1, col=1)
    fig.update_xaxes(tickformat=".0%", range=[0, 1], nticks=5, fixedrange=True)
    fig.update_xaxes(title="share of rows attacked", row=2)
    seen = f"dotted: noticed from {fixed(100 * least, 1)} % on" if least <= 1 else "no share would be noticed"
    labels = int(prepared["n_labels"].max()) if len(prepared) else 0
    alone = prepared[prepared["share"] == 1]
    title = "What could an attacker do to it?"
    said = "; ".join(f"{CASES[str(r.case)]}, {r.name} {r.value:.3f}" for r in alone.itertuples(index=False))
    return frame(
        fig, mode, title=title, notes=(f"n = {count(labels)} labels", "95 % intervals" if labels else "", seen),
        alt=f"{title} All rows attacked: {said}", body=440, legend=True, above=72,
    )  # fmt: skip


def _band(own: pd.DataFrame, name: str, meaning: str, k: int, mode: Mode) -> list[go.Scatter]:
    """A line and the interval around it; gaps where there is no number."""
    colour = MEANING[mode][meaning]
    known = own[own["lower"].notna() & own["upper"].notna()]
    ends = go.Scatter(
        x=[*known["share"], *known["share"][::-1]],
        y=[*known["upper"], *known["lower"][::-1]], fill="toself", mode="lines",
        line={"width": 0}, fillcolor=colour, opacity=0.16, hoverinfo="skip", name=name, legendgroup=name,
    )  # fmt: skip
    line = go.Scatter(
        x=own["share"].tolist(), y=own["value"].tolist(), mode="lines+markers", name=name, legendgroup=name,
        line={"color": colour, "width": 2, "dash": ("solid", "dash", "dot", "dashdot")[k % 4]},
        marker={"size": 6, "symbol": ("circle", "square", "diamond", "cross")[k % 4]},
        hovertemplate="%{x:.0%}: %{y:.3f}<extra>" + name + "</extra>",
    )  # fmt: skip
    return [ends, line]

"""Dot plot: a row per defense or attack, several metrics of it side by side, each with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.plots.rows import span
from engine.plots.text import count, interval_text, label
from engine.plots.theme import MEANING, ROLES, Mode, frame, say, whiskers, with_note

COLUMNS = ["name", "series", "metric", "value", "lower", "upper", "level", "method", "n", "n_clusters", "n_unread"]
_STEP = 0.26


def prepare_dots(
    metrics: pd.DataFrame,
    series: Mapping[str, str],
    *,
    by: str = "defense",
    titles: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
) -> pd.DataFrame:
    """One row per name and metric.

    Args:
        metrics: table `metrics`.
        series: metric to what it is called in the legend.
        by: defense or attack: what names a row.
        titles: name to what it is called.
        order: names to show, in order; all of the table by default.
    """
    rows = metrics[metrics["metric"].isin(list(series))]
    names = list(order) or list(dict.fromkeys(rows[by]))
    rows = rows[rows[by].isin(names)].copy()
    rows["rank"] = rows[by].map({name: i for i, name in enumerate(names)})
    rows["name"] = [(titles or {}).get(name, name) for name in rows[by]]
    rows["series"] = rows["metric"].map(dict(series))
    return rows.sort_values("rank", kind="stable").reset_index(drop=True)[COLUMNS]


def plot_dots(
    prepared: pd.DataFrame,
    *,
    title: str,
    axis: str,
    colours: Mapping[str, str],
    mode: Mode = "light",
    positive: bool = False,
    note: str = "",
) -> go.Figure:
    """Points with intervals, a row per name, series beside one another.

    Args:
        prepared: from `prepare_dots`.
        title: the question on top.
        axis: title of the number axis, with its unit.
        colours: series to a meaning of the palette.
        mode: light, dark or print.
        positive: the numbers are amounts: the axis begins at zero; otherwise a line is drawn there.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    names = list(dict.fromkeys(prepared["name"]))
    shown = list(dict.fromkeys(prepared["series"]))
    said: list[str] = []
    for k, series in enumerate(shown):
        own = prepared[prepared["series"] == series]
        shift = _STEP * (k - (len(shown) - 1) / 2)
        fig.add_trace(_series(own, series, [names.index(n) + shift for n in own["name"]], colours[series], k, mode))
        said += [f"{r['name']}, {series} {_text(r)}" for _, r in own.iterrows()]
    fig.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[label(n, 20) for n in names], showgrid=False, fixedrange=True,
        range=[max(len(names), 1) - 0.45, -0.55],
    )  # fmt: skip
    fig.update_xaxes(title=axis, fixedrange=True, nticks=7)
    if positive and len(prepared):
        fig.update_xaxes(range=[0, 1.06 * float(np.nanmax(prepared[["value", "upper"]].to_numpy(dtype=float)))])
    if not positive:
        line = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
        fig.add_shape(type="line", x0=0, x1=0, y0=0, y1=1, yref="paper", line=line, layer="below")
    if prepared.empty:
        say(fig, "nothing has been measured yet", mode)
        fig.update_yaxes(visible=False)
    alt = f"{title} " + "; ".join(said)
    body = (44 + 16 * max(len(shown) - 1, 0)) * max(len(names), 1) + 20
    above = 24 * max(0, len(shown) - 2)
    notes, legend = _notes(prepared), len(shown) > 1
    framed = frame(fig, mode, title=title, notes=notes, alt=alt, body=body, legend=legend, above=above)
    return with_note(framed, note)


def _text(row: pd.Series) -> str:
    clusters = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    return interval_text(row["value"], row["lower"], row["upper"], method=str(row["method"]), n_clusters=clusters)


def _series(own: pd.DataFrame, series: str, y: list[float], meaning: str, k: int, mode: Mode) -> go.Scatter:
    colour = MEANING[mode][meaning]
    return go.Scatter(
        x=own["value"].tolist(),
        y=y,
        mode="markers",
        name=series,
        marker={"size": 10, "color": colour, "symbol": ("circle", "square", "diamond", "x")[k % 4]},
        error_x=whiskers(own["value"], own["lower"], own["upper"], colour),
        customdata=[[label(n, 40), _text(r)] for n, (_, r) in zip(own["name"], own.iterrows(), strict=True)],
        hovertemplate="%{customdata[0]}: %{customdata[1]}<extra></extra>",
    )


def _notes(prepared: pd.DataFrame) -> tuple[str, ...]:
    n = prepared["n"].dropna()
    methods = "; ".join(dict.fromkeys(m for m in prepared["method"].dropna() if not m.startswith("no ")))
    return (
        f"95 % intervals ({label(methods, 60)})" if methods else "",
        f"n = {span(n)}" if len(n) else "",
        f"{count(int(prepared['n_unread'].fillna(0).sum()))} unread",
    )

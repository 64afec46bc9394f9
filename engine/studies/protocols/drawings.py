"""Leaderboards before and after the lowest systems are distracted, and the win matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import count, fixed, interval_text, label, level_text
from engine.plots.theme import MEANING, PALETTE, ROLES, SMALL_SIZE, Mode, frame, heat_scale, say, whiskers

COLUMNS = [
    "system",
    "distracted",
    "rating_before",
    "rating_after",
    "rank_before",
    "rank_before_lower",
    "rank_before_upper",
    "rank_after",
    "rank_after_lower",
    "rank_after_upper",
    "n",
]
Row = tuple[str, bool, float, float, float, float, float, float, float, float, int]


def prepare_slope(rows: Sequence[Row]) -> pd.DataFrame:
    """One row a system, sorted by its rank before."""
    table = pd.DataFrame(list(rows), columns=COLUMNS)
    return table.sort_values(["rank_before", "system"], kind="stable").reset_index(drop=True)


def plot_slope(
    prepared: pd.DataFrame, *, mode: Mode = "light", level: float = 0.95, title: str = "Who climbs?"
) -> go.Figure:
    """Ranks before at the left, after at the right, rank 1 on top; rewritten systems in vermilion, the climber thick.

    Args:
        prepared: from `prepare_slope`.
        mode: light, dark or print.
        level: of the rank intervals, drawn as bars.
        title: the question on top.
    """
    fig = go.Figure()
    rows = prepared[prepared["rank_before"].notna() & prepared["rank_after"].notna()]
    n, first = len(rows), climber(rows)
    for i, row in enumerate(rows.itertuples(index=False)):
        fig.add_trace(_line(row, _APART * (i - (n - 1) / 2) / max(n - 1, 1), mode, climbs=str(row.system) == first))
    fig.update_layout(annotations=[*_names(rows, 0, mode), *_names(rows, 1, mode)])
    fig.update_xaxes(
        range=[-1.5, 2.5], tickmode="array", tickvals=[0, 1], ticktext=["clean", "attacked"], showgrid=False,
        fixedrange=True,
    )  # fmt: skip
    # ranks stand with the names; gridlines would strike through them
    fig.update_yaxes(range=[n + 0.6, 0.4], showticklabels=False, fixedrange=True, zeroline=False, showgrid=False)
    if not n:
        say(fig, "no ranks: systems that never met cannot be ranked together", mode)
    battles = f"{count(int(rows['n'].sum()) // 2)} comparisons" if n else ""
    notes = (f"bars: {level_text(level)} rank intervals", battles)
    said = "; ".join(f"{r.system}: {r.rank_before:g} to {r.rank_after:g}" for r in rows.itertuples(index=False))
    alt = f"Ranks before and after the lowest systems were rewritten. {said}"
    return frame(fig, mode, title=title, notes=notes, alt=alt, body=46 * max(n, 3) + 20)


_APART = 0.36
"""Width over which the rank bars of one side are spread, so that none covers another."""


def climber(rows: pd.DataFrame) -> str:
    """The rewritten system whose rating rises most; empty where none was rewritten."""
    moved = rows[rows["distracted"].astype(bool)]
    if moved.empty:
        return ""
    return str(moved["system"].iloc[int((moved["rating_after"] - moved["rating_before"]).to_numpy().argmax())])


def _line(row: Any, nudge: float, mode: Mode, *, climbs: bool) -> go.Scatter:
    colour = MEANING[mode]["attacked" if row.distracted else "unread"]
    ranks = [row.rank_before, row.rank_after]
    lower, upper = [row.rank_before_lower, row.rank_after_lower], [row.rank_before_upper, row.rank_after_upper]
    return go.Scatter(
        x=[nudge, 1 + nudge],
        y=ranks,
        mode="lines+markers",
        name=label(row.system, 30),
        line={"color": colour, "width": 4.5 if climbs else 2.2 if row.distracted else 1.4},
        opacity=1.0 if climbs or not row.distracted else 0.75,
        marker={"size": 9, "color": colour, "symbol": "circle"},
        error_y=whiskers(ranks, lower, upper, colour, thickness=1.2, width=3),
        customdata=[[row.system, "clean"], [row.system, "distracted"]],
        hovertemplate="%{customdata[0]}, %{customdata[1]}: rank %{y}<br>click for the cases<extra></extra>",
    )


def _names(rows: pd.DataFrame, side: int, mode: Mode) -> list[dict[str, Any]]:
    """System with its rating below it, beside each end, as narrow as a phone; those that share a rank in one label."""
    rank, rating = ("rank_after", "rating_after") if side else ("rank_before", "rating_before")
    out = []
    sharing: dict[float, list[str]] = {}
    row: Any
    for row in rows.sort_values(rank, kind="stable").itertuples(index=False):
        name, points = label(row.system, 15), fixed(getattr(row, rating), 0)
        if side and row.distracted:
            points += f" ({fixed(row.rating_after - row.rating_before, 0, signed=True)})"
        place = f"{getattr(row, rank):g}."
        sharing.setdefault(getattr(row, rank), []).append(
            f"{place} <b>{name}</b><br>{points}" if row.distracted else f"{place} {name}<br>{points}"
        )
    for value, names in sharing.items():
        out.append(
            {
                "x": 1 + _APART / 2 if side else -_APART / 2,
                "y": value,
                "xshift": 12 if side else -12,
                "text": "<br>".join(names),
                "showarrow": False,
                "xanchor": "left" if side else "right",
                "align": "left" if side else "right",
                "font": {"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
            }
        )
    return out


def prepare_matrix(systems: Sequence[str], shares: npt.NDArray[np.float64], n: npt.NDArray[np.float64]) -> pd.DataFrame:
    """One row an ordered pair of systems: row, column, share that row won (ties half), comparisons."""
    cells = [
        (a, b, float(shares[i, j]), int(n[i, j]))
        for i, a in enumerate(systems)
        for j, b in enumerate(systems)
        if i != j
    ]
    return pd.DataFrame(cells, columns=["row", "column", "share", "n"])


def _span(n: pd.Series) -> str:
    low, high = int(n.min()), int(n.max())
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def _cells(prepared: pd.DataFrame) -> Iterable[tuple[str, str, float]]:
    return zip(prepared["row"], prepared["column"], prepared["share"], strict=True)


def plot_matrix(prepared: pd.DataFrame, *, mode: Mode = "light", title: str = "Who beats whom?") -> go.Figure:
    """A cell a pair: share of comparisons that the row won against the column, ties half; colour around 50 %.

    Args:
        prepared: from `prepare_matrix`; systems in the order they are drawn.
        mode: light, dark or print.
        title: the question on top.
    """
    systems = list(dict.fromkeys(prepared["row"])) or ["–"]
    at = {system: i for i, system in enumerate(systems)}
    z = np.full((len(systems), len(systems)), np.nan)
    for row, column, share in _cells(prepared):
        z[at[row], at[column]] = share
    names = [label(s, 14) for s in systems]
    fig = go.Figure(
        go.Heatmap(
            z=100 * z,
            x=list(range(len(systems))),
            y=list(range(len(systems))),
            zmin=0,
            zmax=100,
            colorscale=heat_scale(mode),
            showscale=False,
            text=[["" if math.isnan(v) else fixed(100 * v, 0) for v in line] for line in z],
            texttemplate="%{text}",
            textfont={"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
            customdata=[[[a, b] for b in systems] for a in systems],
            hovertemplate="%{customdata[0]} against %{customdata[1]}: %{text} %<extra></extra>",
            xgap=2,
            ygap=2,
        )
    )
    cells = [(i, j) for i in range(len(systems)) for j in range(len(systems)) if i != j]
    fig.add_trace(  # a heat map's cells cannot be selected; nearly clear squares over them can
        go.Scatter(
            x=[j for _, j in cells],
            y=[i for i, _ in cells],
            mode="markers",
            marker={"symbol": "square", "size": 34, "opacity": 0.01, "color": ROLES[mode]["background"]},
            customdata=[[systems[i], systems[j]] for i, j in cells],
            hovertemplate="%{customdata[0]} against %{customdata[1]}, click for the cases<extra></extra>",
            showlegend=False,
        )
    )
    ticks = {"tickmode": "array", "tickvals": list(range(len(systems))), "ticktext": names, "fixedrange": True}
    fig.update_xaxes(side="bottom", showgrid=False, tickangle=-35, **ticks)
    fig.update_yaxes(autorange="reversed", showgrid=False, **ticks)
    n = f"{_span(prepared['n'])} comparisons a cell" if len(prepared) else ""
    notes = ("row against column, % won, ties half", n)
    said = "; ".join(f"{a} over {b} {fixed(100 * float(share), 0)} %" for a, b, share in _cells(prepared))
    return frame(fig, mode, title=title, notes=notes, alt=f"Win matrix. {said}", body=44 * len(systems) + 40, below=76)


# Rates by distractor under both protocols: squares pairwise, circles pointwise, each with its interval.

RATE_COLUMNS = ["group", "name", "protocol", "value", "lower", "upper", "n", "n_clusters", "method"]
PAIRWISE, POINTWISE = "pairwise", "pointwise"
SYMBOLS = {PAIRWISE: "square", POINTWISE: "circle"}
RateRow = tuple[str, str, str, float, float, float, int, int, str]


def protocol_colour(protocol: str, mode: Mode) -> str:
    """One colour a protocol, none of those that have another meaning."""
    return PALETTE[mode][9 if protocol == PAIRWISE else 7]


def prepare_rates(rows: Sequence[RateRow]) -> pd.DataFrame:
    """One row a distractor and protocol, in the order given: group, name, protocol, value, bounds, n, items, method."""
    return pd.DataFrame(list(rows), columns=RATE_COLUMNS)


def plot_rates(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    title: str = "Which verdicts flip?",
    axis: str = "flips (%)",
    null: float | None = 0.0,
    level: float = 0.95,
) -> go.Figure:
    """A block a distractor: name over two rows, pairwise above pointwise, numbers at the right.

    Args:
        prepared: from `prepare_rates`; values are shares.
        mode: light, dark or print.
        title: the question on top.
        axis: title of the axis.
        null: place of a dashed line, as a share; None draws none.
        level: of the intervals.
    """
    fig = go.Figure()
    groups = list(dict.fromkeys(prepared["group"]))
    annotations: list[dict[str, Any]] = []
    ends = [0.0 if null is None else 100 * null]
    for protocol in (PAIRWISE, POINTWISE):
        rows = prepared[(prepared["protocol"] == protocol) & prepared["value"].notna()]
        if len(rows):
            fig.add_trace(_dots(rows, groups, protocol, mode))
        ends += [100 * x for x in rows[["value", "lower", "upper"]].to_numpy().ravel() if math.isfinite(x)]
    for row in _rate_records(prepared):
        y = groups.index(row.group) + (-0.02 if row.protocol == PAIRWISE else 0.3)
        if row.protocol == PAIRWISE:
            annotations.append(_words(0, y, label(row.name, 34), ROLES[mode]["ink"], "left", mode, 24))
        annotations.append(_words(1, y, f"<b>{_rate_text(row)}</b>", ROLES[mode]["ink"], "right", mode, 0))
    low, high = min(ends), max(ends)
    pad = 0.05 * (high - low) or 5.0
    # room at the right for the numbers, so that no interval runs under them
    ticks = _ticks(low - pad, high + pad)
    reach = [low - pad, high + 0.75 * (high - low) + 2 * pad]
    fig.update_xaxes(range=reach, tickmode="array", tickvals=ticks, title=axis, fixedrange=True)
    fig.update_yaxes(range=[max(len(groups), 1) - 0.4, -0.55], visible=False, fixedrange=True)
    if null is not None:
        dashed = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
        fig.add_shape(type="line", x0=100 * null, x1=100 * null, y0=0, y1=1, yref="paper", line=dashed, layer="below")
    fig.update_layout(annotations=annotations)
    if prepared.empty:
        say(fig, "nothing has been judged yet", mode)
    said = "; ".join(f"{r.name} {r.protocol}: {_rate_text(r)}" for r in _rate_records(prepared))
    notes = (f"{level_text(level)} intervals, items as clusters", _counts(prepared))
    body = 66 * max(len(groups), 1) + 10
    return frame(fig, mode, title=title, notes=notes, alt=f"{axis}. {said}", body=body, legend=len(groups) > 0)


def _dots(rows: pd.DataFrame, groups: list[str], protocol: str, mode: Mode) -> go.Scatter:
    colour, shift = protocol_colour(protocol, mode), -0.02 if protocol == PAIRWISE else 0.3
    return go.Scatter(
        x=(100 * rows["value"]).tolist(),
        y=[groups.index(g) + shift for g in rows["group"]],
        mode="markers",
        name=protocol,
        marker={"symbol": SYMBOLS[protocol], "size": 11, "color": colour},
        error_x=whiskers(100 * rows["value"], 100 * rows["lower"], 100 * rows["upper"], colour, thickness=2.5, width=5),
        customdata=[[r.group, protocol, _rate_text(r), count(int(r.n))] for r in _rate_records(rows)],
        hovertemplate="%{customdata[1]}: %{customdata[2]}<br>n = %{customdata[3]}, click for the cases<extra></extra>",
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within the data's reach, about five of them."""
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100) if (high - low) / s <= 6 or s == 100)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _rate_records(rows: pd.DataFrame) -> Iterable[Any]:
    return rows.itertuples(index=False)


def _rate_text(row: Any) -> str:
    """A share in percent; for no event the count and the bound."""
    if not math.isfinite(row.value):
        return "no data"
    if row.value == 0 and math.isfinite(row.upper) and row.lower == 0:
        return f"0 of {count(int(row.n))}, at most {fixed(100 * row.upper, 1)} %"
    ends = (100 * row.value, 100 * row.lower, 100 * row.upper)
    return interval_text(*ends, method=str(row.method), n_clusters=int(row.n_clusters))


def _counts(prepared: pd.DataFrame) -> str:
    parts = []
    for protocol in (PAIRWISE, POINTWISE):
        n = prepared.loc[prepared["protocol"] == protocol, "n"]
        if len(n):
            span = count(int(n.min())) if n.min() == n.max() else f"{count(int(n.min()))}–{count(int(n.max()))}"
            parts.append(f"n {span} {protocol}")
    return ", ".join(parts)


def _words(x: float, y: float, text: str, colour: str, anchor: str, mode: Mode, up: int) -> dict[str, Any]:
    return {
        "x": x,
        "xref": "paper",
        "y": y,
        "yshift": up,
        "bgcolor": ROLES[mode]["background"],
        "borderpad": 1,
        "text": text,
        "showarrow": False,
        "xanchor": anchor,
        "font": {"size": SMALL_SIZE, "color": colour},
    }


# Accuracy by severity, with and without a distractor, under both protocols (paper 004, figure 3).

LADDER_COLUMNS = ["severity", "arm", "protocol", "value", "lower", "upper", "n", "excluded"]
LadderRow = tuple[int, str, str, float, float, float, int, int]
_SHIFT = {(PAIRWISE, False): -0.24, (PAIRWISE, True): -0.08, (POINTWISE, False): 0.08, (POINTWISE, True): 0.24}


def prepare_ladder(rows: Sequence[LadderRow]) -> pd.DataFrame:
    """One row a severity, arm (`none` or a distractor) and protocol; values are shares."""
    return pd.DataFrame(list(rows), columns=LADDER_COLUMNS)


def plot_ladder(prepared: pd.DataFrame, *, mode: Mode = "light", level: float = 0.95) -> go.Figure:
    """Severity on the x axis, accuracy on the y axis; hollow without the distractor, solid with it.

    Args:
        prepared: from `prepare_ladder`, of one distractor.
        mode: light, dark or print.
        level: of the intervals.
    """
    fig = go.Figure()
    for protocol in (PAIRWISE, POINTWISE):
        for distracted in (False, True):
            mask = (prepared["protocol"] == protocol) & ((prepared["arm"] != "none") == distracted)
            rows = prepared[mask & prepared["value"].notna()]
            if len(rows):
                fig.add_trace(_series(rows, protocol, mode, distracted=distracted))
    levels = sorted({int(s) for s in prepared["severity"]}) or [1, 2, 3]
    fig.update_xaxes(
        tickmode="array",
        tickvals=levels,
        ticktext=[f"{s} rule{'s' if s > 1 else ''} broken" for s in levels],
        range=[levels[0] - 0.5, levels[-1] + 0.5],
        showgrid=False,
        fixedrange=True,
    )
    fig.update_yaxes(range=[-4, 104], title="accuracy (%)", fixedrange=True)
    line = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=50, y1=50, line=line, layer="below")
    if prepared.empty:
        say(fig, "the data do not say which rules a response keeps", mode)
    out = int(prepared["excluded"].sum()) if len(prepared) else 0
    n = f"n {count(int(prepared['n'].min()))}–{count(int(prepared['n'].max()))} pairs" if len(prepared) else ""
    notes = (f"{level_text(level)} intervals", n, f"{count(out)} left out")
    said = "; ".join(
        f"severity {r.severity!s}, {r.protocol!s}, {'clean' if r.arm == 'none' else str(r.arm)}: {_text(r)}"
        for r in _records(prepared)
    )
    return frame(
        fig,
        mode,
        title="Does the better response still win?",
        notes=notes,
        alt=f"Accuracy by severity. {said}",
        body=300,
        legend=True,
        above=44,
        below=64,
    )


def _series(rows: pd.DataFrame, protocol: str, mode: Mode, *, distracted: bool) -> go.Scatter:
    colour = protocol_colour(protocol, mode)
    return go.Scatter(
        x=[s + _SHIFT[protocol, distracted] for s in rows["severity"]],
        y=(100 * rows["value"]).tolist(),
        mode="markers",
        name=f"{protocol}, {'distracted' if distracted else 'clean'}",
        marker={
            "symbol": SYMBOLS[protocol],
            "size": 11,
            "color": colour if distracted else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_y=whiskers(100 * rows["value"], 100 * rows["lower"], 100 * rows["upper"], colour),
        customdata=[[row.arm, protocol, _text(row), count(int(row.n)), int(row.severity)] for row in _records(rows)],
        hovertemplate="%{customdata[1]}: %{customdata[2]}<br>n = %{customdata[3]}, click for the cases<extra></extra>",
    )


def _records(rows: pd.DataFrame) -> Iterable[Any]:
    return rows.itertuples(index=False)


def _text(row: Any) -> str:
    return interval_text(100 * row.value, 100 * row.lower, 100 * row.upper, unit="%")

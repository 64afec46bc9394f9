"""Audit figures made of rows with intervals: types before and after, controls, and how well scores rank."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import count, interval_text, label, level_text, plural
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say

CONTROL_TITLES: dict[str, str] = {
    "cons_adj": "transport (entry mass)",
    "cons_orig": "the judge as it is",
    "cons_all": "flip all verdicts",
    "cons_random": "random flips",
    "cons_centroid": "cosine to the mean positive",
    "cons_nearest": "nearest positive",
    "cons_top10": "mean of the ten nearest",
    "auc_entry_mass": "transport (entry mass)",
    "auc_centroid": "cosine to the mean positive",
    "auc_nearest": "nearest positive",
    "auc_top10": "mean of the ten nearest",
}
"""What a metric's row is called."""
_ROW, _NAME_ROOM = 46, 19


@dataclass(frozen=True)
class Rows:
    """How rows are drawn.

    Attributes:
        axis: axis title.
        null: where nothing would be gained; drawn as a dashed line.
        span: range of the axis.
    """

    axis: str
    null: float
    span: tuple[float, float]


CONSISTENCY = Rows("consistency with the human preference", 0.5, (0.0, 1.0))
AUC = Rows("AUC: chance that an agreeing verdict scores higher", 0.5, (0.0, 1.0))


def prepare_controls(metrics: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """One row per metric of `names`, in that order, overall rows only.

    Args:
        metrics: table `metrics` of one attack, from `engine.studies.transport_audit.metrics`.
        names: keys of `CONTROL_TITLES`.

    Returns:
        name, metric, value, lower, upper, level, method, n, n_clusters.
    """
    own = metrics[metrics["group"].isna()].drop_duplicates("metric").set_index("metric")
    have = [name for name in names if name in own.index]
    rows = own.loc[have].reset_index()
    rows["name"] = [CONTROL_TITLES.get(name, name) for name in have]
    return rows[["name", "metric", "value", "lower", "upper", "level", "method", "n", "n_clusters"]]


def plot_controls(prepared: pd.DataFrame, rows: Rows, *, mode: Mode = "light", title: str, note: str = "") -> go.Figure:
    """A row per way of deciding: its name and numbers on one line, point and interval below.

    Args:
        prepared: from `prepare_controls`.
        rows: `CONSISTENCY` or `AUC`.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig, words, texts = go.Figure(), [], []
    for i, row in enumerate(prepared.to_dict("records")):
        text = _numbers(row)
        texts.append(f"{row['name']} {text}")
        if math.isfinite(row["value"]):
            fig.add_trace(_point(row, i, _colour(str(row["metric"]), mode), text, mode))
        words += _line(str(row["name"]), f"<b>{text}</b>", i, mode)
    _axes(fig, rows, len(prepared), words, mode)
    if prepared.empty:
        say(fig, "no labelled pair was held back, so nothing can be checked", mode)
    notes = (_said(prepared), label(note, 90) if note else "")
    return frame(
        fig, mode, title=title, notes=notes, alt=f"{title} " + "; ".join(texts), body=_ROW * max(len(prepared), 1) + 16
    )


def prepare_types(metrics: pd.DataFrame, titles: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One row per attack and question type, consistency before and after the audit.

    Returns:
        attack, type, name, orig, orig_lower, orig_upper, adj, adj_lower, adj_upper, gain, level, n, n_clusters, enough
        (whether the cell takes part in claims).
    """
    own = metrics[metrics["group"].notna() & metrics["metric"].isin(["cons_orig", "cons_adj", "gain"])]
    made: list[dict[str, Any]] = []
    cells: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in own.to_dict("records"):
        cells.setdefault((row["attack"], row["group"]), {})[str(row["metric"])] = row
    alone = len({attack for attack, _ in cells}) == 1
    for (attack, kind), by in cells.items():
        if len(by) < 3:
            continue
        orig, adj = by["cons_orig"], by["cons_adj"]
        called = (titles or {}).get(str(attack), str(attack))
        made.append(
            {
                "attack": str(attack),
                "type": str(kind),
                "name": str(kind) if alone else f"{kind}, {called}",
                "orig": orig["value"], "orig_lower": orig["lower"], "orig_upper": orig["upper"],
                "adj": adj["value"], "adj_lower": adj["lower"], "adj_upper": adj["upper"],
                "gain": by["gain"]["value"], "level": orig["level"], "n": int(orig["n"]),
                "n_clusters": int(orig["n_clusters"]), "enough": not str(orig["method"]).startswith("fewer"),
            }
        )  # fmt: skip
    return pd.DataFrame(made, columns=_TYPE_COLUMNS).sort_values(["type"], kind="stable").reset_index(drop=True)


_TYPE_COLUMNS = [
    "attack", "type", "name", "orig", "orig_lower", "orig_upper", "adj", "adj_lower", "adj_upper", "gain", "level", "n",
    "n_clusters", "enough",
]  # fmt: skip


def plot_types(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    title: str = "Where does the audit help or hurt?",
    note: str = "",
) -> go.Figure:
    """Dumbbells: consistency before (hollow) and after (solid) for each question type, intervals as thin lines."""
    fig, words, texts = go.Figure(), [], []
    for i, row in enumerate(prepared.to_dict("records")):
        known = math.isfinite(row["orig"]) and math.isfinite(row["adj"])
        numbers = f"{row['orig']:.2f} → {row['adj']:.2f}" if known else "unknown"
        text = f"{numbers}, n = {count(row['n'])}" + ("" if row["enough"] else " (too few)")
        texts.append(f"{row['name']} {text}")
        before = MEANING[mode]["clean" if row["attack"] == "none" else "attacked"]
        after = MEANING[mode]["defended"] if row["enough"] else MEANING[mode]["unread"]
        if known:
            for trace in _dumbbell(row, i, before if row["enough"] else MEANING[mode]["unread"], after, mode):
                fig.add_trace(trace)
        words += _line(str(row["name"]), f"<b>{text}</b>", i, mode)
    _axes(fig, CONSISTENCY, len(prepared), words, mode)
    if prepared.empty:
        say(fig, "no labelled pair was held back, so nothing can be checked", mode)
    level = (
        f"{level_text(float(prepared['level'].iloc[0]))} intervals (bootstrap of items, or Wilson)"
        if len(prepared)
        else ""
    )
    notes = ("hollow: before, solid: after the audit", level, "grey: too few pairs, no claim", label(note, 90))
    return frame(
        fig, mode, title=title, notes=notes, alt="; ".join([title, *texts]), body=_ROW * max(len(prepared), 1) + 16
    )


def _dumbbell(row: Mapping[Hashable, Any], y: int, before: str, after: str, mode: Mode) -> list[go.Scatter]:
    ends = ((row["orig_lower"], row["orig_upper"], before, -0.07), (row["adj_lower"], row["adj_upper"], after, 0.07))
    made = [
        go.Scatter(x=[low, high], y=[y + shift] * 2, mode="lines", line={"color": c, "width": 1.5}, hoverinfo="skip")
        for low, high, c, shift in ends
        if math.isfinite(low)
    ]
    made.append(
        go.Scatter(
            x=[row["orig"], row["adj"]],
            y=[y - 0.07, y + 0.07],
            mode="lines+markers",
            line={"color": ROLES[mode]["line"], "width": 1},
            marker={
                "size": 11,
                "color": [ROLES[mode]["background"], after],
                "line": {"color": [before, after], "width": 2},
            },
            customdata=[["before"], ["after"]],
            hovertemplate=f"{label(row['name'], 40)}<br>%{{customdata[0]}} %{{x:.3f}}<extra></extra>",
        )
    )
    return made


def _colour(metric: str, mode: Mode) -> str:
    if metric in ("cons_adj", "auc_entry_mass"):
        return MEANING[mode]["defended"]
    return MEANING[mode]["clean" if metric == "cons_orig" else "unread"]


def _point(row: Mapping[Hashable, Any], y: int, colour: str, text: str, mode: Mode) -> go.Scatter:
    bounded = math.isfinite(row["lower"]) and math.isfinite(row["upper"])
    return go.Scatter(
        x=[row["value"]],
        y=[y],
        mode="markers",
        marker={
            "size": 11,
            "color": colour if bounded else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [row["upper"] - row["value"] if bounded else 0],
            "arrayminus": [row["value"] - row["lower"] if bounded else 0],
            "color": colour,
            "thickness": 2.5,
            "width": 5 if bounded else 0,
            "visible": bounded,
        },
        customdata=[[label(row["name"], 60), text]],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    )


def _numbers(row: Mapping[Hashable, Any]) -> str:
    n_items = 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"])
    return interval_text(row["value"], row["lower"], row["upper"], method=str(row["method"]), n_clusters=n_items)


def _line(name: str, numbers: str, y: int, mode: Mode) -> list[dict[str, Any]]:
    both = ((0, label(name, 34), "left"), (1, numbers, "right"))
    return [
        {
            "x": x, "xref": "paper", "y": y, "yshift": _NAME_ROOM, "text": text, "xanchor": anchor, "showarrow": False,
            "bgcolor": ROLES[mode]["background"], "borderpad": 1,
            "font": {"size": SMALL_SIZE + 1, "color": ROLES[mode]["ink"]},
        }
        for x, text, anchor in both
    ]  # fmt: skip


def _axes(fig: go.Figure, rows: Rows, n: int, words: list[dict[str, Any]], mode: Mode) -> None:
    fig.update_xaxes(range=[rows.span[0] - 0.01, rows.span[1] + 0.01], title=rows.axis, fixedrange=True, nticks=6)
    fig.update_yaxes(range=[max(n, 1) - 0.45, -0.8], visible=False, fixedrange=True)
    dashed = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=rows.null, x1=rows.null, y0=0, y1=1, yref="paper", line=dashed, layer="below")
    fig.update_layout(annotations=words)


def _said(prepared: pd.DataFrame) -> str:
    if prepared.empty:
        return ""
    row = prepared.iloc[0]
    n, items = plural(int(row["n"]), "pair"), plural(int(row["n_clusters"]), "item")
    level, bounded = row["level"], prepared[prepared["lower"].notna()]
    ways = "; ".join(label(way, 70) for way in dict.fromkeys(bounded["method"]))
    how = f"{level_text(float(level))} intervals ({ways}), " if pd.notna(level) and ways else ""
    return f"{how}n = {n} of {items}"

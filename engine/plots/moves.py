"""Scores without and with an attack on one axis, a row for each defense: how far each marker moves, and the gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.schema import NONE
from engine.plots.text import count, fixed, interval_text, label, level_text, plural
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say

COLUMNS = ["name", "defense", "clean", "attacked", "shift", "lower", "upper", "text", "waiting"]
_ROW = 62
"""Pixels a row takes: its words and its line."""


def prepare_moves(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per attack and defense, in the order given.

    Args:
        rows: name, defense, clean and attacked (scores; NaN where there is no verdict), and where they are means
            shift, lower, upper, method, n_clusters of the paired shift; waiting is true where the answer is an old one.
    """
    made = []
    for row in rows:
        shift = float(row.get("shift", row["attacked"] - row["clean"]))
        lower, upper = float(row.get("lower", math.nan)), float(row.get("upper", math.nan))
        if math.isfinite(lower):
            how = {"method": str(row.get("method", "")), "n_clusters": int(row.get("n_clusters", 0))}
            text = interval_text(shift, lower, upper, signed=True, **how)  # type: ignore[arg-type]
        else:
            text = fixed(shift, 2, signed=True) if math.isfinite(shift) else "no usable verdict"
        held = {"name": str(row["name"]), "defense": str(row["defense"]), "waiting": bool(row.get("waiting", False))}
        numbers = {"clean": float(row["clean"]), "attacked": float(row["attacked"])}
        made.append({**held, **numbers, "shift": shift, "lower": lower, "upper": upper, "text": text})
    return pd.DataFrame(made, columns=COLUMNS)


def prepare_set_moves(metrics: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Rows of a whole set: mean scores of each attack behind each defense, the undefended row of an attack first.

    Args:
        metrics: rows `mean` and `shift` of a run's table.
        titles: names of attacks and defenses.
    """
    means = metrics[metrics["metric"] == "mean"].set_index(["attack", "defense"])["value"]
    shifts = metrics[(metrics["metric"] == "shift") & metrics["value"].notna()]
    rows = []
    for attack in dict.fromkeys(shifts["attack"]):
        own = shifts[shifts["attack"] == attack].sort_values("defense", key=lambda d: d != NONE, kind="stable")
        for row in own.to_dict("records"):
            defense = str(row["defense"])
            clean = float(means.get((NONE, defense), math.nan))
            behind = "no defense" if defense == NONE else titles.get(defense, defense)
            rows.append(
                {"name": f"{titles.get(attack, attack)}, {behind}", "defense": defense, "clean": clean}
                | {"attacked": clean + float(row["value"]), "shift": row["value"]}
                | {k: row[k] for k in ("lower", "upper", "method", "n_clusters")}
            )
    return prepare_moves(rows)


def plot_moves(
    prepared: pd.DataFrame, *, mode: Mode = "light", scale: tuple[float, float], title: str, note: str = ""
) -> go.Figure:
    """Hollow marker without the attack, solid one with it, an arrow between; the gain at the right.

    Args:
        prepared: from `prepare_moves`.
        mode: light, dark or print.
        scale: ends of the axis; those of the scale, or whole points around the data.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    records: list[dict[str, Any]] = prepared.to_dict("records")  # type: ignore[assignment]
    words: list[dict[str, Any]] = []
    for y, row in enumerate(records):
        words += _words(row, y, mode)
        words += _arrow(row, y, scale, mode)
        for which in ("clean", "attacked"):
            if math.isfinite(row[which]):
                fig.add_trace(_marker(row, which, y, mode))
        if math.isfinite(row["lower"]):
            fig.add_trace(_interval(row, y, mode))
    pad = 0.04 * (scale[1] - scale[0])
    ticks = _ticks(scale)
    fig.update_xaxes(
        range=[scale[0] - pad, scale[1] + pad], fixedrange=True, tickmode="array", tickvals=ticks,
        title="score", tickfont={"size": SMALL_SIZE + 1},
    )  # fmt: skip
    fig.update_yaxes(range=[max(len(records), 1) - 0.45, -0.75], visible=False, fixedrange=True)
    fig.update_layout(annotations=words)
    if not records:
        say(fig, "nothing has been judged yet", mode)
    alt = f"{title} " + " ".join(f"{r['name']}: {fixed(r['clean'], 2)} to {fixed(r['attacked'], 2)}." for r in records)
    body = _ROW * max(len(records), 1) + 10
    return frame(fig, mode, title=title, notes=_notes(prepared, note), alt=alt, body=body, below=44)


def _ticks(scale: tuple[float, float]) -> list[float]:
    low, high = scale
    step = 1.0 if high - low <= 12 else (high - low) / 5
    return [low + k * step for k in range(int((high - low) / step + 1e-9) + 1)]


def _colour(row: dict[str, Any], which: str, mode: Mode) -> str:
    if which == "clean":
        return MEANING[mode]["clean"]
    return MEANING[mode]["attacked" if row["defense"] == NONE else "defended"]


def _marker(row: dict[str, Any], which: str, y: int, mode: Mode) -> go.Scatter:
    colour = _colour(row, which, mode)
    fill = ROLES[mode]["background"] if which == "clean" else colour
    return go.Scatter(
        x=[row[which]], y=[y], mode="markers", name=label(row["name"], 60), opacity=0.4 if row["waiting"] else 1.0,
        marker={"symbol": "diamond", "size": 14, "color": fill, "line": {"color": colour, "width": 2.5}},
        customdata=[[label(row["name"], 60), "without" if which == "clean" else "with", fixed(row[which], 2)]],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} the attack: %{customdata[2]}<extra></extra>",
    )  # fmt: skip


def _interval(row: dict[str, Any], y: int, mode: Mode) -> go.Scatter:
    """The interval of the change below the solid marker, clear of the arrow."""
    ends = [row["clean"] + row["lower"], row["clean"] + row["upper"]]
    line = {"color": _colour(row, "attacked", mode), "width": 4}
    return go.Scatter(x=ends, y=[y + 0.22] * 2, mode="lines", line=line, opacity=0.6, hoverinfo="skip")


def _arrow(row: dict[str, Any], y: int, scale: tuple[float, float], mode: Mode) -> list[dict[str, Any]]:
    """From marker to marker, where they stand apart."""
    a, b = row["clean"], row["attacked"]
    gap = 0.02 * (scale[1] - scale[0])
    if not (math.isfinite(a) and math.isfinite(b)) or abs(b - a) < 2 * gap:
        return []
    side = math.copysign(gap, b - a)
    return [
        {"x": b - side, "y": y, "ax": a + side, "ay": y, "xref": "x", "yref": "y", "axref": "x", "ayref": "y",
         "text": "", "showarrow": True, "arrowhead": 2, "arrowsize": 1, "arrowwidth": 2,
         "arrowcolor": _colour(row, "attacked", mode), "opacity": 0.4 if row["waiting"] else 1.0}
    ]  # fmt: skip


def _words(row: dict[str, Any], y: int, mode: Mode) -> list[dict[str, Any]]:
    colour = ROLES[mode]["muted" if row["waiting"] else "ink"]
    base = {"y": y, "yshift": 22, "xref": "paper", "showarrow": False, "bgcolor": ROLES[mode]["background"]}
    font = {"size": SMALL_SIZE + 1, "color": colour}
    return [
        {**base, "x": 0, "xanchor": "left", "text": label(row["name"], 44), "font": font},
        {**base, "x": 1, "xanchor": "right", "text": f"<b>{row['text']}</b>", "font": font},
    ]


def _notes(prepared: pd.DataFrame, note: str) -> tuple[str, ...]:
    bounded = bool(prepared["lower"].notna().any())
    parts = ["hollow: without the attack, solid: with it"]
    parts.append(
        f"line below: {level_text(0.95)} interval of the change" if bounded else "one response, so no interval"
    )
    if waiting := int(prepared["waiting"].sum()):
        parts.append(f"grey: {count(waiting)} {plural(waiting, 'row').partition(' ')[2]} from before")
    return (*parts, label(note, 90) if note else "")

"""A forest of claims: the paper's effect and ours on one scale, row by row, with the verdict in words."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import THIN, escape, fixed, interval_text, label, plural
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say

LOOKS: dict[str, tuple[str, str, str, str]] = {
    "holds at the stated effect": ("holds", "✓", "circle", "clean"),
    "weaker than published": ("weaker", "▾", "triangle-down", "defended"),
    "not seen": ("not seen", "○", "circle-open", "unread"),
    "the other way": ("other way", "↩", "triangle-left", "attacked"),
    "cannot tell": ("cannot tell", "?", "square-open", "unread"),
    "by construction": ("by construction", "⚙", "diamond", "high"),
}
"""Of each verdict: short word, sign, shape and meaning of its colour."""
COLUMNS = (
    "claim", "statement", "published", "where", "verdict", "value", "lower", "upper", "stated", "least", "test", "unit",
    "n_items", "n",
)  # fmt: skip
_LEAST, _MOST = -1.5, 2.5
"""Ends of the axis, in published effects; what lies beyond is drawn at the end, with an arrow."""
_HEAD, _ROW, _GAP, _LINE = 20, 50, 12, 50


def plot_claims(prepared: pd.DataFrame, *, mode: Mode = "light", title: str, note: str = "") -> go.Figure:
    """A block for each claim: its statement and the paper's figure, and under it a row for each data set.

    The axis is in published effects: 0 is no effect, 1 what the paper states; of a claim without a printed number 1 is
    the least relevant effect, and of a non-inferiority test -1 is the margin. A tick marks the least relevant effect or
    the margin, a hollow diamond the paper's value; numbers are in their own unit.

    Args:
        prepared: a row for each claim and data set with the columns of `COLUMNS`, those of a claim together.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    annotations: list[dict[str, Any]] = []
    y, said = 0.0, []
    for _, block in prepared.groupby("claim", sort=False):
        first = block.iloc[0]
        lines = textwrap.wrap(str(first["statement"]), _LINE)
        paper = textwrap.shorten(f"Paper: {first['published']}", 2 * _LINE, placeholder=" …")
        small = textwrap.wrap(paper, _LINE + 6)
        text = "<b>" + "<br>".join(map(escape, lines)) + "</b><br>" + "<br>".join(map(escape, small))
        annotations.append(_words(0, y, text, "left", ROLES[mode]["ink"], SMALL_SIZE + 1, mode))
        y += _HEAD + 16 * (len(lines) + len(small))
        for row in block.to_dict("records"):
            said.append(f"{first['statement']} {row['where']}: {row['verdict']}")
            annotations += _line(row, y, mode)
            _marks(fig, row, y + 29, mode)
            y += _ROW
        y += _GAP
    _axes(fig, y, mode)
    fig.update_layout(annotations=annotations)
    if prepared.empty:
        say(fig, "no claim of this kind was decided", mode)
    notes = (
        "95 % intervals, items as clusters",
        "0 no effect, 1 the paper's, ◇ paper, | least relevant",
        label(note, 80) if note else "",
    )
    return frame(fig, mode, title=title, notes=notes, alt="; ".join(said) or title, body=int(y) + 30)


def _scale(row: dict[Any, Any]) -> float:
    stated = float(row["stated"])
    return stated if math.isfinite(stated) and stated > 0 else float(row["least"])


def _words(x: float, y: float, text: str, anchor: str, colour: str, size: int, mode: Mode) -> dict[str, Any]:
    return {
        "x": x, "xref": "paper", "y": y, "yref": "y", "xanchor": anchor, "yanchor": "top", "align": anchor,
        "text": text, "showarrow": False, "font": {"size": size, "color": colour},
        "bgcolor": ROLES[mode]["background"], "borderpad": 1,
    }  # fmt: skip


def _line(row: dict[Any, Any], y: float, mode: Mode) -> list[dict[str, Any]]:
    """Verdict and data set at the left, numbers at the right."""
    word, sign, _, meaning = LOOKS[str(row["verdict"])]
    items = plural(int(row["n_items"]), "item") if row["n_items"] == row["n_items"] else "items unknown"
    left = f"<b>{sign} {word}</b> · {label(row['where'], 20)} · {items}"
    unit = "" if row["unit"] in {"share", "ratio"} else str(row["unit"])
    value, lower, upper = (float(row[k]) for k in ("value", "lower", "upper"))
    right = interval_text(value, lower, upper, signed=True, unit="") if math.isfinite(value) else "no number"
    right += f"{THIN}{escape(unit)}" if unit and math.isfinite(value) else ""
    return [
        _words(0, y, left, "left", MEANING[mode][meaning], SMALL_SIZE, mode),
        _words(1, y, f"<b>{right}</b>", "right", ROLES[mode]["ink"], SMALL_SIZE, mode),
    ]


def _marks(fig: go.Figure, row: dict[Any, Any], y: float, mode: Mode) -> None:
    """The interval, the paper's value and the least relevant effect, in published effects."""
    scale = _scale(row)
    word, _, symbol, meaning = LOOKS[str(row["verdict"])]
    margin = str(row["test"]) == "non-inferiority"
    tick = -1.0 if margin else float(row["least"]) / scale
    muted = ROLES[mode]["muted"]
    fig.add_scatter(
        x=[tick], y=[y], mode="markers", hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 12, "line": {"width": 2, "color": muted}},
    )  # fmt: skip
    if not margin and float(row["stated"]) > float(row["least"]):
        fig.add_scatter(
            x=[1], y=[y], mode="markers", hoverinfo="skip",
            marker={"symbol": "diamond-open", "size": 10, "color": ROLES[mode]["ink"], "line": {"width": 1.5}},
        )  # fmt: skip
    value, lower, upper = (float(row[k]) / scale for k in ("value", "lower", "upper"))
    if not math.isfinite(value):
        return
    colour = MEANING[mode][meaning]
    ends = [min(max(end, _LEAST), _MOST) for end in (lower, upper)] if math.isfinite(lower + upper) else []
    if ends:
        fig.add_scatter(x=ends, y=[y, y], mode="lines", hoverinfo="skip", line={"color": colour, "width": 3})
    shown = min(max(value, _LEAST), _MOST)
    beyond = "triangle-right" if value > _MOST else "triangle-left" if value < _LEAST else symbol
    hover = f"{label(row['where'], 40)}: {word}, {fixed(value, 2)} published effects"
    fig.add_scatter(
        x=[shown], y=[y], mode="markers", name=label(row["where"], 40), hovertemplate=f"{hover}<extra></extra>",
        marker={"symbol": beyond, "size": 11, "color": colour, "line": {"width": 2, "color": colour}},
    )  # fmt: skip


def _axes(fig: go.Figure, height: float, mode: Mode) -> None:
    fig.update_xaxes(
        range=[_LEAST - 0.1, _MOST + 0.1], tickvals=[-1, 0, 1, 2], fixedrange=True,
        title="published effects (0: none)",
    )  # fmt: skip
    fig.update_yaxes(range=[max(height, 1), -6], visible=False, fixedrange=True)
    for x, dash in ((0, "dash"), (1, "dot")):
        line = {"color": ROLES[mode]["muted"], "width": 1.2, "dash": dash}
        fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", line=line, layer="below")

"""Attack by defense: the shift in each cell, hatched where the interval covers zero."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.plots.rows import EFFECTS, NOTHING, Effect, arms, effect_notes
from engine.plots.text import bounds_text, decimals_for, fixed, label, plural, three_digits, why_no_interval
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, heat_scale, say

COLUMNS = [
    "attack",
    "defense",
    "attack_title",
    "defense_title",
    "metric",
    "value",
    "lower",
    "upper",
    "level",
    "method",
    "n",
    "n_clusters",
    "n_unread",
    "covers_zero",
]
WIDE = 3
"""Columns up to which a phone shows an interval on one line."""
TURNED = 5
"""Defenses up to which they stand as columns; more of them, if they outnumber the attacks, become the rows."""
_GAP = 0.03
"""Half the space between cells, in cell widths."""
_NAMES, _CELL = 90, 70
"""Pixels that the names of the rows take, and that a cell needs for its numbers."""
_NAME, _HEAD = 14, 11
"""Characters of a row's name and of a column's on one line."""
_HATCH = 0.16
"""Distance of hatching lines, in cell widths."""


def prepare_grid(
    metrics: pd.DataFrame, *, metric: str = "shift", titles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """One row per cell; a cell whose arm was not run has NaN and no n.

    Args:
        metrics: table `metrics`, from `engine.stats.shifts.shift_metrics`.
        metric: a key of `EFFECTS`.
        titles: attack or defense name to what it is called.

    Returns:
        attack, defense, attack_title, defense_title, metric, value, lower, upper, level, method, n, n_clusters,
        n_unread, covers_zero (also true where the value is zero and there is no interval).

    Raises:
        InputError: another metric.
    """
    rows = arms(metrics, metric)
    called = titles or {}
    attacks = list(rows["attack"].unique())
    defenses = sorted(rows["defense"].unique(), key=lambda d: d != "none")  # stable: the rest as they come
    cells = pd.DataFrame([(a, d) for a in attacks for d in defenses], columns=["attack", "defense"])
    out = cells.merge(rows, on=["attack", "defense"], how="left")
    out["metric"] = metric
    out["attack_title"] = [called.get(a, a) for a in out["attack"]]
    out["defense_title"] = [called.get(d, d) if d != "none" else called.get(d, "No defense") for d in out["defense"]]
    spans = (out["lower"] <= 0) & (out["upper"] >= 0)
    out["covers_zero"] = spans | (out["lower"].isna() & (out["value"] == 0))
    return out[COLUMNS]


def plot_grid(
    prepared: pd.DataFrame, *, mode: Mode = "light", title: str = "Which defense holds against which attack?"
) -> go.Figure:
    """A heat map diverging around zero, value and interval in each cell, hatched where zero is covered.

    Attacks are the rows; where there are many defenses and fewer attacks, the other way round, so that a phone can
    show the numbers and no name is cut.

    Args:
        prepared: from `prepare_grid`.
        mode: light, dark or print.
        title: the question on top.
    """
    rows = prepared.reset_index(drop=True)
    effect = EFFECTS[str(rows["metric"].iloc[0])] if len(rows) else EFFECTS["shift"]
    attacks, defenses = list(rows["attack"].unique()), list(rows["defense"].unique())
    turned = len(defenses) > max(TURNED, len(attacks))
    down, across = ("defense", "attack") if turned else ("attack", "defense")
    lines, columns = (defenses, attacks) if turned else (attacks, defenses)
    wide = len(columns) <= WIDE
    values, hover, annotations, shapes, said = _cells(rows, (lines, down), (columns, across), effect, wide, mode)
    fig = go.Figure()
    if len(rows):
        fig.add_trace(_heat(values, hover, effect, mode))
    _axes(fig, dict(zip(rows[down], rows[f"{down}_title"], strict=True)),
          dict(zip(rows[across], rows[f"{across}_title"], strict=True)))  # fmt: skip
    fig.update_layout(annotations=annotations, shapes=shapes)
    if rows.empty:
        fig.update_xaxes(visible=False)
        say(fig, NOTHING, mode)
    hatched = "hatched: the interval covers zero" if rows["covers_zero"].any() else ""
    alt = "Score shift by attack and defense: " + "; ".join(said)
    notes = (effect.axis, *effect_notes(rows), hatched)
    fig = frame(
        fig,
        mode,
        title=title,
        notes=notes,
        alt=alt,
        body=(72 if wide else 74 if turned else 82) * max(len(lines), 1),
        above=24 if wide else 38,
        below=20,
    )
    return fig.update_layout(meta={**fig.layout.meta, "least_width": _NAMES + _CELL * len(columns)})


def _cells(
    rows: pd.DataFrame,
    lines: tuple[list[str], str],
    columns: tuple[list[str], str],
    effect: Effect,
    wide: bool,
    mode: Mode,
) -> tuple[list[list[float | None]], list[list[str]], list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """Every cell's number, hover text, words, ground, and what is said of it.

    Args:
        rows: from `prepare_grid`.
        lines: names down, and the column of `rows` that holds them.
        columns: names across, and theirs.
        effect: reading of the number.
        wide: true where an interval fits on one line.
        mode: light, dark or print.
    """
    at = {(a, b): (i, j) for i, a in enumerate(lines[0]) for j, b in enumerate(columns[0])}
    values: list[list[float | None]] = [[None] * len(columns[0]) for _ in lines[0]]
    hover: list[list[str]] = [[""] * len(columns[0]) for _ in lines[0]]
    annotations: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    said: list[str] = []
    for _, row in rows.iterrows():
        i, j = at[row[lines[1]], row[columns[1]]]
        value = effect.factor * float(row["value"])
        values[i][j] = value if math.isfinite(value) else None
        text, small = _cell_text(row, effect)
        said.append(f"{row['attack_title']} with {row['defense_title']} {text}")
        hover[i][j] = f"{label(row['attack_title'], 40)}, {label(row['defense_title'], 40)}<br>{text} {small}"
        shapes.append(_blank(i, j, mode))
        if row["covers_zero"]:
            shapes.append(_hatching(i, j, mode))
        if not wide:
            small = small.replace(", ", ",<br>")
        annotations += _cell_words(i, j, text, small, math.isfinite(value), mode)
    return values, hover, annotations, shapes, said


def _heat(values: list[list[float | None]], hover: list[list[str]], effect: Effect, mode: Mode) -> go.Heatmap:
    known = [abs(v) for line in values for v in line if v is not None]
    limit = max([effect.least, *known])
    return go.Heatmap(
        x=list(range(len(values[0]))),
        y=list(range(len(values))),
        z=values,
        zmin=-limit,
        zmax=limit,
        colorscale=heat_scale(mode),
        showscale=False,
        xgap=3,
        ygap=3,
        hoverongaps=False,
        customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
    )


def _axes(fig: go.Figure, down: dict[str, str], across: dict[str, str]) -> None:
    """Names of the rows and of the columns, in the order given: by name, what each is called."""
    common: dict[str, Any] = {"tickmode": "array", "showgrid": False, "fixedrange": True}
    fig.update_xaxes(
        tickvals=list(range(len(across))),
        ticktext=[_heading(title, len(across)) for title in across.values()],
        range=[-0.5, max(len(across), 1) - 0.5],
        side="top",
        tickangle=0,
        **common,
    )
    fig.update_yaxes(
        tickvals=list(range(len(down))),
        ticktext=[_lines(title, _NAME) for title in down.values()],
        range=[max(len(down), 1) - 0.5, -0.5],
        **common,
    )


def _heading(title: str, n_columns: int) -> str:
    """A column's name, as long as a phone can show it beside the others."""
    if n_columns <= WIDE:
        return label(title, 16)
    return _lines(title, _HEAD if n_columns <= TURNED else 9)


def _lines(title: str, room: int) -> str:
    """A name on two lines of so many characters at most, each inert; what is longer ends in an ellipsis."""
    words = label(title, 200).split()
    first: list[str] = []
    while words and (not first or len(" ".join([*first, words[0]])) <= room):
        first.append(words.pop(0))
    return "<br>".join(label(html.unescape(part), room) for part in (" ".join(first), " ".join(words)) if part)


def _cell_text(row: pd.Series, effect: Effect) -> tuple[str, str]:
    """The number and what stands under it: the interval, or why there is none."""
    value, lower, upper = (effect.factor * float(row[k]) for k in ("value", "lower", "upper"))
    if pd.isna(row["n"]):
        return "not run", ""
    if not math.isfinite(value):
        return "unread", plural(int(row["n_unread"]), "pair")
    if math.isnan(lower) or math.isnan(upper):
        why = why_no_interval(str(row["method"]), 0 if pd.isna(row["n_clusters"]) else int(row["n_clusters"]))
        return three_digits(value, signed=True), why.replace(" in ", "<br>in ")
    places = decimals_for(value, lower, upper)
    return fixed(value, places, signed=True), bounds_text(lower, upper, places)


def _cell_words(i: int, j: int, text: str, small: str, known: bool, mode: Mode) -> list[dict[str, Any]]:
    colour = ROLES[mode]["ink"] if known else MEANING[mode]["unread"]
    base = {"x": j, "y": i, "showarrow": False, "align": "center"}
    below = {"yanchor": "top", "yshift": 0} if small else {}
    words = [{**base, "text": f"<b>{text}</b>" if known else text, "font": {"size": 15, "color": colour}}]
    if small:
        words[0] |= {"yanchor": "bottom", "yshift": -4}
        words.append({**base, **below, "text": small, "font": {"size": SMALL_SIZE - 1, "color": colour}})
    return words


def _blank(i: int, j: int, mode: Mode) -> dict[str, Any]:
    """The ground of a cell, seen where the heat map has no value."""
    return {
        "type": "rect",
        "x0": j - 0.5 + _GAP / 2,
        "x1": j + 0.5 - _GAP / 2,
        "y0": i - 0.5 + _GAP / 2,
        "y1": i + 0.5 - _GAP / 2,
        "fillcolor": ROLES[mode]["blank"],
        "line": {"width": 0},
        "layer": "below",
    }


def _hatching(i: int, j: int, mode: Mode) -> dict[str, Any]:
    """Diagonal lines over one cell, as one path in axis units (a heat map itself cannot be hatched)."""
    side = 1 - 2 * _GAP
    left, top = j - side / 2, i - side / 2
    path = []
    n = int(1 / _HATCH)
    for k in range(-n, n + 1):
        c = k * _HATCH
        u0, v0, u1, v1 = max(0.0, -c), max(0.0, c), min(1.0, 1 - c), min(1.0, 1 + c)
        start = f"{left + side * u0:.4f},{top + side * v0:.4f}"
        path.append(f"M{start}L{left + side * u1:.4f},{top + side * v1:.4f}")
    return {
        "type": "path",
        "path": "".join(path),
        "line": {"color": ROLES[mode]["line"], "width": 1},
        "opacity": 0.45,
        "layer": "above",
    }

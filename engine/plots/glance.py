"""Several effects of different kinds under one another: each row has an axis of its own, its null drawn on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.plots.text import THIN, count, fixed, interval_text, label, level_text, plural
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, whiskers, with_note

NOT_RUN = "not run yet"
_ROW = 74
"""Pixels a row takes: its words, its line and the ends of its axis."""


@dataclass(frozen=True)
class GlanceRow:
    """One effect and the axis it is drawn on.

    Attributes:
        name: title of the number; any text.
        value, lower, upper: the effect and its interval, in the unit; NaN where it was not measured.
        unit: `points` of a score, `%`, or `pp` (percentage points, for a difference of shares).
        low, high: ends of the row's axis, widened where the interval does not fit.
        null: where no effect would stand.
        null_name: meaning of the null, in a word or two.
        level, method, n, n_clusters, n_unread: as in the table `metrics`.
        guess: somebody's expectation, in the unit; NaN for nothing.
        meaning: colour by meaning, for example `attacked`.
    """

    name: str
    value: float
    lower: float
    upper: float
    unit: str
    low: float
    high: float
    null: float
    null_name: str
    level: float = 0.95
    method: str = ""
    n: int = 0
    n_clusters: int = 0
    n_unread: int = 0
    guess: float = math.nan
    meaning: str = "attacked"

    @property
    def text(self) -> str:
        """Value and interval for a reader; for no event at all the count and the bound."""
        if not math.isfinite(self.value):
            return NOT_RUN
        if self.unit == "%" and self.value == 0 and self.null == 0 and math.isfinite(self.upper):
            return f"0 of {count(self.n)}, at most {self.upper:.3g}{THIN}%"
        shown = {"signed": self.null == 0 and self.low < 0, "unit": "" if self.unit == "points" else self.unit}
        ends = (self.value, self.lower, self.upper)
        return interval_text(*ends, **shown, method=self.method, n_clusters=self.n_clusters)  # type: ignore[arg-type]


def same_axis(rows: Sequence[GlanceRow]) -> list[GlanceRow]:
    """The rows with one axis for each unit, wide enough for all of them, so that they can be compared by eye."""
    made = []
    for row in rows:
        own = [_ends(asdict(other)) for other in rows if other.unit == row.unit]
        made.append(replace(row, low=min(low for low, _ in own), high=max(high for _, high in own)))
    return made


COLUMNS = [f.name for f in fields(GlanceRow)]


def prepare_glance(rows: Sequence[GlanceRow]) -> pd.DataFrame:
    """One row per effect, in the order given, with the text that stands beside it."""
    frame_ = pd.DataFrame([asdict(row) for row in rows], columns=COLUMNS)
    return frame_.assign(text=[row.text for row in rows])


def plot_glance(prepared: pd.DataFrame, *, mode: Mode = "light", title: str, note: str = "") -> go.Figure:
    """A row per effect: name and numbers on one line, below it the row's own axis with null, interval and guess.

    Args:
        prepared: from `prepare_glance`.
        mode: light, dark or print.
        title: the question on top.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    words: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = prepared.to_dict("records")  # type: ignore[assignment]
    for y, row in enumerate(rows):
        low, high = _ends(row)
        lines += _axis(row, y, low, high, mode)
        words += _words(row, y, low, high, mode)
        if math.isfinite(row["value"]):
            fig.add_trace(_effect(row, y, low, high, mode))
        if math.isfinite(row["guess"]):
            fig.add_trace(_guess(row, y, low, high, mode))
    fig.update_xaxes(range=[-0.02, 1.02], visible=False, fixedrange=True)
    fig.update_yaxes(range=[max(len(rows), 1) - 0.5, -0.62], visible=False, fixedrange=True)
    fig.update_layout(annotations=words, shapes=lines)
    if not rows:
        say(fig, "nothing has been measured yet", mode)
    alt = f"{title} " + "; ".join(f"{row['name']}: {row['text']}" for row in rows)
    body = _ROW * max(len(rows), 1)
    return with_note(frame(fig, mode, title=title, notes=_notes(prepared), alt=alt, body=body, below=30), note)


def _ends(row: dict[str, Any]) -> tuple[float, float]:
    seen = [x for x in (row["value"], row["lower"], row["upper"], row["guess"]) if math.isfinite(x)]
    return min([row["low"], *seen]), max([row["high"], *seen])


def _at(x: float, low: float, high: float) -> float:
    return (x - low) / (high - low) if high > low else 0.5


def _axis(row: dict[str, Any], y: int, low: float, high: float, mode: Mode) -> list[dict[str, Any]]:
    role = ROLES[mode]
    null = _at(row["null"], low, high)
    return [
        {"type": "line", "x0": 0, "x1": 1, "y0": y, "y1": y, "layer": "below",
         "line": {"color": role["grid"], "width": 3}},
        {"type": "line", "x0": null, "x1": null, "y0": y - 0.16, "y1": y + 0.16, "layer": "below",
         "line": {"color": role["muted"], "width": 1.5, "dash": "dot"}},
    ]  # fmt: skip


def _words(row: dict[str, Any], y: int, low: float, high: float, mode: Mode) -> list[dict[str, Any]]:
    role = ROLES[mode]
    known = math.isfinite(row["value"])
    colour = role["ink"] if known else MEANING[mode]["unread"]
    head, small = {"size": SMALL_SIZE + 1, "color": colour}, {"size": SMALL_SIZE - 1, "color": role["muted"]}
    text = f"<b>{row['text']}</b>" if known else row["text"]
    null = _at(row["null"], low, high)
    made = [
        _word(0, y, label(row["name"], 38), "left", 17, head),
        # on a phone a long name ends behind the numbers, not under them
        _word(1, y, text, "right", 17, head) | {"bgcolor": role["background"], "borderpad": 2},
        _word(0, y, _end(low, row), "left", -15, small),
        _word(1, y, _end(high, row), "right", -15, small),
    ]
    # the null's own words, where they stand clear of the ends of the axis
    if 0.14 < null < 0.86:
        made.append(_word(null, y, label(row["null_name"], 24), "center", -15, small))
    else:
        side = 2 if null <= 0.14 else 3
        made[side]["text"] = f"{_end(low if side == 2 else high, row)} ({label(row['null_name'], 24)})"
    return made


def _end(x: float, row: dict[str, Any]) -> str:
    signed = row["low"] < 0
    places = 0 if float(x).is_integer() else 2
    return fixed(x, places, signed=signed) + ("" if row["unit"] == "points" else f"{THIN}{row['unit']}")


def _word(x: float, y: int, text: str, anchor: str, shift: int, font: dict[str, Any]) -> dict[str, Any]:
    return {"x": x, "y": y, "yshift": shift, "text": text, "showarrow": False, "xanchor": anchor, "font": font}


def _effect(row: dict[str, Any], y: int, low: float, high: float, mode: Mode) -> go.Scatter:
    x, lower, upper = (_at(row[k], low, high) for k in ("value", "lower", "upper"))
    bounded = math.isfinite(lower) and math.isfinite(upper)
    colour = MEANING[mode][row["meaning"]]
    return go.Scatter(
        x=[x], y=[y], mode="markers", name=label(row["name"], 60),
        marker={"size": 11, "color": colour if bounded else ROLES[mode]["background"],
                "line": {"color": colour, "width": 2}},
        error_x=whiskers(x, lower, upper, colour, thickness=2.5, width=5),
        customdata=[[label(row["name"], 60), row["text"], count(row["n"]), count(row["n_unread"])]],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>n = %{customdata[2]}, %{customdata[3]} unread"
        "<extra></extra>",
    )  # fmt: skip


def _guess(row: dict[str, Any], y: int, low: float, high: float, mode: Mode) -> go.Scatter:
    colour = MEANING[mode]["human"]
    return go.Scatter(
        x=[_at(row["guess"], low, high)], y=[y], mode="markers", name="guess",
        marker={"size": 13, "symbol": "diamond-open", "color": colour, "line": {"color": colour, "width": 2.5}},
        customdata=[[_end(row["guess"], row)]], hovertemplate="guess: %{customdata[0]}<extra></extra>",
    )  # fmt: skip


def _notes(prepared: pd.DataFrame) -> tuple[str, ...]:
    known = prepared[prepared["value"].notna()]
    parts: list[str] = []
    if len(known):
        methods = list(dict.fromkeys(m for m in known["method"] if m))
        parts.append(f"{level_text(float(known['level'].iloc[0]))} intervals ({label('; '.join(methods), 90)})")
        sizes = ", ".join(count(int(n)) for n in known["n"])
        parts.append(f"n = {sizes} from the top" if len(known) > 1 else f"n = {sizes}")
        parts.append(f"{plural(int(known['n_unread'].sum()), 'verdict')} unread")
    if prepared["guess"].notna().any():
        parts.append("diamond: the guess")
    return tuple(parts)

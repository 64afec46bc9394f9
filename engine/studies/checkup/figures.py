"""The figure of a check-up, at any thresholds, from what its probes measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.core.errors import InputError
from engine.plots.text import THIN, count, fixed, label, level_text
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, whiskers
from engine.studies.checkup.metrics import CARDS, ProbeCard, decide, forest_rows
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table

# A check-up as a forest: every probe in units of its threshold, so that one line at 1 serves them all.

COLUMNS = (
    "probe", "title", "verdict", "allowed", "side", "arm", "protocol", "against", "value", "lower", "upper",
    "threshold", "scaled", "scaled_lower", "scaled_upper", "level", "probe_level", "method", "n", "n_clusters",
    "n_unread", "detectable",
)  # fmt: skip
HOLDS, FAILS, NOT_ASKED = "holds", "fails", "cannot be asked"
_COLOURS = {HOLDS: "defended", FAILS: "attacked"}
_SYMBOLS = {HOLDS: "circle", FAILS: "square"}
LIMIT = 6.0
"""Thresholds drawn on either side; what reaches further ends in an arrow, and its numbers stand beside it."""


def prepare_checkup(rows: pd.DataFrame) -> pd.DataFrame:
    """The probes in the order of the page.

    Args:
        rows: from `engine.studies.checkup.metrics.forest_rows`.

    Raises:
        InputError: a column is absent.
    """
    missing = [c for c in COLUMNS if c not in rows.columns]
    if missing and len(rows):
        raise InputError(f"The rows of a check-up have no column {', '.join(missing)}.")
    return rows.reindex(columns=list(COLUMNS)).reset_index(drop=True)


def plot_checkup(prepared: pd.DataFrame, *, mode: Mode = "light") -> go.Figure:
    """A row a probe: name and verdict, numbers, and the interval in thresholds; the allowed part is shaded.

    Args:
        prepared: from `prepare_checkup`.
        mode: light, dark or print.
    """
    fig = go.Figure()
    ink, muted = ROLES[mode]["ink"], ROLES[mode]["muted"]
    words: list[dict[str, Any]] = []
    summaries: list[str] = []
    for i, row in enumerate(prepared.to_dict("records")):
        asked = row["verdict"] != NOT_ASKED
        numbers = _numbers(row) if asked else ""
        summaries.append(f"{row['title']} {row['verdict']} {numbers}".strip())
        words.append(
            _words(0, i, f"{label(row['title'], 32)}: <b>{row['verdict']}</b>", ink if asked else muted, "left", mode)
        )
        words.append(_words(1, i, numbers, ink, "right", mode))
        if asked and math.isfinite(row["scaled"]):
            fig.add_trace(_row(row, i, mode))
            words += _arrows(row, i, mode)
    low, high = _range(prepared)
    _allowed(fig, prepared, low, mode)
    ticks = [t for t in (-6, -4, -2, -1, 0, 1, 2, 4, 6) if low <= t <= high]
    text = [fixed(t, 0) if t else "0" for t in ticks]
    fig.update_xaxes(
        range=[low, high], title="effect in units of its threshold", fixedrange=True, tickvals=ticks, ticktext=text
    )
    fig.update_yaxes(range=[max(len(prepared), 1) - 0.45, -0.8], visible=False, fixedrange=True)
    fig.update_layout(annotations=words)
    if prepared.empty:
        say(fig, "no probe has been asked yet", mode)
    alt = "Check-up, effect in units of the threshold: " + "; ".join(summaries)
    return frame(
        fig,
        mode,
        title="Which probes does the judge pass?",
        notes=_notes(prepared),
        alt=alt,
        body=46 * max(len(prepared), 1) + 16,
    )


def _row(row: Mapping[Any, Any], y: int, mode: Mode) -> go.Scatter:
    verdict = str(row["verdict"])
    colour = MEANING[mode][_COLOURS.get(verdict, "unread")]
    value, lower, upper = (float(row[c]) for c in ("scaled", "scaled_lower", "scaled_upper"))
    at = _clip(value)
    low, high = (_clip(x) if math.isfinite(x) else math.nan for x in (lower, upper))
    return go.Scatter(
        x=[at],
        y=[y],
        mode="markers",
        marker={
            "size": 11,
            "symbol": _SYMBOLS.get(verdict, "circle"),
            "color": colour if verdict in _COLOURS else ROLES[mode]["background"],
            "line": {"color": colour, "width": 2},
        },
        error_x=whiskers(at, low, high, colour, thickness=2.5, width=5),
        customdata=[[label(row["title"], 40), _numbers(row), str(row["allowed"]), _n(row)]],
        hovertemplate=(
            "%{customdata[0]}<br>%{customdata[1]}<br>allowed: %{customdata[2]}<br>%{customdata[3]}<extra></extra>"
        ),
        name=label(row["title"], 40),
    )


def _arrows(row: Mapping[Any, Any], y: int, mode: Mode) -> list[dict[str, Any]]:
    """A tip at the edge for an interval that goes on beyond it."""
    arrows = []
    for column, sign, tip in (("scaled_lower", -1, "◂"), ("scaled_upper", 1, "▸")):
        end = float(row[column])
        if math.isfinite(end) and sign * end > LIMIT:
            colour = MEANING[mode][_COLOURS.get(str(row["verdict"]), "unread")]
            font = {"size": SMALL_SIZE, "color": colour}
            arrows.append(
                {"x": sign * LIMIT, "y": y, "text": tip, "showarrow": False, "font": font, "xshift": 5 * sign}
            )
    return arrows


def _allowed(fig: go.Figure, prepared: pd.DataFrame, low: float, mode: Mode) -> None:
    """The allowed range of each probe: up to 1, and from -1 where either direction is a fault."""
    for i, (side, verdict) in enumerate(zip(prepared["side"], prepared["verdict"], strict=True)):
        if verdict == NOT_ASKED:
            continue
        left = -1.0 if side == "within" else low
        box = {"x0": left, "x1": 1.0, "y0": i - 0.22, "y1": i + 0.22, "layer": "below"}
        fig.add_shape(type="rect", fillcolor=ROLES[mode]["faint"], line={"width": 0}, **box)
    line = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=1, x1=1, y0=0, y1=1, yref="paper", line=line, layer="below")
    fig.add_shape(
        type="line",
        x0=0,
        x1=0,
        y0=0,
        y1=1,
        yref="paper",
        line={"color": ROLES[mode]["line"], "width": 1},
        layer="below",
    )


def _range(prepared: pd.DataFrame) -> tuple[float, float]:
    ends = [0.0, 1.0]
    for column in ("scaled", "scaled_lower", "scaled_upper"):
        ends += [_clip(float(x)) for x in prepared[column].astype(float) if math.isfinite(x)]
    if (prepared["side"] == "within").any():
        ends.append(-1.0)
    low, high = min(ends), max(ends)
    pad = 0.06 * (high - low)
    return low - pad, high + pad


def _numbers(row: Mapping[Any, Any]) -> str:
    value, lower, upper = (float(row[c]) for c in ("value", "lower", "upper"))
    if not math.isfinite(value):
        return "undefined"
    factor, places, unit = (1.0, 2, "") if row["side"] == "at least" else (100.0, 1, f"{THIN}%")
    head = fixed(factor * value, places, signed=True) + unit
    if not math.isfinite(lower):
        return f"{head}, n = {_whole(row['n'])}"
    return f"{head} [{fixed(factor * lower, places)}, {fixed(factor * upper, places)}], n = {_whole(row['n'])}"


def _n(row: Mapping[Any, Any]) -> str:
    return f"n = {_whole(row['n'])}, {_whole(row['n_clusters'])} items, {_whole(row['n_unread'])} unread"


def _notes(prepared: pd.DataFrame) -> tuple[str, ...]:
    asked = prepared[prepared["verdict"] != NOT_ASKED]
    parts = ["shaded: allowed; dashed: the threshold"]
    if len(asked):
        level = round(float(asked["probe_level"].astype(float).median()), 6)
        parts.append(f"{level_text(level)} intervals for a probe, shared among its arms")
        least, most = _whole(asked["n"].min()), _whole(asked["n"].max())
        parts.append(f"n = {least if least == most else f'{least}–{most}'}")
        parts.append(f"{_whole(asked['n_unread'].fillna(0).sum())} unread")
    if len(prepared) > len(asked):
        parts.append(f"{len(prepared) - len(asked)} could not be asked")
    return tuple(parts)


def _clip(x: float) -> float:
    return max(-LIMIT, min(LIMIT, x))


def _whole(value: Any) -> str:
    return count(0 if pd.isna(value) else int(value))


def _words(x: float, y: int, text: str, colour: str, anchor: str, mode: Mode) -> dict[str, Any]:
    return {
        "x": x,
        "xref": "paper",
        "y": y,
        "yshift": 18,
        "bgcolor": ROLES[mode]["background"],
        "borderpad": 1,
        "text": text,
        "showarrow": False,
        "xanchor": anchor,
        "font": {"size": SMALL_SIZE, "color": colour},
    }


STUDY = "checkup"
_LEAST, _MOST = 0.001, 0.999


def _dial(card: ProbeCard) -> Setting:
    def default(source: Source) -> float:
        return float((source.config.get("thresholds") or {}).get(card.name, card.threshold))

    title = f"{card.title.lower()} {card.side}"
    return Setting(card.name, title, "number", default, lambda _: _LEAST, lambda _: _MOST)


def _probes(source: Source, at: Values) -> FigureData:
    decisions = decide(source.table("checkup"), {name: float(value) for name, value in at.items()})
    made = prepare_checkup(forest_rows(decisions))
    facts = () if made["n"].notna().any() else ("n = 0, no probe was asked, so no interval",)
    return FigureData(made, {}, facts)


ENTRIES = (
    FigureSpec(
        STUDY, "probes", "Which probes does the judge pass?", _probes, plot_checkup,
        tuple(_dial(card) for card in CARDS),
        has_table("checkup", "no probe has been asked yet."),
    ),
)  # fmt: skip

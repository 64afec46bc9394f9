"""Where the judge's probability lies on the score labels, before and after an attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.errors import InputError
from engine.plots.text import count, decimals_for, fixed, label, plural, three_digits
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, with_note

COLUMNS = ["arm", "label", "value", "probability", "score", "coverage", "unread_reason"]
_ARMS = ("clean", "attacked")
_PHONE_PLOT = 260
"""Pixels between the lowest and the highest score on a screen 390 px wide."""


def prepare_distribution(
    labels: Sequence[str],
    values: Sequence[float],
    clean: Mapping[str, Any],
    attacked: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """One row per arm and label.

    Args:
        labels: the answers offered, in order.
        values: value of each on the scale.
        clean: the verdict without attack: keys score, coverage, probabilities (one per label, or None) and
            unread_reason, as in the `verdicts` table.
        attacked: the same under the attack; None while it is not known.

    Returns:
        arm (clean | attacked), label, value, probability (NaN where the judge gave none), and the arm's score,
        coverage and unread_reason ("" where read) on each of its rows.

    Raises:
        InputError: no labels, or labels, values and probabilities differ in number.
    """
    if not len(labels):
        raise InputError("A distribution needs at least one label; the judge's card names them.")
    rows: list[dict[str, Any]] = []
    for arm, verdict in zip(_ARMS, (clean, attacked), strict=True):
        if verdict is None:
            continue
        found = verdict.get("probabilities")
        probabilities = [math.nan] * len(labels) if found is None else [float(p) for p in found]
        if not len(labels) == len(values) == len(probabilities):
            raise InputError(
                f"{len(labels)} labels, {len(values)} values and {len(probabilities)} probabilities cannot be drawn "
                "together; each label needs one of each."
            )
        for name, value, probability in zip(labels, values, probabilities, strict=True):
            rows.append(
                {
                    "arm": arm,
                    "label": name,
                    "value": float(value),
                    "probability": probability,
                    "score": _number(verdict.get("score")),
                    "coverage": _number(verdict.get("coverage")),
                    "unread_reason": str(verdict.get("unread_reason") or ""),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def plot_distribution(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    names: tuple[str, str] = ("without attack", "with attack"),
    title: str = "How does the attack move this score?",
    note: str = "",
) -> go.Figure:
    """Paired bars over the score labels, the expected scores above them on the same axis.

    Args:
        prepared: from `prepare_distribution`.
        mode: light, dark or print.
        names: of the two arms.
        title: the question on top.
        note: a last part of the small print, for example "recorded"; any text.
    """
    fig = go.Figure()
    role = ROLES[mode]
    ticks = prepared.drop_duplicates("value").sort_values("value")
    values = [float(v) for v in ticks["value"]]
    step = min((b - a for a, b in pairwise(values)), default=1.0) or 1.0
    called = dict(zip(_ARMS, names, strict=True))
    arms = [arm for arm in _ARMS if (prepared["arm"] == arm).any()]
    for arm in arms:
        rows = prepared[prepared["arm"] == arm]
        fig.add_trace(_bars(rows, arm, label(called[arm], 40), step, mode))
    scores = {arm: float(prepared.loc[prepared["arm"] == arm, "score"].iloc[0]) for arm in arms}
    _score_strip(fig, prepared, scores, called, values, mode)
    largest = prepared["probability"].max()
    top = next((t for t in (0.5, 0.75, 1.0) if not largest > t), 1.0)
    fig.update_xaxes(
        range=[values[0] - 0.6 * step, values[-1] + 0.6 * step],
        tickmode="array",
        tickvals=values,
        ticktext=[label(name, 12) for name in ticks["label"]],
        tickfont={"size": 14, "color": role["ink"]},
        showgrid=False,
        fixedrange=True,
        title="score",
        anchor="y",
    )
    fig.update_layout(
        barmode="overlay",
        yaxis={
            "range": [0, top * 1.02],
            "domain": [0, 0.74],
            "dtick": 0.25,
            "title": "probability",
            "fixedrange": True,
            "tickformat": ".2~f",
        },
        yaxis2={"range": [-0.65, 1.65], "domain": [0.78, 1], "visible": False, "fixedrange": True},
    )
    alt = "Probability of each score. " + " ".join(
        f"Expected score {called[a]}: {three_digits(scores[a])}." for a in arms
    )
    notes = (_coverage(prepared, called),)
    return with_note(frame(fig, mode, title=title, notes=notes, alt=alt, body=290), note)


def _coverage(prepared: pd.DataFrame, called: dict[str, str]) -> str:
    arms = prepared.drop_duplicates("arm")
    held = [
        f"{three_digits(coverage)} {label(called[arm], 40)}"
        for arm, coverage in zip(arms["arm"], arms["coverage"], strict=True)
        if math.isfinite(coverage)
    ]
    return f"coverage {', '.join(held)}" if held else ""


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _bars(rows: pd.DataFrame, arm: str, name: str, step: float, mode: Mode) -> go.Bar:
    """Before: hollow, after: solid, so that greyscale print tells them apart; unread: grey."""
    unread = bool(rows["unread_reason"].iloc[0])
    colour = MEANING[mode]["unread" if unread else arm]
    hollow = arm == "clean"
    return go.Bar(
        x=rows["value"].tolist(),
        y=rows["probability"].tolist(),
        width=0.34 * step,
        offset=(-0.36 if hollow else 0.02) * step,
        marker={
            "color": ROLES[mode]["faint"] if hollow else colour,
            "line": {"color": colour, "width": 1.5},
            "cornerradius": 2,
        },
        customdata=[label(v, 12) for v in rows["label"]],
        hovertemplate=f"score %{{customdata}}, {name}<br>probability %{{y:.3f}}<extra></extra>",
        name=name,
    )


def _score_strip(
    fig: go.Figure,
    prepared: pd.DataFrame,
    scores: dict[str, float],
    called: dict[str, str],
    values: list[float],
    mode: Mode,
) -> None:
    """Expected scores on two lines over the bars, each with its name beside it on the emptier side."""
    role, meaning = ROLES[mode], MEANING[mode]
    middle = (values[0] + values[-1]) / 2
    read = {arm: x for arm, x in scores.items() if math.isfinite(x)}
    sides, bend = _placement(read, {arm: len(name) + 5 for arm, name in called.items()}, values)
    if bend:
        fig.add_trace(
            go.Scatter(
                x=[read["clean"], *bend[0], read["attacked"]],
                y=[1, *bend[1], 0],
                yaxis="y2",
                mode="lines",
                line={"color": role["line"], "width": 2},
                hoverinfo="skip",
            )
        )
    for arm, score in scores.items():
        height = 1 if arm == "clean" else 0
        name = label(called[arm], 40)
        if arm not in read:
            reason = prepared.loc[prepared["arm"] == arm, "unread_reason"].iloc[0] or "no score"
            _words(
                fig,
                middle,
                height,
                f"{name}: unread ({label(reason, 24)})",
                meaning["unread"],
                "center",
                role["background"],
            )
            continue
        fig.add_trace(
            go.Scatter(
                x=[score],
                y=[height],
                yaxis="y2",
                mode="markers",
                marker={
                    "size": 13,
                    "symbol": "diamond",
                    "color": role["background"] if arm == "clean" else meaning[arm],
                    "line": {"color": meaning[arm], "width": 2},
                },
                name=name,
                hovertemplate=f"expected score {name}: {three_digits(score)}<extra></extra>",
            )
        )
        text = f"{name} <b>{three_digits(score)}</b>"
        _words(fig, score, height, text, meaning[arm], sides[arm], role["background"])


def _placement(
    read: dict[str, float], characters: dict[str, int], values: list[float]
) -> tuple[dict[str, str], tuple[list[float], list[int]] | None]:
    """Anchors of the two names, and the corner of the line from before to after, so that they do not cross.

    A name stands on the side away from the other score where a phone has room for it. The line turns at the
    score whose name would otherwise lie on it.
    """
    per_unit = _PHONE_PLOT / (values[-1] - values[0] or 1.0)
    fits: dict[str, bool] = {}
    sides: dict[str, str] = {}
    for arm, score in read.items():
        other = read.get("attacked" if arm == "clean" else "clean", score)
        outside = "right" if score < other or (score == other and score > values[0]) else "left"
        room = (score - values[0]) * per_unit + 80 if outside == "right" else (values[-1] - score) * per_unit + 45
        fits[arm] = room >= 6.5 * characters[arm] + 18
        sides[arm] = outside if fits[arm] else {"left": "right", "right": "left"}[outside]
    if len(read) < 2:
        return sides, None
    via_clean = fits["attacked"] or not fits["clean"]
    return sides, ([read["clean"]], [0]) if via_clean else ([read["attacked"]], [1])


def _words(fig: go.Figure, x: float, y: float, text: str, colour: str, anchor: str, background: str) -> None:
    fig.add_annotation(
        x=x,
        y=y,
        yref="y2",
        text=text,
        showarrow=False,
        xanchor=anchor,
        xshift={"left": 11, "right": -11}.get(anchor, 0),
        bgcolor=background,  # where the words must stand on the line between the scores
        borderpad=1,
        font={"color": colour, "size": SMALL_SIZE + 1},
    )


# Before and after of each response on one score axis, sorted by change.

MOST = 40
"""Rows drawn at most: the most changed ones."""
DUMBBELL_COLUMNS = [
    "name",
    "response_id",
    "item_id",
    "clean",
    "attacked",
    "shift",
    "unread_reason",
    "n_read",
    "n_unread",
    "n_raised",
    "n_lowered",
]


def prepare_dumbbells(
    shifts: pd.DataFrame,
    *,
    attack: str,
    defense: str = "none",
    names: Mapping[str, str] | None = None,
    most: int = MOST,
) -> pd.DataFrame:
    """The most changed responses of one arm, largest rise first, unread ones last.

    Args:
        shifts: from `engine.stats.shifts.paired_shifts`.
        attack: the arm's attack.
        defense: the arm's defense.
        names: response id to what it is called; without it the id.
        most: rows kept at most. Read rows come first, by size of change whatever its sign.

    Returns:
        name, response_id, item_id, clean, attacked, shift, unread_reason; and on every row the arm's totals
        n_read, n_unread, n_raised, n_lowered (also of the rows not kept).
    """
    arm = shifts[(shifts["attack"] == attack) & (shifts["defense"] == defense)]
    shift = arm["shift"].to_numpy(dtype=float)
    read = ~np.isnan(shift)
    # Sorting by -|shift| puts NaN last; "stable" keeps ties in the order of the data.
    kept = arm.iloc[np.argsort(-np.abs(shift), kind="stable")[:most]]
    out = kept.iloc[np.argsort(-kept["shift"].to_numpy(dtype=float), kind="stable")].reset_index(drop=True)
    called = names or {}
    out["name"] = [called.get(r, r) for r in out["response_id"]]
    out["n_read"], out["n_unread"] = int(read.sum()), int((~read).sum())
    out["n_raised"], out["n_lowered"] = int((shift > 0).sum()), int((shift < 0).sum())
    return out[DUMBBELL_COLUMNS]


def plot_dumbbells(
    prepared: pd.DataFrame,
    *,
    mode: Mode = "light",
    scale: tuple[float, float] = (1.0, 5.0),
    names: tuple[str, str] = ("without attack", "with attack"),
    title: str = "Which responses does the attack move?",
) -> go.Figure:
    """A row per response: hollow before, solid after, the shift at the right; a dashed line at no change.

    Args:
        prepared: from `prepare_dumbbells`.
        mode: light, dark or print.
        names: of before and after.
        scale: lowest and highest score; the axis is fixed to it.
        title: the question on top.
    """
    rows = prepared.reset_index(drop=True)
    fig = go.Figure()
    span = scale[1] - scale[0]
    read = rows[rows["shift"].notna()]
    x: list[float | None] = []
    y: list[int | None] = []
    for i, clean, attacked in zip(read.index, read["clean"], read["attacked"], strict=True):
        x += [clean, attacked, None]
        y += [i, i, None]
    line = {"color": ROLES[mode]["line"], "width": 2}
    fig.add_trace(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False))
    fig.add_trace(_dots(read, "clean", label(names[0], 24), mode))
    fig.add_trace(_dots(read, "attacked", label(names[1], 24), mode))
    unread = rows[rows["shift"].isna()]
    if len(unread):
        fig.add_trace(_unread(unread, mode))
    _shift_column(fig, rows, mode)
    fig.update_xaxes(range=[scale[0] - 0.04 * span, scale[1] + 0.04 * span], title="expected score", fixedrange=True)
    if span <= 12:
        fig.update_xaxes(dtick=1)
    fig.update_yaxes(
        range=[max(len(rows), 1) - 0.4, -1.3],
        tickmode="array",
        tickvals=list(rows.index),
        ticktext=[label(name, 22) for name in rows["name"]],
        showgrid=False,
        fixedrange=True,
    )
    fig.update_layout(margin={"r": 74})
    return frame(
        fig,
        mode,
        title=title,
        notes=_notes(rows),
        alt=_alt(rows),
        body=24 * max(len(rows), 1) + 34,
        legend=len(rows) > 0,
    )


def _dots(rows: pd.DataFrame, side: str, name: str, mode: Mode) -> go.Scatter:
    """The ring of "before" is wider than the dot of "after", so that no change shows as a target."""
    colour, before = MEANING[mode][side], side == "clean"
    return go.Scatter(
        x=rows[side].tolist(),
        y=rows.index.tolist(),
        mode="markers",
        name=name,
        marker={
            "size": 12 if before else 9,
            "symbol": "circle",
            "color": ROLES[mode]["background"] if before else colour,
            "line": {"color": colour, "width": 2 if before else 0},
        },
        customdata=[
            [label(n, 60), three_digits(c), three_digits(a), three_digits(s, signed=True)]
            for n, c, a, s in zip(rows["name"], rows["clean"], rows["attacked"], rows["shift"], strict=True)
        ],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} → %{customdata[2]}, shift %{customdata[3]}<extra></extra>",
    )


def _unread(rows: pd.DataFrame, mode: Mode) -> go.Scatter:
    """A grey cross at the side that was read, if one was."""
    known = rows["clean"].fillna(rows["attacked"])
    return go.Scatter(
        x=[None if math.isnan(v) else v for v in known],
        y=rows.index.tolist(),
        mode="markers",
        name="unread",
        showlegend=False,
        marker={"size": 9, "symbol": "x-thin", "line": {"color": MEANING[mode]["unread"], "width": 2}},
        customdata=[[label(n, 60), label(r, 60)] for n, r in zip(rows["name"], rows["unread_reason"], strict=True)],
        hovertemplate="%{customdata[0]}<br>unread: %{customdata[1]}<extra></extra>",
    )


def _shift_column(fig: go.Figure, rows: pd.DataFrame, mode: Mode) -> None:
    """The shifts as a column right of the plot, with the dashed line where rises end."""
    role, meaning = ROLES[mode], MEANING[mode]

    def cell(y: float, text: str, colour: str) -> dict[str, Any]:
        return {
            "x": 1,
            "xref": "paper",
            "y": y,
            "yref": "y",
            "text": text,
            "showarrow": False,
            "xanchor": "right",
            "xshift": 62,
            "font": {"size": SMALL_SIZE, "color": colour},
        }

    places = decimals_for(*rows["shift"])
    cells = [
        cell(i, "unread", meaning["unread"])
        if math.isnan(shift)
        else cell(i, fixed(shift, places, signed=True) if shift else "0", role["ink"])
        for i, shift in zip(rows.index, rows["shift"], strict=True)
    ]
    if len(rows):
        cells.append(cell(-1, "shift", role["muted"]))
        rises, n_read = int((rows["shift"] > 0).sum()), int(rows["shift"].notna().sum())
        if 0 < rises < n_read:
            fig.add_shape(
                type="line",
                x0=0,
                x1=1,
                xref="paper",
                y0=rises - 0.5,
                y1=rises - 0.5,
                line={"color": role["line"], "width": 1.5, "dash": "dash"},
            )
            cells.append({**cell(rises - 0.5, "0", role["muted"]), "xshift": 14})
        fig.update_layout(annotations=cells)
    else:
        say(fig, "no responses under this attack have been judged yet", mode)


def _notes(rows: pd.DataFrame) -> tuple[str, ...]:
    if rows.empty:
        return ()
    first = rows.iloc[0]
    n = int(first["n_read"])
    shown = int(rows["shift"].notna().sum())
    cut = f"the {count(shown)} most changed of {plural(n, 'response')}" if shown < n else plural(n, "response")
    return (
        cut,
        f"{count(int(first['n_raised']))} raised, {count(int(first['n_lowered']))} lowered",
        f"{count(int(first['n_unread']))} unread",
    )


def _alt(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "No verdicts under this attack yet."
    first = rows.iloc[0]
    return (
        f"Score before and after the attack for {len(rows)} responses: of {first['n_read']} read, "
        f"{first['n_raised']} were raised and {first['n_lowered']} lowered."
    )

"""Where the judge's probability lies on the score labels, before and after an attack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from engine.errors import InputError
from engine.figures.palette import MEANING, ROLES, Mode
from engine.figures.text import label, three_digits
from engine.figures.theme import SMALL_SIZE, frame

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
        values: what each is worth on the scale.
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
        names: what the two arms are called.
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
    return frame(
        fig, mode, title=title, notes=(_coverage(prepared, called), label(note, 80) if note else ""), alt=alt, body=290
    )


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

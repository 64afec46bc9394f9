"""The figure of a screen's threshold, at any threshold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.plots.text import count, interval_text, plural, three_digits
from engine.plots.theme import MEANING, ROLES, Mode, frame
from engine.stats.detection import detection_at, fitted, pr_curve, side_of
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table

# Precision against recall of a screen, on the side its threshold was fitted on and on the other.

_SIDES = {"train": "items it was fitted on", "test": "other items"}


def prepare_curves(curves: dict[str, pd.DataFrame], threshold: float) -> pd.DataFrame:
    """Both curves under one another.

    Args:
        curves: `engine.stats.detection.pr_curve` of the sides `train` and `test`.
        threshold: the one in use.

    Returns:
        side, threshold, precision, recall, false_alarms, f1, and used: 1 on each side's row of the threshold in use.

    Raises:
        InputError: a side is missing.
    """
    if missing := [side for side in _SIDES if side not in curves]:
        raise InputError(f"The curve of the side {missing[0]} is missing; give {', '.join(_SIDES)}.")
    parts = []
    for side in _SIDES:
        curve = curves[side].sort_values("threshold", ignore_index=True)
        at = int(np.searchsorted(curve["threshold"].to_numpy(), threshold, side="right")) - 1
        parts.append(curve.assign(side=side, used=[int(i == max(0, at)) for i in range(len(curve))]))
    return pd.concat(parts, ignore_index=True)


def plot_curves(prepared: pd.DataFrame, *, n: int, items: int, mode: Mode = "light") -> go.Figure:
    """Two curves, each with the threshold in use as a large dot, and the precision of flagging everything.

    Args:
        prepared: from `prepare_curves`.
        n: texts on the measured side.
        items: their items.
        mode: light, dark or print.
    """
    fig = go.Figure()
    said = []
    for side, name in _SIDES.items():
        own = prepared[prepared["side"] == side]
        colour = MEANING[mode]["defended"] if side == "test" else MEANING[mode]["unread"]
        used = own[own["used"] == 1].iloc[0]
        fig.add_traces(_side(own, used, name, colour, mode, solid=side == "test"))
        said.append(
            f"{name}: precision {three_digits(used['precision'])}, recall {three_digits(used['recall'])}, "
            f"F1 {three_digits(used['f1'])}"
        )
    chance = {"color": ROLES[mode]["muted"], "width": 1.5, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=1, y0=0.5, y1=0.5, line=chance, layer="below")
    fig.update_xaxes(range=[-0.02, 1.03], title="recall: share of attacked texts flagged")
    fig.update_yaxes(range=[-0.02, 1.04], title="precision, both kinds weighted alike")
    notes = (
        f"measured on n = {count(n)} texts of {plural(items, 'item')}",
        "dashed: flagging at random",
    )
    return frame(
        fig,
        mode,
        title="Does perplexity give the attack away?",
        notes=notes,
        alt="; ".join(said),
        body=300,
        legend=True,
    )


def _side(own: pd.DataFrame, used: pd.Series, name: str, colour: str, mode: Mode, *, solid: bool) -> list[go.Scatter]:
    """The curve of one side and the threshold in use on it."""
    curve = go.Scatter(
        x=own["recall"],
        y=own["precision"],
        mode="lines",
        name=name,
        line={"color": colour, "width": 2.5, "dash": "solid" if solid else "dot"},
        customdata=own[["threshold", "f1"]].to_numpy(),
        hovertemplate="threshold %{customdata[0]:.1f}<br>precision %{y:.2f}, recall %{x:.2f}"
        "<br>F1 %{customdata[1]:.2f}<extra></extra>",
    )
    point = go.Scatter(
        x=[used["recall"]],
        y=[used["precision"]],
        mode="markers",
        name=f"threshold in use, {name}",
        marker={"size": 13, "color": colour, "line": {"color": ROLES[mode]["ink"], "width": 1.5}},
        hovertemplate="precision %{y:.2f}, recall %{x:.2f}<extra></extra>",
        showlegend=False,
    )
    return [curve, point]


STUDY = "perplexity_threshold"


def families(source: Source) -> tuple[str, ...]:
    """Families of attacks that were read."""
    return tuple(str(f) for f in dict.fromkeys(source.table("readings")["family"]) if f != NONE)


def curves(readings: pd.DataFrame, family: str, threshold: float) -> pd.DataFrame:
    """Precision and recall of both sides, the threshold in use marked."""
    made = {
        side: pr_curve(own.loc[own["attack"] == NONE, "value"], own.loc[own["attack"] != NONE, "value"])
        for side in ("train", "test")
        for own in [side_of(readings, family, side)]
    }
    return prepare_curves(made, threshold)


FAMILY = Setting("family", "against", "choice", lambda s: families(s)[0], choices=families)
THRESHOLD = Setting(
    "threshold", "threshold", "number", lambda _: None, high=lambda _: 1e30, words={None: "of best F1"}, none_was=0.0
)


def _curve(source: Source, at: Values) -> FigureData:
    readings, family = source.table("readings"), str(at["family"])
    threshold = float(at["threshold"] or fitted(readings, family)[1])
    test = side_of(readings, family, "test")
    found = detection_at(test, threshold, level=source.level, seed=source.seed)
    said = ", ".join(
        f"{name.replace('_', ' ')} {interval_text(i.value, i.lower, i.upper, method=i.method, n_clusters=i.n_clusters)}"
        for name, i in found.items()
    )
    more = {"n": len(test), "items": int(test["item_id"].nunique())}
    note = f"{readings['screen'].iloc[0]} under bundled:base, {source.origin}"
    facts = (
        f"at the threshold {three_digits(threshold)}: {said}",
        f"{100 * source.level:g} % intervals ({found['f1'].method})",
        f"{int(test['value'].isna().sum())} unread",
    )
    return FigureData(curves(readings, family, threshold), more, facts, note)


ENTRIES = (
    FigureSpec(
        STUDY, "curve", "Does perplexity give the attack away?", _curve, plot_curves, (FAMILY, THRESHOLD),
        has_table("readings", "nothing has been read yet."),
    ),
)  # fmt: skip

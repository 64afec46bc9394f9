"""Figures of a search for a phrase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from engine.core.schema import NONE
from engine.plots.text import count, interval_text, label, plural, three_digits
from engine.plots.theme import MEANING, ROLES, SMALL_SIZE, Mode, frame, say, whiskers
from engine.studies.figure import FigureData, FigureSpec, Source, Values, has_table

# A suffix search while it goes on, and what its phrase does on other items by length (figures 6, 7 of CAP).

AXES = {"pointwise": "expected score, points", "pairwise": "probability of being preferred"}
_SPREAD = 0.26
"""Half the width over which the candidates of a step are laid out, in steps."""


def prepare_steps(search: pd.DataFrame) -> pd.DataFrame:
    """One row per candidate: step, word, value, n_unread, queries and chosen, as in the table `suffix_search`, and x.

    x lays the candidates of a step side by side in the order in which they were tried; the chosen one stands on the
    step itself.
    """
    out = search[["step", "word", "value", "n_unread", "queries", "chosen"]].reset_index(drop=True)
    place = out.groupby("step").cumcount()
    many = out.groupby("step")["step"].transform("size").clip(lower=2)
    spread = out["step"].astype(float) + _SPREAD * (2 * place / (many - 1) - 1)
    return out.assign(x=np.where(out["chosen"] == 1, out["step"].astype(float), spread.astype(float)))


def plot_steps(prepared: pd.DataFrame, *, protocol: str, words: int, mode: Mode = "light") -> go.Figure:
    """Every candidate as a dot, the chosen words as a line.

    Args:
        prepared: from `prepare_steps`; that of a search in progress has steps without a chosen word.
        protocol: pointwise or pairwise; names the axis.
        words: length of the phrase that is sought; fixes the axis, so that it does not move while the search goes on.
        mode: light, dark or print.
    """
    tried = prepared[(prepared["chosen"] == 0) & prepared["value"].notna()]
    best = prepared[prepared["chosen"] == 1]
    names = [
        "no phrase" if step == 0 else label(word, 18) for step, word in zip(best["step"], best["word"], strict=True)
    ]
    fig = go.Figure([_tried(tried, mode), _chosen(best, names, mode)])
    fig.update_xaxes(range=[-0.25, words + 0.45], tickvals=list(range(words + 1)), title="words of the phrase")
    fig.update_yaxes(title=f"{AXES[protocol]}, mean", range=_room(prepared["value"]))
    if prepared.empty:
        say(fig, "The first words are being tried.", mode)
    unread = int((prepared["n_unread"] > 0).sum()) if len(prepared) else 0
    queries = int(prepared["queries"].max()) if len(prepared) else 0
    notes = (
        f"{plural(len(tried) + max(0, len(best) - 1), 'candidate')} tried, {count(unread)} left a prompt unread",
        f"{count(queries)} forward passes",
        "training prompts only",
    )
    values = ", ".join(f"{n} {three_digits(float(v))}" for n, v in zip(names, best["value"], strict=True))
    return frame(
        fig,
        mode,
        title="Which word raises the objective most?",
        notes=notes,
        alt=f"Objective by step of the search: {values}",
        body=300,
    )


def _tried(tried: pd.DataFrame, mode: Mode) -> go.Scatter:
    return go.Scatter(
        x=tried["x"],
        y=tried["value"],
        mode="markers",
        name="tried",
        marker={"size": 6, "color": MEANING[mode]["unread"], "opacity": 0.55},
        customdata=[[label(w)] for w in tried["word"]],
        hovertemplate="%{customdata[0]}<br>%{y:.3f}<extra></extra>",
    )


def _chosen(best: pd.DataFrame, names: Sequence[str], mode: Mode) -> go.Scatter:
    return go.Scatter(
        x=best["step"],
        y=best["value"],
        mode="lines+markers+text",
        name="chosen",
        text=[f"<b>{name}</b>" for name in names],
        textposition=["top right", *["top center"] * (len(best) - 1)],
        textfont={"size": SMALL_SIZE, "color": ROLES[mode]["ink"]},
        line={"color": MEANING[mode]["attacked"], "width": 2.5},
        marker={"size": 11, "color": [MEANING[mode]["clean" if step == 0 else "attacked"] for step in best["step"]]},
        hovertemplate="%{text}<br>%{y:.3f}<extra></extra>",
        cliponaxis=False,
    )


def prepare_lengths(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per length of the phrase.

    Args:
        metrics: of `length_metrics`; the arms stand in order of length, the one without attack first.

    Returns:
        words, mean with lower and upper, shift with shift_lower and shift_upper (NaN without words), n, n_clusters,
        n_unread and method.
    """
    means = metrics[metrics["metric"] == "mean"].reset_index(drop=True)
    shifts = metrics[metrics["metric"] == "shift"].set_index("attack")
    out = means[["attack", "value", "lower", "upper", "n", "n_clusters", "n_unread", "method"]]
    out = out.rename(columns={"value": "mean"}).assign(words=range(len(means)))
    for name, column in (("shift", "value"), ("shift_lower", "lower"), ("shift_upper", "upper")):
        out[name] = [math.nan if a == NONE else float(shifts.loc[a, column]) for a in out["attack"]]
    return out


def plot_lengths(prepared: pd.DataFrame, *, protocol: str, mode: Mode = "light") -> go.Figure:
    """Mean with its interval by number of words; the line is the mean without the phrase.

    Args:
        prepared: from `prepare_lengths`.
        protocol: pointwise or pairwise; names the axis.
        mode: light, dark or print.
    """
    texts = [_shift_text(row) for row in prepared.to_dict("records")]
    fig = go.Figure([_means(prepared, texts, mode)])
    if len(prepared):
        clean = {"color": MEANING[mode]["clean"], "width": 1.5, "dash": "dash"}
        y = float(prepared["mean"].iloc[0])
        fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=y, y1=y, line=clean, layer="below")
    else:
        say(fig, "Nothing is measured yet.", mode)
    ends = pd.concat([prepared["mean"], prepared["lower"], prepared["upper"]])
    fig.update_xaxes(range=[-0.3, max(1, len(prepared) - 1) + 0.3], dtick=1, title="words of the phrase")
    fig.update_yaxes(title=AXES[protocol], range=_room(ends))
    first: dict[Any, Any] = prepared.iloc[0].to_dict() if len(prepared) else {"n": 0, "n_clusters": 0, "method": ""}
    notes = (
        f"n = {plural(int(first['n']), 'response' if protocol == 'pointwise' else 'pair')} of "
        f"{plural(int(first['n_clusters']), 'item')} that the phrase was not learned on",
        f"{count(int(prepared['n_unread'].sum()) if len(prepared) else 0)} unread",
        f"95 % interval: {label(first['method'], 60)}" if first["method"] else "",
    )
    alt = "Held-out mean by words: " + "; ".join(
        f"{w} words {three_digits(float(m))} ({t})"
        for w, m, t in zip(prepared["words"], prepared["mean"], texts, strict=True)
    )
    return frame(fig, mode, title="What does the phrase do on other items?", notes=notes, alt=alt, body=300)


def _means(prepared: pd.DataFrame, texts: Sequence[str], mode: Mode) -> go.Scatter:
    return go.Scatter(
        x=prepared["words"],
        y=prepared["mean"],
        mode="lines+markers",
        line={"color": MEANING[mode]["attacked"], "width": 2},
        marker={"size": 11, "color": [MEANING[mode]["clean" if w == 0 else "attacked"] for w in prepared["words"]]},
        error_y=whiskers(prepared["mean"], prepared["lower"], prepared["upper"], ROLES[mode]["muted"], width=5),
        customdata=[[t] for t in texts],
        hovertemplate="%{x} words<br>%{y:.3f}<br>%{customdata[0]}<extra></extra>",
        showlegend=False,
    )


def _shift_text(row: dict[Any, Any]) -> str:
    if math.isnan(row["shift"]):
        return "without a phrase" if row["words"] == 0 else "no read pair"
    return f"shift {interval_text(row['shift'], row['shift_lower'], row['shift_upper'], signed=True)}"


def _room(values: pd.Series) -> list[float]:
    """A range with room for labels above; the whole scale where there is nothing yet."""
    known = values[np.isfinite(values.astype(float))].astype(float)
    if known.empty:
        return [0.0, 1.0]
    low, high = float(known.min()), float(known.max())
    pad = max(0.12 * (high - low), 0.02)
    return [low - pad, high + 1.6 * pad]


STUDY = "learned_suffix"


def _steps(source: Source, _: Values) -> FigureData:
    made = prepare_steps(source.table("suffix_search"))
    config = source.config
    more = {"protocol": config["protocol"], "words": int(config["words"])}
    n = len(source.manifest.get("split", {}).get("train_responses", ())) or int(config.get("prompts", 0))
    return FigureData(made, more, (f"n = {n} training prompts", "means of what was optimised, so no interval"))


def _lengths(source: Source, _: Values) -> FigureData:
    made = prepare_lengths(source.table("metrics"))
    return FigureData(made, {"protocol": source.config["protocol"]})


ENTRIES = (
    FigureSpec(
        STUDY, "steps", "Which word raises the objective most?", _steps, plot_steps, (),
        has_table("suffix_search", "no word has been tried yet."),
    ),
    FigureSpec(
        STUDY, "lengths", "What does the phrase do on other items?", _lengths, plot_lengths, (),
        has_table("metrics", "the phrase has not been measured on other items."),
    ),
)  # fmt: skip

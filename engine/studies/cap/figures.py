"""Figures of a CAP run: those of its steering, then attacks behind anchors, suffix lengths, agreement and costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd
import plotly.graph_objects as go

from engine import catalog
from engine.core.schema import NONE
from engine.plots.dots import plot_dots, prepare_dots
from engine.plots.grid import plot_grid, prepare_grid
from engine.plots.text import count, label, three_digits
from engine.plots.theme import MEANING, Mode, frame, say, whiskers
from engine.studies.cap.steering_figures import STEERING_FIGURES
from engine.studies.cap.study import CAP
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, cap_titles, has_table

UNITS = {
    "shift": "Points",
    "relative_shift": "% of the clean mean",
    "from_undefended": "Points from the undefended clean score",
}
_ALONE, _SHARED = "one response, alone", "16 responses × 4 attacks share the anchors"


@dataclass(frozen=True)
class Rows:
    """One figure of rows: metrics and what they are called, title, axis, colours, and whether they are amounts."""

    series: Mapping[str, str]
    title: str
    axis: str
    colours: Mapping[str, str]
    positive: bool = False


ROWS = {
    "spearman": Rows(
        {"spearman": "Spearman"}, "Do clean scores still agree with ratings?", "Spearman with the ratings",
        {"Spearman": "human"},
    ),
    "gap": Rows(
        {"anchor_gap": "high − low anchor"}, "Are the anchors apart for the judge?",
        "undefended score, high − low (points)", {"high − low anchor": "high"},
    ),
    "tokens": Rows(
        {"tokens_alone": _ALONE, "tokens_shared": _SHARED}, "How many tokens does a verdict take?",
        "tokens per verdict", {_ALONE: "attacked", _SHARED: "defended"}, True,
    ),
    "effect": Rows(
        {"anchor_effect": "anchors exchanged", "anchor_lift": "anchors shown"}, "Does the judge read its anchors?",
        "change of the clean score (points)", {"anchors exchanged": "defended", "anchors shown": "clean"},
    ),
    "seconds": Rows(
        {"seconds_alone": _ALONE, "seconds_shared": _SHARED}, "How long does a verdict take?", "seconds per verdict",
        {_ALONE: "attacked", _SHARED: "defended"}, True,
    ),
    "comparative": Rows(
        {"absolute_shift_sd": "score, absolute", "comparative_shift_sd": "preference, comparative"},
        "Is comparing more robust than scoring?", "shift, in clean standard deviations",
        {"score, absolute": "attacked", "preference, comparative": "clean"},
    ),
}  # fmt: skip
"""Figures with a row for each defense (for each attack: comparative)."""


def units_of(metrics: pd.DataFrame) -> tuple[str, ...]:
    """The units that a run's shifts are known in; runs of earlier versions have no distances."""
    return tuple(unit for unit in UNITS if unit == "shift" or (metrics["metric"] == unit).any())


def main_attacks(metrics: pd.DataFrame) -> pd.DataFrame:
    """Attacks that every defense met; suffixes of other lengths have a figure of their own."""
    shifts = metrics[metrics["metric"] == "shift"]
    met = shifts.groupby("attack")["defense"].nunique()
    return metrics[metrics["attack"].isin(met[met == met.max()].index) | (metrics["attack"] == NONE)]


def row_figure(name: str, metrics: pd.DataFrame) -> pd.DataFrame:
    """The table of a figure of `ROWS`."""
    series = ROWS[name].series
    if name == "comparative":
        return prepare_dots(metrics, series, by="attack", titles=cap_titles(metrics))
    rows = metrics[(metrics["attack"] == NONE) & metrics["value"].notna()]
    return prepare_dots(rows, series, titles={NONE: "No defense", **cap_titles(rows)})


# The mean score against the length of a suffix, undefended and behind CAP (figures 6 and 7 of paper 001).

LENGTH_COLUMNS = ["defense", "words", "value", "lower", "upper", "n", "n_unread"]
_LENGTH = re.compile(r"suffix(?::(\d+))?$")


def prepare_lengths(metrics: pd.DataFrame, default_words: int | None = None) -> pd.DataFrame:
    """Mean score by words of the suffix, 0 words being the clean score.

    Args:
        metrics: table `metrics`.
        default_words: words of the attack `suffix` without a number; None for this version's.
    """
    default = catalog.parse_attack("suffix").length if default_words is None else default_words
    means = metrics[metrics["metric"] == "mean"].copy()
    means["words"] = [_words(name, default) for name in means["attack"]]
    out = means[means["words"] >= 0]
    wide = [d for d in out["defense"].unique() if out.loc[out["defense"] == d, "words"].nunique() > 2]
    return out[out["defense"].isin(wide)].sort_values(["defense", "words"]).reset_index(drop=True)[LENGTH_COLUMNS]


def _words(attack: str, default: int) -> int:
    if attack == "none":
        return 0
    match = _LENGTH.match(attack)
    return int(match.group(1) or default) if match else -1


def plot_lengths(prepared: pd.DataFrame, *, titles: Mapping[str, str], mode: Mode = "light") -> go.Figure:
    """One line per defense, its clean score dashed through the plot.

    Args:
        prepared: from `prepare_lengths`.
        titles: defense to what it is called.
        mode: light, dark or print.
    """
    fig = go.Figure()
    title = "How long a suffix does it withstand?"
    if prepared.empty:
        say(fig, "no suffix of several lengths was run", mode)
        return frame(fig, mode, title=title, notes=(), alt="No lengths.", body=260)
    said = []
    for k, (defense, rows) in enumerate(sorted(prepared.groupby("defense"), key=lambda pair: pair[0] != "none")):
        name = titles.get(str(defense), str(defense))
        _line(fig, rows, str(defense), name, 0.06 * (k - 0.5), mode)
        values = zip(rows["words"], rows["value"], strict=True)
        said.append(f"{name}: " + ", ".join(f"{w} words {three_digits(v)}" for w, v in values))
    fig.update_xaxes(title="words of the suffix", dtick=1, fixedrange=True)
    fig.update_yaxes(title="mean score", fixedrange=True)
    notes = (
        "95 % intervals, clustered by item",
        f"n = {count(int(prepared['n'].min()))} responses",
        f"{count(int(prepared['n_unread'].sum()))} unread",
        "dashed: the clean score",
    )
    return frame(
        fig,
        mode,
        title=title,
        notes=notes,
        alt="Mean score by suffix length. " + "; ".join(said),
        body=280,
        legend=True,
    )


def _line(fig: go.Figure, rows: pd.DataFrame, defense: str, name: str, shift: float, mode: Mode) -> None:
    """One defense's scores, moved a little to the side so that intervals do not cover one another."""
    bare = defense == "none"
    colour = MEANING[mode]["attacked" if bare else "defended"]
    fig.add_trace(
        go.Scatter(
            x=[w + shift for w in rows["words"]],
            y=rows["value"].tolist(),
            mode="lines+markers",
            name=label(name, 30),
            line={"color": colour, "width": 2, "dash": "solid" if bare else "dot"},
            marker={"size": 9, "symbol": "circle" if bare else "square"},
            error_y=whiskers(rows["value"], rows["lower"], rows["upper"], colour, thickness=1.3, width=3),
            hovertemplate="%{x:.0f} words: %{y:.2f}<extra></extra>",
        )
    )
    clean = float(rows.loc[rows["words"] == 0, "value"].iloc[0])
    line = {"color": colour, "width": 1.2, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=clean, y1=clean, line=line, layer="below")


METRIC = Setting(
    "metric", "shift in", "choice", lambda _: "shift", choices=lambda s: units_of(s.table("metrics")), words=UNITS
)


_NO_ATTACKS = has_table("metrics", "the attacks have not been run yet.")


def _grid(source: Source, at: Values) -> FigureData:
    rows = source.table("metrics")
    made = prepare_grid(main_attacks(rows), metric=str(at["metric"]), titles=cap_titles(rows))
    return FigureData(made)


def _lengths(source: Source, _: Values) -> FigureData:
    rows = source.table("metrics")
    return FigureData(prepare_lengths(rows), {"titles": {NONE: "No defense", **cap_titles(rows)}})


def _no_lengths(source: Source) -> str:
    return _NO_ATTACKS(source) or (
        "" if len(prepare_lengths(source.table("metrics"))) else "no suffix of several lengths."
    )


def _row_entry(name: str) -> FigureSpec:
    about = ROWS[name]

    def make(source: Source, _: Values) -> FigureData:
        made = row_figure(name, source.table("metrics"))
        bounded = made["lower"].notna().any()
        return FigureData(made, {}, () if bounded else ("sums of one run, so no interval",))

    draw = partial(plot_dots, title=about.title, axis=about.axis, colours=about.colours, positive=about.positive)

    def missing(source: Source) -> str:
        if why := _NO_ATTACKS(source):
            return why
        return "" if len(row_figure(name, source.table("metrics"))) else "it did not measure this."

    return FigureSpec(CAP, name, about.title, make, draw, (), missing)


ENTRIES = (
    *STEERING_FIGURES,
    FigureSpec(
        CAP, "grid", "Do anchors hold the score?", _grid,
        partial(plot_grid, title="Do anchors hold the score?"), (METRIC,), _NO_ATTACKS,
    ),
    FigureSpec(
        CAP, "lengths", "How long a suffix does it withstand?", _lengths, plot_lengths, (), _no_lengths,
    ),
    *(_row_entry(name) for name in ROWS),
)  # fmt: skip

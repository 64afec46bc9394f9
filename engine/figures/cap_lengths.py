"""The mean score against the length of a suffix, undefended and behind CAP (figures 6 and 7 of paper 001)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from engine.figures.palette import MEANING, Mode
from engine.figures.text import count, label, three_digits
from engine.figures.theme import frame, say

COLUMNS = ["defense", "words", "value", "lower", "upper", "n", "n_unread"]
_LENGTH = re.compile(r"suffix(?::(\d+))?$")


def prepare_cap_lengths(metrics: pd.DataFrame, default_words: int) -> pd.DataFrame:
    """Mean score by words of the suffix, 0 words being the clean score.

    Args:
        metrics: table `metrics`.
        default_words: words of the attack `suffix` without a number.
    """
    means = metrics[metrics["metric"] == "mean"].copy()
    means["words"] = [_words(name, default_words) for name in means["attack"]]
    out = means[means["words"] >= 0]
    wide = [d for d in out["defense"].unique() if out.loc[out["defense"] == d, "words"].nunique() > 2]
    return out[out["defense"].isin(wide)].sort_values(["defense", "words"]).reset_index(drop=True)[COLUMNS]


def _words(attack: str, default: int) -> int:
    if attack == "none":
        return 0
    found = _LENGTH.match(attack)
    return int(found.group(1) or default) if found else -1


def plot_cap_lengths(
    prepared: pd.DataFrame, *, titles: Mapping[str, str], mode: Mode = "light", note: str = ""
) -> go.Figure:
    """One line per defense, its clean score dashed through the plot.

    Args:
        prepared: from `prepare_cap_lengths`.
        titles: defense to what it is called.
        mode: light, dark or print.
        note: a last part of the small print; any text.
    """
    fig = go.Figure()
    title = "How long a suffix does it withstand?"
    if prepared.empty:
        say(fig, "no suffix of several lengths was run", mode)
        return frame(fig, mode, title=title, notes=(note,), alt="No lengths.", body=260)
    said = []
    for k, (defense, own) in enumerate(sorted(prepared.groupby("defense"), key=lambda pair: pair[0] != "none")):
        name = titles.get(str(defense), str(defense))
        _line(fig, own, str(defense), name, 0.06 * (k - 0.5), mode)
        values = zip(own["words"], own["value"], strict=True)
        said.append(f"{name}: " + ", ".join(f"{w} words {three_digits(v)}" for w, v in values))
    fig.update_xaxes(title="words of the suffix", dtick=1, fixedrange=True)
    fig.update_yaxes(title="mean score", fixedrange=True)
    notes = (
        "95 % intervals, clustered by item",
        f"n = {count(int(prepared['n'].min()))} responses",
        f"{count(int(prepared['n_unread'].sum()))} unread",
        "dashed: the clean score",
        label(note, 80) if note else "",
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


def _line(fig: go.Figure, own: pd.DataFrame, defense: str, name: str, shift: float, mode: Mode) -> None:
    """One defense's scores, moved a little to the side so that intervals do not cover one another."""
    bare = defense == "none"
    colour = MEANING[mode]["attacked" if bare else "defended"]
    fig.add_trace(
        go.Scatter(
            x=[w + shift for w in own["words"]],
            y=own["value"].tolist(),
            mode="lines+markers",
            name=label(name, 30),
            line={"color": colour, "width": 2, "dash": "solid" if bare else "dot"},
            marker={"size": 9, "symbol": "circle" if bare else "square"},
            error_y={
                "type": "data",
                "symmetric": False,
                "color": colour,
                "thickness": 1.3,
                "width": 3,
                "array": (own["upper"] - own["value"]).fillna(0).tolist(),
                "arrayminus": (own["value"] - own["lower"]).fillna(0).tolist(),
            },
            hovertemplate="%{x:.0f} words: %{y:.2f}<extra></extra>",
        )
    )
    clean = float(own.loc[own["words"] == 0, "value"].iloc[0])
    line = {"color": colour, "width": 1.2, "dash": "dash"}
    fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=clean, y1=clean, line=line, layer="below")

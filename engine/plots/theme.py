"""The look of every figure: templates as values, a frame with title and small print, and restyling.

Nothing happens on import. `plotly.io.templates.default` is never touched, and never relied on: importing
streamlit replaces it with a placeholder whose colours are black.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from engine.plots.text import label, small_print

# Colours as values: ten categorical ones, the meaning of seven of them, and the roles of everything else.
#
# The ten were found by a search that maximised the smallest pairwise OKLab distance in normal vision and under
# simulated deuteranopia, protanopia and tritanopia (Machado, Oliveira and Fernandes 2009, severity 1), with
# hue and lightness held near the names below and a contrast of 3:1 or more against the page. A test repeats the
# check. Greyscale is served by shape: before is hollow, after is solid.

Mode = Literal["light", "dark", "print"]
MODES: tuple[Mode, ...] = ("light", "dark", "print")

MEANINGS = ("clean", "attacked", "defended", "human", "unread", "high", "low")
"""Blue, vermilion, teal, gold, grey, purple, pink: the first seven of the palette, one meaning each."""

_ON_LIGHT = (
    "#2c5ac5",
    "#cf4800",
    "#11a295",
    "#c4860c",
    "#63686a",
    "#633498",
    "#f7598a",
    "#54361a",
    "#518753",
    "#0c4b54",
)
_ON_DARK = (
    "#4da2f6",
    "#f26429",
    "#49d8d1",
    "#febc14",
    "#9ba2a5",
    "#8f5ae2",
    "#bd5876",
    "#8b5e2e",
    "#bdeeb0",
    "#188aa8",
)
PALETTE: dict[Mode, tuple[str, ...]] = {"light": _ON_LIGHT, "dark": _ON_DARK, "print": _ON_LIGHT}

MEANING: dict[Mode, dict[str, str]] = {mode: dict(zip(MEANINGS, PALETTE[mode], strict=False)) for mode in MODES}

ROLES: dict[Mode, dict[str, str]] = {
    "light": {
        "background": "#ffffff",
        "ink": "#1b1e27",
        "muted": "#5a6170",
        "line": "#8b92a0",
        "grid": "#e8eaee",
        "faint": "#dce6f9",
        "blank": "#f1f2f4",
        "below": "#9dbbee",
        "zero": "#fbfaf8",
        "above": "#f3a57c",
    },
    "dark": {
        "background": "#0e1117",
        "ink": "#eceef3",
        "muted": "#a8b0be",
        "line": "#6d7686",
        "grid": "#252b37",
        "faint": "#142843",
        "blank": "#171c26",
        "below": "#1d4f91",
        "zero": "#1c2230",
        "above": "#a2420f",
    },
    "print": {
        "background": "#ffffff",
        "ink": "#000000",
        "muted": "#3a3a3a",
        "line": "#6b6b6b",
        "grid": "#e2e2e2",
        "faint": "#f2f5fc",
        "blank": "#f4f4f4",
        "below": "#b5ccf3",
        "zero": "#fffffe",
        "above": "#f6b896",
    },
}
"""Colours that are no data: page, text, rules, the pale fill of "before", empty cells, ends of the heat scale."""


def swap_table(target: Mode) -> dict[str, str]:
    """Every colour of the other modes (lower case) to its counterpart in the target mode."""
    table: dict[str, str] = {}
    for mode in MODES:
        table.update(dict(zip(PALETTE[mode], PALETTE[target], strict=True)))
        table.update({ROLES[mode][role]: ROLES[target][role] for role in ROLES[mode]})
    return table


FONT = "'Source Sans', 'Source Sans 3', 'Source Sans Pro', 'Liberation Sans', Arial, sans-serif"
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 17, 13, 12
SMALL_LINE = 16
"""Pixels a line of small print takes."""
_LEGEND = 46
"""Pixels a legend of two lines takes."""


@lru_cache(maxsize=8)
def template(mode: Mode) -> go.layout.Template:
    """The template of that mode; print has a white page, black text and stronger rules. A figure takes a copy of it."""
    role = ROLES[mode]
    axis = {
        "automargin": True,
        "gridcolor": role["grid"],
        "gridwidth": 1,
        "linecolor": role["line"],
        "showline": False,
        "tickcolor": role["line"],
        "tickfont": {"color": role["muted"], "size": SMALL_SIZE},
        "ticks": "",
        "title": {"font": {"color": role["muted"], "size": SMALL_SIZE}, "standoff": 10},
        "zeroline": False,
        "zerolinecolor": role["line"],
    }
    layout = go.Layout(
        colorway=list(PALETTE[mode]),
        colorscale={"diverging": heat_scale(mode)},
        font={"family": FONT, "size": TEXT_SIZE, "color": role["ink"]},
        paper_bgcolor=role["background"],
        plot_bgcolor=role["background"],
        hoverlabel={
            "align": "left",
            "bgcolor": role["background"],
            "bordercolor": role["line"],
            "font": {"family": FONT, "size": TEXT_SIZE, "color": role["ink"]},
        },
        legend={
            "bgcolor": "rgba(0,0,0,0)",
            "font": {"size": SMALL_SIZE, "color": role["ink"]},
            "itemclick": False,
            "itemdoubleclick": False,
            "orientation": "v",  # a horizontal one breaks into lines on a phone and then covers the small print
            "itemwidth": 30,
            "x": 0,
            "xanchor": "left",
            "y": 1,
            "yanchor": "bottom",
        },
        margin={"l": 16, "r": 16, "t": 64, "b": 48},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": role["line"], "activecolor": role["ink"]},
        title={
            "font": {"size": TITLE_SIZE, "color": role["ink"], "weight": 600},
            "subtitle": {"font": {"size": SMALL_SIZE, "color": role["muted"]}},
            "pad": {"l": 16, "t": 16},
            "x": 0,
            "xanchor": "left",
            "xref": "container",
            "y": 1,
            "yanchor": "top",
            "yref": "container",
        },
        xaxis=axis,
        yaxis=axis,
    )
    return go.layout.Template(layout=layout)


def heat_scale(mode: Mode) -> list[list[Any]]:
    """A diverging scale, blue below zero and vermilion above, pale enough that ink reads on all of it."""
    role = ROLES[mode]
    return [[0.0, role["below"]], [0.5, role["zero"]], [1.0, role["above"]]]


def frame(
    fig: go.Figure,
    mode: Mode,
    *,
    title: str,
    notes: tuple[str, ...],
    alt: str,
    body: int,
    legend: bool = False,
    above: int = 0,
    below: int = 56,
) -> go.Figure:
    """Give a figure its template, title, small print, alt text and height; returns the same figure.

    What is known only where the figure is shown, such as the run behind it, `with_note` adds to the small print.

    Args:
        fig: the figure.
        mode: light, dark or print.
        title: the question the figure answers, at most about 45 characters.
        notes: parts of the small print under it (n, unread, interval method); inert text.
        alt: description of the figure, in a sentence; kept in `fig.layout.meta["alt"]`, the notes beside it.
        body: height of the plot itself [px], without title and axis.
        legend: leave room for a legend between small print and plot.
        above: room for an axis on top of the plot [px].
        below: room under the plot [px].
    """
    lines = small_print(*notes)
    top = 52 + SMALL_LINE * len(lines) + (_LEGEND if legend else 0) + above
    fig.update_layout(
        template=template(mode),
        title={"text": title, "subtitle": {"text": "<br>".join(lines)}},
        margin={"t": top, "b": below},
        height=top + body + below,
        meta={"alt": alt, "notes": [n for n in notes if n]},
        showlegend=legend,
    )
    return fig


def with_note(fig: go.Figure, note: str) -> go.Figure:
    """The same framed figure with a last part of the small print, any text, and room for it; empty adds nothing."""
    if note:
        notes = [*fig.layout.meta["notes"], label(note, 90)]
        lines = small_print(*notes)
        room = SMALL_LINE * (len(lines) - len(small_print(*notes[:-1])))
        fig.update_layout(
            title={"subtitle": {"text": "<br>".join(lines)}},
            margin={"t": fig.layout.margin.t + room},
            height=fig.layout.height + room,
            meta={**fig.layout.meta, "notes": notes},
        )
    return fig


def restyle(fig: go.Figure, mode: Mode) -> go.Figure:
    """A copy of one of our figures in another mode: template and every colour of the old mode exchanged."""
    table = swap_table(mode)
    spec = fig.to_plotly_json()
    spec["layout"] = {k: v for k, v in spec["layout"].items() if k != "template"}
    out = go.Figure(_recoloured(spec, table, False))
    out.update_layout(template=template(mode))
    return out


def _recoloured(node: Any, table: dict[str, str], is_colour: bool) -> Any:
    """Exchange strings that stand where a colour does; a response id that looks like a colour stays."""
    if isinstance(node, dict):
        return {k: _recoloured(v, table, "color" in k) for k, v in node.items()}
    if isinstance(node, (list, tuple)):
        return [_recoloured(v, table, is_colour) for v in node]
    if is_colour and isinstance(node, str):
        return table.get(node.lower(), node)
    return node


def whiskers(
    value: Any, lower: Any, upper: Any, colour: str, *, thickness: float = 2, width: int = 4
) -> dict[str, Any]:
    """Error bars from values to the ends of their intervals; none where an end is missing or on the wrong side.

    Args:
        value: one number, or one a point.
        lower: likewise.
        upper: likewise.
        colour: of the bars.
        thickness: of a bar [px].
        width: of its ends [px].
    """
    at, low, high = (np.atleast_1d(np.asarray(x, dtype=float)) for x in (value, lower, upper))
    known = np.isfinite(low) & np.isfinite(high)
    return {
        "type": "data",
        "symmetric": False,
        "array": np.where(known, np.maximum(high - at, 0), 0).tolist(),
        "arrayminus": np.where(known, np.maximum(at - low, 0), 0).tolist(),
        "color": colour,
        "thickness": thickness,
        "width": width,
        "visible": bool(known.any()),
    }


def say(fig: go.Figure, text: str, mode: Mode) -> None:
    """One grey sentence in the middle of a figure that has nothing to draw."""
    fig.add_annotation(
        text=text,
        x=0.5,
        y=0.5,
        xref="paper",
        yref="paper",
        showarrow=False,
        font={"color": ROLES[mode]["muted"], "size": TEXT_SIZE},
    )

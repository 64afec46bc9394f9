"""Figures for paper: one or two columns wide, with type that is still readable there.

A figure is laid out on a wider page and reduced as a whole, so that lines, marks and type keep their proportions: the
smallest type of our figures, 11 px, comes out at 7.1 pt. Type is set in Arial's metrics, which every system has a font
for (Liberation Sans, Arial, Helvetica), so that an SVG keeps its layout elsewhere; a PDF carries its fonts with it.
"""

from __future__ import annotations

import re
import struct
import textwrap
import zlib
from typing import Literal, get_args

import plotly.graph_objects as go

from engine.errors import InputError
from engine.figures.text import THIN, small_print
from engine.figures.theme import SMALL_LINE, restyle

Columns = Literal["single", "double"]
COLUMNS: tuple[Columns, ...] = get_args(Columns)
WIDTH_MM: dict[str, float] = {"single": 85.0, "double": 170.0}
"""Width on paper, of one column and of two."""
LAYOUT_PX: dict[str, int] = {"single": 374, "double": 748}
"""Width the figure is laid out at, before it is reduced."""
LEAST_PT = 7.0
"""Smallest type on paper."""
DPI = 600
PX_PER_MM = 96 / 25.4
PT_PER_PX = 0.75
_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
_TITLE_LINE = 21
"""Pixels a further line of the title takes."""
_TITLE_CHARACTERS = {"single": 38, "double": 80}
_SMALL_CHARACTERS = {"single": 54, "double": 112}
_SIZE = re.compile(r'(<svg\b[^>]*?)\swidth="([\d.]+)" height="([\d.]+)"')
SEQUENTIAL = [[0.0, "#9dbbee"], [0.5, "#2c5ac5"], [1.0, "#0b1b33"]]
"""Colours of marks by a number: the same order in grey, which a scale with two dark ends has not."""
_PNG_HEAD = 8 + 4 + 4 + 13 + 4
"""Bytes of a PNG up to the end of its IHDR chunk."""


def reduction(columns: str) -> float:
    """Pixels on paper (at 96 to the inch) over pixels of the layout."""
    return WIDTH_MM[columns] * PX_PER_MM / LAYOUT_PX[columns]


def fitting(fig: go.Figure, columns: str) -> str:
    """The columns a figure is laid out over: two where it says that its cells do not fit into one.

    Raises:
        InputError: neither single nor double.
    """
    if columns not in COLUMNS:
        raise InputError(f"Cannot lay a figure out over {columns!r} columns; choose {' or '.join(COLUMNS)}.")
    least = float((fig.layout.meta or {}).get("least_width", 0))
    return "double" if least > LAYOUT_PX[columns] else columns


def for_print(fig: go.Figure, columns: str) -> go.Figure:
    """A copy of one of our figures in print colours, laid out for that many columns.

    Title and small print are broken anew for the width, and the height grows with their lines.

    Args:
        fig: the figure, in any mode.
        columns: single or double; `fitting` has the last word.

    Raises:
        InputError: another width.
    """
    columns = fitting(fig, columns)
    out = restyle(fig, "print")
    notes = [str(n).replace(" %", f"{THIN}%") for n in (out.layout.meta or {}).get("notes", ())]
    title = str(out.layout.title.text or "")
    before = str(out.layout.title.subtitle.text or "")
    lines = small_print(*notes, line=_SMALL_CHARACTERS[columns]) if notes else before.split("<br>")
    broken = textwrap.wrap(title, _TITLE_CHARACTERS[columns]) or [""]
    further = len(broken) - 1
    more = SMALL_LINE * (len(lines) - len(before.split("<br>"))) + (_TITLE_LINE + 8) * further
    out.update_layout(
        font={"family": _FONT},
        title={"text": "<br>".join(broken), "subtitle": {"text": "<br>".join(lines)}, "pad": {"t": 16 + 14 * further}},
        width=LAYOUT_PX[columns],
        height=(out.layout.height or 480) + more,
        margin={"t": (out.layout.margin.t or 64) + more},
    )
    return _ordered_in_grey(out)


def _ordered_in_grey(fig: go.Figure) -> go.Figure:
    """Marks coloured by a number get a scale that darkens with it; cells of a heat map say their number in words."""
    for trace in fig.data:
        if getattr(getattr(trace, "marker", None), "colorscale", None):
            trace.marker.colorscale = SEQUENTIAL
    if fig.layout.coloraxis.colorscale:
        fig.layout.coloraxis.colorscale = SEQUENTIAL
    return fig


def sized_svg(svg: bytes, columns: str) -> bytes:
    """The drawing with its size in millimetres; what it shows is not changed."""
    scale = WIDTH_MM[columns] / LAYOUT_PX[columns]

    def measured(match: re.Match[str]) -> str:
        width, height = (float(match[k]) * scale for k in (2, 3))
        return f'{match[1]} width="{width:.2f}mm" height="{height:.2f}mm"'

    return _SIZE.sub(measured, svg.decode("utf-8"), count=1).encode("utf-8")


def with_density(png: bytes, dpi: int = DPI) -> bytes:
    """The image with its dots per inch written into it, so that programs place it at its size on paper."""
    per_metre = round(dpi / 0.0254)
    body = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:_PNG_HEAD] + chunk + png[_PNG_HEAD:]

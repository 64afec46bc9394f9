"""Figures as SVG, PNG or PDF files, drawn by one Chrome that stays warm.

Kaleido's own sync server answers through one queue: with two threads the answers can change places, and when
its Chrome dies the callers wait for ever. Here Kaleido runs in an event loop on a thread of ours, so each call has
its own future and a time limit. plotly.js comes from the installed package and MathJax is off: nothing calls out.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import re
import struct
import textwrap
import threading
import zlib
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Literal, get_args

import plotly
import plotly.graph_objects as go

from engine.core.errors import EngineError, InputError
from engine.plots.text import THIN, small_print
from engine.plots.theme import SMALL_LINE, restyle

# Figures for paper: one or two columns wide, with type that is still readable there.
#
# A figure is laid out on a wider page and reduced as a whole, so that lines, marks and type keep their proportions: the
# smallest type of our figures, 11 px, comes out at 7.1 pt. Type is set in Arial's metrics, which every system has a
# font for (Liberation Sans, Arial, Helvetica), so that an SVG keeps its layout elsewhere; a PDF carries its fonts.

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


def with_density(png: bytes) -> bytes:
    """The image with its dots per inch written into it, so that programs place it at its size on paper."""
    per_metre = round(DPI / 0.0254)
    body = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:_PNG_HEAD] + chunk + png[_PNG_HEAD:]


Format = Literal["svg", "png", "pdf"]
WIDTH, HEIGHT = 720, 480
_PNG_SCALE = 2
_START_S, _RENDER_S = 40, 30
_REMEDY = (
    "Install Chrome or Chromium (or run `kaleido_get_chrome`; BROWSER_PATH names one that is elsewhere), or save the "
    "figure from its own toolbar, or as HTML."
)


class RenderError(EngineError):
    """A figure could not be turned into a file."""


class _ChromeGone(Exception):  # noqa: N818 - leads to a second try, never to the user
    """Chrome failed while drawing."""


class _Chrome:
    """An event loop on its own thread with one Kaleido in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="figure-export", daemon=True)
        self._thread.start()
        try:
            self._kaleido = self._run(self._open(), _START_S)
        except BaseException:
            self._end_loop()
            raise

    def draw(self, spec: dict[str, Any], options: dict[str, Any]) -> bytes:
        """One figure as a file."""
        return bytes(self._run(self._kaleido.calc_fig(spec, options), _RENDER_S))

    def close(self) -> None:
        """End Chrome and the thread."""
        with contextlib.suppress(Exception):  # it may be dead already, and there is nobody left to tell
            self._run(self._kaleido.close(), 10)
        self._end_loop()

    def _run(self, coroutine: Any, seconds: float) -> Any:
        if not self._thread.is_alive():  # nobody would ever answer
            coroutine.close()
            raise RuntimeError("it has been stopped")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)

    async def _open(self) -> Any:
        # Imported here: it takes 0.3 s, and most processes draw no file.
        from kaleido import Kaleido

        script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
        kaleido = Kaleido(n=1, timeout=_RENDER_S, plotlyjs=script, mathjax=False)
        await kaleido.open()
        return kaleido

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)


_lock = threading.Lock()
_chrome: _Chrome | None = None


def can_render() -> bool:
    """True where a Chrome is installed; looks for the file only."""
    try:
        from choreographer.browsers.chromium import Chromium
    except ImportError:
        return False
    path = Chromium.find_browser(skip_local=False)
    return path is not None and Path(path).exists()


def render(fig: go.Figure, fmt: str = "svg", *, width: int | None = None, columns: str = "") -> bytes:
    """The figure as a file, with the print template whatever mode it was drawn in.

    The first call of a process starts Chrome (about 3 s), later ones take about 0.3 s. Safe from several threads.

    Args:
        fig: one of our figures; it is not changed.
        fmt: svg, png (at twice the size; for paper at 600 dots an inch) or pdf (with its fonts inside).
        width: of the image [px]; the figure's own or 720.
        columns: for paper, single (85 mm) or double (170 mm), in place of a width.

    Raises:
        InputError: another format or number of columns.
        RenderError: no Chrome, or it failed; the next call starts a new one.
    """
    formats = get_args(Format)
    if fmt not in formats:
        raise InputError(f"Cannot save a figure as {fmt!r}; choose {', '.join(formats[:-1])} or {formats[-1]}.")
    columns = columns and fitting(fig, columns)
    printed = for_print(fig, columns) if columns else restyle(fig, "print")
    size = {
        "width": width or printed.layout.width or WIDTH,
        "height": printed.layout.height or HEIGHT,
        "scale": _scale(fmt, printed, columns),
    }
    drawn = _drawn(printed.to_plotly_json(), {"format": fmt, **size})
    if columns and fmt == "svg":
        return sized_svg(drawn, columns)
    return with_density(drawn) if columns and fmt == "png" else drawn


def _scale(fmt: str, printed: go.Figure, columns: str) -> float:
    if fmt == "png":
        return WIDTH_MM[columns] / 25.4 * DPI / printed.layout.width if columns else _PNG_SCALE
    return reduction(columns) if columns and fmt == "pdf" else 1


def _drawn(spec: dict[str, Any], options: dict[str, Any]) -> bytes:
    try:
        return _draw(spec, options)
    except _ChromeGone:
        pass  # it may have been ended from outside since the last figure; a new one decides
    try:
        return _draw(spec, options)
    except _ChromeGone as error:
        raise RenderError(f"Chrome could not draw this figure ({error}). Try once more. {_REMEDY}") from error


def _draw(spec: dict[str, Any], options: dict[str, Any]) -> bytes:
    chrome = _warm()
    try:
        return chrome.draw(spec, options)
    except FutureTimeout:
        _drop(chrome)
        raise RenderError(f"Chrome took longer than {_RENDER_S} s for this figure. Try once more.") from None
    except Exception as error:
        _drop(chrome)
        raise _ChromeGone(str(error)) from error


def stop() -> None:
    """End the warm Chrome, if there is one."""
    with _lock:
        chrome = _chrome
    if chrome is not None:
        _drop(chrome)


def _warm() -> _Chrome:
    global _chrome
    with _lock:
        if _chrome is None:
            if not can_render():
                raise RenderError(f"Saving a figure as SVG, PNG or PDF needs Chrome, and none was found. {_REMEDY}")
            try:
                _chrome = _Chrome()
            except Exception as error:
                raise RenderError(f"Chrome did not start ({error}). {_REMEDY}") from error
            atexit.register(stop)
        return _chrome


def _drop(chrome: _Chrome) -> None:
    global _chrome
    with _lock:
        if _chrome is chrome:
            _chrome = None
    atexit.unregister(stop)
    chrome.close()

"""Picking figures for the report, and the report as the pages read it; no Streamlit element is drawn here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from engine.core.settings import get_settings
from engine.report.basket import Piece, Report, changing, keep_drawn, load_report, table_piece
from engine.studies.figure import FigureSpec, Source
from engine.studies.registry import name_of

_SAID = "report_said"


@dataclass(frozen=True)
class Pick:
    """A figure that its run folder can make again: run, figure, settings."""

    source: Source
    entry: FigureSpec
    settings: dict[str, float | int | str | None]

    @property
    def piece(self) -> Piece:
        """As a part of a report."""
        run = name_of(self.source.folder)
        return Piece(kind="figure", title=self.entry.title, run=run, entry=self.entry.name, settings=self.settings)

    @property
    def said(self) -> str:
        """Run and settings, for a reader."""
        said = self.entry.set_to(self.settings)
        return f"Run {name_of(self.source.folder)}." + (f" {said}." if said else "")


def report() -> Report:
    """The report of this home; shared between sessions, never edited.

    Raises:
        InputError: the file is damaged.
    """
    file = get_settings().data_dir / "report.json"
    try:
        held = file.stat()
    except FileNotFoundError:
        return Report()
    return _report(str(file), held.st_mtime_ns, held.st_size, held.st_ino)


@st.cache_resource(max_entries=4, show_spinner=False)
def _report(file: str, changed: int, size: int, inode: int) -> Report:
    del file, changed, size, inode  # the cache key
    return load_report(get_settings().data_dir)


def change(step: Callable[[Report], Report]) -> Report:
    """Change the report and save it; returns it as it is now.

    Raises:
        InputError: the step is not possible, or the file is damaged; nothing is written.
    """
    with changing(get_settings().data_dir) as held:
        held[0] = step(held[0])
        return held[0]


def holds(pick: Pick) -> bool:
    """True where this figure of this run at these settings is in the report."""
    piece = pick.piece
    return any(piece.same(other) for other in report().pieces)


def add(pick: Pick | None, draw: Callable[[], go.Figure], table: pd.DataFrame) -> str:
    """Put a figure into the report: by its run where that can make it again, else as it is drawn now.

    Returns:
        Its title.

    Raises:
        InputError: the report is full, or the figure too large to be kept.
    """
    if pick is not None:
        piece = pick.piece
    else:
        figure = draw()
        title = str(figure.layout.title.text or "Figure")
        piece = Piece(kind="figure", title=title[:120], drawn=keep_drawn(figure, table))
    change(lambda r: r.added(piece))
    return piece.title


def add_table(title: str, table: pd.DataFrame, about: str) -> str:
    """Put a table that no figure is drawn from into the report, as it is now.

    Returns:
        Its title.

    Raises:
        InputError: the report is full, or the table too large to be kept.
    """
    piece = table_piece(title, table, about)
    change(lambda r: r.added(piece))
    return piece.title


def keep_word(key: str, word: str) -> None:
    """Keep a word to be said beside the figure `key` once it is drawn again."""
    st.session_state[_SAID] = (key, word)


def take_word(key: str) -> str:
    """The word for this figure, once; empty where there is none."""
    held = st.session_state.get(_SAID)
    if not isinstance(held, tuple) or held[0] != key:
        return ""
    del st.session_state[_SAID]
    return str(held[1])

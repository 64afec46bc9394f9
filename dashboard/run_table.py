"""The buttons below a table of a run that belongs to no figure: into the report with its origin, or as a file."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd

from dashboard import findings, ui
from engine.studies.figure import Source, upper_first
from engine.studies.registry import name_of

MOST = 200
"""Rows of a long table that the report keeps; the file has them all."""


class AnyRun(Protocol):
    """What every page's view of a run has."""

    @property
    def source(self) -> Source:
        """The run as figures read it."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Its manifest."""

    @property
    def recorded(self) -> bool:
        """Whether it shipped with the project."""


def run_table(
    run: AnyRun, table: pd.DataFrame, *, title: str, key: str, said: str = "", label: str = "Data (CSV)", file: str = ""
) -> None:
    """The row of buttons.

    Args:
        run: whose table it is.
        table: all its rows.
        title: what the report calls it.
        key: names the buttons.
        said: the rest of its caption: settings, what is left out; a sentence.
        label: of the download.
        file: its name; by default from the key.
    """
    origin = upper_first(findings.provenance(run.manifest, recorded=run.recorded))
    first = f" The first {MOST} of {len(table):,} rows." if len(table) > MOST else ""
    about = f"{said} {origin}. Run {name_of(run.source.folder)}.{first}".strip()
    ui.table_bar(table, title=title, about=about, key=key, shown=table.head(MOST), label=label, file=file)

"""A report with its figures drawn: every piece with its number, caption, table and script."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from engine.core.errors import EngineError
from engine.core.json import dumps
from engine.plots.theme import Mode, restyle
from engine.report.basket import Drawn, Piece, Report
from engine.runs.folder import versions
from engine.studies.figure import FigureSpec, Source
from engine.studies.registry import entry_of, find_run

# The short script that makes one figure again from its run folder.

_SCRIPT = """\
# {title}
# Makes the figure again from its run folder:  python {name}.py [RUN] [OUT]
# RUN is the run folder or its name; OUT is where the files go. Needs JudgeScope {version}.
import sys
from pathlib import Path

from engine.studies.registry import entry_of, run_at
from engine.core.files import safe_csv

RUN = sys.argv[1] if len(sys.argv) > 1 else {run!r}
OUT = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
SETTINGS = {settings}

run = run_at(RUN)
figure = entry_of(run, {entry!r})
table = figure.prepare(run, **SETTINGS)
drawn = figure.plot(table, "light")

OUT.mkdir(parents=True, exist_ok=True)
(OUT / "{name}.csv").write_bytes(safe_csv(table))
drawn.write_json(OUT / "{name}.json")
drawn.write_html(OUT / "{name}.html")
print(figure.caption(table))
"""


def remake_script(entry: FigureSpec, run: str, settings: Mapping[str, object], name: str = "") -> str:
    """Python source that draws `entry` of `run` at these settings and writes its table, JSON and HTML.

    Args:
        entry: a figure of a study; its title and name are ours, so they can stand in the source.
        run: name of the run, from `engine.studies.registry.name_of`; used where no other is given.
        settings: plain numbers and text; written as Python literals, so that no text of a user can act.
        name: of the files; letters, digits, dash and underscore.
    """
    lines = [f"    {key!r}: {value!r}," for key, value in settings.items()]
    literal = "{\n" + "\n".join(lines) + "\n}" if lines else "{}"
    return _SCRIPT.format(
        title=entry.title,
        name=name or entry.name,
        version=versions()["judgescope"],
        run=run,
        settings=literal,
        entry=entry.name,
    )


KEPT = "Kept as it was drawn; not made from a run folder, so there is no script for it."
TABLE_KEPT = "Kept as it was; there is no script for it."
Find = Callable[[str], Source]


@dataclass(frozen=True)
class Filled:
    """A piece with what it stands for.

    Attributes:
        number: of the figure or table, each counted from 1; 0 for a note.
        name: of its files: number and entry.
        caption: the user's, else the figure's own.
        own_caption: the figure's own; empty for a note.
        where: run and settings, or that it was kept as drawn.
        figure: in light colours.
        table: of the figure's data.
        script: empty where it cannot be made again.
        problem: why it could not be made; empty where it could.
    """

    piece: Piece
    number: int
    name: str
    title: str = ""
    caption: str = ""
    own_caption: str = ""
    where: str = ""
    figure: go.Figure | None = None
    table: pd.DataFrame | None = None
    script: str = ""
    problem: str = ""

    @property
    def label(self) -> str:
        """Its name in a text: "Figure 3", "Table 1", "Note"."""
        return f"{self.piece.kind.capitalize()} {self.number}" if self.number else "Note"

    @property
    def shows_figure(self) -> bool:
        """True where the drawing is shown."""
        return self.figure is not None and self.piece.show != "table"

    @property
    def shows_table(self) -> bool:
        """True where the table is shown."""
        return self.table is not None and (self.figure is None or self.piece.show != "figure")


def find_source(run: str) -> Source:
    """A run by its name, read anew.

    Raises:
        RunError: there is none.
    """
    return Source(find_run(run))


def fill(report: Report, find: Find = find_source, mode: Mode = "light") -> list[Filled]:
    """Every piece drawn; one that cannot be made says why and does not stop the others.

    Args:
        report: the pieces that were picked.
        find: run name to the run; pages pass one that keeps runs in memory.
        mode: theme of the figures.
    """
    return [fill_one(piece, number, find, mode) for piece, number in numbered(report)]


def numbered(report: Report) -> list[tuple[Piece, int]]:
    """Every piece with its number: figures and tables are counted each from 1, notes are 0."""
    seen = {"figure": 0, "table": 0}
    out = []
    for piece in report.pieces:
        if piece.kind in seen:
            seen[piece.kind] += 1
        out.append((piece, seen.get(piece.kind, 0)))
    return out


def fill_one(piece: Piece, number: int, find: Find = find_source, mode: Mode = "light") -> Filled:
    """One piece, drawn."""
    if piece.kind == "note":
        return Filled(piece, 0, f"note-{piece.piece_id}")
    name = f"{number:02d}-{_file_name(piece.entry or piece.title)}"
    try:
        if piece.kind == "table" and piece.drawn is not None:
            return _table(piece, piece.drawn, number, f"table-{name}")
        if piece.drawn is not None:
            return _kept(piece, piece.drawn, number, name, mode)
        source = find(piece.run)
        entry = entry_of(source, piece.entry)
        table = entry.prepare(source, **piece.settings)
        figure, own = entry.plot(table, mode), entry.caption(table)
    except EngineError as error:
        return Filled(piece, number, name, piece.title, piece.text, problem=str(error))
    return Filled(
        piece,
        number,
        name,
        title=html.unescape(str(figure.layout.title.text)),
        caption=piece.text.strip() or own,
        own_caption=own,
        where=where_of(piece, entry),
        figure=figure,
        table=table,
        script=remake_script(entry, piece.run, piece.settings, name),
    )


def where_of(piece: Piece, entry: FigureSpec) -> str:
    """Run and figure; the settings stand in the figure's own caption, and here where that was written anew."""
    said = entry.set_to(piece.settings) if piece.text.strip() else ""
    return f"Run {piece.run}, figure {piece.entry}." + (f" {said}." if said else "")


def _kept(piece: Piece, drawn: Drawn, number: int, name: str, mode: Mode) -> Filled:
    figure = restyle(go.Figure(drawn.spec), mode)
    notes = [html.unescape(str(n)) for n in (figure.layout.meta or {}).get("notes", ())]
    title = html.unescape(str(figure.layout.title.text or piece.title))
    own = f"{title} {'; '.join(notes)}."
    table = pd.DataFrame(drawn.rows, columns=drawn.columns)
    caption = piece.text.strip() or own
    return Filled(piece, number, name, title, caption, own, KEPT, figure, table)


def _table(piece: Piece, held: Drawn, number: int, name: str) -> Filled:
    own = f"{piece.title}. {held.about}".strip()
    table = pd.DataFrame(held.rows, columns=held.columns)
    caption = piece.text.strip() or own
    return Filled(piece, number, name, piece.title, caption, own, TABLE_KEPT, table=table)


def _file_name(text: str) -> str:
    return Path(re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-").lower()[:40] or "figure").name


# The data behind a figure as strict JSON, with what a reader needs to trust it.


def strict_table(piece: Filled) -> str:
    """Title, caption, run, settings, columns and rows; what is undefined is null."""
    table = piece.table
    return dumps(
        {
            piece.piece.kind: piece.number,
            "title": piece.title,
            "caption": piece.caption,
            "run": piece.piece.run or None,
            "entry": piece.piece.entry or None,
            "settings": piece.piece.settings,
            "columns": [] if table is None else [str(c) for c in table.columns],
            "rows": [] if table is None else [list(row) for row in table.itertuples(index=False, name=None)],
        },
        indent=1,
    )

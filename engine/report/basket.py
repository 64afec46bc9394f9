"""The pieces of a report and their place: one JSON file in the user's home, written whole or not at all."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd
import plotly.graph_objects as go
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.core.errors import InputError
from engine.core.files import write_atomically
from engine.core.json import dumps, plain
from engine.plots.theme import restyle

MOST_PIECES = 60
MOST_TEXT = 8_000
"""Characters of a caption or a note."""
MOST_LINE = 300
"""Characters of the title and of the authors."""
MOST_DRAWN = 3_000_000
"""Characters of a figure or a table that is kept as it was."""
_REMOVED = 20
_FILE = "report.json"
Model = TypeVar("Model", bound=BaseModel)
Kind = Literal["figure", "table", "note"]
Show = Literal["figure", "table", "both"]


class Drawn(BaseModel):
    """A figure kept as it was drawn, since no run folder can make it again; or a table, which has no drawing.

    Attributes:
        spec: Plotly's JSON, in light colours; empty for a table.
        columns, rows: the table it was drawn from.
        about: a table's caption: its run and number of rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[Any]]
    about: str = Field(default="", max_length=MOST_TEXT)


class Piece(BaseModel):
    """One part of a report.

    Attributes:
        kind: a figure, a table without one, or a note between them.
        title: in lists.
        run, entry, settings: a figure of a study; empty where it is kept as drawn.
        drawn: a figure kept as it was drawn, or a table.
        show: as a figure, as its table, or both.
        text: the note, or the caption; an empty caption stands for the figure's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    piece_id: str = Field(default_factory=lambda: secrets.token_hex(6))
    kind: Kind
    title: str = Field(default="", max_length=MOST_LINE)
    run: str = ""
    entry: str = ""
    settings: dict[str, int | float | str | None] = Field(default_factory=dict)
    drawn: Drawn | None = None
    show: Show = "figure"
    text: str = Field(default="", max_length=MOST_TEXT)

    def same(self, other: Piece) -> bool:
        """True where both are the same figure of the same run at the same settings, or the same table."""
        if self.kind == "table":
            return (other.kind, other.title, other.drawn) == (self.kind, self.title, self.drawn)
        mine, theirs = ((p.run, p.entry, p.settings) for p in (self, other))
        return self.kind == "figure" and bool(self.entry) and mine == theirs


class Removed(BaseModel):
    """A piece that was taken out, and where it stood."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    at: int = Field(ge=0)
    piece: Piece


class Report(BaseModel):
    """Title, authors and pieces, in order; what was taken out lately can be put back."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str = Field(default="", max_length=MOST_LINE)
    authors: str = Field(default="", max_length=MOST_LINE)
    pieces: tuple[Piece, ...] = ()
    removed: tuple[Removed, ...] = ()

    def at(self, piece_id: str) -> int:
        """The position of a piece.

        Raises:
            InputError: there is none of that id.
        """
        for i, piece in enumerate(self.pieces):
            if piece.piece_id == piece_id:
                return i
        raise InputError("This part is not in the report any more; another window may have taken it out.")

    def added(self, piece: Piece) -> Report:
        """With a piece at the end; the same where that figure or table is there already.

        Raises:
            InputError: the report is full.
        """
        if any(piece.same(other) for other in self.pieces):
            return self
        if len(self.pieces) >= MOST_PIECES:
            raise InputError(
                f"The report holds {MOST_PIECES} parts already. Take one out, or export it and begin anew."
            )
        return self.model_copy(update={"pieces": (*self.pieces, piece)})

    def without(self, piece_id: str) -> Report:
        """Without a piece, which `with_last_back` returns to its place."""
        at = self.at(piece_id)
        gone = (*self.removed, Removed(at=at, piece=self.pieces[at]))[-_REMOVED:]
        return self.model_copy(update={"pieces": self.pieces[:at] + self.pieces[at + 1 :], "removed": gone})

    def with_last_back(self) -> Report:
        """The piece that was taken out last, in its place again; the same where there is none."""
        if not self.removed:
            return self
        last = self.removed[-1]
        pieces = (*self.pieces[: last.at], last.piece, *self.pieces[last.at :])
        return self.model_copy(update={"pieces": pieces, "removed": self.removed[:-1]})

    def moved(self, piece_id: str, by: int) -> Report:
        """A piece further up (negative) or down, as far as there is room."""
        at = self.at(piece_id)
        rest = [p for p in self.pieces if p.piece_id != piece_id]
        rest.insert(min(max(at + by, 0), len(rest)), self.pieces[at])
        return self.model_copy(update={"pieces": tuple(rest)})

    def changed(self, piece_id: str, **changes: object) -> Report:
        """A piece with other text, or shown another way.

        Raises:
            InputError: there is no such piece, or a value is not allowed.
        """
        at = self.at(piece_id)
        made = checked(Piece, {**self.pieces[at].model_dump(), **changes})
        return self.model_copy(update={"pieces": (*self.pieces[:at], made, *self.pieces[at + 1 :])})

    def headed(self, title: str, authors: str) -> Report:
        """With a title and authors.

        Raises:
            InputError: one is too long.
        """
        return checked(Report, {**self.model_dump(), "title": title, "authors": authors})


def keep_drawn(figure: go.Figure, table: pd.DataFrame) -> Drawn:
    """A figure as it is now, with its table.

    Raises:
        InputError: it is too large to be kept.
    """
    spec = restyle(figure, "light").to_json()
    if len(spec) > MOST_DRAWN:
        raise InputError(
            f"This figure takes {len(spec) / 1e6:.1f} MB, and a report keeps {MOST_DRAWN / 1e6:.0f} MB at most. "
            "Save it as a file instead."
        )
    return Drawn(spec=json.loads(spec), columns=[str(c) for c in table.columns], rows=_rows(table))


def table_piece(title: str, table: pd.DataFrame, about: str) -> Piece:
    """A table as it is now, as a part of a report.

    Args:
        title: plain text.
        table: all its rows.
        about: of which run, how many rows; plain text.

    Raises:
        InputError: it is too large to be kept.
    """
    held = Drawn(spec={}, columns=[str(c) for c in table.columns], rows=_rows(table), about=about[:MOST_TEXT])
    if (size := len(dumps(held.rows))) > MOST_DRAWN:
        raise InputError(
            f"This table takes {size / 1e6:.1f} MB, and a report keeps {MOST_DRAWN / 1e6:.0f} MB at most. "
            "Save it as a CSV file instead."
        )
    return Piece(kind="table", title=title[:MOST_LINE], drawn=held, show="table")


def _rows(table: pd.DataFrame) -> list[list[Any]]:
    return [plain(row) for row in table.itertuples(index=False, name=None)]


def load_report(data_dir: Path) -> Report:
    """The report of a home; an empty one where there is none.

    Raises:
        InputError: the file is damaged; nothing is written over it.
    """
    try:
        return Report.model_validate_json((data_dir / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Report()
    except (OSError, ValueError) as error:
        raise InputError(
            f"The saved report ({_FILE}) cannot be read ({_first(error)}). Mend the file or move it away; it is not "
            "changed."
        ) from None


@contextmanager
def changing(data_dir: Path) -> Iterator[list[Report]]:
    """The report as the one element of a list, to be replaced; written when the block ends without an error.

    Raises:
        InputError: as `load_report`.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(data_dir / f"{_FILE}.lock", timeout=10):
        held = [load_report(data_dir)]
        before = held[0]
        yield held
        if held[0] == before:
            return
        write_atomically(data_dir / _FILE, dumps(held[0].model_dump(), indent=1).encode())


def checked(model: type[Model], values: dict[str, Any]) -> Model:
    """Values as a model.

    Raises:
        InputError: one is not allowed; the message names it.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(f"The report cannot hold this: {_first(error)}.") from None


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return str(error)

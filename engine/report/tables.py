"""The data behind a figure as strict JSON, with what a reader needs to trust it."""

from __future__ import annotations

from engine.report.filled import Filled
from engine.strict_json import dumps


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

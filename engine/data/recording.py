"""Files of verdicts that somebody already has: read, checked and counted, never guessed.

A row that does not say what was judged is left out, with a reason. A row that says it and holds no usable
verdict becomes an unread verdict, with a reason, so that it is counted beside the mean of its arm.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from engine.data.formats.base import Imported, Source
from engine.data.formats.opening import open_source
from engine.data.formats.registry import FORMATS, TABLE, read_source, recognise
from engine.data.formats.use import as_recording
from engine.data.problems import Problem
from engine.data.reading import read_table
from engine.data.recording_rows import RecordedRow, read_rows
from engine.data.recording_rules import LAYOUTS, Layout, choose_layout, column_parts, name_fields, rule_of
from engine.errors import InputError
from engine.schema import VERDICTS, Protocol

REPEATS = "repeats an earlier row"
_SHOWN = 12
"""Most names listed in a message."""


@dataclass(frozen=True)
class Selection:
    """Which part of a file is the recording, and how its columns and labels are to be read.

    Attributes:
        where: column of the file -> the value its rows must have.
        columns: field -> column (`judge+prompt` joins two with a slash).
        labels: a spelling of the file -> the verdict it stands for.
        layout: name of a layout; empty lets the columns decide.
        format: name of a known format (`formats.registry`), or `table` for the file's own columns; empty lets the
            file's signature decide, unless a layout or columns are given.
    """

    where: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    format: str = ""


@dataclass(frozen=True)
class Recording:
    """What a file of verdicts holds; `n_read + n_unread + n_left_out == n_calls`.

    Attributes:
        verdicts: table `verdicts`, one row per judge call, read or unread.
        layout: the column set it has.
        fields: field -> column of the file.
        digest: SHA-256 (hex) of the file's bytes and the selection.
        n_records: records of the file.
        n_selected: those that `where` chose.
        n_calls: judge calls they stand for (two a record in the layout `pairwise-both`).
        unread: reason -> calls whose verdict is unread.
        left_out: reason -> calls that are not in the table.
        spellings: label as the file spells it -> how it was read ("" where the rule does not know it).
        problems: by row, and about the file.
    """

    verdicts: pd.DataFrame
    layout: Layout
    fields: dict[str, str]
    digest: str
    n_records: int
    n_selected: int
    n_calls: int
    unread: dict[str, int]
    left_out: dict[str, int]
    spellings: dict[str, str]
    problems: list[Problem]

    @property
    def protocol(self) -> Protocol:
        """Of all its verdicts."""
        return self.layout.protocol

    @property
    def n_read(self) -> int:
        """Calls with a usable verdict."""
        return len(self.verdicts) - self.n_unread

    @property
    def n_unread(self) -> int:
        """Calls without a usable verdict."""
        return sum(self.unread.values())

    @property
    def n_left_out(self) -> int:
        """Calls that are not in the table."""
        return sum(self.left_out.values())

    def describe(self) -> str:
        """The counts, the columns and the label rule as it was applied, in lines."""
        lines = [
            f"Layout {self.layout.name}: {self.layout.about}",
            "Columns: " + ", ".join(f"{f} = {c}" for f, c in self.fields.items()),
            f"{self.n_records} records, {self.n_selected} selected, {self.n_calls} judge calls: "
            f"{self.n_read} read, {self.n_unread} unread, {self.n_left_out} left out.",
        ]
        lines += [f"unread, {reason}: {n}" for reason, n in self.unread.items()]
        lines += [f"left out, {reason}: {n}" for reason, n in self.left_out.items()]
        if self.spellings:
            lines.append("Labels: " + ", ".join(f"{s!r} = {m or 'unknown'}" for s, m in self.spellings.items()))
        return "\n".join(lines)


def read_recording(file: str | Path, selection: Selection | None = None) -> Recording:
    """Read a file of verdicts, in any format of `reading.EXTENSIONS`.

    Raises:
        InputError: the file cannot be read, fits no layout (see `recording_rules.LAYOUTS`), holds no usable row,
            or has two different verdicts on one call (the message names the columns that tell them apart).
    """
    path = Path(file).expanduser()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"The recording {path.name!r} cannot be read: {error.strerror}. Check its path.") from None
    return parse_recording(path.name, content, selection)


def parse_recording(filename: str, content: bytes, selection: Selection | None = None) -> Recording:
    """As `read_recording`, from the bytes of an uploaded file; `filename` decides the format and is not opened."""
    selection = selection or Selection()
    frame, lines, problems, known = recorded_rows(filename, content, selection)
    fields = name_fields(list(map(str, frame.columns)), selection.columns)
    layout = choose_layout(fields, selection.layout or known)
    faulty = {p.row for p in problems if p.severity == "excluded"}
    chosen = _selected(frame, selection.where)
    cells = {f: _cells(frame, column) for f, column in fields.items()}
    rule = rule_of(layout, selection.labels)
    result = read_rows(cells, lines, chosen, faulty, layout, rule)
    kept, repeats = _without_repeats(result.rows, frame, [*fields.values(), *selection.where])
    left_out = Counter({**result.left_out, **({REPEATS: repeats} if repeats else {})})
    if not kept:
        reasons = ", ".join(f"{r} ({n})" for r, n in left_out.items())
        raise InputError(f"{filename!r} holds no verdict that can be used: {reasons or 'no record was selected'}.")
    unread = Counter(row.unread_reason for row in kept if row.unread_reason)
    return Recording(
        verdicts=VERDICTS.conform(pd.DataFrame([row.as_verdict(f"recorded:{filename}") for row in kept])),
        layout=layout,
        fields=fields,
        digest=_digest(content, selection),
        n_records=len(frame),
        n_selected=len(chosen),
        n_calls=len(kept) + sum(left_out.values()),
        unread=dict(unread),
        left_out=dict(left_out),
        spellings=result.spellings,
        problems=[*problems, *result.problems],
    )


def recorded_rows(
    filename: str, content: bytes, selection: Selection
) -> tuple[pd.DataFrame, list[int], list[Problem], str]:
    """Cells as text, the line of each record, what is wrong with records, and the layout of a known format.

    Raises:
        InputError: the file cannot be read, or its encoding would be a guess.
    """
    own = selection.layout or selection.columns
    if selection.format == TABLE or (own and not selection.format):
        raw = read_table(filename, content)
    else:
        source = open_source(filename, content)
        name = selection.format or recognise(source).certain
        if name:
            found = read_source(source, name)
            if len(found.verdicts) or selection.format or source.table is None or _only_votes(found, source):
                frame, layout = as_recording(found)
                return frame, list(range(1, len(frame) + 1)), found.problems_of_file(), layout.name
        raw = source.table if source.table is not None else read_table(filename, content)
    raw.require_certain(filename, "Save the file again as UTF-8: verdicts are read under no guess.")
    return raw.frame, raw.lines, list(raw.problems), ""


def _only_votes(found: Imported, source: Source) -> bool:
    """Whether the file has people's votes on pairs and no column beside the format's own that holds a verdict."""
    form = FORMATS[found.format.partition(":")[0]]
    own = {*form.telling, *(column for columns in form.needs for column in columns)}
    fields = name_fields(sorted(source.columns), {})
    judged = {f for layout in LAYOUTS.values() for fs in layout.verdict for f in fs}
    return bool(found.comparisons["human"].notna().any()) and all(
        column in own for field, column in fields.items() if field in judged
    )


def _selected(frame: pd.DataFrame, where: Mapping[str, str]) -> list[int]:
    keep = pd.Series(True, index=frame.index)
    for column, value in where.items():
        if column not in frame.columns:
            raise InputError(f"{column}={value}: the file has no column {column!r}. It has: {_listed(frame.columns)}.")
        hit = frame[column] == value
        if not hit.any():
            found = frame[column].dropna().unique()
            raise InputError(f"{column}={value}: no record has that value. The column holds {_listed(found)}.")
        keep &= hit
    return [int(i) for i in keep.to_numpy().nonzero()[0]]


def _cells(frame: pd.DataFrame, column: str) -> list[str]:
    """The cells of a column, blank where missing; of joined columns, with a slash between."""
    first, *others = (
        frame[part].fillna("").str.strip() for part in column_parts(column, list(map(str, frame.columns)))
    )
    for more in others:
        first = first.str.cat(more, sep="/")
    return [str(v) for v in first]


def _without_repeats(rows: list[RecordedRow], frame: pd.DataFrame, used: list[str]) -> tuple[list[RecordedRow], int]:
    """The rows without those that say the same again, and how many said the same.

    Raises:
        InputError: two rows give different verdicts on one call.
    """
    first: dict[tuple[str, ...], RecordedRow] = {}
    repeats = 0
    for row in rows:
        before = first.setdefault(row.call, row)
        if before is row:
            continue
        if before.answer != row.answer:
            raise InputError(_conflict(before, row, frame, used))
        repeats += 1
    return list(first.values()), repeats


def _conflict(before: RecordedRow, row: RecordedRow, frame: pd.DataFrame, used: list[str]) -> str:
    a, b = frame.iloc[before.row - 1], frame.iloc[row.row - 1]
    joined = {part for column in used for part in column.split("+")}
    apart = [c for c in map(str, frame.columns) if c not in joined and a[c] != b[c] and str(a[c]) != str(b[c])]
    # Columns that hold free text or counts differ by themselves and select nothing.
    telling = [c for c in apart if frame[c].nunique() <= max(2, len(frame) // 20)]
    hint = " or ".join(f"{c}={_listed(frame[c].dropna().unique(), 4)}" for c in telling)
    return (
        f"Rows {before.row} and {row.row} give different verdicts on one call ({', '.join(p for p in row.call if p)}). "
        + (
            f"Choose one recording: {hint}; or make the column part of the judge's name, map.judge=judge+{telling[0]}."
            if telling
            else "Keep one verdict for each call, or give the recordings a column that tells them apart."
        )
    )


def _listed(values: object, most: int = _SHOWN) -> str:
    shown = [str(v) for v in values]  # type: ignore[attr-defined]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def _digest(content: bytes, selection: Selection) -> str:
    chosen = [sorted(m.items()) for m in (selection.where, selection.columns, selection.labels)]
    named = [selection.format] if selection.format else []  # a digest of before there were formats stays the same
    packed = json.dumps([hashlib.sha256(content).hexdigest(), chosen, selection.layout, *named])
    return hashlib.sha256(packed.encode("ascii")).hexdigest()

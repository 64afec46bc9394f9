"""Files of verdicts that somebody already has: read, checked and counted, never guessed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from engine.core.errors import InputError, listed, shown
from engine.core.files import read_file, user_path
from engine.core.schema import VERDICTS, Protocol
from engine.data.formats.base import Imported, Source, records_of
from engine.data.formats.registry import FORMATS, TABLE, open_source, read_source, recognise
from engine.data.formats.use import as_recording
from engine.data.raw import Problem, cells_of
from engine.data.reading import read_table
from engine.data.recording_rules import (
    LAYOUTS,
    WHOLE_FILE,
    Layout,
    RecordedRow,
    choose_layout,
    column_parts,
    name_fields,
    read_rows,
    rule_of,
)

REPEATS = "repeats an earlier row"
NO_CALL = "holds no verdict of a judge"
FURTHER = "further reasons"
_REASONS = 50
"""Most reasons that are told apart; the counts are complete."""


READING = ("encoding", "delimiter", "sheet")
"""Ways of reading a file that a selection may set, as `read_table` takes them."""


@dataclass(frozen=True)
class Selection:
    """Choice of the part of a file that is the recording, and the reading of its columns and labels.

    Attributes:
        where: column of the file -> the value its rows must have.
        columns: field -> column (`judge+prompt` joins two with a slash).
        labels: a spelling of the file -> the verdict it stands for.
        layout: name of a layout; empty lets the columns decide.
        format: name of a known format (`formats.registry`), or `table` for the file's own columns; empty lets the
            file's signature decide, unless a layout or columns are given.
        reading: some of `READING`; what is absent is left to the reader.
    """

    where: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    format: str = ""
    reading: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """Content of a file of verdicts; `n_read + n_unread + n_left_out == n_calls`.

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
        passed: what the file says beside the scores that are read ("true", "false") -> calls.
        first_judge: the column that names judges, its first part where it is joined, and the first verdict's cell.
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
    passed: dict[str, int] = field(default_factory=dict)
    first_judge: tuple[str, str] = ("", "")

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

    @property
    def warnings(self) -> list[str]:
        """About the file as a whole."""
        return [p.what for p in self.problems if p.severity == "warning" and p.where == WHOLE_FILE]

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
    path = user_path(str(file))
    return parse_recording(path.name, read_file(path), selection)


def parse_recording(filename: str, content: bytes, selection: Selection | None = None) -> Recording:
    """As `read_recording`, from the bytes of an uploaded file; `filename` decides the format and is not opened."""
    selection = selection or Selection()
    raw = recorded_rows(filename, content, selection)
    fields = name_fields(list(map(str, raw.frame.columns)), selection.columns)
    layout = choose_layout(fields, selection.layout or raw.layout)
    faulty = {p.row for p in raw.problems if p.severity == "excluded"}
    chosen = _selected(raw.frame, selection.where)
    cells = {f: _cells(raw.frame, column) for f, column in fields.items()}
    result = read_rows(cells, raw.places, chosen, faulty, layout, rule_of(layout, selection.labels))
    kept, repeats = _without_repeats(result.rows, raw, fields, selection.where)
    out, n_out = raw.left_out(bool(selection.where))
    left_out = Counter({**result.left_out, **({REPEATS: repeats} if repeats else {})}) + out
    if not kept:
        reasons = ", ".join(f"{r} ({n})" for r, n in _few(left_out).items())
        raise InputError(f"{filename!r} holds no verdict that can be used: {reasons or 'no record was selected'}.")
    unread = Counter(row.unread_reason for row in kept if row.unread_reason)
    passed = Counter(cells["pass"][row.row - 1] for row in kept if not row.unread_reason) if "pass" in cells else {}
    return Recording(
        verdicts=VERDICTS.conform(pd.DataFrame([row.as_verdict(f"recorded:{filename}") for row in kept])),
        layout=layout,
        fields=fields,
        digest=_digest(content, selection),
        n_records=raw.n_records,
        n_selected=len({raw.places[i] for i in chosen}) + n_out,
        n_calls=len(kept) + left_out.total(),
        unread=_few(unread),
        left_out=_few(left_out),
        spellings=result.spellings,
        problems=[*raw.problems, *result.problems],
        passed={word: n for word, n in passed.items() if word},
        first_judge=_first_judge(raw.frame, fields, kept[0].row - 1),
    )


def _first_judge(frame: pd.DataFrame, fields: Mapping[str, str], index: int) -> tuple[str, str]:
    if "judge" not in fields:
        return "", ""
    column = column_parts(fields["judge"], list(map(str, frame.columns)))[0]
    return column, str(frame[column].iloc[index])


def _few(reasons: Counter[str]) -> dict[str, int]:
    """The counts by reason, the rarest together where there are very many reasons."""
    if len(reasons) <= _REASONS:
        return dict(reasons)
    kept = dict(reasons.most_common(_REASONS - 1))
    return {**kept, FURTHER: reasons.total() - sum(kept.values())}


@dataclass(frozen=True)
class RawRows:
    """The rows of a file before they are read as verdicts.

    Attributes:
        frame: cells as text; several rows a record, or none, in a known format.
        places: number and line of the record of each row.
        problems: what is wrong with records.
        layout: of a known format; empty otherwise.
        n_records: records of the file.
        outside: number of each record of a known format without a row -> why.
        calls: judge calls that such a record stands for.
    """

    frame: pd.DataFrame
    places: list[tuple[int, int]]
    problems: list[Problem]
    layout: str
    n_records: int
    outside: Mapping[int, str] = field(default_factory=dict)
    calls: int = 1

    def left_out(self, some: bool) -> tuple[Counter[str], int]:
        """Calls by reason, and records, that are in no row; where only `some` rows are chosen, those of bad records."""
        reasons = [why for why in self.outside.values() if not (some and why == NO_CALL)]
        return Counter({why: n * self.calls for why, n in Counter(reasons).items()}), len(reasons)


def recorded_rows(filename: str, content: bytes, selection: Selection) -> RawRows:
    """The rows of a file, of its own columns or of the known format it has.

    Raises:
        InputError: the file cannot be read, or its encoding would be a guess.
    """
    own = selection.layout or selection.columns
    if selection.format == TABLE or (own and not selection.format):
        raw = read_table(filename, content, **selection.reading)
    else:
        encoding, delimiter, sheet = map(selection.reading.get, READING)
        source = open_source(filename, content, encoding=encoding, delimiter=delimiter, sheet=sheet)
        name = selection.format or recognise(source).certain
        if name:
            held = read_source(source, name)
            if len(held.verdicts) or selection.format or source.table is None or _only_votes(held, source):
                return _rows_of(held, source)
        raw = source.table if source.table is not None else read_table(filename, content, **selection.reading)
    raw.require_certain(filename, "Say which it is with --encoding NAME (read.encoding=NAME in a judge's spec).")
    return RawRows(raw.frame, list(enumerate(raw.lines, start=1)), list(raw.problems), "", len(raw.frame))


def _rows_of(held: Imported, source: Source) -> RawRows:
    """The verdicts of a known format as rows, and its records that hold none."""
    frame, layout = as_recording(held)
    records = records_of(held.verdicts)
    reasons = {p.row: p.what for p in reversed(held.problems) if p.severity == "excluded" and p.row is not None}
    outside = {n: reasons.get(n, NO_CALL) for n in sorted(set(range(1, held.n_records + 1)) - set(records))}
    lines = source.table.lines if source.table else range(1, held.n_records + 1)
    form = FORMATS[held.format.partition(":")[0]]
    return RawRows(
        frame,
        [(n, lines[n - 1]) for n in records],
        held.problems_of_file(),
        layout.name,
        held.n_records,
        outside,
        form.calls,
    )


def _only_votes(found: Imported, source: Source) -> bool:
    """True where the file has people's votes on pairs and no column beside the format's own that holds a verdict."""
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
        asked = listed([f"{column}={value}"])
        if column not in frame.columns:
            raise InputError(f"{asked}: the file has no column {shown(column)}. It has: {listed(frame.columns)}.")
        hit = frame[column] == value
        if not hit.any():
            found = frame[column].dropna().unique()
            raise InputError(f"{asked}: no record has that value. The column holds {listed(found)}.")
        keep &= hit
    return [int(i) for i in keep.to_numpy().nonzero()[0]]


def _cells(frame: pd.DataFrame, column: str) -> list[str]:
    """The cells of a column, blank where missing; of joined columns, with a slash between."""
    first, *others = (
        frame[part].fillna("").str.strip() for part in column_parts(column, list(map(str, frame.columns)))
    )
    for more in others:
        first = first.str.cat(more, sep="/")
    return list(map(str, cells_of(first)))


def _without_repeats(
    rows: list[RecordedRow], raw: RawRows, fields: Mapping[str, str], where: Mapping[str, str]
) -> tuple[list[RecordedRow], int]:
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
            raise InputError(_conflict(before, row, raw, fields, where))
        repeats += 1
    return list(first.values()), repeats


def _conflict(
    before: RecordedRow, row: RecordedRow, raw: RawRows, fields: Mapping[str, str], where: Mapping[str, str]
) -> str:
    frame = raw.frame
    a, b = frame.iloc[before.row - 1], frame.iloc[row.row - 1]
    joined = {part for column in (*fields.values(), *where) for part in column.split("+")}
    apart = [c for c in map(str, frame.columns) if c not in joined and a[c] != b[c] and str(a[c]) != str(b[c])]
    # Columns that hold free text or counts differ by themselves and select nothing.
    telling = [c for c in apart if frame[c].nunique() <= max(2, len(frame) // 20)]
    hint = " or ".join(in_spec(c, v) for c in telling for v in (a[c], b[c]) if isinstance(v, str))
    numbers = [raw.places[one.row - 1][0] for one in (before, row)]
    call = listed(p for p in row.call if p)
    judge = f"{fields['judge']}+" if "judge" in fields else ""
    return f"Rows {numbers[0]} and {numbers[1]} give different verdicts on one call ({call}). " + (
        f"Choose one recording: {hint}; or make the column part of the judge's name, map.judge={judge}{telling[0]}."
        if telling
        else "Keep one verdict for each call, or give the recordings a column that tells them apart."
    )


def in_spec(column: str, value: str) -> str:
    """`column=value` as a judge's spec takes it."""
    escaped = (part.replace("%", "%25").replace("&", "%26") for part in (column, value))
    return "=".join(escaped)


def _digest(content: bytes, selection: Selection) -> str:
    chosen = [sorted(m.items()) for m in (selection.where, selection.columns, selection.labels)]
    read = [sorted(selection.reading.items())] if selection.reading else []
    named = [selection.format] if selection.format else []  # a digest of before there were formats stays the same
    packed = json.dumps([hashlib.sha256(content).hexdigest(), chosen, selection.layout, *named, *read])
    return hashlib.sha256(packed.encode("ascii")).hexdigest()

"""An uploaded file on its way to a data set: read as the user wants, under a preset that fits, checked.

Caches are keyed by digests and choices; the content itself never is part of a key.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import streamlit as st

from dashboard.datasets import digest
from engine.core.errors import EngineError
from engine.data.dataset import Dataset, build_dataset
from engine.data.formats.base import Imported
from engine.data.formats.conversion import Written, write_as
from engine.data.formats.registry import FORMATS, File, Recognition, open_source, read_known, recognise
from engine.data.guessing import Guess, guess_columns
from engine.data.presets import Preset, best_preset
from engine.data.raw import RawTable
from engine.data.reading import read_table
from engine.data.recording import Recording, Selection, parse_recording, recorded_rows
from engine.studies.recorded.metrics import recorded_metrics, recorded_remarks

MAX_UPLOAD_MB = 100
"""A file of data or verdicts, and each file that belongs to it; docs/security.md names all limits on uploads."""


class Reading(NamedTuple):
    """The user's wishes for reading a file; None leaves it to the reader."""

    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None


class Opened(NamedTuple):
    """A file as it was read.

    Attributes:
        raw: its table.
        reading_id: names its rows; choices about them belong to it.
        reading: wishes for reading it, a preset's included.
        preset: the preset that is applied.
        fitting: the presets that could be.
        sample: the telling lines, where the preset said which encoding a guess is.
    """

    raw: RawTable
    reading_id: str
    reading: Reading
    preset: Preset | None
    fitting: list[Preset]
    sample: list[tuple[int, str]]


@st.cache_resource(max_entries=4, show_spinner="Reading the file …")
def _read(name: str, content_digest: str, reading: Reading, _content: bytes) -> tuple[RawTable, str]:
    """The table, and what names its rows: another encoding of the same lines keeps what was said about them."""
    raw = read_table(name, _content, **reading._asdict())
    named = (content_digest, raw.part, raw.lines, len(raw.frame.columns))
    return raw, digest(repr(named).encode("utf-8"))


def open_upload(name: str, content: bytes, reading: Reading, presets: list[Preset], wanted: str | None) -> Opened:
    """Read a file, and apply the preset that fits.

    Args:
        name: of the file.
        content: its bytes.
        reading: the user's own choices; a preset never overrides one.
        presets: all that are saved.
        wanted: name of the preset to apply; empty for none, None for the one that fits best.

    Raises:
        InputError: the file cannot be read at all.
    """
    content_digest = digest(content)
    raw, reading_id = _read(name, content_digest, reading, content)
    if wanted is None and not any(p.fits(raw.frame.columns) for p in presets):
        reading = _separator_of_a_preset(name, content_digest, reading, raw, presets, content)
        raw, reading_id = _read(name, content_digest, reading, content)
    fitting = [p for p in presets if p.fits(raw.frame.columns)]
    preset = best_preset(fitting, raw.frame.columns)
    if wanted is not None:
        preset = next((p for p in fitting if p.name == wanted), None)
    # A preset may answer the question which encoding a guess is; it never overrides what is certain.
    meant = next((c for c in raw.candidates if preset and preset.encoding in (c.encoding, *c.same)), None)
    if preset and meant:
        reading = reading._replace(encoding=preset.encoding)
        raw, reading_id = _read(name, content_digest, reading, content)
    return Opened(raw, reading_id, reading, preset, fitting, meant.lines if meant else [])


def _separator_of_a_preset(
    name: str, content_digest: str, reading: Reading, raw: RawTable, presets: list[Preset], content: bytes
) -> Reading:
    """The reading under the separator of a preset whose columns the file then has; else as it was."""
    if not raw.delimiter or reading.delimiter is not None:
        return reading
    for preset in reversed(presets):
        if preset.delimiter in ("", raw.delimiter):
            continue
        tried = reading._replace(delimiter=preset.delimiter)
        try:
            other, _ = _read(name, content_digest, tried, content)
        except EngineError:
            continue
        if preset.fits(other.frame.columns):
            return tried
    return reading


@st.cache_data(max_entries=4, show_spinner=False)
def guessed(reading_id: str, reading: Reading, _frame: pd.DataFrame) -> Guess:
    """The guess at its columns; the arguments before `_frame` identify it."""
    del reading_id, reading  # part of the cache key only
    return guess_columns(_frame)


@st.cache_resource(max_entries=4, show_spinner="Checking every row …")
def mapped(
    title: str,
    reading_id: str,
    reading: Reading,
    mapping: tuple[tuple[str, str], ...],
    task: str,
    left_out: tuple[tuple[int, str], ...],
    _raw: RawTable,
) -> Dataset:
    """The data set this file gives under this mapping; the arguments before `_raw` identify it.

    Raises:
        InputError: the mapping does not fit the file.
    """
    del reading_id, reading  # part of the cache key only
    return build_dataset(_raw, dict(mapping), task=task, name=title, left_out=dict(left_out))


# Cached recognition and reading of files of known formats; the arguments before `_content` identify them.


@st.cache_resource(max_entries=4, show_spinner="Looking at the file …")
def recognition(
    name: str, content_digest: str, reading: Reading, _content: bytes
) -> tuple[Recognition, RawTable | None]:
    """Formats of the file, and its table where the encoding is a guess.

    None are recognised where it cannot be read; its reader then says why.
    """
    del content_digest  # part of the cache key only
    try:
        source = open_source(name, _content, **reading._asdict())
    except EngineError:
        return Recognition(), None
    return recognise(source), source.table if source.table is not None and source.table.is_guess else None


@st.cache_resource(max_entries=4, show_spinner="Reading the file …")
def imported(
    name: str,
    content_digest: str,
    form: str,
    reading: Reading,
    companions: tuple[tuple[str, str], ...],
    _content: bytes,
    _companions: list[File],
) -> Imported:
    """The file in a format.

    Raises:
        InputError: it is not of this format, or nothing in it can be used.
    """
    del content_digest, companions  # part of the cache key only
    return read_known(name, _content, form, companions=_companions, **reading._asdict())


@st.cache_resource(max_entries=4, show_spinner="Writing …")
def written(content_digest: str, form: str, to: str, _found: Imported) -> Written:
    """The import in another format.

    Raises:
        InputError: it lacks what that format is about.
    """
    del content_digest, form  # part of the cache key only
    return write_as(_found, to)


def choices() -> dict[str, str]:
    """Every name that `read_known` takes, with its title."""
    out: dict[str, str] = {}
    for name, form in FORMATS.items():
        out[name] = form.title
        for aspect in form.aspects[1:]:
            out[f"{name}:{aspect}"] = f"{form.title}, {aspect}"
    return out


# Cached reading of files of verdicts, keyed by content digest.


@st.cache_resource(max_entries=4, show_spinner="Reading the verdicts …")
def recording(
    name: str, content_digest: str, where: tuple[tuple[str, str], ...], form: str, _content: bytes
) -> Recording:
    """A file of verdicts, the rows chosen by `where`; the arguments before `_content` identify it.

    Raises:
        InputError: the file holds no verdict that can be used; the text says why.
    """
    del content_digest  # part of the cache key only
    return parse_recording(name, _content, Selection(where=dict(where), format=form))


@st.cache_data(max_entries=4, show_spinner=False)
def few_values(name: str, content_digest: str, most: int, form: str, _content: bytes) -> dict[str, list[str]]:
    """The columns with at least two and at most `most` values, and these; empty if the file cannot be read."""
    del content_digest  # part of the cache key only
    try:
        frame = recorded_rows(name, _content, Selection(format=form)).frame
    except EngineError:
        return {}
    values = {str(column): sorted(frame[column].dropna().unique()) for column in frame.columns}
    return {column: found for column, found in values.items() if 2 <= len(found) <= most}


@st.cache_data(max_entries=4, show_spinner="Measuring …")
def recorded_numbers(recording_digest: str, _verdicts: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Every metric that needs no judge, from recorded verdicts; and what they rest on, in sentences."""
    del recording_digest  # stands for the verdicts in the cache key
    return recorded_metrics(_verdicts), recorded_remarks(_verdicts)

"""An uploaded file on its way to a data set: read as the user wants, under a preset that fits, checked.

Caches are keyed by digests and choices; the content itself never is part of a key.
"""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from dashboard.data import digest
from engine.data.dataset import Dataset, build_dataset
from engine.data.presets import Preset, best_preset
from engine.data.raw import RawTable
from engine.data.reading import read_table
from engine.errors import EngineError

MAX_UPLOAD_MB = 100
"""A file of data or verdicts, and each file that belongs to it; docs/security.md names all limits on uploads."""


class Reading(NamedTuple):
    """How the user wants a file to be read; None leaves it to the reader."""

    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None


class Opened(NamedTuple):
    """A file as it was read.

    Attributes:
        raw: its table.
        reading_id: names its rows; choices about them belong to it.
        reading: how it was asked to be read, a preset's wishes included.
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

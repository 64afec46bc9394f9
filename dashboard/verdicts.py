"""Cached reading of files of verdicts, keyed by content digest."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.data.recording import Recording, Selection, parse_recording, recorded_rows
from engine.errors import EngineError
from engine.metrics.recorded import recorded_metrics, recorded_remarks


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
        frame = recorded_rows(name, _content, Selection(format=form))[0]
    except EngineError:
        return {}
    values = {str(column): sorted(frame[column].dropna().unique()) for column in frame.columns}
    return {column: found for column, found in values.items() if 2 <= len(found) <= most}


@st.cache_data(max_entries=4, show_spinner="Measuring …")
def recorded_numbers(recording_digest: str, _verdicts: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Every metric that needs no judge, from recorded verdicts; and what they rest on, in sentences."""
    del recording_digest  # stands for the verdicts in the cache key
    return recorded_metrics(_verdicts), recorded_remarks(_verdicts)

"""Cached recognition and reading of files of known formats; the arguments before `_content` identify them."""

from __future__ import annotations

import streamlit as st

from dashboard.uploads import Reading
from engine.data.formats.base import Imported
from engine.data.formats.converting import Written, write_as
from engine.data.formats.opening import File, open_source
from engine.data.formats.registry import FORMATS, Recognition, read_known, recognise
from engine.data.raw import RawTable
from engine.errors import EngineError


@st.cache_resource(max_entries=4, show_spinner="Looking at the file …")
def recognition(
    name: str, content_digest: str, reading: Reading, _content: bytes
) -> tuple[Recognition, RawTable | None]:
    """Which formats the file has, and its table where the encoding is a guess.

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

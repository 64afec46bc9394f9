"""Which known format an uploaded file has: recognised and shown, asked where two are possible, always changeable."""

from __future__ import annotations

import streamlit as st

from dashboard import known, ui
from dashboard.uploads import Reading
from engine.data.formats.registry import FORMATS, TABLE

_PLAIN = "A plain table: I say which column is what"


def choice(name: str, content: bytes, file_digest: str, reading: Reading) -> str:
    """The format to read the file in; `table` for a plain table, and empty while the user has to say."""
    found, _ = known.recognition(name, file_digest, reading, content)
    by_itself = found.certain or TABLE
    key = f"format_{file_digest}_{by_itself}_{len(found.fits)}"  # another sheet may be recognised as something else
    chosen = str(st.session_state.get(key) or "")
    if len(found.fits) > 1 and not chosen:
        ui.warn(found.in_words())
        return str(_box([*found.fits, TABLE], None, key) or "")
    current = chosen or by_itself
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note(_said(found.in_words(), current, by_user=current != by_itself or len(found.fits) > 1))
        with st.popover("Change the format" if current != TABLE else "Choose a known format", type="tertiary",
                        icon=":material/dataset:", key="change_format"):  # fmt: skip
            options = [TABLE, *known.choices()]
            _box(options, options.index(current), key)
            ui.note(_holds(current))
    return current


def _box(options: list[str], index: int | None, key: str) -> str | None:
    return st.selectbox(
        "What kind of file is it?",
        options,
        index=index,
        format_func=lambda form: _PLAIN if form == TABLE else f"{known.choices()[form]} ({form})",
        key=key,
        placeholder="Choose one",
        persist_state="session",
    )


def _said(recognised: str, current: str, *, by_user: bool) -> str:
    if not by_user:
        return recognised
    what = "a plain table" if current == TABLE else f"{known.choices()[current]} ({current})"
    return f"Taken as {what}, as you chose."


def _holds(current: str) -> str:
    return "" if current == TABLE else FORMATS[current.partition(":")[0]].holds

"""Which known format an uploaded file has: recognised and shown, asked where two are possible, always changeable."""

from __future__ import annotations

import streamlit as st

from dashboard import known, ui
from dashboard.uploads import Reading
from engine.data.formats.registry import FORMATS, TABLE

_PLAIN = "A plain table: I say which column is what"


def choice(name: str, content: bytes, file_digest: str, reading: Reading) -> str:
    """The format to read the file in; `table` for a plain table, and empty while the user has to say."""
    found = known.recognition(name, file_digest, reading, content)
    key = f"format_{file_digest}"
    chosen = str(st.session_state.get(key) or "")
    if len(found.fits) > 1 and not chosen:
        ui.warn(found.in_words())
        return str(_box([*found.fits, TABLE], None, key) or "")
    current = chosen or found.certain or TABLE
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note(_said(found.in_words(), current, found.certain, by_user=bool(chosen)))
        with st.popover("Change the format" if current != TABLE else "It has a known format", type="tertiary",
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


def _said(recognised: str, current: str, certain: str, *, by_user: bool) -> str:
    if by_user and current == TABLE:
        return "Read as a plain table, as you chose."
    if by_user and current != certain:
        return f"Read as {known.choices()[current]} ({current}), as you chose."
    return recognised


def _holds(current: str) -> str:
    return "" if current == TABLE else FORMATS[current.partition(":")[0]].holds

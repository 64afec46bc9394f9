"""How an uploaded file was read, what the user can change about it, and the question which encoding it has."""

from __future__ import annotations

import streamlit as st

from dashboard import ui
from dashboard.uploads import Opened, Reading
from engine.data.encodings import CHOICES, TITLES, Candidate
from engine.data.raw import RawTable
from engine.data.reading import DELIMITERS, TEXT_EXTENSIONS, list_parts

_AUTO = "Found by itself"
_DELIMITER_CHOICES: tuple[tuple[str, str | None], ...] = (
    (_AUTO, None),
    *((name.capitalize(), delimiter) for delimiter, name in DELIMITERS.items()),
)


def chosen_reading(file_digest: str) -> Reading:
    """What the user has chosen for this file so far."""
    delimiter = str(st.session_state.get(_key("delimiter", file_digest)) or _AUTO)
    encoding = str(st.session_state.get(_key("encoding", file_digest)) or "")
    sheet = str(st.session_state.get(_key("sheet", file_digest)) or "")
    return Reading(dict(_DELIMITER_CHOICES)[delimiter], encoding or None, sheet or None)


def how_it_was_read(opened: Opened, file_digest: str) -> None:
    """One line, and the control that changes it."""
    raw, by = opened.raw, ""
    chosen = chosen_reading(file_digest)
    if chosen.encoding:
        by = " The encoding was chosen by you."
    elif opened.preset and opened.reading != chosen:
        by = f" That is what the preset “{opened.preset.name}” says."
    elif raw.is_guess:
        by = " The encoding is a guess."
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note(raw.how_read() + by)
        if raw.encoding or len(raw.parts) > 1:
            _change(file_digest, raw.parts, raw.part, text=bool(raw.encoding), delimited=bool(raw.delimiter))
    if opened.sample:
        ui.note("Nothing in the file states its encoding: see whether these lines of it read right.")
        ui.file_lines(opened.sample)


def change_after_error(name: str, content: bytes, file_digest: str) -> None:
    """The same control for a file that could not be read; another choice may help."""
    ending = "." + name.rpartition(".")[2].lower()
    chosen = chosen_reading(file_digest)
    parts = list_parts(name, content, chosen.encoding)
    if ending in TEXT_EXTENSIONS or len(parts) > 1:
        part = chosen.sheet if chosen.sheet in parts else ""
        _change(file_digest, parts, part, text=ending in TEXT_EXTENSIONS, delimited=ending in (".csv", ".tsv"))


def ask_encoding(raw: RawTable, file_digest: str) -> None:
    """What each candidate makes of the telling lines; choosing one answers the question."""
    st.subheader("Which of these reads right?", anchor=False)
    ui.note(f"{raw.doubt} Look at the letters and quotes in these lines of the file.")
    for candidate in raw.candidates:
        with st.container(border=True, key=f"candidate_{candidate.encoding}"):
            ui.file_lines(candidate.lines)
            st.button(
                f"This is right: read as {candidate.title}",
                key=f"confirm_{candidate.encoding}",
                icon=":material/check:",
                on_click=_confirm,
                args=(candidate, file_digest),
            )
    ui.note("If none is right, save the file again as UTF-8 (in a spreadsheet: CSV UTF-8) and upload that.")


def _confirm(candidate: Candidate, file_digest: str) -> None:
    st.session_state[_key("encoding", file_digest)] = candidate.encoding


def _key(what: str, file_digest: str) -> str:
    return f"{what}_{file_digest}"


def _change(file_digest: str, parts: list[str], part: str, *, text: bool, delimited: bool) -> None:
    with st.popover("Change", type="tertiary", icon=":material/tune:", key="change_reading"):
        if text:
            st.selectbox(
                "Encoding of the text",
                ["", *CHOICES],
                format_func=lambda name: TITLES.get(name, _AUTO),
                key=_key("encoding", file_digest),
                persist_state="session",
            )
        if delimited:
            st.segmented_control(
                "Between the cells stands",
                [label for label, _ in _DELIMITER_CHOICES],
                default=_AUTO,
                required=True,
                key=_key("delimiter", file_digest),
                persist_state="session",
            )
        if len(parts) > 1:
            st.selectbox(
                "Which list of the file" if text else "Which sheet",
                parts,
                index=parts.index(part) if part else None,
                placeholder="Choose one",
                key=_key("sheet", file_digest),
                persist_state="session",
            )

"""A file of a known format under review: what was understood, what is left out, what saving it gives."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import data, known, state, ui
from dashboard.panels import reading, rows
from dashboard.panels.responses import MOST_ROWS
from dashboard.uploads import MAX_UPLOAD_MB, Reading
from engine.data.comparisons import save_comparisons
from engine.data.dataset import MAX_NAME
from engine.data.formats.base import Imported
from engine.data.formats.opening import File
from engine.data.formats.own import writers
from engine.data.formats.registry import FORMATS
from engine.data.formats.use import as_comparisons, as_dataset
from engine.data.recordings import SavedRecording, save_recording
from engine.errors import EngineError
from engine.figures.text import count, plural
from engine.settings import get_settings

_TABLES = {"Responses": "responses", "Items": "items", "Pairs": "comparisons", "Verdicts": "verdicts"}

_COLUMNS = {
    "comparison_id": "Pair",
    "judge": "Judge",
    "response_id": "Response",
    "item_id": "Item",
    "system": "System",
    "text": "Text of the response",
    "human_score": "Human score",
    "quality": "Quality",
    "context": "Context",
    "reference": "Reference",
    "group": "Group",
    "response_a": "Response a",
    "response_b": "Response b",
    "human": "Human preference",
    "verdict": "Verdict, a first",
    "verdict_ba": "Verdict, b first",
    "order": "Order",
    "outcome": "Outcome",
    "score": "Score",
    "p_a": "p(a)",
    "p_tie": "p(tie)",
    "unread_reason": "Why unread",
    "raw_text": "The judge's reply",
}
"""Columns that are shown, under their names on the page."""


def review(opening: DeltaGenerator, name: str, content: bytes, form: str, chosen: Reading) -> None:
    """Everything between recognising a file and saving it; an error leaves the file as it is.

    Args:
        opening: where the page's first sentence goes.
        name: of the file.
        content: its bytes.
        form: the format; empty while the user has to choose one.
        chosen: encoding and the like.
    """
    if not form:
        with opening:
            ui.finding(f"“{name}” could be of two known formats. Say which it is.")
        return
    digest = data.digest(content)
    _, guess = known.recognition(name, digest, chosen, content)
    if guess:
        with opening:
            ui.finding(f"“{name}” has an encoding that nothing in it states. Say which reads right first.")
        reading.ask_encoding(guess, digest)
        return
    companions = _companions(form, digest)
    ids = tuple((other, data.digest(held)) for other, held in companions)
    try:
        found = known.imported(name, digest, form, chosen, ids, content, companions)
    except EngineError as error:
        with opening:
            ui.show_error(error, f"“{name}” could not be read as {known.choices()[form]}. Nothing was saved.")
        return
    with opening:
        title = FORMATS[form.partition(":")[0]].title
        ui.finding(f"“{name}” is read as {title}: {found.counts()}. It is not saved yet.")
    _understood(found)
    rows.problems(found.problems)
    _save(found, digest)
    _tables(found)


def _companions(form: str, digest: str) -> list[File]:
    """Files that the user gives along with this one."""
    wanted = FORMATS[form.partition(":")[0]].companions
    if not wanted:
        return []
    held = st.file_uploader(
        f"Files that belong to it: {wanted}",
        type=["jsonl", "json"],
        accept_multiple_files=True,
        max_upload_size=MAX_UPLOAD_MB,
        key=f"with_{digest}",
    )
    return [(file.name, file.getvalue()) for file in held]


def _understood(found: Imported) -> None:
    left = f" {plural(found.n_excluded, 'record')} of {count(found.n_records)} left out." if found.n_excluded else ""
    ui.note(f"{found.how_read}{left}")
    for line in found.notes:
        ui.note(line)
    if found.labels:
        ui.note("Labels: " + ", ".join(f"“{label}” is {side}" for label, side in found.labels.items()) + ".")


def _parts(found: Imported) -> list[str]:
    """What saving the file gives, in sentences."""
    pairs = len(found.comparisons)
    out = []
    if found.has_texts:
        out.append("the responses as data for every page")
    if pairs and found.has_texts:
        out.append("the pairs for the Transport audit")
    if len(found.verdicts):
        out.append(f"the verdicts as {plural(len(found.judges), 'recorded judge')} in the lists of judges")
    return out


def _save(found: Imported, digest: str) -> None:
    parts = _parts(found)
    if not found.has_texts and not FORMATS[found.format.partition(":")[0]].companions:
        ui.warn("The file holds verdicts without the texts they are about: no other judge can be asked about them.")
    title = st.text_input(
        "Name of this data set", value=found.name, max_chars=MAX_NAME, key=f"known_title_{digest}",
        persist_state="session",
    )  # fmt: skip
    ui.note(f"Saving keeps {', '.join(parts[:-1])} and {parts[-1]}." if len(parts) > 1 else f"Saving keeps {parts[0]}.")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label = "Save and use this data" if found.has_texts else "Keep as a recorded judge"
        if st.button(label, type="primary", icon=":material/check:", key="save_known"):
            _keep(found, title or found.name)
        _convert(found, digest)


def _keep(found: Imported, title: str) -> None:
    settings = get_settings()
    said: list[str] = []
    recordings: list[SavedRecording] = []
    try:
        if found.has_texts:
            dataset = as_dataset(found, title)
            data.save(dataset)
            said.append(f"Saved {data.counts(dataset)}")
            state.choose_data(dataset.dataset_id)
        if found.has_texts and len(found.comparisons):
            pairs = as_comparisons(found, title)
            save_comparisons(pairs, settings.comparisons)
            said.append(f"{plural(len(pairs.comparisons), 'pair')} for the Transport audit")
        if len(found.verdicts):
            recordings = save_recording(found, settings.recordings)
            said.append(", ".join(f"judge “{r.title}”" for r in recordings[:3]))
    except EngineError as error:
        ui.show_error(error, "Not everything could be saved. Your file is still here.")
        return
    state.drop_upload()
    state.say_after_rerun("; ".join(said) + ".")
    st.rerun()


def _convert(found: Imported, digest: str) -> None:
    """The same content in another format, made when it is asked for."""
    with st.popover("Save in another format", type="tertiary", icon=":material/swap_horiz:", on_change="rerun",
                    key="convert") as panel:  # fmt: skip
        if not panel.open:
            return
        able = writers()
        titles = {**{n: f.title for n, f in FORMATS.items()}, "responses": "Plain table of responses",
                  "pairs": "Plain table of pairs", "verdicts": "Plain table of verdicts"}  # fmt: skip
        to = st.selectbox("Format to write", list(able), format_func=lambda n: f"{titles[n]} ({n})", key="convert_to")
        try:
            made = known.written(digest, found.format, str(to), found)
        except EngineError as error:
            ui.show_error(error, "This file cannot be written so.")
            return
        ui.note(f"It will hold {made.holds.counts()}. {made.in_words()}".strip())
        stem = found.name.rpartition(".")[0] or found.name
        ui.download(f"Download as {titles[str(to)]}", lambda: made.content, f"{stem}-{to}{able[str(to)][0]}",
                    "application/octet-stream", key="convert_file")  # fmt: skip


def _tables(found: Imported) -> None:
    """The tables as they were read, the one that is open only."""
    st.subheader("What was read", anchor=False)
    shown = {label: getattr(found, table) for label, table in _TABLES.items() if len(getattr(found, table))}
    label = st.segmented_control("Table", list(shown), default=next(iter(shown)), required=True, key="known_table")
    frame: pd.DataFrame = shown[str(label)]
    frame = frame[[c for c in frame.columns if c in _COLUMNS and frame[c].notna().any()]].rename(columns=_COLUMNS)
    if len(frame) > MOST_ROWS:
        ui.note(f"The first {count(MOST_ROWS)} of {count(len(frame))} rows.")
    st.dataframe(
        frame.head(MOST_ROWS), key=f"known_{label}", hide_index=True, placeholder="",
        height=min(420, 38 + 35 * min(len(frame), MOST_ROWS)), alt=f"Table of {label.lower() if label else ''} as read",
    )  # fmt: skip

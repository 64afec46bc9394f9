"""An uploaded file under review: how it was read, which column is what, what is wrong, and saving it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import data, state, ui, uploads
from dashboard.panels import columns, format_choice, format_hub, format_review, reading, rows
from dashboard.panels.presets import load_presets, presets_panel, save_as_preset
from engine.data.dataset import Dataset
from engine.data.formats.opening import LOG_ENDING
from engine.data.formats.registry import FORMATS, TABLE
from engine.data.raw import RawTable
from engine.data.reading import EXTENSIONS
from engine.errors import EngineError
from engine.figures.text import plural

EXAMPLE = (
    "item_id;context;response;system;human_score\n"
    'q1;"How do I keep basil fresh?";"Stand the stems in water; do not chill them.";careful;5\n'
    'q1;"How do I keep basil fresh?";"Basil is a herb.";vague;2\n'
)
RAW_SHOWN = 50


def uploader() -> None:
    """The file picker; the file is held in the session until it is saved or discarded."""
    key = f"uploader_{state.upload_round()}"
    *kinds, last = (ending.removeprefix(".") for ending in (*EXTENSIONS, LOG_ENDING))
    st.file_uploader(
        "Your responses, one row each",
        type=[*kinds, last],
        max_upload_size=uploads.MAX_UPLOAD_MB,
        key=key,
        on_change=_take(key),
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.download("Example file", lambda: EXAMPLE.encode(), "example.csv", "text/csv", key="example_file")
        _known_formats()
    format_hub.hub_panel()
    presets_panel(load_presets())


def _known_formats() -> None:
    """Which files of other tools need no columns chosen; an Inspect log ends in .eval."""
    label = f"{len(FORMATS)} formats of other tools"
    with st.popover(label, type="tertiary", icon=":material/dataset:", on_change="rerun", key="known_list") as panel:
        if panel.open:
            ui.note("Recognised by themselves; no columns need to be chosen.")
            ui.bullets([form.title for form in FORMATS.values()])


def _take(key: str) -> Callable[[], None]:
    def take() -> None:
        file = st.session_state.get(key)
        if file is None:
            state.drop_upload()
        else:
            state.hold_upload(file.name, file.getvalue())

    return take


def review(name: str, content: bytes) -> None:
    """Everything between choosing a file and saving it; an error leaves file and choices as they are."""
    file_digest = data.digest(content)
    opening = st.container()
    chosen = reading.chosen_reading(file_digest)
    known = format_choice.choice(name, content, file_digest, chosen)
    if known != TABLE:
        format_review.review(opening, name, content, known, chosen)
        _discard_button()
        return
    presets = load_presets()
    try:
        opened = uploads.open_upload(name, content, chosen, presets, state.wanted_preset(file_digest))
    except EngineError as error:
        with opening:
            ui.show_error(error, f"“{name}” could not be read. It is still here; nothing was saved.")
            _discard_button("Choose another file", type="primary")
        reading.change_after_error(name, content, file_digest)
        return
    reading.how_it_was_read(opened, file_digest)
    if opened.raw.is_guess:
        reading.ask_encoding(opened.raw, file_digest)
    columns.preset_line(opened, file_digest)
    mapping = columns.mapping(opened)
    task, title = columns.task_and_title(name, file_digest, opened)
    if "response" in dict(mapping):
        save_as_preset(opened, mapping, task, file_digest)
    presets_panel(presets, opened, file_digest)
    dataset = _checked(opening, name, opened, mapping, task, title)
    if dataset:
        rows.problems(dataset.problems, opened.reading_id)
        rows.left_out_bar(opened.reading_id, len(opened.raw.lines))
        _save(dataset, is_guess=opened.raw.is_guess)
        rows.rows_table(opened, mapping, dataset)
    else:
        _discard_button()
        _raw_preview(opened.raw)


def _checked(
    opening: DeltaGenerator,
    name: str,
    opened: uploads.Opened,
    mapping: tuple[tuple[str, str], ...],
    task: str,
    title: str,
) -> Dataset | None:
    """The data set under these choices, and the page's opening sentence about it; None where they do not fit."""
    with opening:
        if "response" not in dict(mapping):
            ui.finding(f"“{name}” is read. Now say which column holds the responses.")
            return None
        left_out = state.left_out(opened.reading_id).now
        try:
            dataset = uploads.mapped(title, opened.reading_id, opened.reading, mapping, task, left_out, opened.raw)
        except EngineError as error:
            ui.show_error(error, f"The columns of “{name}” do not fit yet. File and choices are kept.")
            return None
        ui.finding(_opening_sentence(name, dataset, is_guess=opened.raw.is_guess))
    return dataset


def _raw_preview(raw: RawTable) -> None:
    """The file's own columns, to choose from."""
    st.dataframe(
        raw.frame.head(RAW_SHOWN), key="raw_preview", hide_index=True, alt="First rows of the file", placeholder=""
    )


def _opening_sentence(name: str, dataset: Dataset, *, is_guess: bool) -> str:
    if is_guess:
        return f"“{name}” has an encoding that nothing in it states. Say which reads right before it is saved."
    if dataset.errors:
        return f"“{name}” has {plural(len(dataset.errors), 'problem')} to solve before it can be saved."
    return f"“{name}” holds {data.counts(dataset)}. It is not saved yet."


def _save(dataset: Dataset, *, is_guess: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button(
            "Save and use this data",
            type="primary",
            icon=":material/check:",
            disabled=bool(dataset.errors) or is_guess,
            key="save_upload",
        ):
            _keep(dataset)
        _discard_button()
        if is_guess:
            ui.note("Say first which encoding reads right.")
        elif dataset.errors:
            ui.note("Solve what is marked red, in the file, by choosing other columns, or by leaving the rows out.")


def _keep(dataset: Dataset) -> None:
    try:
        data.save(dataset)
    except EngineError as error:
        ui.show_error(error, "The data could not be saved. Your file is still here.")
        return
    state.drop_upload()
    state.choose_data(dataset.dataset_id)
    state.say_after_rerun("Saved. The judge is now asked about these responses.")
    st.rerun()


def _discard_button(label: str = "Discard this file", type: Literal["primary", "tertiary"] = "tertiary") -> None:
    st.button(label, type=type, on_click=state.drop_upload, key="discard_upload")

"""An uploaded file under review: how it was read, which column is what, what is wrong, and saving it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import datasets, state, ui, uploads
from dashboard.pages.data import columns, rows
from dashboard.pages.data.columns import load_presets, presets_panel, save_as_preset
from dashboard.pages.data.rows import SHOWN_ROWS, ask_encoding, change_after_error, chosen_reading, how_it_was_read
from dashboard.uploads import MAX_UPLOAD_MB, Reading
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.data.comparisons import save_comparisons
from engine.data.dataset import MAX_NAME, Dataset
from engine.data.formats.base import Imported
from engine.data.formats.conversion import writers
from engine.data.formats.hub import HUB, fetch, known_sets
from engine.data.formats.registry import FORMATS, LOG_ENDING, TABLE, File
from engine.data.formats.use import as_comparisons, as_dataset
from engine.data.raw import RawTable
from engine.data.reading import EXTENSIONS
from engine.data.recordings import SavedRecording, save_recording
from engine.plots.text import count, plural

# Known format of an uploaded file: recognised and shown, asked where two are possible, always changeable.

_PLAIN = "A plain table: I say which column is what"


def choice(name: str, content: bytes, file_digest: str, reading: Reading) -> str:
    """The format to read the file in; `table` for a plain table, and empty while the user has to say."""
    found, _ = uploads.recognition(name, file_digest, reading, content)
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
            options = [TABLE, *uploads.choices()]
            _box(options, options.index(current), key)
            ui.note(_holds(current))
    return current


def _box(options: list[str], index: int | None, key: str) -> str | None:
    return st.selectbox(
        "What kind of file is it?",
        options,
        index=index,
        format_func=lambda form: _PLAIN if form == TABLE else f"{uploads.choices()[form]} ({form})",
        key=key,
        placeholder="Choose one",
        persist_state="session",
    )


def _said(recognised: str, current: str, *, by_user: bool) -> str:
    if not by_user:
        return recognised
    what = "a plain table" if current == TABLE else f"{uploads.choices()[current]} ({current})"
    return f"Taken as {what}, as you chose."


def _holds(current: str) -> str:
    return "" if current == TABLE else FORMATS[current.partition(":")[0]].holds


# Known data sets of the Hugging Face Hub: the only thing on the page that calls out, and only when asked.

_OTHER = "another id"


def hub_panel() -> None:
    """Choose a set and fetch it; it then is reviewed like an uploaded file."""
    with st.expander("From the Hugging Face Hub", icon=":material/cloud_download:", on_change="rerun",
                     key="hub") as panel:  # fmt: skip
        if not panel.open:
            return
        ui.note("Fetching asks huggingface.co for one data file, never for code. Without a network, upload the file.")
        sets = known_sets()
        chosen = st.selectbox(
            "Data set",
            [*sets, _OTHER],
            format_func=lambda i: i if i == _OTHER else f"{i} ({FORMATS[sets[i][0]].title})",
            key="hub_set",
        )
        if chosen == _OTHER:
            name = st.text_input("Id, owner/name", key="hub_id", placeholder="owner/name?split=test")
        else:
            splits = sets[chosen][1].splits
            split = st.segmented_control("Split", splits, default=splits[0], required=True, key=f"hub_split_{chosen}")
            listed = sets[chosen][1]
            name = chosen if listed.file and split == splits[0] else f"{chosen}?split={split}"
        if st.button("Fetch", icon=":material/download:", key="hub_fetch", disabled=not name):
            _fetch(name)


def _fetch(name: str) -> None:
    try:
        with st.spinner("Fetching …"):
            found = fetch(HUB + name)
    except EngineError as error:
        ui.show_error(error, "Nothing was fetched.")
        return
    state.hold_upload(found.filename, found.content)
    st.rerun()


# A file of a known format under review: what was understood, what is left out, what saving it gives.

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


def review_known(opening: DeltaGenerator, name: str, content: bytes, form: str, chosen: Reading) -> None:
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
    digest = datasets.digest(content)
    _, guess = uploads.recognition(name, digest, chosen, content)
    if guess:
        with opening:
            ui.finding(f"“{name}” has an encoding that nothing in it states. Say which reads right first.")
        ask_encoding(guess, digest)
        return
    companions = _companions(form, digest)
    ids = tuple((other, datasets.digest(held)) for other, held in companions)
    try:
        found = uploads.imported(name, digest, form, chosen, ids, content, companions)
    except EngineError as error:
        with opening:
            ui.show_error(error, f"“{name}” could not be read as {uploads.choices()[form]}. Nothing was saved.")
        return
    with opening:
        title = FORMATS[form.partition(":")[0]].title
        ui.finding(f"“{name}” is read as {title}: {found.counts()}. It is not saved yet.")
    _understood(found)
    rows.problems(found.problems)
    _save_known(found, digest)
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
    """Outcome of saving the file, in sentences."""
    pairs = len(found.comparisons)
    out = []
    if found.has_texts:
        out.append("the responses as data for every page")
    if pairs and found.has_texts:
        out.append("the pairs for the Transport audit")
    if len(found.verdicts):
        out.append(f"the verdicts as {plural(len(found.judges), 'recorded judge')} in the lists of judges")
    return out


def _save_known(found: Imported, digest: str) -> None:
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
            _keep_known(found, title or found.name)
        _convert(found, digest)


def _keep_known(found: Imported, title: str) -> None:
    settings = get_settings()
    said: list[str] = []
    recordings: list[SavedRecording] = []
    try:
        if found.has_texts:
            dataset = as_dataset(found, title)
            datasets.save(dataset)
            said.append(f"Saved {datasets.counts(dataset)}")
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
            made = uploads.written(digest, found.format, str(to), found)
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
    if len(frame) > SHOWN_ROWS:
        ui.note(f"The first {count(SHOWN_ROWS)} of {count(len(frame))} rows.")
    st.dataframe(
        frame.head(SHOWN_ROWS), key=f"known_{label}", hide_index=True, placeholder="",
        height=min(420, 38 + 35 * min(len(frame), SHOWN_ROWS)),
        alt=f"Table of {label.lower() if label else ''} as read",
    )  # fmt: skip


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
    hub_panel()
    presets_panel(load_presets())


def _known_formats() -> None:
    """Help on files of other tools that need no columns chosen; an Inspect log ends in .eval."""
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
    file_digest = datasets.digest(content)
    opening = st.container()
    chosen = chosen_reading(file_digest)
    known = choice(name, content, file_digest, chosen)
    if known != TABLE:
        review_known(opening, name, content, known, chosen)
        _discard_button()
        return
    presets = load_presets()
    try:
        opened = uploads.open_upload(name, content, chosen, presets, state.wanted_preset(file_digest))
    except EngineError as error:
        with opening:
            ui.show_error(error, f"“{name}” could not be read. It is still here; nothing was saved.")
            _discard_button("Choose another file", type="primary")
        change_after_error(name, content, file_digest)
        return
    how_it_was_read(opened, file_digest)
    if opened.raw.is_guess:
        ask_encoding(opened.raw, file_digest)
    columns.preset_line(opened, file_digest)
    mapping = columns.mapping(opened)
    task, title = columns.task_and_title(name, file_digest, opened, mapping)
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
        ui.headline(_opening_sentence(name, dataset, is_guess=opened.raw.is_guess))
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
    return f"“{name}” holds {datasets.counts(dataset)}. It is not saved yet."


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
        datasets.save(dataset)
    except EngineError as error:
        ui.show_error(error, "The data could not be saved. Your file is still here.")
        return
    state.drop_upload()
    state.choose_data(dataset.dataset_id)
    state.say_after_rerun("Saved. The judge is now asked about these responses.")
    st.rerun()


def _discard_button(label: str = "Discard this file", type: Literal["primary", "tertiary"] = "tertiary") -> None:
    st.button(label, type=type, on_click=state.drop_upload, key="discard_upload")

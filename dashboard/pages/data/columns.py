"""Roles of an uploaded file's columns: suggested, or taken from a preset, and always the user's choice."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from dashboard import datasets, state, ui
from dashboard.uploads import Opened, guessed
from engine.core.errors import EngineError
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.dataset import MAX_NAME
from engine.data.encodings import TITLES
from engine.data.guessing import Guess, guess_task
from engine.data.mapping import OFFERED, Field
from engine.data.presets import MAX_NAME as MAX_PRESET_NAME
from engine.data.presets import Preset, delete_preset, list_presets, rename_preset, save_preset
from engine.data.raw import DELIMITERS

NOT_IN_FILE = "(not in the file)"
TASKS = datasets.TASKS


def preset_line(opened: Opened, file_digest: str) -> None:
    """The preset that is applied, with the way back; or the one that could be."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if opened.preset:
            ui.note(f"The preset “{opened.preset.name}” is applied: it has chosen the columns and the task below.")
            st.button(
                "Do not use it", type="tertiary", key="preset_off", on_click=state.want_preset, args=(file_digest, "")
            )
        elif opened.fitting:
            name = opened.fitting[-1].name
            ui.note(f"The preset “{name}” fits these columns and is not applied.")
            st.button("Use it", type="tertiary", key="preset_on", on_click=state.want_preset, args=(file_digest, name))


def mapping(opened: Opened) -> tuple[tuple[str, str], ...]:
    """One selectbox a field, prefilled by the preset or the guess, which says how sure it is."""
    st.subheader("Which column is what?", anchor=False)
    frame = opened.raw.frame
    found = guessed(opened.reading_id, opened.reading, frame)
    guess = dict(opened.preset.mapping) if opened.preset else found.mapping
    columns = [NOT_IN_FILE, *map(str, frame.columns)]
    # Another separator gives other columns, so the choices belong to the file as read.
    reading = datasets.digest(repr((opened.reading_id, columns, _chosen_by(opened.preset))).encode())
    chosen = {}
    with st.container(key="mapping"):
        cells = [cell for _ in range(3) for cell in st.columns(3)]
        for cell, field in zip(cells, OFFERED, strict=True):
            with cell:
                chosen[field.name] = _column_choice(field, columns, guess.get(field.name, NOT_IN_FILE), reading)
                one = found.columns.get(field.name)
                if one and not opened.preset and chosen[field.name] == one.column:
                    ui.note(f"{_SURE[one.sure]}: {one.why}")
    _corrections(chosen, guess, found, reading)
    for line in found.notices:
        ui.note(line)
    return tuple((name, column) for name, column in chosen.items() if column != NOT_IN_FILE)


_SURE = {"sure": "Sure", "likely": "Likely", "unsure": "A guess, please check"}


_ICONS = {"swap": ":material/swap_horiz:", "clear": ":material/ink_eraser:", "back": ":material/undo:"}


def _corrections(chosen: dict[str, str], guess: Mapping[str, str], found: Guess, reading: str) -> None:
    """What is often wrong, each with one click."""
    unsure = [name for name, one in found.columns.items() if one.sure == "unsure" and chosen[name] == one.column]
    options: dict[str, tuple[str, dict[str, str]]] = {}
    if chosen["context"] != NOT_IN_FILE and chosen["response"] != NOT_IN_FILE:
        swapped = {"context": chosen["response"], "response": chosen["context"]}
        options["swap"] = ("Swap context and response", swapped)
    if unsure:
        options["clear"] = ("Clear what is only guessed", dict.fromkeys(unsure, NOT_IN_FILE))
    wanted = {field.name: guess.get(field.name, NOT_IN_FILE) for field in OFFERED}
    if chosen != wanted:
        options["back"] = ("Back to the guess", wanted)
    with st.container(horizontal=True, gap="small"):
        for key, (label, values) in options.items():
            st.button(
                label, type="tertiary", icon=_ICONS[key], key=f"map_{key}", on_click=_choose, args=(values, reading)
            )


def _choose(values: Mapping[str, str], reading: str) -> None:
    for name, column in values.items():
        state.put(_key(reading, name), column)


def _key(reading: str, name: str) -> str:
    return f"map_{reading}_{name}"


def _chosen_by(preset: Preset | None) -> str:
    """Names a preset's choices; its name may change without touching what the user chose since."""
    return datasets.digest(repr((sorted(preset.mapping.items()), preset.task)).encode()) if preset else ""


def _column_choice(field: Field, columns: list[str], guess: str, reading: str) -> str:
    st.session_state.setdefault(_key(reading, field.name), guess)  # a press below may have chosen another
    return str(
        st.selectbox(
            f"{field.label} (needed)" if field.required else field.label,
            columns,
            key=_key(reading, field.name),
            help=field.hint,
            persist_state="session",
        )
    )


def task_and_title(name: str, file_digest: str, opened: Opened, chosen: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """Task of the responses, told from the chosen columns until the user says another, and title of the data set."""
    left, right = st.columns(2)
    tasks = list(TASKS)
    preset = opened.preset
    told, why = guess_task(opened.raw.frame, dict(chosen))
    first = Task(preset.task) if preset else told
    task = left.selectbox(
        "What were the responses asked to be?",
        tasks,
        index=tasks.index(first),
        format_func=lambda t: TASKS[t],
        key=f"task_{file_digest}_{_chosen_by(preset)}_{first}",  # other columns may tell another task
        help="Decides which prompt the judge is given.",
        persist_state="session",
    )
    if not preset and task == told:
        with left:
            ui.note(f"Told from the file: {why}.")
    title = right.text_input(
        "Name of this data set",
        value=name,
        max_chars=MAX_NAME,
        key=f"title_{file_digest}",
        persist_state="session",
    )
    return str(task), title or name


# The saved presets: listed, used, renamed, deleted with undo; and saving the present choices as one.

_FAILED = "preset_error"


def load_presets() -> list[Preset]:
    """Saved presets; a damaged file is named on the page and counts as none."""
    try:
        return list_presets(get_settings().data_dir)
    except EngineError as error:
        ui.show_error(error, "The saved presets are not used.")
        return []


def presets_panel(presets: list[Preset], opened: Opened | None = None, file_digest: str = "") -> None:
    """All presets, folded."""
    deleted = state.deleted_preset()
    if not presets and not deleted:
        return
    # a label that counts would close the panel whenever the count changes
    with st.expander("Saved presets", icon=":material/bookmark:", on_change="rerun", key="presets") as panel:
        if not panel.open:
            return
        if failed := str(st.session_state.pop(_FAILED, "")):
            ui.show_error(failed, "The preset is unchanged.")
        if deleted:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                ui.note(f"The preset “{deleted[0].name}” is deleted.")
                st.button("Undo", type="tertiary", icon=":material/undo:", key="undo_delete", on_click=_put_back)
        for preset in presets:
            _row(preset, opened, file_digest)


def save_as_preset(opened: Opened, mapping: tuple[tuple[str, str], ...], task: str, file_digest: str) -> None:
    """Keep the present choices for the next file with these columns."""
    with st.popover("Save as a preset", type="tertiary", icon=":material/bookmark_add:", key="save_choices"):
        ui.note("The next file with the same columns is read and mapped this way by itself.")
        st.text_input(
            "Name of the preset",
            value=opened.preset.name if opened.preset else "",
            max_chars=MAX_PRESET_NAME,
            placeholder="such as: our arena export",
            key="preset_name",
            help="A preset of the same name is replaced.",
        )
        made = Preset(
            "",
            dict(mapping),
            task,
            opened.reading.delimiter or opened.raw.delimiter,
            opened.reading.encoding or "",
        )
        st.button("Save preset", key="save_preset", on_click=_save, args=(made, file_digest))
        if failed := str(st.session_state.pop(_FAILED, "")):
            ui.show_error(failed, "The preset is not saved.")


def _row(preset: Preset, opened: Opened | None, file_digest: str) -> None:
    with st.container(border=True, key=f"preset_{preset.name}"):
        ui.finding(preset.name)
        ui.note(_describe(preset))
        with st.container(horizontal=True, gap="small"):
            if opened and preset in opened.fitting and preset != opened.preset:
                st.button(
                    "Use",
                    key=f"use_{preset.name}",
                    on_click=state.want_preset,
                    args=(file_digest, preset.name),
                )
            with st.popover("Rename", type="tertiary", key=f"rename_{preset.name}"):
                st.text_input("New name", value=preset.name, max_chars=MAX_PRESET_NAME, key=f"new_{preset.name}")
                st.button(
                    "Rename it", key=f"do_rename_{preset.name}", on_click=_rename, args=(preset.name, file_digest)
                )
            st.button(
                "Delete",
                type="tertiary",
                icon=":material/delete:",
                key=f"delete_{preset.name}",
                on_click=_delete,
                args=(preset.name,),
            )


def _describe(preset: Preset) -> str:
    labels = {field.name: field.label for field in OFFERED}
    parts = [f"{labels[field]}: {column}" for field, column in preset.mapping.items()]
    if preset.delimiter:
        parts.append(f"a {DELIMITERS[preset.delimiter]} between the cells")
    if preset.encoding:
        parts.append(f"read as {TITLES[preset.encoding]}")
    return f"{TASKS[Task(preset.task)]}. {'; '.join(parts)}."


def _save(made: Preset, file_digest: str) -> None:
    named = Preset(" ".join(state.text("preset_name").split()), made.mapping, made.task, made.delimiter, made.encoding)
    try:
        save_preset(get_settings().data_dir, named)
    except EngineError as error:
        st.session_state[_FAILED] = str(error)
        return
    state.remember_deleted_preset(None)
    state.want_preset(file_digest, named.name)
    state.say_after_rerun(f"Saved the preset {named.name}.")


def _rename(name: str, file_digest: str) -> None:
    new = " ".join(state.text(f"new_{name}").split())
    try:
        rename_preset(get_settings().data_dir, name, new)
    except EngineError as error:
        st.session_state[_FAILED] = str(error)
        return
    state.remember_deleted_preset(None)
    if state.wanted_preset(file_digest) == name:
        state.want_preset(file_digest, new)


def _delete(name: str) -> None:
    try:
        state.remember_deleted_preset(delete_preset(get_settings().data_dir, name))
    except EngineError as error:
        st.session_state[_FAILED] = str(error)


def _put_back() -> None:
    deleted = state.deleted_preset()
    if deleted is None:
        return
    try:
        save_preset(get_settings().data_dir, deleted[0], at=deleted[1])
    except EngineError as error:
        st.session_state[_FAILED] = str(error)
        return
    state.remember_deleted_preset(None)

"""The saved presets: listed, used, renamed, deleted with undo; and saving the present choices as one."""

from __future__ import annotations

import streamlit as st

from dashboard import state, ui
from dashboard.panels.columns import TASKS
from dashboard.uploads import Opened
from engine.data.encodings import TITLES
from engine.data.mapping import OFFERED
from engine.data.presets import MAX_NAME, Preset, delete_preset, list_presets, rename_preset, save_preset
from engine.data.raw import DELIMITERS
from engine.errors import EngineError
from engine.schema import Task
from engine.settings import get_settings

_FAILED = "preset_error"


def load_presets() -> list[Preset]:
    """What is saved; a damaged file is named on the page and counts as none."""
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
            max_chars=MAX_NAME,
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
                st.text_input("New name", value=preset.name, max_chars=MAX_NAME, key=f"new_{preset.name}")
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

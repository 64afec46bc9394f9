"""Which column of an uploaded file is what: suggested, or taken from a preset, and always the user's choice."""

from __future__ import annotations

import streamlit as st

from dashboard import data, state, ui
from dashboard.uploads import Opened
from engine.data.dataset import MAX_NAME
from engine.data.mapping import OFFERED, QUALITY, Field, suggest_mapping
from engine.data.presets import Preset
from engine.schema import Task

NOT_IN_FILE = "(not in the file)"
TASKS = {
    Task.DIALOGUE: "Dialogue: the next reply",
    Task.SUMMARY: "Summary of a text",
    Task.QUESTION: "Answer to a question",
    Task.INSTRUCTION: "Following an instruction",
    Task.VERIFICATION: "Answer checked against a reference",
}


def preset_line(opened: Opened, file_digest: str) -> None:
    """Which preset is applied, with the way back; or which one could be."""
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
    """One selectbox a field, prefilled by the preset or the reader's guess."""
    st.subheader("Which column is what?", anchor=False)
    frame = opened.raw.frame
    guess = dict(opened.preset.mapping) if opened.preset else suggest_mapping(frame, by_last_word=True)
    columns = [NOT_IN_FILE, *map(str, frame.columns)]
    # Another separator gives other columns, so the choices belong to the file as read.
    reading = data.digest(repr((opened.reading_id, columns, _chosen_by(opened.preset))).encode())
    chosen = {}
    with st.container(key="mapping"):
        cells = [cell for _ in range(3) for cell in st.columns(3)]
        for cell, field in zip(cells, OFFERED, strict=True):
            with cell:
                chosen[field.name] = _column_choice(field, columns, guess.get(field.name, NOT_IN_FILE), reading)
    return tuple((name, column) for name, column in chosen.items() if column != NOT_IN_FILE)


def _chosen_by(preset: Preset | None) -> str:
    """Names a preset's choices; its name may change without touching what the user chose since."""
    return data.digest(repr((sorted(preset.mapping.items()), preset.task)).encode()) if preset else ""


def _column_choice(field: Field, columns: list[str], guess: str, reading: str) -> str:
    return str(
        st.selectbox(
            f"{field.label} (needed)" if field.required else field.label,
            columns,
            index=columns.index(guess),
            key=f"map_{reading}_{field.name}",
            help=field.hint,
            persist_state="session",
        )
    )


def task_and_title(name: str, file_digest: str, opened: Opened) -> tuple[str, str]:
    """What the responses were asked to be, and what the data set is called.

    A column that says correct or incorrect beside a reference is what answers checked against it look like.
    """
    left, right = st.columns(2)
    tasks = list(TASKS)
    preset = opened.preset
    guess = suggest_mapping(opened.raw.frame, by_last_word=True)
    first = Task(preset.task) if preset else Task.VERIFICATION if QUALITY.name in guess else tasks[0]
    task = left.selectbox(
        "What were the responses asked to be?",
        tasks,
        index=tasks.index(first),
        format_func=lambda t: TASKS[t],
        key=f"task_{file_digest}_{_chosen_by(preset)}",
        help="Decides which prompt the judge is given.",
        persist_state="session",
    )
    title = right.text_input(
        "Name of this data set",
        value=name,
        max_chars=MAX_NAME,
        key=f"title_{file_digest}",
        persist_state="session",
    )
    return str(task), title or name

"""Reading an uploaded file: how it was read, which column is what, what is wrong, and saving it."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from dashboard import data, state, ui
from dashboard.panels.responses import preview
from engine.data.dataset import MAX_NAME, Dataset
from engine.data.mapping import FIELDS, Field, suggest_mapping
from engine.data.problems import Problem
from engine.data.reading import DELIMITERS, EXTENSIONS, RawTable
from engine.errors import EngineError
from engine.figures.text import plural
from engine.schema import Task

NOT_IN_FILE = "(not in the file)"
TASKS = {
    Task.DIALOGUE: "Dialogue: the next reply",
    Task.SUMMARY: "Summary of a text",
    Task.QUESTION: "Answer to a question",
    Task.INSTRUCTION: "Following an instruction",
    Task.VERIFICATION: "Answer checked against a reference",
}
EXAMPLE = (
    "item_id;context;response;system;human_score\n"
    'q1;"How do I keep basil fresh?";"Stand the stems in water; do not chill them.";careful;5\n'
    'q1;"How do I keep basil fresh?";"Basil is a herb.";vague;2\n'
)
PROBLEMS_SHOWN = 4
RAW_SHOWN = 50
MAX_UPLOAD_MB = 100
_AUTO = "Found by itself"
_DELIMITER_CHOICES: tuple[tuple[str, str | None], ...] = (
    (_AUTO, None),
    *((name.capitalize(), delimiter) for delimiter, name in DELIMITERS.items()),
)
_SEVERITIES = {"error": "to solve", "excluded": "left out", "warning": "to know"}


def uploader() -> None:
    """The file picker; the file is held in the session until it is saved or discarded."""
    key = f"uploader_{state.upload_round()}"
    st.file_uploader(
        f"Your responses, one row each, in UTF-8: {', '.join(EXTENSIONS)}",
        type=[ending.removeprefix(".") for ending in EXTENSIONS],
        max_upload_size=MAX_UPLOAD_MB,
        key=key,
        on_change=_take(key),
    )
    ui.download("Example file", lambda: EXAMPLE.encode(), "example.csv", "text/csv", key="example_file")


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
    delimiter = _delimiter_choice(file_digest)
    try:
        raw = data.read_upload(name, file_digest, delimiter, content)
    except EngineError as error:
        with opening:
            ui.show_error(error, f"“{name}” could not be read. It is still here; nothing was saved.")
        _delimiter_control(file_digest, None)
        _discard_button("Choose another file")
        return
    _how_it_was_read(raw, file_digest)
    mapping = _mapping(raw, file_digest)
    task, title = _task_and_title(name, file_digest)
    if "response" not in dict(mapping):
        with opening:
            ui.finding(f"“{name}” is read. Now say which column holds the responses.")
        _discard_button()
        _raw_preview(raw)
        return
    try:
        dataset = data.mapped(title, file_digest, delimiter, mapping, task, raw)
    except EngineError as error:
        with opening:
            ui.show_error(error, f"The columns of “{name}” do not fit yet. File and choices are kept.")
        _discard_button()
        _raw_preview(raw)
        return
    with opening:
        ui.finding(_opening_sentence(name, dataset))
    _problems(dataset)
    _save(dataset)
    preview(dataset, key="upload_preview")


def _raw_preview(raw: RawTable) -> None:
    """The file's own columns, to choose from."""
    st.dataframe(
        raw.frame.head(RAW_SHOWN), key="raw_preview", hide_index=True, alt="First rows of the file", placeholder=""
    )


def _opening_sentence(name: str, dataset: Dataset) -> str:
    if dataset.errors:
        return f"“{name}” has {plural(len(dataset.errors), 'problem')} to solve before it can be saved."
    return f"“{name}” holds {data.counts(dataset)}. It is not saved yet."


def _delimiter_choice(file_digest: str) -> str | None:
    """The delimiter the user chose; None lets the reader find it."""
    return dict(_DELIMITER_CHOICES)[str(st.session_state.get(f"delimiter_{file_digest}") or _AUTO)]


def _delimiter_control(file_digest: str, raw: RawTable | None) -> None:
    if raw is not None and raw.format == "jsonl":
        return
    with st.popover("Change the separator", type="tertiary", icon=":material/tune:"):
        st.segmented_control(
            "Between the cells stands",
            [label for label, _ in _DELIMITER_CHOICES],
            default=_AUTO,
            required=True,
            key=f"delimiter_{file_digest}",
            persist_state="session",
        )


def _how_it_was_read(raw: RawTable, file_digest: str) -> None:
    encoding = "UTF-8 with byte order mark" if raw.encoding == "utf-8-sig" else "UTF-8"
    cells = f"a {DELIMITERS[raw.delimiter]} between the cells" if raw.delimiter else "one JSON object a line"
    rows, columns = plural(len(raw.frame), "row"), plural(len(raw.frame.columns), "column")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        ui.note(f"Read as {encoding}, {cells}: {rows}, {columns}.")
        _delimiter_control(file_digest, raw)


def _mapping(raw: RawTable, file_digest: str) -> tuple[tuple[str, str], ...]:
    """One selectbox a field, prefilled with the reader's guess."""
    st.subheader("Which column is what?", anchor=False)
    guess = suggest_mapping(raw.frame)
    columns = [NOT_IN_FILE, *map(str, raw.frame.columns)]
    # Another separator gives other columns, so the choices belong to the file as read.
    reading = data.digest(repr((file_digest, columns)).encode())
    chosen = {}
    with st.container(key="mapping"):
        cells = [cell for _ in range(2) for cell in st.columns(4)]
        for cell, field in zip(cells, FIELDS, strict=True):
            with cell:
                chosen[field.name] = _column_choice(field, columns, guess.get(field.name, NOT_IN_FILE), reading)
    return tuple((name, column) for name, column in chosen.items() if column != NOT_IN_FILE)


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


def _task_and_title(name: str, file_digest: str) -> tuple[str, str]:
    left, right = st.columns(2)
    task = left.selectbox(
        "What were the responses asked to be?",
        list(TASKS),
        format_func=lambda t: TASKS[t],
        key=f"task_{file_digest}",
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


def _problems(dataset: Dataset) -> None:
    """What is wrong row by row, the blocking ones first."""
    order = {"error": 0, "excluded": 1, "warning": 2}
    found = sorted(dataset.problems, key=lambda p: order[p.severity])
    if not found:
        return
    counts = [
        f"{sum(p.severity == severity for p in found):,} {words}"
        for severity, words in _SEVERITIES.items()
        if any(p.severity == severity for p in found)
    ]
    st.subheader("What needs your eye", anchor=False)
    ui.note("; ".join(counts) + ".")
    shown, folded = found[:PROBLEMS_SHOWN], found[PROBLEMS_SHOWN:]
    _list_problems(shown)
    if folded:
        with st.expander(f"{len(folded):,} more", on_change="rerun", key="more_problems") as more:
            if more.open:
                table = pd.DataFrame([p.as_dict() for p in folded], columns=["severity", "where", "what", "fix"])
                st.dataframe(table, hide_index=True, alt="Further problems by row")


def _list_problems(problems: list[Problem]) -> None:
    for problem in problems:
        ui.show_problem(problem.where, problem.what, problem.fix, is_error=problem.severity == "error")


def _save(dataset: Dataset) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button(
            "Save and use this data",
            type="primary",
            icon=":material/check:",
            disabled=bool(dataset.errors),
            key="save_upload",
        ):
            _keep(dataset)
        _discard_button()
        if dataset.errors:
            ui.note("Solve what is marked red, in the file or by choosing other columns.")


def _keep(dataset: Dataset) -> None:
    try:
        data.save(dataset)
    except EngineError as error:
        ui.show_error(error, "The data could not be saved. Your file is still here.")
        return
    state.drop_upload()
    state.choose_data(dataset.dataset_id)
    state.say_after_rerun(f"Saved {data.counts(dataset)}. This is now the data in use.")
    st.rerun()


def _discard_button(label: str = "Discard this file") -> None:
    st.button(label, type="tertiary", on_click=state.drop_upload, key="discard_upload")

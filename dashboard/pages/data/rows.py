"""The rows of an uploaded file: what is wrong with them, and which are left out, with undo."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.datasets import counts, digest
from dashboard.state import History, parse_rows
from dashboard.uploads import Opened, Reading
from engine.core.files import safe_csv
from engine.data.dataset import Dataset
from engine.data.encodings import CHOICES, TITLES, Candidate
from engine.data.mapping import OFFERED
from engine.data.raw import DELIMITERS, Problem, ProblemGroup, RawTable, group_problems, rows_text
from engine.data.reading import TEXT_EXTENSIONS, list_parts
from engine.plots.text import count, plural

MOST_ROWS = 200
"""Rows sent to the browser at once; texts are long."""
PROBLEMS_SHOWN = 4
_CELL_SHOWN = 400
_SEVERITIES = {"error": "to solve", "excluded": "left out", "warning": "to know"}
_STATES = {
    "": "kept",
    "error": "to solve",
    "warning": "kept, with a note",
    "excluded": "left out",
    "user": "left out by you",
}
_FILTERS = ("All rows", "With a problem", "Left out")


def problems(found: list[Problem], reading_id: str = "") -> None:
    """Problems of a file, alike ones together, the blocking ones first.

    Args:
        found: the findings.
        reading_id: names the rows, so that they can be left out; empty where they cannot.
    """
    groups = group_problems(found)
    if not groups:
        return
    counts = [
        f"{sum(p.severity == severity for p in found):,} {words}"
        for severity, words in _SEVERITIES.items()
        if any(p.severity == severity for p in found)
    ]
    st.subheader("What needs your eye", anchor=False)
    ui.note("; ".join(counts) + ".")
    for group in groups[:PROBLEMS_SHOWN]:
        _problem(group, reading_id)
    if len(groups) > PROBLEMS_SHOWN or len(found) > len(groups):
        with st.expander("Every finding by row", on_change="rerun", key="more_problems") as more:
            if more.open:
                for group in groups[PROBLEMS_SHOWN : 5 * PROBLEMS_SHOWN]:
                    _problem(group, reading_id)
                table = pd.DataFrame([p.as_dict() for p in found[:5000]], columns=["severity", "where", "what", "fix"])
                st.dataframe(table, hide_index=True, key="findings_table", alt="Every finding by row")


def _problem(group: ProblemGroup, reading_id: str) -> None:
    with st.container(gap="xxsmall"):
        ui.show_problem(group.where, group.what, group.fix, is_error=group.severity == "error")
        if reading_id and group.rows and group.severity != "excluded":
            st.button(
                f"Leave out {rows_text(group.rows)}",
                type="tertiary",
                icon=":material/block:",
                key=f"leave_{group.severity}_{group.rows[0]}_{group.count}_{digest(group.fix.encode())}",
                on_click=_change(reading_id, lambda h: h.leave_out(group.rows, group.what)),
            )


def left_out_bar(reading_id: str, n_rows: int) -> None:
    """Rows that the user left out, and the way back."""
    history = state.left_out(reading_id)
    if not (history.now or history.past or history.future):
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="left_out_line"):
        if history.now:
            ui.note(f"Left out by you: {rows_text(history.rows, 6)}, {count(len(history.now))} of {count(n_rows)}.")
        else:
            ui.note("You leave no row out.")
        for label, icon, change, possible in (
            ("Undo", ":material/undo:", History.undo, history.past),
            ("Redo", ":material/redo:", History.redo, history.future),
        ):
            st.button(
                label,
                type="tertiary",
                icon=icon,
                key=f"rows_{label.lower()}",
                disabled=not possible,
                on_click=_change(reading_id, change),
            )


def rows_table(opened: Opened, mapping: tuple[tuple[str, str], ...], dataset: Dataset) -> None:
    """The rows of the file with what becomes of each; chosen ones can be left out or put back."""
    reading_id, raw = opened.reading_id, opened.raw
    history = state.left_out(reading_id)
    st.subheader("The rows of the file", anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        wanted = st.segmented_control(
            "Show", _FILTERS, default=_FILTERS[0], required=True, key="rows_shown", label_visibility="collapsed"
        )
        _by_number(reading_id, len(raw.lines))
    states = _states(len(raw.lines), dataset, history)
    rows = [r for r, s in states.items() if wanted == _FILTERS[0] or (s if wanted == _FILTERS[1] else _is_out(s))]
    if not rows:
        ui.note("No row is like that.")
        return
    page = 1
    if len(rows) > MOST_ROWS:
        page = st.pagination(-(-len(rows) // MOST_ROWS), key=f"rows_page_{wanted}")
    shown = rows[(page - 1) * MOST_ROWS : page * MOST_ROWS]
    bar = st.container(horizontal=True, vertical_alignment="center", gap="small")
    event = st.dataframe(
        _table(raw, mapping, states, shown),
        key=f"rows_{reading_id}_{wanted}_{page}_{len(history.past)}_{len(history.future)}",
        hide_index=True,
        height=min(420, 38 + 35 * len(shown)),
        on_select="rerun",
        selection_mode="multi-row",
        placeholder="",
        column_config={"Response": st.column_config.TextColumn(width="large")},
        alt=f"{plural(len(shown), 'row')} of the file and what becomes of each",
    )
    chosen = [shown[i] for i in event["selection"]["rows"] if i < len(shown)]
    with bar:
        _selection_buttons(reading_id, chosen, states)


def _selection_buttons(reading_id: str, chosen: list[int], states: dict[int, str]) -> None:
    kept = [row for row in chosen if not _is_out(states[row])]
    back = [row for row in chosen if states[row] == "user"]
    st.button(
        f"Leave out {plural(len(kept), 'selected row')}" if kept else "Leave out selected rows",
        icon=":material/block:",
        type="tertiary",
        disabled=not kept,
        key="leave_selected",
        on_click=_change(reading_id, lambda h: h.leave_out(kept, "selected in the table")),
    )
    if back:
        st.button(
            f"Put back {plural(len(back), 'selected row')}",
            icon=":material/undo:",
            type="tertiary",
            key="put_back_selected",
            on_click=_change(reading_id, lambda h: h.put_back(back)),
        )


def _by_number(reading_id: str, n_rows: int) -> None:
    """The same without a pointer: rows by their numbers."""
    with st.popover("Leave out by number", type="tertiary", icon=":material/pin:", key="by_number"):
        typed = st.text_input("Rows to leave out", placeholder="3, 7-9", key="row_numbers")
        rows: list[int] = []
        try:
            rows = parse_rows(typed, n_rows)
        except ValueError as error:
            ui.warn(str(error))
        st.button(
            "Leave them out",
            disabled=not rows,
            key="leave_numbers",
            on_click=_change(reading_id, lambda h: h.leave_out(rows, "chosen by number"), clear="row_numbers"),
        )


def _change(reading_id: str, change: Callable[[History], History], clear: str = "") -> Callable[[], None]:
    def apply() -> None:
        state.set_left_out(reading_id, change(state.left_out(reading_id)))
        if clear:
            st.session_state[clear] = ""

    return apply


def _is_out(of: str) -> bool:
    return of in ("user", "excluded")


def _states(n_rows: int, dataset: Dataset, history: History) -> dict[int, str]:
    """Row -> a key of `_STATES`, the gravest finding of each."""
    gravity = {"": 0, "warning": 1, "error": 2, "excluded": 3}
    out = dict.fromkeys(range(1, n_rows + 1), "")
    for problem in dataset.problems:
        if problem.row and gravity[problem.severity] > gravity[out[problem.row]]:
            out[problem.row] = problem.severity
    return {**out, **dict.fromkeys(history.rows, "user")}


def _table(
    raw: RawTable, mapping: tuple[tuple[str, str], ...], states: dict[int, str], shown: list[int]
) -> pd.DataFrame:
    """Number and state of each row, then the mapped columns under our names, then the others under theirs."""
    part = raw.frame.iloc[[row - 1 for row in shown]]
    columns = dict(mapping)
    labels = [(field.label, columns[field.name]) for field in OFFERED if field.name in columns]
    others = [(str(c), str(c)) for c in raw.frame.columns if c not in columns.values()]
    table: dict[str, list[object]] = {"Row": list(shown), "State": [_STATES[states[row]] for row in shown]}
    for label, column in (*labels, *others):
        table[label if label not in table else f"{label} (in the file)"] = [_clipped(v) for v in part[column]]
    return pd.DataFrame(table)


def _clipped(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    return value if len(value) <= _CELL_SHOWN else f"{value[:_CELL_SHOWN]}… ({count(len(value))} characters)"


# Reading of an uploaded file, the user's changes of it, and the question which encoding it has.

_AUTO = "Found by itself"
_DELIMITER_CHOICES: tuple[tuple[str, str | None], ...] = (
    (_AUTO, None),
    *((name.capitalize(), delimiter) for delimiter, name in DELIMITERS.items()),
)


def chosen_reading(file_digest: str) -> Reading:
    """The user's choices for this file so far."""
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
            _change_reading(file_digest, raw.parts, raw.part, text=bool(raw.encoding), delimited=bool(raw.delimiter))
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
        _change_reading(file_digest, parts, part, text=ending in TEXT_EXTENSIONS, delimited=ending in (".csv", ".tsv"))


def ask_encoding(raw: RawTable, file_digest: str) -> None:
    """The telling lines as each candidate reads them; choosing one answers the question."""
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


def _change_reading(file_digest: str, parts: list[str], part: str, *, text: bool, delimited: bool) -> None:
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


# Responses as a table, and in numbers.

SHOWN_ROWS = 500
"""Rows sent to the browser; a table of a hundred thousand texts would make every click slow."""
_COLUMNS = {
    "response_id": "Response",
    "item_id": "Item",
    "system": "System",
    "human_score": "Human score",
    "quality": "Quality",
    "text": "Text of the response",
    "context": "Context",
    "group": "Group",
}


def preview(dataset: Dataset, *, key: str) -> None:
    """The responses beside their contexts; a table shows text as text."""
    table = joined(dataset)
    shown = table.head(SHOWN_ROWS)
    if len(shown) < len(table):
        ui.note(f"The first {count(len(shown))} of {count(len(table))} responses; the CSV has all.")
    st.dataframe(
        shown,
        key=key,
        hide_index=True,
        height=min(420, 38 + 35 * len(shown)),
        column_config={
            "Text of the response": st.column_config.TextColumn(width="large"),
            "Context": st.column_config.TextColumn(width="medium"),
        },
        alt=f"Table of {counts(dataset)}",
        placeholder="",
    )
    ui.download("Data (CSV)", lambda: safe_csv(table), f"{key}.csv", "text/csv", key=f"{key}_csv")


def joined(dataset: Dataset) -> pd.DataFrame:
    """One row per response with its item's context, columns that hold nothing left out."""
    table = dataset.responses.merge(dataset.items[["item_id", "context", "group"]], on="item_id", how="left")
    table = table[[c for c in _COLUMNS if c in table.columns and table[c].notna().any()]]
    return table.rename(columns=_COLUMNS)

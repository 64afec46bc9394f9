"""Verdicts somebody already has: read them, count what is left out, measure what needs no judge."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import datasets, state, ui, uploads
from dashboard.uploads import MAX_UPLOAD_MB
from engine.core.errors import EngineError
from engine.core.files import safe_csv
from engine.core.schema import Protocol, Task
from engine.data.dataset import Dataset
from engine.data.formats.registry import TABLE
from engine.data.recording import Recording
from engine.data.store import DEMO_NAMES
from engine.plots.rows import plot_forest, prepare_forest
from engine.plots.text import count, interval_text, plural

KINDS = ["csv", "tsv", "jsonl", "json", "xlsx", "parquet", "eval"]
MOST_VALUES = 40
"""Columns with at most so many values can choose rows."""
_METRICS = {
    "win_rate": "wins its pairs",
    "win_rate_a": "the first of the two named wins its pairs",
    "first_slot": "prefers the response shown first",
    "order_agreement": "agrees with itself when the order is swapped",
    "yes_rate": "says YES",
    "mean": "mean score",
    "shift": "shift of the score",
}


def verdict_file() -> None:
    """The uploader and, once there is a file, what it says."""
    held = st.file_uploader(
        "A file of verdicts",
        type=KINDS,
        max_upload_size=MAX_UPLOAD_MB,
        key="verdict_file",
        help="One row per verdict: response_id and score; or response_a, response_b, order and outcome; or "
        "response_id and p_yes. Columns attack and defense name the arm.",
    )
    if held is None:
        return
    content = held.getvalue()
    form = _format()
    where = _rows_to_take(held.name, content, form)
    try:
        recording = uploads.recording(held.name, datasets.digest(content), tuple(where.items()), form, content)
    except EngineError as error:
        ui.show_error(error, "The verdicts cannot be read as they are.")
        return
    _said(held.name, recording)


def _format() -> str:
    """The format to read the file in; empty lets its columns decide."""
    with st.popover("Change the format", type="tertiary", icon=":material/dataset:", key="verdict_format_change"):
        chosen = st.selectbox(
            "What kind of file is it?",
            ["", TABLE, *uploads.choices()],
            format_func=lambda f: (
                {"": "Found by itself", TABLE: "A plain table"}.get(f) or f"{uploads.choices()[f]} ({f})"
            ),
            key="verdict_format",
        )
    return str(chosen)


def _rows_to_take(name: str, content: bytes, form: str) -> dict[str, str]:
    """Rows by the value of up to two columns, for files that hold several judges or prompts."""
    choices = uploads.few_values(name, datasets.digest(content), MOST_VALUES, form, content)
    if not choices:
        return {}
    where: dict[str, str] = {}
    with st.container(horizontal=True, gap="small"):
        columns = st.multiselect(
            "Take only rows of one …", list(choices), max_selections=3, key="verdict_columns", placeholder="all rows"
        )
        for column in columns:
            where[column] = str(st.selectbox(ui.plain(column), choices[column], key=f"verdict_value_{column}"))
    return where


def _said(name: str, recording: Recording) -> None:
    read = f"{count(recording.n_read)} of {plural(recording.n_calls, 'verdict')} can be read"
    ui.finding(f"{read}; {count(recording.n_unread)} unread, {count(recording.n_left_out)} left out.")
    metrics, remarks = uploads.recorded_numbers(recording.digest, recording.verdicts)
    for row in metrics[metrics["metric"] != "rank"].itertuples():
        arm = "" if row.attack == "none" and row.defense == "none" else f" ({row.attack}, {row.defense})"
        value = interval_text(row.value, row.lower, row.upper, method=row.method, n_clusters=row.n_clusters)
        left = f", {count(row.n_unread)} unread" if row.n_unread else ""
        of = f" of {row.group}" if isinstance(row.group, str) else ""
        ui.note(f"{_METRICS.get(row.metric, row.metric).capitalize()}{of}{arm}: {value}, n = {count(row.n)}{left}.")
    for remark in remarks:
        ui.note(remark)
    if recording.protocol is Protocol.POINTWISE and (metrics["metric"] == "shift").any():
        prepared: pd.DataFrame = prepare_forest(metrics)
        ui.show_figure(lambda mode: plot_forest(prepared, mode=mode, note="recorded"), prepared, key="recorded")
    if len(metrics):
        ui.table_bar(
            metrics, title=f"Numbers of the recorded verdicts in {name}", about=f"{read}.",
            key="recorded_numbers", label="Numbers (CSV)",
        )  # fmt: skip
    with st.expander("Details: columns, labels, what was left out and why"):
        st.text(recording.describe())
        for problem in recording.problems[:20]:
            ui.show_problem(problem.where, problem.what, problem.fix, is_error=problem.severity == "error")
    ui.download("Verdicts (CSV)", lambda: safe_csv(recording.verdicts), "verdicts.csv", "text/csv", key="verdicts_csv")


# From data to the pages that put a judge to the test on them.


def next_steps(dataset: Dataset) -> None:
    """One button a page; the first is what comes next, once the data are the user's own."""
    kind = "secondary" if dataset.dataset_id in DEMO_NAMES else "primary"
    with st.container(horizontal=True, gap="small", key="next_steps"):
        if dataset.task == Task.VERIFICATION:
            if st.button("Swap the references", type=kind, icon=":material/swap_horiz:", key="next_swap"):
                st.switch_page("pages/reference_swap/page.py")
        else:
            if st.button("Attack one response", type=kind, icon=":material/bolt:", key="next_one"):
                _attack(state.TAB_ONE)
            if st.button("Attack the whole set", icon=":material/grid_on:", key="next_set"):
                _attack(state.TAB_SET)
        if st.button("Check up the judge", icon=":material/stethoscope:", key="next_checkup"):
            st.switch_page("pages/checkup/page.py")


def _attack(tab: str) -> None:
    """Open the Attack lab at a tab that a reload keeps; the address has it only if it is given one."""
    state.put(state.TAB, tab)
    st.switch_page("pages/attack_lab/page.py", query_params={state.TAB: tab})

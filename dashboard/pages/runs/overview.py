"""The list of runs: filters, the table, and the one or two that are chosen."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dashboard import datasets, linked_run, state, ui
from engine import catalog
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.plots.text import plural
from engine.runs import library
from engine.runs.archive import MAX_ZIP, import_run
from engine.runs.library import RunRow
from engine.studies.registry import study_title
from engine.studies.transport_audit.study import IN_DATA

# Runs from elsewhere, and deleted ones: import, trash, restore.

_ROUND = "import_round"


def bring_in() -> None:
    """A zip that Export made, checked before anything of it is written."""
    with st.popover("Import a run", icon=":material/upload:", width="content", key="runs_import"):
        held = st.file_uploader(
            "A run's zip",
            type=["zip"],
            key=f"run_zip_{st.session_state.get(_ROUND, 0)}",
            max_upload_size=MAX_ZIP // 2**20,
            help="Only what Export writes: a manifest and tables. Nothing in it is run; its data set does not travel.",
        )
        if held is None:
            return
        try:
            came = import_run(get_settings().runs, held.getvalue())
        except EngineError as error:
            ui.show_error(error, "The file was not imported.")
            return
    new = "" if came.run_id == came.was else f"; its id {came.was} was taken"
    done = f"{came.run_id} is here already." if came.skipped else f"Imported as {came.run_id}{new}."
    state.put(_ROUND, int(st.session_state.get(_ROUND, 0)) + 1)
    state.after_rerun({linked_run.SELECTED: came.run_id, "with": ""})
    state.say_after_rerun(done)
    st.rerun()


def trash() -> None:
    """Deleted runs, until they are gone."""
    deleted = library.trash(get_settings().runs)
    if not deleted:
        return
    with st.expander(f"Trash: {plural(len(deleted), 'run')}", icon=":material/delete:", key="runs_trash"):
        names = {t.entry: f"{t.title or t.run_id}, deleted {t.deleted[:10]}, gone on {t.gone[:10]}" for t in deleted}
        state.seed("trash_entry", list(names), next(iter(names)))
        entry = ui.pick("Deleted run", list(names), key="trash_entry", title=lambda e: names.get(e, e))
        with st.container(horizontal=True, gap="small"):
            if st.button("Restore", icon=":material/undo:", key="restore_run"):
                _restore(entry)
            with st.popover("Empty the trash", icon=":material/delete_forever:"):
                ui.warn(f"{plural(len(deleted), 'run')} will be gone for good.")
                if st.button("Remove all", key="empty_trash"):
                    library.empty_trash(get_settings().runs)
                    st.rerun()


def _restore(entry: str) -> None:
    try:
        run_id = library.restore(get_settings().runs, entry)
    except EngineError as error:
        ui.show_error(error, "It was not restored.")
        return
    state.after_rerun({linked_run.SELECTED: run_id, "with": ""})
    state.say_after_rerun(f"{run_id} is back.")
    st.rerun()


# Titles of the columns of a table of metrics.

_COLUMNS = {
    "n": "n",
    "n_clusters": "Items",
    "n_unread": "Unread",
    "p_value": "p",
    "q_value": "q",
    "lower": "Lower",
    "upper": "Upper",
}


def with_titles(metrics: pd.DataFrame) -> pd.DataFrame:
    """The table with columns a reader knows; what is in them stays as the run has it."""
    return metrics.rename(columns=lambda c: _COLUMNS.get(c, str(c).replace("_", " ").capitalize()))


FIRST, SECOND, NOBODY = linked_run.SELECTED, "with", ""
FIND = "runs_find"
FILTERS = {"study": "Study", "state": "State", "judge": "Judge", "data": "Data", "tag": "Tag"}
MOST_ROWS = 1_000
_HEIGHT = 360


def choose(frame: ui.Frame) -> list[str]:
    """Ids of the runs that are chosen, none to two; the choice is in the URL."""
    rows = library.all_runs(get_settings().runs, get_settings().assets / "demo")
    shown = _filtered(rows)
    own = sum(not r.recorded for r in rows)
    fit = f"; {_fit(len(shown))} the filters" if len(shown) < len(rows) else ""
    frame.headline(f"{plural(own, 'run')} made here and {len(rows) - own} recorded ones{fit}.")
    if shown:
        _table(shown[:MOST_ROWS])
    if len(shown) > MOST_ROWS:
        ui.note(f"The table has the first {MOST_ROWS:,}; narrow the filters for the others.")
    return _picked(rows)


def _filtered(rows: list[RunRow]) -> list[RunRow]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="runs_filters"):
        text = str(st.text_input("Find", key=FIND, placeholder="title, id, judge …", width=160) or "")
        chosen: dict[str, str] = {}
        for name, title in FILTERS.items():
            held = sorted({value for row in rows for value in _values(row, name) if value})
            key = f"runs_{name}"
            if st.session_state.get(key) not in held:
                st.session_state.pop(key, None)
            said = study_title if name == "study" else str
            box = st.selectbox(title, held, index=None, key=key, placeholder="any", width=110, format_func=said)
            chosen[name] = str(box or "")
    return library.select(rows, text=text, **chosen)


def _fit(n: int) -> str:
    return f"{n:,} fits" if n == 1 else f"{n:,} fit"


def _values(row: RunRow, name: str) -> tuple[str, ...]:
    return row.tags if name == "tag" else (str(getattr(row, name)),)


def _table(rows: list[RunRow]) -> None:
    cards = catalog.describe_judges({r.judge for r in rows if r.judge})
    table = pd.DataFrame(
        {
            "Study": [study_title(r.study) for r in rows],
            "Judge": [_judge(r.judge, cards) for r in rows],
            "Data": [r.data for r in rows],
            "Run": [r.name for r in rows],
            "Begun (UTC)": [r.begun[:16].replace("T", " ") for r in rows],
            "Made": [f"recorded, {r.state}" if r.recorded else r.state for r in rows],
            **({"Tags": [", ".join(r.tags) for r in rows]} if any(r.tags for r in rows) else {}),
        }
    )
    ids = [r.run_id for r in rows]
    key = f"runs_table_{datasets.digest(' '.join(ids).encode())}"  # another list has other rows selected
    st.dataframe(
        table,
        key=key,
        hide_index=True,
        height=min(_HEIGHT, 40 + 35 * len(table)),
        on_select=lambda: _take(key, ids),
        selection_mode="multi-row",
        placeholder="",
        alt="Runs, newest first",
        column_config={
            "Run": st.column_config.TextColumn(width="medium"),
            "Judge": st.column_config.TextColumn(width="medium"),
        },
    )
    ui.note("Select one row to open it, two to compare them.")


def _judge(spec: str, cards: Mapping[str, catalog.JudgeCard]) -> str:
    return "Verdicts in the file" if spec == IN_DATA else cards[spec].title if spec else ""


def _take(key: str, ids: list[str]) -> None:
    """One or two selected rows become the choice; of more, the two selected last."""
    rows = [ids[i] for i in st.session_state[key]["selection"]["rows"] if i < len(ids)]
    state.put(FIRST, rows[-2] if len(rows) > 1 else rows[0] if rows else NOBODY)
    state.put(SECOND, rows[-1] if len(rows) > 1 else NOBODY)


def _picked(rows: list[RunRow]) -> list[str]:
    titles = {NOBODY: "None"} | {r.run_id: _title(r) for r in rows}
    left, right = st.columns(2, gap="medium")
    with left:
        first = _pick("Run", FIRST, titles)
    with right:
        others = {run_id: title for run_id, title in titles.items() if run_id == NOBODY or run_id != first}
        second = _pick("Compare with", SECOND, others) if first else NOBODY
    return [run_id for run_id in (first, second) if run_id]


def _title(row: RunRow) -> str:
    what = row.title or row.run_id
    return f"{what} · {study_title(row.study)} · {row.judge}" if not row.recorded else f"{what} · {row.judge}"


def _pick(name: str, key: str, titles: dict[str, str]) -> str:
    state.seed(key, list(titles), NOBODY)
    if unknown := state.unknown(key):
        ui.note(f"The link asks for the run {unknown!r}, which is not on this machine.")
        state.forget_unknown(key)
    chosen = ui.pick(name, list(titles), key=key, title=lambda run_id: titles.get(run_id, run_id))
    state.publish(key, chosen)
    return chosen

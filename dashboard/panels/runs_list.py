"""The list of runs: filters, the table, and the one or two that are chosen."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import data, pinned, state, ui
from dashboard.panels.runs_words import study_title
from engine import catalog, runs_kept
from engine.figures.text import plural
from engine.runs_kept import RunRow
from engine.settings import get_settings

FIRST, SECOND, NOBODY = pinned.SELECTED, "with", ""
FIND = "runs_find"
FILTERS = {"study": "Study", "state": "State", "judge": "Judge", "data": "Data", "tag": "Tag"}
MOST_ROWS = 1_000
_HEIGHT = 360


def choose() -> list[str]:
    """Ids of the runs that are chosen, none to two; the choice is in the URL."""
    rows = runs_kept.all_runs(get_settings().runs, get_settings().assets / "demo")
    shown = _filtered(rows)
    own = sum(not r.recorded for r in rows)
    fit = f"; {_fit(len(shown))} the filters" if len(shown) < len(rows) else ""
    ui.finding(f"{plural(own, 'run')} made here and {len(rows) - own} recorded ones{fit}.")
    if not own:
        ui.note("None has been made here yet. The recorded ones can be looked at and compared.")
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
    return runs_kept.select(rows, text=text, **chosen)


def _fit(n: int) -> str:
    return f"{n:,} fits" if n == 1 else f"{n:,} fit"


def _values(row: RunRow, name: str) -> tuple[str, ...]:
    return row.tags if name == "tag" else (str(getattr(row, name)),)


def _table(rows: list[RunRow]) -> None:
    cards = catalog.describe_judges({r.judge for r in rows if r.judge})
    table = pd.DataFrame(
        {
            "Run": [r.name for r in rows],
            "Study": [study_title(r.study) for r in rows],
            "State": [r.state for r in rows],
            "Begun (UTC)": [r.begun[:16].replace("T", " ") for r in rows],
            "Judge": [cards[r.judge].title if r.judge else "" for r in rows],
            "Data": [r.data for r in rows],
            "Tags": [", ".join(r.tags) for r in rows],
            "Made": ["recorded" if r.recorded else "here" for r in rows],
        }
    )
    ids = [r.run_id for r in rows]
    key = f"runs_table_{data.digest(' '.join(ids).encode())}"  # another list has other rows selected
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
    ui.note("Select one row to see what it rests on, two to compare them; or choose them below.")


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

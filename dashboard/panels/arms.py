"""The result of a run: the grid of arms, one arm up close, its records worst first."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.data import RunView
from dashboard.panels import findings
from dashboard.panels.effects import dumbbells, forest, grid
from dashboard.panels.record import record
from engine.data.dataset import Dataset
from engine.figures.text import count
from engine.gallery import name_of
from engine.gallery.words import upper_first
from engine.schema import NONE

MOST_MOVED = 20
MOST_DEFENSES_BESIDE = 3
MOST_ROWS = 1_000
_TEXT_SHOWN = 300
"""Characters of a response in the table; the drawer has all of it."""


def results(view: RunView, dataset: Dataset, *, live: bool) -> None:
    """What the run shows so far; while it is going the records do not open, since the table is redrawn."""
    st.badge(findings.provenance(view.manifest, recorded=view.recorded), color="gray")
    headline, rest = findings.run_sentences(view.metrics, findings.judge_name(view.judge))
    ui.finding(headline)
    ui.note(rest)
    if warning := findings.unread_warning(view.metrics):
        ui.warn(warning)
    _overview(view)
    _one_arm(view, dataset, live=live)


def _overview(view: RunView) -> None:
    """Grid and forest side by side; a wide grid takes the whole width, and the forest then only what it is good for."""
    shifts = view.metrics[view.metrics["metric"] == "shift"]
    if shifts["defense"].nunique() <= MOST_DEFENSES_BESIDE:
        left, right = st.columns(2, gap="large")
        with left:
            grid(view, key="set_grid")
        with right:
            forest(view, key="set_forest")
        return
    grid(view, key="set_grid")
    forest(view, key="set_forest", defense=NONE if NONE in set(shifts["defense"]) else shifts["defense"].iloc[0])


def _one_arm(view: RunView, dataset: Dataset, *, live: bool) -> None:
    arms = view.shifts[["attack", "defense"]].drop_duplicates()
    options = [f"{a}|{d}" for a, d in arms.itertuples(index=False, name=None)]
    if not options:
        return
    st.subheader("One arm up close", anchor=False)
    strongest = "|".join(findings.strongest_arm(view.metrics))
    state.seed(state.ARM, options, strongest)
    arm = ui.pick("Attack and defense", options, key=state.ARM, title=lambda o: findings.arm_name(*o.split("|", 1)))
    attack, defense = arm.split("|", 1)
    ui.finding(findings.arm_sentence(view.metrics, attack, defense))
    ui.note(findings.arm_details(view.metrics, attack, defense))
    left, right = st.columns(2, gap="large")
    with left:
        dumbbells(view, attack, defense, key="set_dumbbells", most=MOST_MOVED)
    with right:
        _worst_first(view, dataset, attack, defense, live=live)


def _worst_first(view: RunView, dataset: Dataset, attack: str, defense: str, *, live: bool) -> None:
    arm = view.shifts[(view.shifts["attack"] == attack) & (view.shifts["defense"] == defense)]
    worst = arm.sort_values("shift", key=lambda s: s.abs(), ascending=False, na_position="last", kind="stable")
    table = _table(worst.head(MOST_ROWS), dataset)
    ids = worst["response_id"].tolist()[:MOST_ROWS]
    which = "All responses" if len(ids) == len(worst) else f"The first {count(len(ids))} responses"
    how = "Records open when the run has ended." if live else "Select a row to open its record."
    ui.note(f"{which}, most moved first. {how}")
    key = f"records_{state.table_round()}_{arm['attack'].iloc[0]}_{arm['defense'].iloc[0]}"
    options = {"on_select": "ignore"} if live else {"on_select": _opener(key, ids), "selection_mode": "single-row"}
    st.dataframe(
        table,
        key=key,
        hide_index=True,
        height=min(600, 40 + 35 * len(table)),
        placeholder="",
        alt=f"Responses by size of shift under {findings.arm_name(attack, defense)}",
        column_config={
            name: st.column_config.NumberColumn(format="%.2f", width="small") for name in ("Shift", "Without", "With")
        },
        **options,
    )
    origin = upper_first(findings.provenance(view.manifest, recorded=view.recorded))
    ui.table_bar(
        worst, title=f"Responses by size of shift under {findings.arm_name(attack, defense)}",
        about=f"{origin}. Run {name_of(view.source.folder)}.",
        key="records", shown=table, file=f"records_{attack}_{defense}.csv",
    )  # fmt: skip
    if not live and (opened := state.take_record()) and opened in ids:
        record(view, dataset, opened, attack, defense)


def _opener(key: str, ids: list[str]):  # noqa: ANN202
    def open_selected() -> None:
        rows = st.session_state[key]["selection"]["rows"]
        if rows and rows[0] < len(ids):
            state.open_record(ids[rows[0]])

    return open_selected


def _table(worst: pd.DataFrame, dataset: Dataset) -> pd.DataFrame:
    table = worst.merge(dataset.responses[["response_id", "system", "text"]], on="response_id", how="left")
    table["text"] = table["text"].str.slice(0, _TEXT_SHOWN)
    table = table.rename(
        columns={
            "response_id": "Response",
            "shift": "Shift",
            "clean": "Without",
            "attacked": "With",
            "system": "System",
            "unread_reason": "Unread",
            "text": "Text",
        }
    )
    shown = ["Response", "Shift", "Without", "With", "Unread", "System", "Text"]
    return table[[c for c in shown if table[c].notna().any()]]

"""Figures of any run, taken into the report without opening its page."""

from __future__ import annotations

import streamlit as st

from dashboard import picking, ui
from dashboard.panels.runs_words import study_title
from dashboard.picking import Pick
from engine.errors import EngineError
from engine.figures.text import plural
from engine.gallery import STUDIES, entries, entry_of
from engine.report.basket import Report
from engine.runs_kept import RunRow, all_runs
from engine.settings import get_settings

RUN, FIGURES = "report_run", "report_figures"


def take_from_run(report: Report) -> None:
    """A run, its figures, and the button that takes them."""
    with st.expander("Take figures from a run", key="report_take", expanded=not report.pieces):
        settings = get_settings()
        rows = {row.run_id: row for row in all_runs(settings.runs, settings.assets / "demo")}
        if not rows:
            ui.nothing_yet("There is no run yet. Run something in the Attack lab first.")
            return
        run = ui.pick("Run", list(rows), key=RUN, title=lambda r: _title(rows[r]))
        try:
            source = picking.source_of(run)
            found = entries(source)
        except EngineError as error:
            ui.show_error(error, "This run cannot be read.")
            return
        if not found:
            known = ", ".join(STUDIES)
            ui.note(f"There is no figure of this run yet: it has written nothing, or its study is none of {known}.")
            return
        titles = {entry.name: entry.title for entry in found}
        chosen = st.multiselect(
            "Figures",
            list(titles),
            key=f"{FIGURES}_{run}",
            format_func=titles.__getitem__,
            placeholder="Choose figures",
            help="Each at the settings the run was made with; pages add them at the settings of their sliders.",
        )
        st.button(
            f"Add {plural(len(chosen), 'figure')}" if chosen else "Add",
            key="report_take_add",
            icon=":material/playlist_add:",
            disabled=not chosen,
            on_click=_take,
            args=(run, tuple(chosen)),
        )


def _take(run: str, names: tuple[str, ...]) -> None:
    try:
        source = picking.source_of(run)
        picks = [Pick(source, entry, entry.settings(source)) for entry in (entry_of(source, name) for name in names)]
        pieces = [pick.piece for pick in picks]

        def with_all(report: Report) -> Report:
            for piece in pieces:
                report = report.added(piece)
            return report

        picking.change(with_all)
    except EngineError as error:
        st.toast(ui.plain(str(error)), icon=":material/error:", duration="long")
    else:
        st.session_state[f"{FIGURES}_{run}"] = []


def _title(row: RunRow) -> str:
    when = (row.finished or row.begun)[:10]
    kept = "recorded" if row.recorded else row.state
    name = f"{row.title}, " if row.title else ""
    return f"{name}{study_title(row.study)}: {row.judge or 'no judge'} on {row.data or row.data_id} ({kept}, {when})"

"""One run up close: what it rests on, its problems, what can be done with it, its numbers."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import linked_run, state, ui
from dashboard.linked_run import Place
from dashboard.pages.runs.overview import with_titles
from dashboard.progress import progress, start_job
from dashboard.run_view import RunView, read
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.jobs.manager import Job, manager
from engine.runs import library
from engine.runs.archive import export_run, left_behind
from engine.runs.folder import state_of
from engine.runs.library import CAN_GO_ON, facts, problems, unread_of
from engine.studies.registry import entries, study_title

_MAIN = ("Study", "State", "Begun", "Ended", "Judge", "Data", "Counts", "Device", "Seed")


def one_run(run_id: str) -> None:
    """Everything about one run."""
    job = job_of(run_id)  # before the run is read: one that ends in between is watched, and the page drawn anew
    try:
        run = read(run_id)
        wrong = problems(run.folder)
        metrics, verdicts = run.folder.table("metrics"), run.folder.table("verdicts")
    except EngineError as error:
        ui.show_error(error, "This run cannot be read.")
        if not library.is_recorded(run_id):
            _delete(run_id)
        return
    st.subheader(ui.plain(run.title or run_id), anchor=False)
    about = facts(run.manifest)
    if "Study" in about:
        about["Study"] = study_title(about["Study"])
    ui.facts({"Id": run_id, "Link": f"/?run={run_id}"} | {name: about[name] for name in _MAIN if name in about})
    for what, fix in wrong:
        ui.show_problem("Before you trust it", what, fix, is_error=False)
    place = linked_run.place_of(run)
    _open(run, place)
    if job and (job.active or job.state != "done"):
        progress(job)
    _actions(run, unread_of(verdicts).total, job)
    if run.editable:
        _names(run)
    if place.page == linked_run.RUNS_PAGE and not place.why:
        _figures(run_id)
    _numbers(metrics, run_id)
    _details(run, about)


def _open(run: RunView, place: Place) -> None:
    if place.page != linked_run.RUNS_PAGE:
        label = f"Open in {linked_run.TITLES[place.page]}"
        if st.button(label, type="primary", icon=":material/arrow_forward:", key="open_run"):
            linked_run.open_run(run.run_id)
    elif place.why:
        ui.note(place.why)


def job_of(run_id: str) -> Job | None:
    """The newest job that writes, or wrote, this run."""
    return next((j for j in manager().recent(100) if j.params.get("run_id") == run_id), None)


def _actions(run: RunView, unread: int, job: Job | None) -> None:
    busy = bool(job and job.active)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="run_actions"):
        if not left_behind(run.folder):  # else the problems above say which plugin is not here
            ui.download(
                "Export (zip)", lambda: export_run(run.folder),
                f"{run.run_id.rpartition(':')[2].replace('/', '-')}.zip", "application/zip", key="export_run",
            )  # fmt: skip
        if not run.editable:
            ui.note("Recorded runs ship with the project: they can be shown, compared and exported, not changed.")
            return
        study, now = run.study, state_of(run.manifest)
        if study is None or not study.resumable:
            _delete(run.run_id, disabled=busy)
            return
        goes_on = now in CAN_GO_ON and not (job and job.resumable)
        if goes_on and st.button("Resume", icon=":material/play_arrow:", key="resume_run", disabled=busy):
            start_job(study.names[0], _settings_of(run), "It could not be started.")
        if unread and now != "running":
            label = f"Ask {unread:,} unread again"
            about = "What was read is kept; only these calls are asked, and the metrics made anew."
            if st.button(label, icon=":material/replay:", key="retry_run", disabled=busy, help=about):
                start_job("retry", {"run_id": run.run_id}, "It could not be started.")
        _delete(run.run_id, disabled=busy)


def _settings_of(run: RunView) -> dict[str, Any]:
    config = {k: v for k, v in dict(run.manifest.get("config", {})).items() if k != "budget_seconds"}
    return {**config, "run_id": run.folder.run_id}


def _delete(run_id: str, *, disabled: bool = False) -> None:
    about = f"It goes to the trash below, from where it can be brought back for {library.TRASH_DAYS} days."
    pressed = st.button("Delete", icon=":material/delete:", key="delete_run", disabled=disabled, help=about)
    if pressed:
        try:
            library.delete(get_settings().runs, run_id)
        except EngineError as error:
            ui.show_error(error, "It was not deleted.")
            return
        state.after_rerun({"selected": "", "with": ""})
        state.say_after_rerun(f"{run_id} is in the trash. It can be restored below.")
        st.rerun()


def _names(run: RunView) -> None:
    notes = run.folder.notes()
    with st.form(f"names_{run.run_id}", border=False):
        left, right, button = st.columns([2, 2, 1], vertical_alignment="bottom", gap="small")
        title = left.text_input("Title", value=str(notes.get("title") or ""), max_chars=library.MAX_TITLE)
        tags = right.text_input("Tags, separated by commas", value=", ".join(map(str, notes.get("tags") or [])))
        saved = button.form_submit_button("Save", icon=":material/save:")
    if saved:
        wanted = {" ".join(t.split()) for t in str(tags or "").split(",")} - {""}
        now = set(map(str, notes.get("tags") or []))
        try:
            library.rename(get_settings().runs, run.run_id, str(title or ""))
            library.set_tags(get_settings().runs, run.run_id, add=sorted(wanted - now), remove=sorted(now - wanted))
        except EngineError as error:
            ui.show_error(error, "This was not saved.")
            return
        # the lists below the table know a run by its label, which is another now
        state.after_rerun({linked_run.SELECTED: run.run_id})
        st.rerun()


def _figures(run_id: str) -> None:
    """Every figure of a run whose study has no page of its own."""
    try:
        source = read(run_id).source
        for entry in entries(source):
            ui.show_entry(source, entry.name, key=f"run_figure_{entry.name}")
    except EngineError as error:
        ui.show_error(error, "Its figures cannot be drawn.")


def _numbers(metrics: pd.DataFrame, run_id: str) -> None:
    if metrics.empty:
        ui.note("It has no metrics yet.")
        return
    shown = metrics.dropna(axis="columns", how="all").drop(columns=["level", "method"], errors="ignore")
    ui.note(f"{len(metrics)} metrics, with n and a 95 % interval where one is defined.")
    shown = with_titles(shown)
    st.dataframe(
        shown,
        key=f"metrics_{run_id}",
        hide_index=True,
        height=min(320, 40 + 35 * len(shown)),
        placeholder="",
        alt="Metrics of the run",
        column_config={
            **{
                name: st.column_config.NumberColumn(format="%.3f") for name in ("Value", "Lower", "Upper", "Detectable")
            },
            **{name: st.column_config.NumberColumn(format="%.2g") for name in ("p", "q")},
        },
    )
    ui.table_bar(
        metrics, title="Metrics of the run", about=f"Run {run_id}.", key="run_metrics", shown=shown,
        label="Metrics (CSV)", file="metrics.csv",
    )  # fmt: skip


def _details(run: RunView, about: dict[str, str]) -> None:
    with st.expander("Details: settings, fingerprint, prompts, versions", key="run_details"):
        ui.facts({name: value for name, value in about.items() if name not in _MAIN and name != "Prompts"})
        st.code(
            json.dumps(run.manifest.get("config", {}), indent=1, ensure_ascii=False), language="json", wrap_lines=True
        )
        prompts = run.manifest.get("judge", {}).get("prompts") or []
        for prompt in prompts:
            ui.note(f"Prompt {prompt.get('name')} ({prompt.get('protocol')}), digest {prompt.get('digest')}")
            parts = (str(prompt.get(part) or "") for part in ("system", "user"))
            st.code("\n\n".join(part for part in parts if part), language=None, wrap_lines=True)
        if not prompts:
            ui.note("No prompt is written down: a judge without a model, or a run of an earlier version.")

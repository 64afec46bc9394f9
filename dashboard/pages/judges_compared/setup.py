"""Choice of a panel, and a new one of runs that are there; no judge is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import datasets, findings, state, ui
from dashboard.linked_run import runs_of
from dashboard.progress import start_job
from dashboard.run_view import RunView, Stored, load
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.runs.library import RunRow, all_runs, is_recorded
from engine.studies.panel.figures import about, judge_titles
from engine.studies.panel.study import MOST_JUDGES
from engine.studies.registry import study_title

SHOWN = "panel_made"
"""The job whose panel was shown once when it was done."""
STRONG, UNDER_ATTACK, SYSTEMS = (f"recorded:{place}/panel" for place in ("llmbar", "dialogue", "mtbench"))
"""Recorded panels: strong judges with people's labels, three judges under attack, judges of named systems."""
_PICKED = "panel_runs"
_MOST = 40


class PanelRun(RunView):
    """A panel."""

    kind = "panel"
    table = Stored("panel")
    judges = Stored("panel_judges")

    @property
    def about(self) -> dict[str, Any]:
        """Protocol, unit, and how many judges and subjects."""
        return about(self.source)

    @property
    def titles(self) -> dict[str, str]:
        """Each judge's name in the tables -> its name on the page."""
        return judge_titles(self.source)

    @property
    def data(self) -> str:
        """Id of the data that its judges saw."""
        return str(self.manifest.get("data", {}).get("dataset_id") or "")


def panels() -> dict[str, PanelRun]:
    """The panels that can be read, the user's newest first, then the recorded ones, that of strong judges first."""
    found: dict[str, PanelRun] = {}
    for run_id in sorted(runs_of(PanelRun.kind, "", ""), key=lambda name: (is_recorded(name), name != STRONG)):
        try:
            run = load(PanelRun, run_id)
        except EngineError:
            continue  # the page Runs says what is wrong with it
        if run and len(found) < _MOST:
            found[run_id] = run
    return found


def choose_panel(
    found: Mapping[str, PanelRun], data_id: str, job: Job | None, banner: DeltaGenerator
) -> PanelRun | None:
    """The panel that is shown: that of a link or of the last job, else the first on the chosen data, else the first.

    Args:
        found: from `panels`.
        data_id: the data that are chosen.
        job: the newest one; its panel is shown once it is done.
        banner: says that another panel is shown than the chosen data's.
    """
    if not found:
        return None
    of_data = [name for name, run in found.items() if run.data == data_id]
    default = of_data[0] if of_data else STRONG if STRONG in found else next(iter(found))
    made = str(job.params.get("run_id", "")) if job and job.state == "done" else ""
    if made in found and st.session_state.get(SHOWN) != made:
        state.put(SHOWN, made)
        state.choose(state.PANEL, made)
    state.follow_default(state.PANEL, default)
    name = ui.pick(
        "Panel", list(found), key=state.PANEL, title=lambda one: _title(found[one]), default=default, publish=True,
        on_change=lambda: state.chosen(state.PANEL),
        help="Verdicts that are there already; runs of your own come first.",
    )  # fmt: skip
    if asked := state.unknown(state.PANEL):
        ui.note(f"The link asks for the panel {asked!r}, which is not on this machine.")
    run = found[name]
    if run.data != data_id and not of_data and not data_id.startswith("demo-"):
        with banner:
            called = datasets.titles().get(data_id, data_id)
            ui.banner(f"No two judges have been compared on “{called}” yet. You see {_title(run)}.", key="panel")
    return run


def _title(run: PanelRun) -> str:
    if run.title:
        return run.title
    data = str(run.manifest.get("data", {}).get("name") or "")
    names = list(run.titles.values())
    few = ", ".join(names) if len(names) <= 3 else f"{len(names)} judges"
    when = "recorded" if run.recorded else str(run.manifest.get("finished") or "")[:16].replace("T", " ")
    return f"{few} on {_short(data)} ({when})"


def _short(data: str) -> str:
    """The data's name up to its count: "LLMBar" of "LLMBar: 419 pairs with ..."."""
    head, _, rest = data.partition(":")
    return rest.split(",")[0].strip() if head == "Demo" else head


# A new panel of runs.


def setup(data_id: str, *, busy: bool) -> None:
    """Runs on the chosen data, the button that compares them, and what is needed where there are too few."""
    with st.popover("Compare runs", icon=":material/group_add:", key="panel_setup", disabled=busy):
        rows = candidates(data_id)
        called = datasets.titles().get(data_id, data_id)
        judges = {row.judge for row in rows}
        there = f"of {plural(len(judges), 'judge')}"
        ready = ui.needs([ui.Need(f"runs of two judges on “{called}”", len(judges) > 1, there)], key="panel")
        if not ready:
            ui.note(
                "Run the same study with another judge: the Attack lab's whole set, or on the command line "
                "judgescope score FILE --judge A --judge B."
            )
            return
        picked = st.multiselect(
            "Runs", [row.run_id for row in rows], default=_first_of_each(rows), key=f"{_PICKED}_{data_id}",
            format_func={row.run_id: _row_title(row) for row in rows}.get, max_selections=MOST_JUDGES,
        )  # fmt: skip
        if st.button("Compare", type="primary", key="panel_run", disabled=len(picked) < 2):
            known = data_id in datasets.dataset_titles() or data_id in datasets.pair_sets()
            start_job(
                PanelRun.kind, {"runs": list(picked), "data": data_id if known else ""},
                "The judges could not be compared.",
            )  # fmt: skip


def candidates(data_id: str) -> list[RunRow]:
    """Finished runs on these data that hold one judge's verdicts, the user's first."""
    settings = get_settings()
    rows = all_runs(settings.runs, settings.assets / "demo")
    kinds = ("attack_grid", "score", "verify", "protocols", "puaudit", "recorded")
    return [r for r in rows if r.data_id == data_id and r.judge and r.state == "done" and r.study in kinds][:_MOST]


def _first_of_each(rows: Sequence[RunRow]) -> list[str]:
    """Of the first run's study the newest run of each judge."""
    study, taken = rows[0].study, {}
    for row in rows:
        if row.study == study:
            taken.setdefault(row.judge, row.run_id)
    return list(taken.values())


def _row_title(row: RunRow) -> str:
    who = findings.judge_name(row.judge).removeprefix("the ")
    return f"{who}: {study_title(row.study)} ({'recorded' if row.recorded else row.begun[:16].replace('T', ' ')})"

"""The run a link asks for (`?run=ID`): which page shows it, and that this page shows it and not the newest one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

from dashboard import state
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_PAIRS, list_comparisons
from engine.data.store import DEMO_NAMES, list_datasets
from engine.jobs import manager as jobs
from engine.runs import library as runs_kept
from engine.runs.folder import RunFolder, state_of
from engine.studies.registry import find_study, study_of_manifest
from engine.studies.study import Study

RUN, SELECTED = "run", "selected"
RUNS_PAGE = "pages/runs/page.py"
_PIN, _HANDLED, _MISSING, _SINCE = "run_pinned", "run_handled", "run_missing", "run_since"
_LATELY = 20


@dataclass(frozen=True)
class Place:
    """Where a run is shown.

    Attributes:
        page: the page's file.
        must: what must be chosen there for it to be about this run, by session key.
        also: what is chosen besides, on arrival only.
        why: why it is shown on the page Runs, where its study's page cannot show it.
    """

    page: str
    must: dict[str, str] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class Pin:
    """A run that is shown because a link asked for it."""

    run_id: str
    folder: RunFolder
    manifest: dict[str, Any]
    title: str

    @property
    def recorded(self) -> bool:
        """Whether it ships with the project."""
        return runs_kept.is_recorded(self.run_id)

    @property
    def study(self) -> Study | None:
        """Its study; None where this version knows none."""
        return study_of_manifest(self.manifest)

    @property
    def judge(self) -> str:
        """The judge's spec as its settings name it."""
        return str(self.manifest.get("config", {}).get("judge", ""))

    @property
    def data(self) -> str:
        """Id of its data."""
        return str(self.manifest.get("config", {}).get("data", ""))

    def answers(self, manifest: dict[str, Any]) -> bool:
        """True where another run is of the same study."""
        return self.study is not None and study_of_manifest(manifest) is self.study

    @property
    def imported(self) -> bool:
        """Whether it came from a file; its judge is then only a name that somebody wrote."""
        return bool(self.folder.notes().get("imported"))


def read(run_id: str) -> Pin:
    """A run by its id.

    Raises:
        RunError: there is none, or it is damaged.
    """
    settings = get_settings()
    folder = runs_kept.find_run(settings.runs, settings.assets / "demo", run_id)
    return Pin(run_id, folder, folder.manifest(), str(folder.notes().get("title") or ""))


def place_of(pin: Pin) -> Place:
    """The page of its study, or the page Runs: with the reason where the study has a page."""
    study = pin.study
    place = _pages(pin.judge, pin.data).get(study.kind) if study else None
    here = Place(RUNS_PAGE, also={SELECTED: pin.run_id})
    if study is None or place is None:
        return here
    why = ""
    if not (pin.folder.path / f"{study.table_shown}.parquet").is_file():
        why = "It has not written what its page shows; resume it first."
    elif study.shown_when_done and state_of(pin.manifest) != "done":
        why = "It did not come to its end, and its page shows finished runs."
    elif pin.data not in _responses() | _pairs():
        why = "Its data are not on this machine, so its own page cannot show the texts. Upload the same file again."
    elif pin.imported and pin.judge.partition(":")[0] not in ("bundled", "planted", "recorded", ""):
        why = "It was imported and names a judge of its own; choose that judge yourself if you want its page."
    return replace(here, why=why) if why else place


def _pages(judge: str, data: str) -> dict[str, Place]:
    """Kinds of studies that have a page, and what shows a run of this judge on these data there."""
    both = {state.JUDGE: judge, state.DATA: data}
    checked = {"check_data": data} if data in _pairs() else {"check_data": "left", state.DATA: data}
    return {
        "attack_grid": Place("pages/attack_lab/page.py", both, {state.TAB: state.TAB_SET}),
        "learned_suffix": Place("pages/attack_lab/page.py", both, {state.TAB: state.TAB_SUFFIX}),
        "perplexity_threshold": Place("pages/attack_lab/page.py", {state.DATA: data}, {state.TAB: state.TAB_SCREEN}),
        "cap": Place("pages/steering_and_anchors/page.py", both),
        "protocols": Place("pages/protocols/page.py", both, {"protocols_part": "Whole set"}),
        "refswap": Place("pages/reference_swap/page.py", {"verifier": judge, state.DATA: data}),
        "transport_audit": Place("pages/transport_audit/page.py", {"pairs": data, "audit_judge": judge}),
        "checkup": Place("pages/checkup/page.py", {state.JUDGE: judge, "check_judge": "left", **checked}),
    }


def _pairs() -> set[str]:
    return {DEMO_PAIRS, *list_comparisons(get_settings().comparisons)}


def _responses() -> set[str]:
    return {*DEMO_NAMES, *(str(m["dataset_id"]) for m in list_datasets(get_settings().datasets))}


def arrive(page: str) -> None:
    """Called first in every full run: go where the link's run is shown, with its judge and data chosen.

    Args:
        page: title of the page that is open, as the navigation knows it.
    """
    asked = st.query_params.get(RUN, "")
    if not asked or asked == st.session_state.get(_HANDLED):
        return
    st.session_state[_HANDLED] = asked
    try:
        open_run(asked, page)
    except EngineError as error:
        st.session_state[_MISSING] = str(error)


def open_run(run_id: str, page: str = "") -> None:
    """Show a run on its page.

    Args:
        run_id: as in `runs_kept.all_runs`.
        page: title of the page that is open.

    Raises:
        RunError: there is none, or it is damaged.
    """
    pin = read(run_id)
    place = place_of(pin)
    for key, value in (place.must | place.also).items():
        st.session_state[key] = value
    for key, held in ((_PIN, run_id), (_HANDLED, run_id), (_SINCE, time.time())):
        st.session_state[key] = held
    st.session_state.pop(_MISSING, None)
    if TITLES.get(place.page) != page:
        st.switch_page(place.page)


TITLES = {
    "pages/attack_lab/page.py": "Attack lab",
    "pages/steering_and_anchors/page.py": "Steering and anchors",
    "pages/protocols/page.py": "Protocols and leaderboard",
    "pages/reference_swap/page.py": "Reference swap",
    "pages/transport_audit/page.py": "Transport audit",
    "pages/checkup/page.py": "Check-up",
    RUNS_PAGE: "Runs",
}
"""Pages that show runs, and their titles."""


def pin() -> Pin | None:
    """The run asked for, as long as its judge and data are the ones chosen and no newer run of them was started."""
    run_id = str(st.session_state.get(_PIN) or "")
    if not run_id:
        return None
    try:
        found = read(run_id)
    except EngineError:
        return None
    must = place_of(found).must
    if any(st.session_state.get(key, value) != value for key, value in must.items()) or _newer(found):
        drop()
        return None
    return found


def _newer(pin: Pin) -> bool:
    since = float(st.session_state.get(_SINCE, 0.0))
    return any(
        job.created > since
        and pin.study is not None
        and find_study(job.kind) is pin.study
        and job.params.get("run_id") != pin.run_id
        and (job.params.get("judge", pin.judge), job.params.get("data")) == (pin.judge, pin.data)
        for job in jobs.manager().recent(_LATELY)
    )


def drop() -> None:
    """Show the newest run again."""
    st.session_state.pop(_PIN, None)
    state.publish(RUN, "")


def missing() -> str:
    """Why the run of a link cannot be shown, once."""
    return str(st.session_state.pop(_MISSING, ""))


def about(study: str, judge: str, data: str) -> Pin | None:
    """The pinned run if it answers this study's question about this judge and data.

    Args:
        study: kind or name of the study.
        judge: its spec; empty takes any.
        data: id of the data.
    """
    asked = pin()
    if asked is None or asked.study is None or asked.study is not find_study(study):
        return None
    return asked if asked.data == data and judge in (asked.judge, "") else None


def judges() -> list[str]:
    """The pinned run's judge, where it was run on this machine: a choice that must exist for the run to be shown.

    Never that of an imported run: a file must not name a model that this machine would load.
    """
    run_id = str(st.session_state.get(_PIN) or "")
    try:
        found = read(run_id) if run_id else None
    except EngineError:
        return []
    return [found.judge] if found and found.judge and not found.imported else []

"""The run a link asks for (`?run=ID`): which page shows it, and that this page shows it and not the newest one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
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

RUN, SELECTED = "run", "selected"
RUNS_PAGE = "pages/runs/page.py"
SCORED = frozenset({"score", "grid"})
_PIN, _HANDLED, _MISSING, _SINCE = "run_pinned", "run_handled", "run_missing", "run_since"
_LATELY = 20
_SHOWS = {
    "score": "verdicts", "suffix": "suffix_search", "detection": "readings", "cap": "cap_layers",
    "protocols": "verdicts", "refswap": "samples", "puaudit": "audit", "checkup": "checkup",
}  # fmt: skip
"""The table without which a study's page has nothing to show."""
_ENDED = frozenset({"suffix", "detection", "puaudit"})
"""Studies whose pages show runs only once they are done."""


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
    def study(self) -> str:
        """Its study; a grid is a score."""
        study = str(self.manifest.get("study", ""))
        return "score" if study in SCORED else study

    @property
    def judge(self) -> str:
        """The judge's spec as its settings name it."""
        return str(self.manifest.get("config", {}).get("judge", ""))

    @property
    def data(self) -> str:
        """Id of its data."""
        return str(self.manifest.get("config", {}).get("data", ""))

    def answers(self, manifest: dict[str, Any]) -> bool:
        """Whether another run is of the same study."""
        study = str(manifest.get("study", ""))
        return self.study == ("score" if study in SCORED else study)

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
    """The page of its study, or the page Runs with the reason."""
    study, judge, data = pin.study, pin.judge, pin.data
    here = Place(RUNS_PAGE, also={SELECTED: pin.run_id})
    own = {state.JUDGE: judge, state.DATA: data}
    places = {
        "score": Place("pages/attack_lab/page.py", own, {state.TAB: state.TAB_SET}),
        "suffix": Place("pages/attack_lab/page.py", own, {state.TAB: state.TAB_SUFFIX}),
        "detection": Place("pages/attack_lab/page.py", {state.DATA: data}, {state.TAB: state.TAB_SCREEN}),
        "cap": Place("pages/steering_and_anchors/page.py", own),
        "protocols": Place("pages/protocols/page.py", own, {"protocols_part": "Whole set"}),
        "refswap": Place("pages/reference_swap/page.py", {"verifier": judge, state.DATA: data}),
        "puaudit": Place("pages/transport_audit/page.py", {"pairs": data, "audit_judge": judge}),
        "checkup": Place("pages/checkup/page.py", _checked(judge, data)),
    }
    found = places.get(study)
    if found is None:
        return here
    if not (pin.folder.path / f"{_SHOWS[study]}.parquet").is_file():
        return Place(RUNS_PAGE, also=here.also, why="It has not written what its page shows; resume it first.")
    if study in _ENDED and state_of(pin.manifest) != "done":
        return Place(RUNS_PAGE, also=here.also, why="It did not come to its end, and its page shows finished runs.")
    if data not in _known_data(study):
        why = "Its data are not on this machine, so its own page cannot show the texts. Upload the same file again."
        return Place(RUNS_PAGE, also=here.also, why=why)
    if pin.imported and judge.partition(":")[0] not in ("bundled", "planted", "recorded", ""):
        why = "It was imported and names a judge of its own; choose that judge yourself if you want its page."
        return Place(RUNS_PAGE, also=here.also, why=why)
    return found


def _checked(judge: str, data: str) -> dict[str, str]:
    """What the check-up page is set to: the judge on the left, and the data on the left or a set of pairs."""
    pairs = {"check_data": data} if data in _known_data("puaudit") else {"check_data": "left", state.DATA: data}
    return {state.JUDGE: judge, "check_judge": "left", **pairs}


def _known_data(study: str) -> set[str]:
    settings = get_settings()
    pairs = {DEMO_PAIRS, *list_comparisons(settings.comparisons)}
    if study == "puaudit":
        return pairs
    responses = {*DEMO_NAMES, *(str(m["dataset_id"]) for m in list_datasets(settings.datasets))}
    return responses | pairs if study == "checkup" else responses


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
        and job.kind == pin.study
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
    """The pinned run if it answers this study's question about this judge and data."""
    found = pin()
    fits = found is not None and (found.study, found.data) == (study, data) and judge in (found.judge, "")
    return found if fits else None


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

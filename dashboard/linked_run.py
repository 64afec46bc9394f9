"""The run a page shows: the one a link asks for (`?run=ID`), else that of its job, else the newest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard import state
from dashboard.datasets import dataset_titles, pair_sets
from dashboard.run_view import RunView, View, first_readable, load, load_or_none, read
from engine import catalog
from engine.core.errors import EngineError
from engine.core.settings import get_settings
from engine.data.comparisons import DEMO_LLMBAR
from engine.jobs.manager import Job, manager
from engine.runs.folder import list_runs, state_of
from engine.runs.library import RECORDED
from engine.studies.registry import find_study, study_named, study_of_manifest

RUN, SELECTED = "run", "selected"
GROUPS: dict[str, dict[str, tuple[str, str, str]]] = {
    "Set up": {
        "pages/start/page.py": ("Start", "home", ""),
        "pages/data/page.py": ("Data", "table", "data"),
        "pages/judge_card/page.py": ("Judge", "gavel", "judge-card"),
        "pages/labelling/page.py": ("Label", "edit_note", "label"),
    },
    "Try": {
        "pages/attack_lab/page.py": ("Attack lab", "bolt", "attack-lab"),
        "pages/checkup/page.py": ("Check-up", "stethoscope", "check-up"),
        "pages/judges_compared/page.py": ("Compare judges", "groups", "compare-judges"),
        "pages/trust/page.py": ("Trust", "verified", "trust"),
    },
    "Papers": {
        "pages/steering_and_anchors/page.py": ("Steering and anchors", "explore", "steering-and-anchors"),
        "pages/reference_swap/page.py": ("Reference swap", "swap_horiz", "reference-swap"),
        "pages/transport_audit/page.py": ("Transport audit", "balance", "transport-audit"),
        "pages/protocols/page.py": ("Protocols and leaderboard", "leaderboard", "protocols"),
    },
    "Results": {
        "pages/runs/page.py": ("Runs", "folder_open", "runs"),
        "pages/report/page.py": ("Report", "description", "report"),
        "pages/what_holds/page.py": ("What holds", "fact_check", "what-holds"),
        "pages/lessons/page.py": ("Lessons", "school", "lessons"),
    },
}
"""The menu: each group's pages by file, with title, icon and end of the address."""
PAGES = {file: named for group in GROUPS.values() for file, named in group.items()}
FILES = {end: file for file, (_, _, end) in PAGES.items()}
"""The file of each page, by the end of its address."""
TITLES = {file: title for file, (title, *_) in PAGES.items()}
RUNS_PAGE = "pages/runs/page.py"
_PIN, _HANDLED, _MISSING, _SINCE = "run_pinned", "run_handled", "run_missing", "run_since"
_LATELY = 20
_OWN_DATA = ("panel", "trust")
"""Studies whose runs hold all that their page shows."""


@dataclass(frozen=True)
class Place:
    """Where a run is shown.

    Attributes:
        page: the page's file.
        must: choices there that make it be about this run, by session key.
        also: further choices, on arrival only.
        why: why it is shown on the page Runs, where its study's page cannot show it.
    """

    page: str
    must: dict[str, str] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)
    why: str = ""


def place_of(run: RunView) -> Place:
    """The page of its study, or the page Runs: with the reason where the study has a page."""
    study = run.study
    place = _pages(run.judge, run.data, run.run_id).get(study.kind) if study else None
    here = Place(RUNS_PAGE, also={SELECTED: run.run_id})
    if study is None or place is None:
        return here
    why = ""
    if not (run.folder.path / f"{study.table_shown}.parquet").is_file():
        why = "It has not written what its page shows; resume it first."
    elif study.shown_when_done and state_of(run.manifest) != "done":
        why = "It did not come to its end, and its page shows finished runs."
    elif study.kind not in _OWN_DATA and run.data not in {*dataset_titles(), *pair_sets()}:
        why = "Its data are not on this machine, so its own page cannot show the texts. Upload the same file again."
    elif run.imported and run.judge.partition(":")[0] not in ("bundled", "planted", "recorded", ""):
        why = "It was imported and names a judge of its own; choose that judge yourself if you want its page."
    return replace(here, why=why) if why else place


def _pages(judge: str, data: str, run_id: str = "") -> dict[str, Place]:
    """Kinds of studies that have a page, and what shows a run of this judge on these data there."""
    both = {state.JUDGE: judge, state.DATA: data}
    return {
        "attack_grid": Place("pages/attack_lab/page.py", both, {state.TAB: state.TAB_SET}),
        "learned_suffix": Place("pages/attack_lab/page.py", both, {state.TAB: state.TAB_SUFFIX}),
        "perplexity_threshold": Place("pages/attack_lab/page.py", {state.DATA: data}, {state.TAB: state.TAB_SCREEN}),
        "cap": Place("pages/steering_and_anchors/page.py", both),
        "protocols": Place("pages/protocols/page.py", both),
        "refswap": Place("pages/reference_swap/page.py", {**both, "verifier": judge}),
        "transport_audit": Place(
            "pages/transport_audit/page.py",
            # verdicts that came with the pairs are no judge of the rail
            {state.DATA: data, "audit_judge": judge} | ({} if judge == "recorded:data" else {state.JUDGE: judge}),
        ),
        "checkup": Place("pages/checkup/page.py", both),
        "panel": Place("pages/judges_compared/page.py", {state.PANEL: run_id}),
        "trust": Place("pages/trust/page.py", {state.TRUST: run_id}),
    }


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
        run_id: as in `RunView`.
        page: title of the page that is open.

    Raises:
        RunError: there is none, or it is damaged.
    """
    place = place_of(read(run_id))
    for key, value in (place.must | place.also).items():
        state.choose(key, value)
    for key, held in ((_PIN, run_id), (_HANDLED, run_id), (_SINCE, time.time())):
        st.session_state[key] = held
    st.session_state.pop(_MISSING, None)
    if TITLES.get(place.page) != page:
        st.switch_page(place.page)


def pin() -> RunView | None:
    """The run asked for, as long as its judge and data are the ones chosen and no newer run of them was started."""
    run_id = str(st.session_state.get(_PIN) or "")
    if not run_id:
        return None
    try:
        run = read(run_id)
    except EngineError:
        return None
    must = place_of(run).must
    if any(st.session_state.get(key, value) != value for key, value in must.items()) or _newer(run):
        drop()
        return None
    return run


_STRONG_FIRST, _PUBLISHED = ("transport_audit", "protocols"), "recorded:"
"""Studies whose pages open on a strong judge, and the beginning of the spec of one."""
_SHOWS = {"refswap": "bundled:shortcut-verifier"}
"""The judge on which a study's effect is plain to see, where that is not the naive one."""


def defaults(page: str) -> tuple[str, str]:
    """Judge and data that a page opens on: the naive judge where a recorded run shows it there, else the careful one.

    The audit and the leaderboard open on a strong judge's published verdicts where the library has a run of some, the
    reference swap on the verifier that takes shortcuts.

    Args:
        page: the page's file.
    """
    kinds = [kind for kind, place in _pages("", "").items() if place.page == page]
    if "panel" in kinds:
        return state.DEFAULT_JUDGE, DEMO_LLMBAR  # of the recorded panel of strong judges
    found = [one for one in recorded_runs() if one[0] in kinds]
    strong = [judge for kind, judge, _ in found if kind in _STRONG_FIRST and judge.startswith(_PUBLISHED)]
    plain = [_SHOWS[kind] for kind in kinds if kind in _SHOWS]
    for judge in (*strong[:1], *plain, state.DEFAULT_JUDGE, state.CAREFUL_JUDGE):
        data = [held for _, asked, held in found if asked == judge]
        if data:
            return judge, state.DEFAULT_DATA if state.DEFAULT_DATA in data else data[0]
    return state.DEFAULT_JUDGE, state.DEFAULT_DATA


def recorded_runs() -> list[tuple[str, str, str]]:
    """Kind, judge and data of every run that ships with the project."""
    return _recorded_runs(str(get_settings().assets))


@st.cache_data(max_entries=1, show_spinner=False)
def _recorded_runs(assets: str) -> list[tuple[str, str, str]]:
    found = []
    for place in sorted((Path(assets) / "demo").iterdir()):
        for manifest in list_runs(place):
            study, config = study_of_manifest(manifest), manifest.get("config", {})
            if study and manifest.get("state") == "done":
                data = str(config.get("data") or manifest.get("data", {}).get("dataset_id") or "")
                found.append((study.kind, str(config.get("judge") or ""), data))
    return found


def _newer(run: RunView) -> bool:
    since = float(st.session_state.get(_SINCE, 0.0))
    return any(
        job.created > since
        and run.study is not None
        and find_study(job.kind) is run.study
        and job.params.get("run_id") != run.run_id
        and (job.params.get("judge", run.judge), job.params.get("data")) == (run.judge, run.data)
        for job in manager().recent(_LATELY)
    )


def drop() -> None:
    """Show the newest run again."""
    st.session_state.pop(_PIN, None)
    state.publish(RUN, "")


def missing() -> str:
    """Why the run of a link cannot be shown, once."""
    return str(st.session_state.pop(_MISSING, ""))


def about(study: str, judge: str, data: str) -> RunView | None:
    """The pinned run if it answers this study's question about this judge and data.

    Args:
        study: kind or name of the study.
        judge: its spec; empty takes any.
        data: id of the data.
    """
    asked = pin()
    if asked is None or asked.study is None or asked.study is not find_study(study):
        return None
    if asked.study.shown_when_done and asked.manifest.get("state") != "done":
        return None
    return asked if asked.data == data and judge in (asked.judge, "") else None


def judges() -> list[str]:
    """The pinned run's judge, where it was run on this machine: a choice that must exist for the run to be shown.

    Never that of an imported run: a file must not name a model that this machine would load.
    """
    run_id = str(st.session_state.get(_PIN) or "")
    run = load_or_none(RunView, run_id) if run_id else None
    return [run.judge] if run and run.judge and not run.imported else []


def runs_of(kind: str, judge: str, data: str) -> Iterator[str]:
    """Ids of a study's runs that its page can show: the one a link asks for, the user's newest first, the recorded.

    Args:
        kind: of the study.
        judge: its spec; empty takes any.
        data: id of the data; empty takes any.
    """
    study, asked = study_named(kind), about(kind, judge, data)
    if asked:
        yield asked.run_id
    for run_id, manifest in _listed():
        config = manifest.get("config", {})
        if study_of_manifest(manifest) is not study or run_id == (asked and asked.run_id):
            continue
        if judge not in ("", config.get("judge")) or data not in ("", config.get("data")):
            continue
        if manifest.get("state") == "done" or not study.shown_when_done:
            yield run_id


_UNATTACKED = {True: ("transport_audit", "recorded"), False: ("attack_grid", "verify", "recorded", "protocols")}
"""Studies that judge the data as they came: pairs, and single responses."""


def verdict_runs(data: str, judge: str, *, paired: bool) -> dict[str, str]:
    """Ids of runs with verdicts on these data as they came, each with its judge in words; the newest of each judge.

    Args:
        data: id of the data.
        judge: whose run comes first, where there is one.
        paired: the data are pairs.
    """
    found: dict[str, str] = {}
    for run_id, manifest in _listed():
        study, config = study_of_manifest(manifest), manifest.get("config", {})
        asked = str(config.get("judge") or "")
        if study is None or study.kind not in _UNATTACKED[paired] or config.get("data") != data:
            continue
        if manifest.get("state") == "done" and asked not in found.values():
            found[run_id] = asked
    cards = catalog.describe_judges(found.values())
    first = sorted(found.items(), key=lambda one: one[1] != judge)
    return {run_id: cards[spec].title for run_id, spec in first}


def _listed() -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and manifest of the user's runs, then of those that ship with the project."""
    settings = get_settings()
    for manifest in list_runs(settings.runs):
        yield str(manifest["run_id"]), manifest
    for place in sorted((settings.assets / "demo").iterdir()):
        for manifest in list_runs(place):
            yield f"{RECORDED}{place.name}/{manifest['run_id']}", manifest


def latest(view: type[View], judge: str, data: str) -> View | None:
    """The first of `runs_of` that can be read and has something to show."""
    return first_readable(runs_of(view.kind, judge, data), lambda run_id: load(view, run_id))


def shown(view: type[View], judge: str, data: str, job: Job | None) -> View | None:
    """The run a link asks for, else that of the job, else the latest; None where it has written nothing yet."""
    if job is None or about(view.kind, judge, data):
        return latest(view, judge, data)
    return load_or_none(view, str(job.params.get("run_id", "")))

"""Cached access to what the engine keeps on disk.

Every cache is bounded and keyed by ids or digests, not by tables. What a cache returns is shared between
sessions: pages read it and never edit it in place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from dashboard import linked_run as pinned
from engine.core.errors import EngineError, RunError
from engine.core.settings import get_settings
from engine.data.dataset import Dataset, summarize
from engine.data.store import DEMO_DIALOGUE, DEMO_NAMES, list_datasets, load_dataset, save_dataset
from engine.jobs import manager as jobs
from engine.jobs.manager import Job
from engine.plots.text import plural
from engine.runs import folder as runs
from engine.runs import library as runs_kept
from engine.studies.attack_grid import figures as score
from engine.studies.attack_grid.study import STUDY as ATTACKS
from engine.studies.figure import Source
from engine.studies.registry import find_study, study_of_manifest

# Finding what a page shows: the job about a judge and data, and the newest run that can be read.

Found = TypeVar("Found")
View = TypeVar("View")
LATELY = 20
"""How many of the newest jobs are looked through."""
RECORDED = runs_kept.RECORDED
"""What the id of a run that ships with the project begins with on a page."""


def concerns(job: Job, kind: str, **params: str) -> bool:
    """Whether a job is of this kind and has these parameters."""
    return job.kind == kind and all(job.params.get(name) == value for name, value in params.items())


def newest_job(kind: str, among: int = LATELY, **params: str) -> Job | None:
    """The newest job of a kind with these parameters; one that is going comes first."""
    mine = [j for j in jobs.manager().recent(among) if concerns(j, kind, **params)]
    return next((j for j in mine if j.active), mine[0] if mine else None)


def going_job(kind: str, **params: str) -> Job | None:
    """The newest job of a kind with these parameters that has not ended."""
    return next((j for j in jobs.manager().recent(LATELY) if j.active and concerns(j, kind, **params)), None)


def runs_about(judge: str, data: str, root: Path | None = None) -> Iterator[dict[str, Any]]:
    """Manifests of the runs of a judge on some data, newest first; of the user's own runs unless a root is named.

    A run that a link asks for comes before the newest.
    """
    asked = pinned.pin() if root is None else None
    if asked and (asked.judge, asked.data) != (judge, data):
        asked = None
    if asked and not asked.recorded:
        yield asked.manifest
    for manifest in runs.list_runs(root or get_settings().runs):
        config = manifest.get("config", {})
        if (config.get("judge"), config.get("data")) != (judge, data):
            continue
        if asked and (manifest["run_id"] == asked.run_id or (asked.recorded and asked.answers(manifest))):
            continue  # it came first already, or would stand before the recorded run that is asked for
        yield manifest


def named_runs(study: str, judge: str, data: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Id on the page and manifest of a study's runs of a judge on some data: the user's own, then the recorded."""
    for manifest in runs_about(judge, data):
        if study_of_manifest(manifest) is find_study(study):
            yield str(manifest["run_id"]), manifest
    for manifest in runs_about(judge, data, _recorded_root(study)):
        yield RECORDED + str(manifest["run_id"]), manifest


def open_named(study: str, run_id: str) -> runs.RunFolder:
    """The folder behind an id of `named_runs`.

    Raises:
        RunError: there is no such run, or it is damaged.
    """
    name = run_id.removeprefix(RECORDED)
    return runs.open_run(_recorded_root(study) if name != run_id else get_settings().runs, name)


def _recorded_root(study: str) -> Path:
    return get_settings().assets / "demo" / study


def version_of(manifest: dict[str, Any]) -> str:
    """Changes whenever a run's tables may have; part of a cache key."""
    return f"{manifest['state']} {manifest.get('finished')}"


def first_readable(found: Iterable[Found], read: Callable[[Found], View | None]) -> View | None:
    """The first that can be read and holds something; a damaged run must not hide an older good one."""
    for one in found:
        try:
            view = read(one)
        except EngineError:
            continue
        if view:
            return view
    return None


@dataclass(frozen=True)
class RunView:
    """A run as the pages read it.

    Attributes:
        shifts: one row per response and attacked arm, from `paired_shifts`.
        metrics: the `metrics` table, computed from exactly these verdicts.
        source: the run as figures read it.
    """

    run_id: str
    manifest: dict[str, Any]
    verdicts: pd.DataFrame
    shifts: pd.DataFrame
    metrics: pd.DataFrame
    source: Source

    @property
    def recorded(self) -> bool:
        """Whether these numbers shipped with the project and were not made on this machine."""
        return bool(self.manifest.get("recorded", False))

    @property
    def judge(self) -> str:
        """The judge's spec."""
        return str(self.manifest.get("judge", {}).get("spec") or self.manifest.get("config", {}).get("judge", ""))

    @property
    def labels(self) -> list[str]:
        """The answers the judge was offered."""
        return [str(label) for label in self.manifest.get("judge", {}).get("labels", [])]


def digest(content: bytes) -> str:
    """Names a file's content in cache keys and widget keys."""
    return hashlib.sha256(content).hexdigest()[:16]


def save(dataset: Dataset) -> None:
    """Keep a data set on disk."""
    save_dataset(dataset, get_settings().datasets)


@st.cache_resource(max_entries=4, show_spinner=False)
def _dataset(dataset_id: str, root: str) -> Dataset:
    del root  # part of the cache key only
    return load_dataset(dataset_id, get_settings().datasets)


def dataset(dataset_id: str) -> Dataset:
    """A saved or bundled data set.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    return _dataset(dataset_id, str(get_settings().datasets))


def dataset_titles() -> dict[str, str]:
    """Every data set's id and title, the bundled ones first; titles differ from one another."""
    titles = dict(DEMO_NAMES)
    for manifest in list_datasets(get_settings().datasets):
        title = str(manifest["name"])
        if title in titles.values():
            title = f"{title} ({str(manifest['dataset_id'])[:6]})"
        titles[str(manifest["dataset_id"])] = title
    return titles


@st.cache_data(max_entries=64, show_spinner=False)
def count_line(dataset_id: str) -> str:
    """The data set in one line for the rail; empty where it cannot be opened, which the page itself reports."""
    try:
        return counts(dataset(dataset_id))
    except EngineError:
        return ""


def counts(dataset: Dataset) -> str:
    """The data set in one line: "48 responses, 12 items, 4 systems"."""
    summary = summarize(dataset)
    parts = [plural(summary.n_responses, "response"), plural(summary.n_items, "item")]
    if summary.systems:
        parts.append(plural(len(summary.systems), "system"))
    if summary.n_human and summary.human_low is not None and summary.human_high is not None:
        low, high = f"{summary.human_low:g}", f"{summary.human_high:g}"
        parts.append(f"{plural(summary.n_human, 'human score')} from {low} to {high}")
    if summary.n_excluded:
        parts.append(f"{plural(summary.n_excluded, 'row')} left out")
    return ", ".join(parts)


def demo_run(dataset_id: str = DEMO_DIALOGUE) -> RunView | None:
    """The recorded run on a demo set, or None where there is none."""
    try:
        return _run(RECORDED + dataset_id, "recorded", str(get_settings().assets))
    except RunError:
        return None


def run(run_id: str, version: str) -> RunView:
    """A run's tables at one moment.

    Args:
        run_id: the run's folder.
        version: changes whenever the tables may have; part of the cache key.

    Raises:
        RunError: there is no such run, or it is unreadable.
    """
    return _run(run_id, version, str(get_settings().runs))


def run_or_none(run_id: str, version: str) -> RunView | None:
    """As `run`, and None where the run has written nothing yet."""
    try:
        return run(run_id, version)
    except RunError:
        return None


@st.cache_resource(max_entries=12, show_spinner=False)
def _run(run_id: str, version: str, root: str) -> RunView:
    del version, root  # part of the cache key only
    demo = run_id.removeprefix(RECORDED)
    folder = runs.demo_run(demo) if demo != run_id else runs.open_run(get_settings().runs, run_id)
    source = Source(folder)
    shifts, metrics = score.shifts(source), score.metrics(source)
    return RunView(run_id, source.manifest, source.table("verdicts"), shifts, metrics, source)


def latest_run(judge: str, dataset_id: str) -> RunView | None:
    """The newest run of this judge on this data that holds verdicts; else the recorded one, if it fits."""

    def read(manifest: dict[str, Any]) -> RunView | None:
        view = run(str(manifest["run_id"]), version_of(manifest))
        return view if len(view.verdicts) else None

    own = (m for m in runs_about(judge, dataset_id) if study_of_manifest(m) is ATTACKS)
    if view := first_readable(own, read):
        return view
    demo = demo_run(dataset_id) if dataset_id in DEMO_NAMES else None
    return demo if demo and demo.manifest["judge"].get("spec") == judge else None


@st.cache_data(max_entries=256, show_spinner=False)
def judge_one(
    judge: str, dataset_id: str, response_id: str, attack: str, own_text: str, defense: str
) -> dict[str, Any]:
    """Judge one response without and with an attack, through the worker; errors are raised anew each time.

    Raises:
        EngineError: the judge, the choice or the worker; the text says what to do.
    """
    return jobs.manager().ask(
        "attack_one",
        {
            "judge": judge,
            "data": dataset_id,
            "response_id": response_id,
            "attack": attack,
            "own_text": own_text,
            "defense": defense,
        },
    )

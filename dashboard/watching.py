"""Finding what a page shows: the job about a judge and data, and the newest run that can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from dashboard import pinned
from engine import jobs, runs, runs_kept
from engine.errors import EngineError
from engine.jobs import Job
from engine.settings import get_settings

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
        if manifest.get("study") == study:
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

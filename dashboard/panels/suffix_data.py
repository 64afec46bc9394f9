"""Runs of a kind that a panel watches: the job that is going or went last, and the run's tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import pinned
from dashboard.watching import version_of
from engine import runs
from engine.errors import EngineError, RunError
from engine.gallery import Source
from engine.jobs import Job
from engine.settings import get_settings


@dataclass(frozen=True)
class StudyView:
    """A run at one moment: its manifest and some tables by name; shared between sessions, never edited."""

    run_id: str
    manifest: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    source: Source

    @property
    def recorded(self) -> bool:
        """Whether these numbers shipped with the project and were not made on this machine."""
        return bool(self.manifest.get("recorded", False))


def view_of(job: Job | None, study: str, params: dict[str, str], tables: tuple[str, ...]) -> StudyView | None:
    """The job's run; without a job the newest finished run of the study with these settings, else a recorded one.

    Returns:
        None where there is none, or the job has written nothing yet.

    Raises:
        EngineError: the job's run is unreadable.
    """
    own = get_settings().runs
    if asked := pinned.about(study, params.get("judge", ""), params.get("data", "")):
        return _read(str(asked.folder.path.parent), asked.folder.run_id, version_of(asked.manifest), tables)
    if job:
        try:
            return _read(str(own), str(job.params.get("run_id", "")), f"{job.state} {job.done} {job.finished}", tables)
        except RunError:
            return None
    for root in (own, get_settings().assets / "demo" / study):
        for manifest in runs.list_runs(root):
            config = manifest.get("config", {})
            same = manifest.get("study") == study and all(config.get(k) == v for k, v in params.items())
            if same and manifest.get("state") == "done":
                try:
                    return _read(str(root), str(manifest["run_id"]), str(manifest.get("finished")), tables)
                except EngineError:
                    continue  # a damaged run must not hide an older good one
    return None


@st.cache_resource(max_entries=8, show_spinner=False)
def _read(root: str, run_id: str, version: str, tables: tuple[str, ...]) -> StudyView:
    del version  # part of the cache key only
    source = Source(runs.open_run(Path(root), run_id))
    return StudyView(run_id, source.manifest, {name: source.table(name) for name in tables}, source)

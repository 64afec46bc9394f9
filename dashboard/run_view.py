"""A run as every page reads it: one class with what all runs have, and one cached loader.

What the cache returns is shared between sessions: pages read it and never edit it in place.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, ClassVar, TypeVar, cast

import pandas as pd
import streamlit as st

from engine.core.errors import EngineError, RunError
from engine.runs.folder import RunFolder
from engine.runs.library import is_recorded
from engine.studies.figure import Source
from engine.studies.registry import find_run, study_named, study_of_manifest
from engine.studies.study import Study

Named = TypeVar("Named")
Shown = TypeVar("Shown")


class Stored:
    """A table of the run as an attribute of its view."""

    def __init__(self, table: str) -> None:
        self.table = table

    def __get__(self, view: RunView, owner: type[RunView]) -> pd.DataFrame:
        return view.source.table(self.table)


class RunView:
    """A run at one moment. A page's class names its study and adds what the page reads from the tables.

    `Stored` tables and cached properties of such a class are read with the run, so that a damaged one shows at once.

    Attributes:
        kind: of the study whose runs the class reads; empty for any run.
        run_id: as in a link: the folder's name, or `recorded:` and the place of a run that ships with the project.
        source: the run as figures read it.
    """

    kind: ClassVar[str] = ""

    def __init__(self, run_id: str, source: Source) -> None:
        self.run_id, self.source = run_id, source
        self.manifest: dict[str, Any] = source.manifest
        self.notes = source.folder.notes()

    @property
    def folder(self) -> RunFolder:
        """Its folder."""
        return self.source.folder

    @property
    def title(self) -> str:
        """The title its user gave it; empty where there is none."""
        return str(self.notes.get("title") or "")

    @property
    def study(self) -> Study | None:
        """Its study; None where this version knows none."""
        return study_of_manifest(self.manifest)

    @property
    def config(self) -> dict[str, Any]:
        """The settings it ran with."""
        return dict(self.manifest.get("config", {}))

    @property
    def judge(self) -> str:
        """The judge's spec as its settings name it."""
        return str(self.config.get("judge", ""))

    @property
    def data(self) -> str:
        """Id of its data."""
        return str(self.config.get("data", ""))

    @property
    def recorded(self) -> bool:
        """True for numbers that shipped with the project and were not made on this machine."""
        return bool(self.manifest.get("recorded", False))

    @property
    def editable(self) -> bool:
        """True for a run in the user's home, which can be renamed, resumed and deleted."""
        return not is_recorded(self.run_id)

    @property
    def imported(self) -> bool:
        """True where it came from a file; its judge is then only a name that somebody wrote."""
        return bool(self.notes.get("imported"))

    def holds_something(self) -> bool:
        """False while it has not written what its page shows."""
        return not self.kind or len(self.source.table(study_named(self.kind).table_shown)) > 0


View = TypeVar("View", bound=RunView)


def read(run_id: str) -> RunView:
    """Any run by its id.

    Raises:
        RunError: there is none, or it is damaged.
    """
    return cast(RunView, load(RunView, run_id))


def load(view: type[View], run_id: str) -> View | None:
    """A run as it is now; None where it has not written yet what its page shows.

    Raises:
        RunError: there is none, or it is damaged.
    """
    folder = find_run(run_id)
    try:
        folder_at, manifest_at = folder.path.stat(), (folder.path / "manifest.json").stat()
    except OSError as error:
        raise RunError(f"The run {run_id!r} cannot be read: {error}.") from None
    version = f"{folder_at.st_mtime_ns} {manifest_at.st_mtime_ns} {manifest_at.st_size}"
    return cast("View | None", _load(view, f"{view.__module__}.{view.__qualname__}", run_id, str(folder.path), version))


@st.cache_resource(max_entries=48, show_spinner=False)
def _load(_view: type[RunView], name: str, run_id: str, path: str, version: str) -> RunView | None:
    del name, path, version  # part of the cache key only: every write to a folder changes its time
    view = _view(run_id, Source(find_run(run_id)))
    if not view.holds_something():
        return None
    for attribute, part in vars(_view).items():
        if isinstance(part, (Stored, cached_property)):
            getattr(view, attribute)
    return view


def load_or_none(view: type[View], run_id: str) -> View | None:
    """As `load`, and None for a run that cannot be read (yet); one that is there and damaged is said."""
    try:
        return load(view, run_id)
    except RunError as error:
        try:
            find_run(run_id)
        except RunError:
            return None  # not written yet
        _say_unreadable({run_id: error})
        return None


def first_readable(named: Iterable[Named], read_one: Callable[[Named], Shown | None]) -> Shown | None:
    """The first that can be read and holds something; a damaged run must not hide an older good one, and is said."""
    failed: dict[str, EngineError] = {}
    found = None
    for one in named:
        try:
            found = read_one(one)
        except EngineError as error:
            if isinstance(one, str):
                failed[one] = error
            continue
        if found:
            break
    _say_unreadable(failed)
    return found or None


def _say_unreadable(failed: dict[str, EngineError]) -> None:
    """A line on runs that could not be read: without it a page would look as if nothing had been run."""
    for run_id, error in failed.items():
        said = html.escape(
            f"The run {run_id} cannot be read: {error} It is left out here; the page Runs can delete it."
        )
        st.html(f'<p class="js-problem" role="note">{said}</p>')


def version_of(manifest: dict[str, Any]) -> str:
    """Changes whenever a run's tables may have; part of a cache key."""
    return f"{manifest['state']} {manifest.get('finished')}"

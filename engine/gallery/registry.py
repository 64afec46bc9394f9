"""Which figures a run has: by the kind of study that made it."""

from __future__ import annotations

from pathlib import Path

from engine import runs_kept
from engine.errors import InputError
from engine.gallery import cap, checkup, detection, protocols, puaudit, refswap, score, suffix, verify
from engine.gallery.base import Entry, Source, as_source
from engine.runs import RunFolder
from engine.runs_kept import RECORDED
from engine.settings import Settings, get_settings

STUDIES: dict[str, tuple[Entry, ...]] = {
    score.STUDY: score.ENTRIES,
    verify.STUDY: verify.ENTRIES,
    refswap.STUDY: refswap.ENTRIES,
    protocols.STUDY: protocols.ENTRIES,
    puaudit.STUDY: puaudit.ENTRIES,
    cap.STUDY: cap.ENTRIES,
    suffix.STUDY: suffix.ENTRIES,
    detection.STUDY: detection.ENTRIES,
    checkup.STUDY: checkup.ENTRIES,
}
"""The figures of each kind of study, in the order in which they are read."""
_SIGNS = (
    ("own_text", score.STUDY),
    ("k_max", refswap.STUDY),
    ("distractors", protocols.STUDY),
    ("p_ratio", puaudit.STUDY),
    ("high_percentile", cap.STUDY),
    ("guided", suffix.STUDY),
    ("suffixes", detection.STUDY),
    ("thresholds", checkup.STUDY),
)
"""A setting that only one kind of study has; runs are named after their study file, which may be called anything."""


def study_of(run: RunFolder | Source) -> str:
    """The kind of study that made a run; its own word for it where no figure is known for that kind.

    Raises:
        RunError: the manifest is unreadable.
    """
    manifest = as_source(run).manifest
    named, config = str(manifest.get("study", "")), manifest.get("config") or {}
    if named in STUDIES:
        return named
    return next((study for key, study in _SIGNS if key in config), named)


def entries(run: RunFolder | Source) -> list[Entry]:
    """The figures that can be made from this run, in the order in which they are read.

    Raises:
        RunError: the run is unreadable.
    """
    source = as_source(run)
    return [entry for entry in STUDIES.get(study_of(source), ()) if not entry.missing(source)]


def entry_of(run: RunFolder | Source, name: str) -> Entry:
    """A figure of this run by its name.

    Raises:
        InputError: the study has no figure of that name; the message lists those it has.
    """
    study = study_of(run)
    found = {entry.name: entry for entry in STUDIES.get(study, ())}
    if name not in found:
        known = ", ".join(found) or "none"
        raise InputError(f"A run of the study {study!r} has no figure {name!r}. It has: {known}.")
    return found[name]


def name_of(folder: RunFolder, settings: Settings | None = None) -> str:
    """What a run is called in a link, a report or on the command line: its id, or recorded: and its place."""
    shipped = (settings or get_settings()).assets / "demo"
    if folder.path.is_relative_to(shipped):
        return RECORDED + folder.path.relative_to(shipped).as_posix()
    return folder.run_id


def find_run(name: str, settings: Settings | None = None) -> RunFolder:
    """The run behind a name of `name_of`.

    Raises:
        RunError: there is none, or it is no name of a run.
    """
    held = settings or get_settings()
    return runs_kept.find_run(held.runs, held.assets / "demo", name)


def recorded_runs(settings: Settings | None = None) -> list[RunFolder]:
    """Every run that ships with the project, by its place."""
    held = settings or get_settings()
    return [find_run(row.run_id, held) for row in runs_kept.recorded_runs(held.assets / "demo")]


def run_at(name: str, settings: Settings | None = None) -> RunFolder:
    """A run by its name, or by the path of its folder.

    Raises:
        RunError: there is neither.
    """
    path = Path(name)
    if (path / "manifest.json").is_file():
        return RunFolder(path.resolve())
    return find_run(name, settings)

"""The studies, each named here once, and those of plugins; by name or by run; their figures; the runs that ship."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.core import plugins
from engine.core.errors import InputError, shown
from engine.core.files import is_file, read_file
from engine.core.json import read_toml
from engine.core.schema import TABLES as SHARED_TABLES
from engine.core.settings import Settings, get_settings
from engine.data.dataset import Dataset
from engine.runs import library
from engine.runs.folder import PLUGINS, RunFolder, add_tables
from engine.runs.library import RECORDED
from engine.studies.anchors import without_anchors
from engine.studies.figure import FigureSpec, Source, as_source
from engine.studies.study import Study

BUILT_IN = (
    "attack_grid",
    "cap",
    "refswap",
    "transport_audit",
    "protocols",
    "checkup",
    "learned_suffix",
    "perplexity_threshold",
    "verify",
    "recorded",
    "claims",
    "trust",
    "panel",
)
"""Folders under `engine/studies`; the module `study` of each holds its `STUDY`."""
_STUDIES: dict[str, Study] = {}
_PLUGINS_READ: list[bool] = []
_LOCK = threading.RLock()


def register(study: Study) -> Study:
    """Make a study known by its kind and its names.

    Raises:
        ValueError: its kind or one of its names is taken by another study.
    """
    if study.kind not in BUILT_IN:
        all_studies()  # whose names are taken
    for other in _STUDIES.values():
        taken = {other.kind, *other.names} & {study.kind, *study.names}
        if taken and type(other) is not type(study):
            raise ValueError(f"The study name {min(taken)!r} is taken by {other.kind}.")
    _STUDIES[study.kind] = study
    add_tables(study.tables)
    return study


def unregister(kind: str) -> None:
    """Forget a study that was registered; tests and plugins use it."""
    _STUDIES.pop(kind, None)


def all_studies() -> tuple[Study, ...]:
    """Every study, the built-in ones first, then those of plugins."""
    for kind in BUILT_IN:
        if kind not in _STUDIES:
            register(importlib.import_module(f"engine.studies.{kind}.study").STUDY)
    if not _PLUGINS_READ:
        with _LOCK:
            if not _PLUGINS_READ:
                _PLUGINS_READ.append(True)
                plugins.load("studies", _accept, BUILT_IN)
    return tuple(_STUDIES.values())


def _accept(name: str, study: Any) -> Study:
    """A plugin's study, registered.

    Raises:
        InputError: it is none, has another name, or one of its names or tables is taken.
    """
    if not isinstance(study, Study):
        raise InputError(f"it holds a {type(study).__name__}, not an object of a Study")
    if study.kind != name:
        raise InputError(f"what it holds is of the kind {shown(study.kind)}, not {name!r} as its entry point")
    known = {*SHARED_TABLES, *(table.name for other in _STUDIES.values() for table in other.tables)}
    if taken := sorted({table.name for table in study.tables} & known):
        raise InputError(f"its table {taken[0]!r} has the name of another study's; its author has to choose another")
    try:
        return register(study)
    except ValueError as error:
        raise InputError(f"{error} Its author has to choose another.") from None


def all_plugins() -> tuple[plugins.Plugin, ...]:
    """Every plugin that is installed; all are loaded by then, and `plugins.broken` names those that could not be."""
    from engine.attacks.cards import ATTACKS
    from engine.data.formats.registry import FORMATS
    from engine.defenses.cards import DEFENSES
    from engine.judges.registry import JUDGES

    if installed := tuple(plugins.found()):
        for registry in (ATTACKS, DEFENSES, JUDGES, FORMATS):
            len(registry)
        all_studies()
    return installed


def find_study(name: str) -> Study | None:
    """The study of this kind or name; None where there is none."""
    return next((s for s in all_studies() if name == s.kind or name in s.names), None)


def study_named(name: str) -> Study:
    """The study of this kind or name.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    if found := find_study(name):
        return found
    known = ", ".join(n for s in all_studies() for n in s.names)
    raise InputError(f"There is no study {name!r}. Known: {known}.")


def study_title(name: str) -> str:
    """The title of the study of this kind or name, with the name where it is a further one; else the name itself."""
    study = find_study(name)
    if study is None:
        return name
    return study.title if name in (study.kind, study.names[0]) else f"{study.title}, {name}"


def study_of(run: RunFolder | Source) -> Study | None:
    """The study that made a run: by the manifest's kind, else by its name or by a setting that only one study has.

    Raises:
        RunError: the manifest is unreadable.
    """
    return study_of_manifest(as_source(run).manifest)


def study_of_manifest(manifest: dict[str, Any]) -> Study | None:
    """As `study_of`, from the manifest."""
    for named in (manifest.get("kind"), manifest.get("study")):
        if named and (found := find_study(str(named))):
            return found
    if plugins.read_records(manifest.get(PLUGINS)):
        return None  # of a plugin that is not here, whatever its settings are called
    config = manifest.get("config")
    settings = set(config) if isinstance(config, dict) else set()
    return next((s for s in all_studies() if s.marks and s.marks <= settings), None)


# Study files: a TOML with the study's name and its settings; those in assets/studies are known by name.


def read_study(name: str, folder: Path, changes: dict[str, Any]) -> tuple[str, Study, BaseModel]:
    """The study a name or a file stands for.

    Args:
        name: a file in `folder` without its ending, or the path of a TOML file.
        folder: where the known studies lie.
        changes: settings that replace those of the file; None leaves the file's.

    Returns:
        The name as the file says it, the study, its settings.

    Raises:
        InputError: no such study or file, or a setting is wrong; the message names it.
    """
    named, study, settings, where = _study_file(name, folder)
    settings |= {key: value for key, value in changes.items() if value is not None}
    return named, study, settings_of(study.config, settings, where)


def study_named_in(name: str, folder: Path) -> Study:
    """The study that a name or a file stands for, its settings left unread.

    Raises:
        InputError: no such study or file.
    """
    return _study_file(name, folder)[1]


def _study_file(name: str, folder: Path) -> tuple[str, Study, dict[str, Any], str]:
    """The study's name in a file, the study, the file's settings, and the file's name."""
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    added = {n: s for s in all_studies() if s.kind not in BUILT_IN for n in s.names}
    if name in added and not is_file(path):  # of a plugin: without a file it has its defaults
        return name, added[name], {}, name
    known = ", ".join([*sorted(p.stem for p in folder.glob("*.toml") if _study_of(p)), *added])
    if not is_file(path) or (path.parent == folder and path.stem != name.removesuffix(".toml")):
        raise InputError(f"There is no study {shown(name)}. Known: {known}; or name a TOML file.")
    try:
        settings = read_toml(read_file(path))
    except ValueError as error:
        raise InputError(f"{path.name} is not valid TOML: {error}.") from None
    named = str(settings.pop("study", ""))
    study = find_study(named)
    if study is None:
        allowed = ", ".join(n for s in all_studies() for n in s.names)
        raise InputError(f"{path.name} has study = {shown(named)}; allowed: {allowed}.")
    return named, study, settings, path.name


def settings_given(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings of a command line, each KEY=VALUE with a value as in TOML; a bare word is text.

    Raises:
        InputError: one has no equals sign.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set {pair}: write KEY=VALUE, for example mass=0.7.")
        try:
            found[key] = read_toml(f"value = {value}")["value"]
        except ValueError:
            found[key] = value
    return found


def settings_of(model: type[BaseModel], settings: dict[str, Any], where: str) -> BaseModel:
    """Check settings against their model.

    Raises:
        InputError: an unknown or wrong setting, named.
    """
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InputError(f"{where}: {wrong}.") from None


def _study_of(path: Path) -> bool:
    try:
        return find_study(str(read_toml(path.read_bytes()).get("study"))) is not None
    except (OSError, ValueError):
        return False


def entries(run: RunFolder | Source) -> list[FigureSpec]:
    """The figures that can be made from this run, in the order in which they are read.

    Raises:
        RunError: the run is unreadable.
    """
    source = as_source(run)
    study = study_of(source)
    return [entry for entry in (study.figures() if study else ()) if not entry.missing(source)]


def entry_of(run: RunFolder | Source, name: str) -> FigureSpec:
    """A figure of this run by its name.

    Raises:
        InputError: the study has no figure of that name; the message lists those it has.
    """
    study = study_of(run)
    found = {entry.name: entry for entry in (study.figures() if study else ())}
    if name not in found:
        known = ", ".join(found) or "none"
        manifest = as_source(run).manifest
        named = study.names[0] if study else str(manifest.get("study", ""))
        why = f" {plugins.absent(manifest.get(PLUGINS))}" if study is None else ""
        raise InputError(f"A run of the study {named!r} has no figure {name!r}. It has: {known}.{why.rstrip()}")
    return found[name]


def name_of(folder: RunFolder, settings: Settings | None = None) -> str:
    """Name of a run in a link, a report or on the command line: its id, or recorded: and its place."""
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
    return library.find_run(held.runs, held.assets / "demo", name)


def recorded_runs(settings: Settings | None = None) -> list[RunFolder]:
    """Every run that ships with the project, by its place."""
    held = settings or get_settings()
    return [find_run(row.run_id, held) for row in library.recorded_runs(held.assets / "demo")]


def run_at(name: str) -> RunFolder:
    """A run by its name, or by the path of its folder.

    Raises:
        RunError: there is neither.
    """
    path = Path(name)
    if (path / "manifest.json").is_file():
        return RunFolder(path.resolve())
    return find_run(name)


def lacking_anchors(dataset: Dataset, settings: Settings | None = None) -> dict[str, str]:
    """As `engine.studies.anchors.without_anchors`, for pages."""
    return without_anchors(dataset, settings or get_settings())

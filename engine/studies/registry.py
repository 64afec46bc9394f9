"""Which figures a run has: by the kind of study that made it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.core.errors import InputError
from engine.core.settings import Settings, get_settings
from engine.runs import library as runs_kept
from engine.runs.folder import RunFolder
from engine.runs.library import RECORDED
from engine.studies.attack_grid import figures as score
from engine.studies.attack_grid.run import ScoreConfig
from engine.studies.cap import figures as cap
from engine.studies.cap.study import CapConfig
from engine.studies.checkup import figures as checkup
from engine.studies.checkup.run import CheckupConfig
from engine.studies.figure import Entry, Source, as_source
from engine.studies.learned_suffix import figures as suffix
from engine.studies.learned_suffix.run import SuffixConfig
from engine.studies.perplexity_threshold import figures as detection
from engine.studies.perplexity_threshold.run import DetectionConfig
from engine.studies.protocols import figures as protocols
from engine.studies.protocols.run import ProtocolsConfig
from engine.studies.refswap import figures as refswap
from engine.studies.refswap.study import RefSwapConfig
from engine.studies.transport_audit import figures as puaudit
from engine.studies.transport_audit.run import AuditConfig
from engine.studies.verify import figures as verify
from engine.studies.verify.run import VerifyConfig

# Study files: a TOML with the study's name and its settings; those in assets/studies are known by name.

CONFIGS: dict[str, type[BaseModel]] = {
    "grid": ScoreConfig,
    "verify": VerifyConfig,
    "refswap": RefSwapConfig,
    "puaudit": AuditConfig,
    "cap": CapConfig,
    "checkup": CheckupConfig,
    "protocols": ProtocolsConfig,
    "suffix": SuffixConfig,
    "detection": DetectionConfig,
}
"""Each study with its settings."""


def read_study(name: str, folder: Path, changes: dict[str, Any]) -> tuple[str, BaseModel]:
    """The study a name or a file stands for.

    Args:
        name: a file in `folder` without its ending, or the path of a TOML file.
        folder: where the known studies lie.
        changes: settings that replace those of the file; None leaves the file's.

    Returns:
        The study's name and its settings.

    Raises:
        InputError: no such study or file, or a setting is wrong; the message names it.
    """
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    known = ", ".join(sorted(p.stem for p in folder.glob("*.toml") if _study_of(p)))
    if not path.is_file() or (path.parent == folder and path.stem != name.removesuffix(".toml")):
        raise InputError(f"There is no study {name!r}. Known: {known}; or name a TOML file.")
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} is not valid TOML: {error}.") from None
    study = settings.pop("study", "")
    if study not in CONFIGS:
        raise InputError(f"{path.name} has study = {study!r}; allowed: {', '.join(CONFIGS)}.")
    settings |= {key: value for key, value in changes.items() if value is not None}
    return study, settings_of(CONFIGS[study], settings, path.name)


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
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
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
        return tomllib.loads(path.read_text(encoding="utf-8")).get("study") in CONFIGS
    except (OSError, ValueError):
        return False


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

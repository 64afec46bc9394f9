"""Study files: a TOML with the study's name and its settings; those in assets/studies are known by name."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from engine.errors import InputError
from engine.studies.cap_config import CapConfig
from engine.studies.checkup import CheckupConfig
from engine.studies.detection import DetectionConfig
from engine.studies.protocols import ProtocolsConfig
from engine.studies.puaudit import AuditConfig
from engine.studies.refswap_config import RefSwapConfig
from engine.studies.score import ScoreConfig
from engine.studies.suffix import SuffixConfig
from engine.studies.verify import VerifyConfig

STUDIES: dict[str, type[BaseModel]] = {
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
    if study not in STUDIES:
        raise InputError(f"{path.name} has study = {study!r}; allowed: {', '.join(STUDIES)}.")
    settings |= {key: value for key, value in changes.items() if value is not None}
    return study, settings_of(STUDIES[study], settings, path.name)


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
        return tomllib.loads(path.read_text(encoding="utf-8")).get("study") in STUDIES
    except (OSError, ValueError):
        return False

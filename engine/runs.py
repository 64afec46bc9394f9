"""Run folders: parquet tables and a manifest. The only module that writes results."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from engine.errors import RunError
from engine.schema import TABLES as SHARED_TABLES
from engine.schema_audit import AUDIT_TABLES
from engine.schema_cap import CAP_TABLES
from engine.schema_checkup import CHECKUP_TABLES
from engine.schema_refswap import REFSWAP_TABLES
from engine.settings import get_settings
from engine.strict_json import dumps

TABLES = SHARED_TABLES | AUDIT_TABLES | CAP_TABLES | CHECKUP_TABLES | REFSWAP_TABLES
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_VERSIONS = ("judgescope", "torch", "transformers", "peft", "numpy", "pandas", "plotly", "streamlit")


@dataclass(frozen=True)
class RunFolder:
    """One run on disk. Tables appear whole or not at all."""

    path: Path

    @property
    def run_id(self) -> str:
        """The folder's name."""
        return self.path.name

    def manifest(self) -> dict[str, Any]:
        """Settings, data, judge, versions and state of the run.

        Raises:
            RunError: the manifest is missing or unreadable.
        """
        try:
            found: dict[str, Any] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"The run {self.run_id} has no readable manifest ({error}).") from None
        return found

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest in one step."""
        _write_atomically(self.path / "manifest.json", dumps(manifest, indent=1).encode())

    def update_manifest(self, **changes: Any) -> None:
        """Set some keys of the manifest."""
        self.write_manifest({**self.manifest(), **changes})

    def table(self, name: str) -> pd.DataFrame:
        """A table of the run, empty while it has not been written.

        Raises:
            RunError: the file is there but cannot be read.
        """
        file = self.path / f"{name}.parquet"
        if not file.is_file():
            return TABLES[name].empty()
        try:
            return TABLES[name].conform(pd.read_parquet(file))
        except (OSError, ValueError) as error:
            raise RunError(f"The table {name} of run {self.run_id} is unreadable: {error}.") from None

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """Validate and replace a table in one step."""
        data = TABLES[name].conform(frame).to_parquet(index=False)
        _write_atomically(self.path / f"{name}.parquet", data)


def _write_atomically(path: Path, data: bytes) -> None:
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def new_run_id(study: str) -> str:
    """A readable id that sorts by time and cannot collide."""
    return f"{study}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def create_run(root: Path, study: str, config: dict[str, Any], run_id: str | None = None) -> RunFolder:
    """A new run folder, or the same one again when a stopped run is resumed.

    Raises:
        RunError: the id is not a plain name.
    """
    run = RunFolder(_folder(root, run_id or new_run_id(study)))
    run.path.mkdir(parents=True, exist_ok=True)
    run.write_manifest(
        {
            "run_id": run.run_id,
            "study": study,
            "state": "running",
            "created": now(),
            "finished": None,
            "config": config,
            "data": {},
            "judge": {},
            "versions": versions(),
            "recorded": False,
        }
    )
    return run


def open_run(root: Path, run_id: str) -> RunFolder:
    """An existing run.

    Raises:
        RunError: there is none of that id.
    """
    folder = _folder(root, run_id)
    if not (folder / "manifest.json").is_file():
        raise RunError(f"There is no run {run_id!r}. It may have been deleted; start it again from the Attack lab.")
    return RunFolder(folder)


def demo_run(dataset_id: str = "demo-dialogue") -> RunFolder:
    """The recorded run of the bundled judge on a demo set, which ships with the project.

    Raises:
        RunError: this set has no recorded run.
    """
    name = dataset_id.removeprefix("demo-")
    return open_run(_folder(get_settings().assets / "demo", name), "run")


def list_runs(root: Path) -> list[dict[str, Any]]:
    """Manifests of all readable runs, newest first; unreadable ones are listed with their error."""
    found: list[dict[str, Any]] = []
    for folder in sorted(_folders(root), key=lambda f: f.stat().st_mtime, reverse=True):
        try:
            found.append(RunFolder(folder).manifest())
        except RunError as error:
            found.append({"run_id": folder.name, "state": "unreadable", "error": str(error)})
    return found


def _folders(root: Path) -> Iterable[Path]:
    return (f for f in root.iterdir() if f.is_dir() and not f.name.startswith(".")) if root.is_dir() else ()


def _folder(root: Path, run_id: str) -> Path:
    if not _RUN_ID.fullmatch(run_id):
        raise RunError(f"{run_id!r} is no run id: letters, digits, dot, dash and underscore, at most 80.")
    return root / run_id


def now() -> str:
    """The present moment in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of what decides a number, for the manifest."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found

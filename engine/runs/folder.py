"""Run folders: parquet tables and a manifest. The only module that writes results."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import secrets
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pandas as pd

from engine import __version__
from engine.core import plugins
from engine.core.errors import InputError, RunError, RunNameError, WriteError, shown
from engine.core.files import make_folder, write_atomically, writing
from engine.core.json import dumps, plain
from engine.core.schema import TABLES as SHARED_TABLES
from engine.core.schema import Table
from engine.core.settings import get_settings

_TABLES: dict[str, Table] = dict(SHARED_TABLES)
FORMAT = 1
"""Layout of a run folder; a higher number is refused on import."""
RETRY = "retry"
"""Key of a manifest that is there while a run's unread calls are asked again; its read ones are kept."""
LEARNED = "learned"
"""Key of a manifest that holds the phrases a run has learned so far; it goes on behind them."""
PLUGINS = "plugins"
"""Key of a manifest that holds the plugins a run has used, where it has used any."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_FREE = frozenset({"run_id", "budget_seconds"})
"""Settings that may differ when a run goes on."""
_NOTES = "notes.json"
_KINDS: dict[str, type] = {
    "run_id": str, "study": str, "kind": str, "state": str, "created": str, "writer": str, "config": dict, "data": dict,
    "judge": dict, "versions": dict, "resumed": list, PLUGINS: list,
}  # fmt: skip
_JUDGE_KINDS: dict[str, type] = {"prompts": list, "values": list, "labels": list, "api": dict}
_DEEPEST = 60
"""Levels of a manifest; ours have at most a dozen."""
_VERSIONS = ("torch", "transformers", "peft", "numpy", "pandas", "plotly", "streamlit")


def add_tables(tables: Iterable[Table]) -> None:
    """Make the tables of a study known; the registry of studies calls this."""
    _TABLES.update({table.name: table for table in tables})


def known_tables() -> dict[str, Table]:
    """Every table a run folder may hold, by name; those of the studies are added by their registry."""
    from engine.studies.registry import all_studies

    all_studies()
    return dict(_TABLES)


class _Claim:
    """The right to write into one run folder, this process's until nothing of it uses it any more."""

    def __init__(self, handle: int) -> None:
        self._handle, self._uses = handle, 0

    def taken(self) -> _Claim | None:
        """Itself for one use more; None where it was given up."""
        if self._handle < 0:
            return None
        self._uses += 1
        return self

    def release(self) -> None:
        """End one use; the last one gives it up."""
        self._uses -= 1
        if self._uses <= 0:
            self._give_up()

    def _give_up(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def __del__(self) -> None:
        self._give_up()


_CLAIMS: WeakValueDictionary[Path, _Claim] = WeakValueDictionary()
"""Runs that this process writes, by folder; a second use within the process shares the first one's."""


@dataclass(frozen=True)
class RunFolder:
    """One run on disk. Tables appear whole or not at all.

    Attributes:
        path: its folder.
        claim: the right to write it, where it was taken; it ends with `release`, this object or the process.
    """

    path: Path
    claim: _Claim | None = field(default=None, compare=False, repr=False)

    @property
    def run_id(self) -> str:
        """The folder's name."""
        return self.path.name

    def manifest(self) -> dict[str, Any]:
        """Settings, data, judge, versions and state of the run.

        Raises:
            RunError: the manifest is missing or damaged: no JSON, a part of another type than it has, or nested deep.
        """
        try:
            found = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"The run {self.run_id} has no readable manifest ({str(error)[:200]}).") from None
        if wrong := _damage(found):
            raise RunError(
                f"The manifest of the run {self.run_id} is damaged: {wrong}. Import the run again from a zip, or "
                "delete it."
            )
        return dict(found)

    def claimed(self) -> RunFolder:
        """The run with the right to write it; what took it calls `release` at its end.

        Raises:
            InputError: another process writes it.
            WriteError: nothing can be written there.
        """
        return RunFolder(self.path, _claim(self.path))

    def release(self) -> None:
        """Let other processes write the run."""
        if self.claim:
            self.claim.release()

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest in one step."""
        write_atomically(self.path / "manifest.json", dumps(manifest, indent=1).encode())

    def update_manifest(self, **changes: Any) -> None:
        """Set some keys of the manifest."""
        self.write_manifest({**self.manifest(), **changes})

    def discard_if_bare(self) -> None:
        """Remove the run if it holds nothing but what `create_run` wrote for a new one."""
        manifest = self.manifest()
        begun = any(manifest.get(key) for key in ("data", "judge", "resumed"))
        if not begun and [file.name for file in self.path.iterdir()] == ["manifest.json"]:
            (self.path / "manifest.json").unlink()
            self.path.rmdir()

    def notes(self) -> dict[str, Any]:
        """The user's notes on the run: title, tags; kept apart, so that a study at work does not overwrite them."""
        try:
            found = json.loads((self.path / _NOTES).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_notes(self, notes: dict[str, Any]) -> None:
        """Replace the notes in one step."""
        write_atomically(self.path / _NOTES, dumps(notes, indent=1).encode())

    def table(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A table of the run, empty while it has not been written.

        Args:
            name: of the table.
            columns: those that are read; None for all.

        Raises:
            RunError: the file is there but cannot be read.
        """
        file = self.path / f"{name}.parquet"
        schema = self._schema(name)
        if columns is not None:
            schema = schema.only(columns)
        if not file.is_file():
            return schema.empty()
        try:
            return schema.conform(pd.read_parquet(file) if columns is None else _read_columns(file, schema.names))
        except (OSError, ValueError) as error:
            raise RunError(f"The table {name} of run {self.run_id} is unreadable: {error}.") from None

    def write_table(self, name: str, frame: pd.DataFrame) -> None:
        """Validate and replace a table in one step."""
        data = self._schema(name).conform(frame).to_parquet(index=False)
        write_atomically(self.path / f"{name}.parquet", data)

    def _schema(self, name: str) -> Table:
        try:
            return schema_of(name)
        except RunError as error:
            lacks = plugins.absent(_manifest_or_nothing(self.path).get(PLUGINS))
            raise RunError(f"{error} {lacks}".rstrip()) from None


def _read_columns(file: Path, names: Sequence[str]) -> pd.DataFrame:
    """The columns of a table that are in the file; an older version may have written fewer."""
    import pyarrow.parquet as pq

    held = set(pq.read_schema(file).names)
    return pd.read_parquet(file, columns=[name for name in names if name in held])


def schema_of(name: str) -> Table:
    """The columns of a run's table.

    Raises:
        RunError: no run has a table of this name.
    """
    found = _TABLES.get(name) or known_tables().get(name)
    if found is None:
        raise RunError(f"{name!r} is no table of a run. Known: {', '.join(_TABLES)}.")
    return found


def new_run_id(study: str) -> str:
    """A readable id that sorts by time and cannot collide."""
    return f"{study}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def create_run(
    root: Path,
    study: str,
    config: dict[str, Any],
    run_id: str | None = None,
    *,
    kind: str = "",
    alike: Iterable[str] = (),
    free: Iterable[str] = (),
    keep: Iterable[str] = (),
) -> RunFolder:
    """A new run folder, or the same one again when a stopped run is resumed: it keeps when it was begun.

    Args:
        root: where runs live.
        study: the study's name.
        config: its settings.
        run_id: name of the folder; by default a new one.
        kind: the study's kind.
        alike: other names of the same study; a run of one of them goes on under its own name.
        free: settings besides `run_id` and `budget_seconds` that may differ when a run goes on.
        keep: keys of the manifest that a run which goes on takes with it.

    Raises:
        RunError: the id is not a plain name.
        InputError: another process writes this run.
        WriteError: the folder cannot be made or written.
    """
    folder = _folder(root, run_id or new_run_id(study))
    make_folder(folder)
    run = RunFolder(folder).claimed()
    manifest = {
        "format": FORMAT,
        "run_id": run.run_id,
        "study": study,
        **({"kind": kind} if kind else {}),
        "state": "running",
        "created": now(),
        "finished": None,
        "writer": this_process(),
        "config": config,
        "data": {},
        "judge": {},
        "versions": versions(),
        "recorded": False,
    }
    try:
        run.write_manifest(manifest | _from_before(run, {study, *alike}, config, _FREE.union(free), keep))
    except WriteError:
        with suppress(OSError):
            folder.rmdir()  # where it is new, it leaves nothing
        raise
    return run


def _from_before(
    run: RunFolder, names: set[str], config: dict[str, Any], free: Set[str], keep: Iterable[str]
) -> dict[str, Any]:
    """Keys that the manifest of the same study with the same settings hands on; empty for a new run."""
    try:
        before = run.manifest()
    except RunError:
        return {}
    if before.get("study") not in names:
        return {}
    was, wanted = ({k: v for k, v in c.items() if k not in free} for c in (before.get("config", {}), plain(config)))
    if was != wanted:
        return {}
    kept = {
        "study": before["study"],
        "created": before.get("created", now()),
        "resumed": [*before.get("resumed", []), now()],
    }
    return kept | {key: before[key] for key in (RETRY, LEARNED, PLUGINS, *keep) if before.get(key)}


def _claim(folder: Path) -> _Claim:
    """The right to write a run, or another use of it where this process has it.

    The lock lies on the folder itself, so no file stays behind, and the system takes it from a process that ends in
    whichever way. On a file system that cannot lock folders the manifest's writer counts, if it is of this machine.

    Raises:
        InputError: another process has it.
        WriteError: nothing can be written there.
    """
    place = folder.resolve()
    held = _CLAIMS.get(place)
    if held and (again := held.taken()):
        return again
    with writing(place):
        handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        busy = False
    except BlockingIOError:
        busy = True
    except OSError:
        busy = _written_elsewhere(_manifest_or_nothing(folder))
    made = _Claim(handle)
    if busy:
        pid = str(_manifest_or_nothing(folder).get("writer", "")).partition(":")[0]
        who = f"Process {pid}" if pid else "Another process"
        raise InputError(
            f"{who} is writing the run {folder.name}. Wait for its end or stop it, or take another run id."
        )
    _CLAIMS[place] = made
    made.taken()
    return made


def _manifest_or_nothing(folder: Path) -> dict[str, Any]:
    try:
        return RunFolder(folder).manifest()
    except RunError:
        return {}


def _written_elsewhere(manifest: dict[str, Any]) -> bool:
    """True where another process that is alive says that it writes the run."""
    return state_of(manifest) == "running" and manifest.get("writer") != this_process()


def _damage(manifest: object) -> str:
    """The fault of a manifest for whoever reads it; empty where nothing is."""
    if not isinstance(manifest, dict):
        return "it is no JSON object"
    level: list[object] = [manifest]
    for _ in range(_DEEPEST):
        inner = [v for held in level for v in (held.values() if isinstance(held, dict) else held)]  # type: ignore[attr-defined]
        level = [v for v in inner if isinstance(v, dict | list)]
    if level:
        return f"it is nested more than {_DEEPEST} levels deep"
    parts = [(name, manifest[name], kind) for name, kind in _KINDS.items() if name in manifest]
    judge = manifest.get("judge")
    if isinstance(judge, dict):
        parts += [(f"judge.{k}", judge[k], kind) for k, kind in _JUDGE_KINDS.items() if judge.get(k) is not None]
    for name, value, kind in parts:
        if not isinstance(value, kind):
            allowed = "a text" if kind is str else "an object" if kind is dict else "a list"
            return f"its {name} is {shown(value, 40)} and has to be {allowed}"
    return ""


def this_process() -> str:
    """Names this process among all that ever ran on this machine, as far as the system tells."""
    return _process(os.getpid())


def _process(pid: int) -> str:
    try:  # the time it was started, so that a number used again is another process
        started = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        import psutil  # type: ignore[import-untyped]

        try:
            started = str(psutil.Process(pid).create_time())
        except psutil.Error:
            started = "0"
    return f"{pid}:{started}"


def process_alive(name: str) -> bool:
    """True where the process that `this_process` once named so is still there; a later one of its number is another."""
    pid = name.partition(":")[0]
    if not pid.isascii() or not pid.isdigit() or int(pid) < 1 or len(pid) > 9:
        return False
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        pass  # it is there and another user's
    except OSError:
        return False
    return _process(int(pid)) == name


def state_of(manifest: dict[str, Any]) -> str:
    """The run's state; one that says it is running while the process that wrote it is gone is interrupted."""
    state = str(manifest.get("state", "unreadable"))
    return "interrupted" if state == "running" and not process_alive(str(manifest.get("writer", ""))) else state


def open_run(root: Path, run_id: str) -> RunFolder:
    """An existing run.

    Raises:
        RunError: there is none of that id.
    """
    folder = _folder(root, run_id)
    if not (folder / "manifest.json").is_file():
        raise RunError(f"There is no run {run_id!r}. If it was deleted, the trash on the page Runs has it for a while.")
    return RunFolder(folder)


def broke_off(root: Path, run_id: str, state: str, error: str = "") -> None:
    """Mark a run whose study ended before it could say so itself; one that has said how it ended is left as it is."""
    try:
        run = open_run(root, run_id)
        manifest = run.manifest()
        if manifest.get("state") == "running" and not _written_elsewhere(manifest):
            run.update_manifest(state=state, finished=now(), error=error)
    except RunError:
        return  # it had not begun


def demo_run(dataset_id: str = "demo-dialogue") -> RunFolder:
    """The recorded run of the bundled judge on a demo set, which ships with the project.

    Raises:
        RunError: this set has no recorded run.
    """
    name = dataset_id.removeprefix("demo-")
    return open_run(_folder(get_settings().assets / "demo", name), "run")


def list_runs(root: Path) -> list[dict[str, Any]]:
    """Manifests of all readable runs, newest first; unreadable ones are listed with their error.

    A manifest is read again only when its file has changed; what is returned is shared and must not be edited.
    """
    found: list[tuple[str, float, dict[str, Any]]] = []
    for folder in _folders(root):
        try:
            manifest = _manifest_once(folder)
        except RunError as error:
            manifest = {"run_id": folder.name, "state": "unreadable", "error": str(error)}
        try:
            changed = folder.stat().st_mtime
        except OSError:
            continue  # deleted a moment ago
        found.append((begun(manifest) or _iso(changed), changed, manifest))
    # not by the folder's time alone: a new title would make an old run the newest
    return [manifest for *_, manifest in sorted(found, key=lambda one: one[:2], reverse=True)]


def begun(manifest: dict[str, Any]) -> str:
    """When the run was begun, or taken up again last (ISO 8601, UTC); empty where it does not say."""
    resumed = manifest.get("resumed")
    return str(resumed[-1] if isinstance(resumed, list) and resumed else manifest.get("created") or "")


def _manifest_once(folder: Path) -> dict[str, Any]:
    file = folder / "manifest.json"
    try:
        stat = file.stat()
    except OSError:
        return RunFolder(folder).manifest()  # which says what is wrong
    return _manifest_at(str(folder), stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=8192)
def _manifest_at(folder: str, changed: int, size: int, inode: int) -> dict[str, Any]:
    del changed, size, inode  # part of the cache key only
    run = RunFolder(Path(folder))
    return {**run.manifest(), "run_id": run.run_id}  # a copied folder is a run of its own


def _folders(root: Path) -> Iterable[Path]:
    return (f for f in root.iterdir() if f.is_dir() and not f.name.startswith(".")) if root.is_dir() else ()


def _folder(root: Path, run_id: str) -> Path:
    if not _RUN_ID.fullmatch(run_id):
        raise RunNameError(f"{shown(run_id)} is no run id: letters, digits, dot, dash and underscore, at most 80.")
    return root / run_id


def now() -> str:
    """The present moment in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of what decides a number, for the manifest."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    found["judgescope"] = __version__
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found

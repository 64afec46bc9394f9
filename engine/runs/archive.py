"""A run as one zip file, out and in; what comes in is another's and is checked before anything is written.

Layout: `manifest.json`, one `NAME.parquet` for each table of the schema, and `notes.json` (title and tags) if there
are any, at the top or in one folder. Nothing in it is run or unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.core.errors import EngineError, RunError, shown
from engine.core.files import make_folder, writing
from engine.core.json import check_depth, dumps
from engine.core.plugins import absent
from engine.runs.folder import FORMAT, PLUGINS, RunFolder, known_tables, now
from engine.runs.library import MAX_TAG, MAX_TAGS, MAX_TITLE, free_id, numbered

MAX_ZIP = 200 * 2**20
"""Largest zip taken [bytes]."""
MAX_FILES = 64
MAX_UNPACKED = 512 * 2**20
"""Most that all files may take unpacked [bytes]."""
MAX_JSON = 16 * 2**20
"""Largest manifest [bytes]."""
MAX_ROWS = 5_000_000
MAX_CELLS = 50_000_000
"""Most values that one column may hold, those inside lists counted."""
MAX_TEXT = 2**30
"""Most characters that one table may hold once repeated texts are written out."""
_JSON = ("manifest.json", "notes.json")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_NEEDED: dict[str, type | tuple[type, ...]] = {
    "run_id": str, "study": str, "state": str, "created": str, "config": dict, "data": dict, "judge": dict,
    "versions": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Imported:
    """Result of an import.

    Attributes:
        run_id: what it is called here.
        was: what it was called in the file.
        skipped: true where the same run was here already, so that nothing was written.
    """

    run_id: str
    was: str
    skipped: bool


def export_run(run: RunFolder) -> bytes:
    """The run as a zip; the same run gives the same bytes.

    Raises:
        RunError: it has no readable manifest, or a table of a plugin that is not here, which would be left behind.
    """
    run.manifest()
    if why := left_behind(run):
        raise RunError(why)
    out = io.BytesIO()
    names = [*_JSON, *(f"{name}.parquet" for name in sorted(known_tables()))]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            file = run.path / name
            if file.is_file():
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes())
    return out.getvalue()


def left_behind(run: RunFolder) -> str:
    """Why a run cannot be exported: a table of a plugin that is not here; empty where nothing would be left behind."""
    lacks, known = absent(run.manifest().get(PLUGINS)), known_tables()
    foreign = sorted(file.name for file in run.path.glob("*.parquet") if file.stem not in known)
    return f"{foreign[0]} of {run.run_id} cannot be exported. {lacks} Install it first." if lacks and foreign else ""


def import_run(root: Path, content: bytes) -> Imported:
    """Take a run out of a zip into `root`, whole or not at all.

    The same run is skipped; another run of the same id gets a new one.

    Raises:
        RunError: the file is no zip of a run, or holds what it may not; the message says which part.
    """
    files = _unpacked(content)
    manifest = _checked_manifest(files["manifest.json"])
    notes = _checked_notes(files.pop("notes.json", b"{}"))
    make_folder(root)
    with writing(root / str(manifest["run_id"])):
        made = Path(tempfile.mkdtemp(prefix=".import-", dir=root))
        try:
            for name, data in files.items():
                (made / name).write_bytes(data)
            for name in files:
                if name.endswith(".parquet"):
                    _check_table(RunFolder(made), name.removesuffix(".parquet"))
            was = str(manifest["run_id"])
            if same := _same_here(root, was, made):
                return Imported(same, was, skipped=True)
            run_id = free_id(root, was)
            if run_id != was:
                RunFolder(made).write_manifest({**manifest, "run_id": run_id})
            RunFolder(made).write_notes({**notes, "imported": now()})
            made.chmod(0o755)
            made.rename(root / run_id)
            return Imported(run_id, was, skipped=False)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _unpacked(content: bytes) -> dict[str, bytes]:
    """Every file of the zip by its plain name.

    Raises:
        RunError: a name leads elsewhere, a file is foreign, a link, encrypted or too large, or there is no manifest.
    """
    if len(content) > MAX_ZIP:
        raise RunError(f"The file has {len(content) / 2**20:,.0f} MB; a run's zip has at most {MAX_ZIP / 2**20:,.0f}.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = _checked_names(archive.infolist())
            left = MAX_UNPACKED
            files: dict[str, bytes] = {}
            for name, entry in names.items():
                with archive.open(entry) as packed:  # never more than allowed, whatever the zip says of its size
                    files[name] = packed.read(min(left, MAX_JSON if name in _JSON else left) + 1)
                left -= len(files[name])
                if left < 0 or (name in _JSON and len(files[name]) > MAX_JSON):
                    raise RunError(f"{name} is larger than a run's file may be; nothing was imported.")
    except RunError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise RunError(f"The file is no readable zip of a run ({error}). Export the run again.") from None
    if "manifest.json" not in files:
        raise RunError("The zip holds no manifest.json, so it is no run. Choose a file that Export made.")
    return files


def _checked_names(entries: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    files = [e for e in entries if not e.is_dir()]
    if len(files) > MAX_FILES:
        raise RunError(f"The zip holds {len(files):,} files; a run has at most {MAX_FILES}.")
    if sum(e.file_size for e in files) > MAX_UNPACKED:
        size = sum(e.file_size for e in files) / 2**20
        raise RunError(f"The zip unpacks to {size:,.0f} MB; at most {MAX_UNPACKED / 2**20:,.0f} MB are taken.")
    allowed = {*_JSON, *(f"{name}.parquet" for name in known_tables())}
    found: dict[str, zipfile.ZipInfo] = {}
    folders = set()
    for entry in files:
        # what the file says: the zip reader has made a backslash a slash on some systems and cut at a NUL
        name = entry.orig_filename
        parts = name.split("/")
        unsafe = name.startswith("/") or "\\" in name or ":" in name or "\0" in name or ".." in parts
        if unsafe:
            raise RunError(
                f"The zip holds {shown(name, 80)}, which leads out of the run's folder; nothing was imported."
            )
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise RunError(f"The zip holds {shown(name, 80)}, which is a link or a device and no file.")
        if entry.flag_bits & 0x1:
            raise RunError(f"{shown(name, 80)} is encrypted. Export the run without a password.")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RunError(f"{shown(name, 80)} is packed in a way that is not read. Export the run again.")
        if parts[-1] not in allowed or len(parts) > 2:
            more = " If it is the table of a plugin's study, install that first." if name.endswith(".parquet") else ""
            raise RunError(f"The zip holds {shown(name, 80)}, which is no part of a run; nothing was imported.{more}")
        if parts[-1] in found:
            raise RunError(f"The zip holds {parts[-1]} twice.")
        folders.add(tuple(parts[:-1]))
        found[parts[-1]] = entry
    if len(folders) > 1:
        raise RunError("The zip holds more than one folder. Import one run at a time.")
    return found


def _checked_manifest(data: bytes) -> dict[str, Any]:
    manifest = _json(data, "manifest.json")
    for key, kind in _NEEDED.items():
        if not isinstance(manifest.get(key), kind):
            raise RunError(f"manifest.json has no usable {key!r}, so it is no run's manifest.")
    version = manifest.get("format", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version > FORMAT:
        raise RunError(
            f"The run was written in format {version!r}; this version reads up to {FORMAT}. Update JudgeScope."
        )
    if not _ID.fullmatch(manifest["run_id"]):
        raise RunError(f"{shown(manifest['run_id'], 80)} is no run id: letters, digits, dot, dash and underscore.")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", manifest["study"]):
        raise RunError(f"{shown(manifest['study'], 80)} names no study.")
    return manifest


def _checked_notes(data: bytes) -> dict[str, Any]:
    notes = _json(data, "notes.json")
    title, tags = notes.get("title", ""), notes.get("tags", [])
    fits = isinstance(tags, list) and len(tags) <= MAX_TAGS and all(isinstance(t, str) for t in tags)
    if not isinstance(title, str) or len(title) > MAX_TITLE or not fits or any(len(t) > MAX_TAG for t in tags):
        raise RunError("notes.json holds no title and tags of the usual form; nothing was imported.")
    return {"title": title, "tags": tags}


def _json(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8"))
        check_depth(found)
        dumps(found).encode("utf-8")  # half of a surrogate pair can be spelled, and never be written
    except (ValueError, RecursionError) as error:
        raise RunError(f"{name} is no JSON ({type(error).__name__}); nothing was imported.") from None
    if not isinstance(found, dict):
        raise RunError(f"{name} is no JSON object; nothing was imported.")
    return found


def _check_table(run: RunFolder, name: str) -> None:
    """Refuse a table that is none, or that becomes huge only when it is read.

    Raises:
        RunError: as said; the message names the table.
    """
    file = run.path / f"{name}.parquet"
    try:
        held = pq.ParquetFile(file)
        about = held.metadata
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        cells = [sum(g.column(c).num_values for g in groups) for c in range(about.num_columns)]
        if about.num_rows > MAX_ROWS or max(cells, default=0) > MAX_CELLS:
            raise RunError(f"The table {name} has {about.num_rows:,} rows of up to {max(cells):,} values; too many.")
        if sum(g.total_byte_size for g in groups) > MAX_UNPACKED:
            raise RunError(f"The table {name} is larger than a run's table may be.")
        texts = [f.name for f in held.schema_arrow if _is_text(f.type)]
        if texts and sum(_characters(file, column) for column in texts) > MAX_TEXT:
            raise RunError(f"The table {name} holds more text than a run's table may.")
        run.table(name)
    except RunError:
        raise
    except (pa.ArrowException, EngineError, OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"The table {name} is no table of a run: {error}.") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _characters(file: Path, column: str) -> int:
    """Bytes of a text column written out; read by its dictionary, so that a text repeated a million times is one."""
    read = pq.read_table(file, columns=[column], read_dictionary=[column])[column]
    total = 0
    for chunk in read.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        total += pc.sum(pc.take(lengths, chunk.indices)).as_py() or 0
    return total


def _same_here(root: Path, run_id: str, made: Path) -> str:
    """The id of a run here with exactly the same results, under its own id or one it was given on an earlier import."""
    wanted, k, here = _digest(made), 1, run_id
    while (root / here).is_dir():
        if _digest(root / here) == wanted:
            return here
        k += 1
        here = numbered(run_id, k)
    return ""


def _digest(folder: Path) -> str:
    """SHA-256 over the manifest without its id, and the tables; the notes are the user's and do not count."""
    digest, tables = hashlib.sha256(), known_tables()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".parquet" and file.stem in tables:
            digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    try:
        manifest = RunFolder(folder).manifest()
    except RunError:
        return "unreadable"
    digest.update(dumps({**manifest, "run_id": ""}).encode())
    return digest.hexdigest()

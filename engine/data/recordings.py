"""Verdicts kept as recorded judges that pages and commands can name: imported from files, and those that ship."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from engine.core.schema import Protocol
from engine.core.settings import get_settings
from engine.data.formats.base import Imported
from engine.data.formats.use import as_recording

_ID = re.compile(r"import-[0-9a-f]{16}")
MOST = 50
"""Most recordings that are listed, the newest first."""
SHIPPED = {"demo-llmbar": "llmbar", "demo-mtbench": "mtbench"}
"""Recordings of strong judges that ship with the project, and their folder in assets/demo."""


@dataclass(frozen=True)
class SavedRecording:
    """One judge of an imported file.

    Attributes:
        spec: `recorded:import-...` or `recorded:demo-...`, with the judge's name where the file has several.
        title: judge and file, for a list.
        protocol: of its verdicts.
        n: verdicts it holds.
        format: the known format it came in; of a shipped one its data.
    """

    spec: str
    title: str
    protocol: Protocol
    n: int
    format: str


def save_recording(found: Imported, root: Path) -> list[SavedRecording]:
    """Keep the verdicts of an import; the same verdicts again are kept once.

    Raises:
        InputError: it holds none, or of several kinds.
    """
    frame, layout = as_recording(found)
    digest = hashlib.sha256(frame.to_csv(index=False).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    name = f"import-{digest}"
    counts = {str(judge): int(n) for judge, n in frame["judge"].value_counts(sort=False).items()}
    about: dict[str, object] = {
        "name": found.name,
        "format": found.format,
        "protocol": layout.protocol.value,
        "judges": counts,
    }
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as made:
        table, text = Path(made) / "table", Path(made) / "about"
        frame.to_parquet(table, index=False)
        text.write_text(json.dumps(about), encoding="utf-8")
        table.replace(root / f"{name}.parquet")
        text.replace(root / f"{name}.json")
    return list(_judges_of(name, about))


def recording_file(name: str) -> Path | None:
    """The file of a shipped or imported recording; None where the name is of no such kind."""
    if name in SHIPPED:
        return get_settings().assets / "demo" / SHIPPED[name] / "verdicts.parquet"
    if not _ID.fullmatch(name):
        return None
    return get_settings().recordings / f"{name}.parquet"


def list_recordings(root: Path) -> list[SavedRecording]:
    """Every judge of the recordings that were kept, the newest file first."""
    paths = [p for p in root.glob("import-*.json") if _ID.fullmatch(p.stem)] if root.is_dir() else []
    paths.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    out: list[SavedRecording] = []
    for path in paths:
        try:
            out += _judges_of(path.stem, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # a damaged file must not hide the others
    return out[:MOST]


def shipped_recordings() -> list[SavedRecording]:
    """The strong judges that ship with the project, as `judges.json` beside their verdicts lists them.

    Where a judge was asked in several ways only one is listed; `?judge=...&prompt=...` names any other.
    """
    found: list[SavedRecording] = []
    for name, folder in SHIPPED.items():
        path = get_settings().assets / "demo" / folder / "judges.json"
        about = json.loads(path.read_text(encoding="utf-8"))
        for one in about["judges"]:
            chosen = "&".join(f"{key}={quote(value, safe='')}" for key, value in one["where"].items())
            title = f"{one['title']} on {about['name']}, recorded"
            found.append(SavedRecording(f"recorded:{name}?{chosen}", title, Protocol.PAIRWISE, one["n"], about["name"]))
    return found


def _judges_of(name: str, about: dict[str, object]) -> Iterator[SavedRecording]:
    judges = about["judges"]
    assert isinstance(judges, dict)
    for judge, n in judges.items():
        chosen = f"?judge={quote(str(judge), safe='')}" if len(judges) > 1 else ""
        yield SavedRecording(
            f"recorded:{name}{chosen}",
            f"Recorded: {judge} ({about['name']})",
            Protocol(str(about["protocol"])),
            int(n),
            str(about["format"]),
        )

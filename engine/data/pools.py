"""Counterfactual references of the user's own: a text file with one a line, kept so that a job can name it."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from engine.data.references import ReferencePool, make_pool
from engine.errors import InputError

MAX_MB = 1
MAX_LINES = 20_000
LISTED = 20
"""Most pools that are offered, the newest first."""
_ID = re.compile(r"pool-[0-9a-f]{16}")


@dataclass(frozen=True)
class SavedPool:
    """A pool that is kept.

    Attributes:
        pool_id: `pool-...`, by its content.
        name: of the file it came in.
        n: different final answers in it.
    """

    pool_id: str
    name: str
    n: int


def pool_of_lines(name: str, content: bytes) -> ReferencePool:
    """The pool of a text file with one reference a line; blank lines and repeats are passed over.

    Raises:
        InputError: it is not UTF-8, has too many lines, or holds no reference.
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"The pool {name} cannot be read as UTF-8 text: {error}. Save it as UTF-8.") from None
    if len(lines) > MAX_LINES:
        raise InputError(f"The pool {name} has {len(lines):,} lines; at most {MAX_LINES:,} are taken. Give fewer.")
    return make_pool(lines, name)


def save_pool(name: str, content: bytes, root: Path) -> SavedPool:
    """Keep a pool; the same references again are kept once, under the newer name.

    Raises:
        InputError: as `pool_of_lines`.
    """
    texts = [entry.text for entry in pool_of_lines(name, content).entries]
    text = json.dumps({"name": name, "references": texts}, ensure_ascii=False)
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as made:
        file = Path(made) / "pool"
        file.write_text(text, encoding="utf-8")
        file.replace(root / f"pool-{digest}.json")
    return SavedPool(f"pool-{digest}", name, len(texts))


def load_pool(pool_id: str, root: Path) -> ReferencePool | None:
    """A pool that was kept; None where the name is of no such kind.

    Raises:
        InputError: it is gone or damaged.
    """
    if not _ID.fullmatch(pool_id):
        return None
    try:
        name, texts = _read(root / f"{pool_id}.json")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The references {pool_id} cannot be read ({error}). Upload the file again.") from None
    return make_pool(texts, name)


def list_pools(root: Path) -> list[SavedPool]:
    """The pools that were kept, the newest first."""
    paths = [p for p in root.glob("pool-*.json") if _ID.fullmatch(p.stem)] if root.is_dir() else []
    out = []
    for path in sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True)[:LISTED]:
        try:
            name, texts = _read(path)
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a damaged file must not hide the others
        out.append(SavedPool(path.stem, name, len(texts)))
    return out


def _read(path: Path) -> tuple[str, list[str]]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    return str(stored["name"]), [str(text) for text in stored["references"]]

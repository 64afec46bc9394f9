"""Saved choices for files that come again: which column is what, the task, how the file was read.

They live in one JSON file under the user's data folder, written whole or not at all. A preset names columns, so it
fits every file that has them, wherever they stand.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from engine.core.errors import InputError, shown
from engine.core.files import write_atomically
from engine.core.schema import Task
from engine.data.encodings import TITLES
from engine.data.mapping import OFFERED
from engine.data.raw import DELIMITERS

MAX_NAME = 80
"""Longest name of a preset [characters]."""

MAX_PRESETS = 200
"""Most presets that are kept."""

_FILE = "presets.json"
_FIELDS = frozenset(f.name for f in OFFERED)


@dataclass(frozen=True)
class Preset:
    """One set of choices.

    Attributes:
        name: what the user calls it; no two presets share one.
        mapping: field -> column of the file.
        task: a value of `schema.Task`.
        delimiter: of the file it was made with; empty where it had none.
        encoding: what the user said the encoding is; empty where it was certain.
    """

    name: str
    mapping: Mapping[str, str] = field(default_factory=dict)
    task: str = Task.DIALOGUE.value
    delimiter: str = ""
    encoding: str = ""

    def fits(self, columns: Collection[str]) -> bool:
        """True where a file with these columns has all that the preset names."""
        return set(self.mapping.values()) <= set(columns)


def best_preset(presets: Collection[Preset], columns: Collection[str]) -> Preset | None:
    """The preset that fits and names most of the columns; of equals the one saved last."""
    fitting = [p for p in presets if p.fits(columns)]
    return max(reversed(fitting), key=lambda p: len(p.mapping), default=None)


def list_presets(data_dir: Path) -> list[Preset]:
    """The saved presets, oldest first.

    Raises:
        InputError: the file is damaged; nothing is written over it.
    """
    path = data_dir / _FILE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return [_checked(entry) for entry in stored["presets"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise InputError(
            f"The saved presets ({_FILE}) cannot be read ({error}). Mend the file or move it away; it is not changed."
        ) from None


def save_preset(data_dir: Path, preset: Preset, *, at: int | None = None) -> None:
    """Add a preset, in the place of one with the same name where there is one.

    Args:
        data_dir: `Settings.data_dir`.
        preset: what to keep.
        at: position in the list, to put a deleted one back; None appends.

    Raises:
        InputError: its name is blank or too long, a field, task, delimiter or encoding is unknown, no response is
            mapped, or there are too many presets.
    """
    made = _checked(asdict(preset))
    with _changing(data_dir) as presets:
        names = [p.name for p in presets]
        if made.name in names:
            presets[names.index(made.name)] = made
        elif len(presets) >= MAX_PRESETS:
            raise InputError(f"There are {MAX_PRESETS} presets already. Delete one that is not needed.")
        else:
            presets.insert(len(presets) if at is None else at, made)


def rename_preset(data_dir: Path, name: str, new: str) -> None:
    """Give a preset another name.

    Raises:
        InputError: there is none of that name, or the new one is blank, too long or taken.
    """
    with _changing(data_dir) as presets:
        at = _position(presets, name)
        renamed = _checked(asdict(replace(presets[at], name=new)))
        if any(p.name == renamed.name for i, p in enumerate(presets) if i != at):
            raise InputError(f"There is a preset {renamed.name!r} already. Choose another name.")
        presets[at] = renamed


def delete_preset(data_dir: Path, name: str) -> tuple[Preset, int]:
    """Remove a preset.

    Returns:
        It and its position, so that `save_preset(..., at=position)` undoes this.

    Raises:
        InputError: there is none of that name.
    """
    with _changing(data_dir) as presets:
        at = _position(presets, name)
        return presets.pop(at), at


def _position(presets: list[Preset], name: str) -> int:
    for at, preset in enumerate(presets):
        if preset.name == name:
            return at
    raise InputError(f"There is no preset {name!r}. There are: {', '.join(p.name for p in presets) or 'none'}.")


def _checked(entry: Mapping[str, object]) -> Preset:
    """A preset from its JSON.

    Raises:
        InputError: a part of it is not what it may be.
    """
    name = " ".join(str(entry["name"]).split())
    if not name or len(name) > MAX_NAME:
        raise InputError(f"The name of a preset has 1 to {MAX_NAME} characters; {shown(name, 100)} has {len(name)}.")
    stored = entry["mapping"]
    mapping = {str(k): str(v) for k, v in stored.items() if v} if isinstance(stored, Mapping) else {}
    if unknown := sorted(mapping.keys() - _FIELDS):
        raise InputError(f"The preset {name!r} maps {unknown[0]!r}, which is no field; fields: {', '.join(_FIELDS)}.")
    if "response" not in mapping:
        raise InputError(f"The preset {name!r} names no column for the response. Choose one first.")
    task, delimiter, encoding = (str(entry.get(k) or "") for k in ("task", "delimiter", "encoding"))
    for value, allowed, what in (
        (task, tuple(Task), "task"),
        (delimiter, ("", *DELIMITERS), "delimiter"),
        (encoding, ("", *TITLES), "encoding"),
    ):
        if value not in allowed:
            raise InputError(f"The preset {name!r} has the {what} {value!r}; allowed: {', '.join(allowed)}.")
    return Preset(name, mapping, task, delimiter, encoding)


@contextmanager
def _changing(data_dir: Path) -> Iterator[list[Preset]]:
    """The presets, to be changed in place; written when the block ends without an error."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(data_dir / f"{_FILE}.lock", timeout=10):
        presets = list_presets(data_dir)
        yield presets
        text = json.dumps({"presets": [asdict(p) for p in presets]}, ensure_ascii=False, indent=1)
        write_atomically(data_dir / _FILE, text.encode())

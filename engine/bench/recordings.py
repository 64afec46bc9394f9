"""`judgescope bench recordings`: makes the recorded runs of assets/demo anew, each by its own command.

The list is `assets/studies/bench_recordings.toml`. A run is made beside the old one and takes its place once it is
done, so stopping or an error leaves the old one as it was.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import OK, InputError, listed
from engine.core.settings import get_settings
from engine.training.sources import DEFAULT_DATA

LIST = "bench_recordings.toml"
_DATA = "{data}"


@dataclass(frozen=True)
class Entry:
    """One recording.

    Attributes:
        name: on the command line.
        command: of `judgescope`, without where the run goes.
        place: folder of the run under assets/demo; empty for a command that writes no run.
    """

    name: str
    command: str
    place: str = ""

    @property
    def needs_data(self) -> bool:
        """True where it reads the public data sets."""
        return _DATA in self.command

    def words(self, data: Path, root: Path) -> list[str]:
        """The command's words, the run going under `root`."""
        words = [str(data) if word == _DATA else word for word in shlex.split(self.command)]
        if not self.place:
            return words
        place = Path(self.place)
        words += ["--out", str(root / place.parent), "--run-id", place.name]
        return words if words[0] == "recorded" else [*words, "--recorded"]


def read_list(path: Path) -> list[Entry]:
    """The recordings of a list, in its order.

    Raises:
        InputError: it cannot be read, or names a recording or a place twice.
    """
    try:
        entries = [Entry(**one) for one in tomllib.loads(path.read_text(encoding="utf-8"))["recording"]]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise InputError(f"The list of recordings {path.name} cannot be read ({error}).") from None
    for what in ("name", "place"):
        given = [value for entry in entries if (value := getattr(entry, what))]
        if twice := sorted({value for value in given if given.count(value) > 1}):
            raise InputError(f"{path.name} has the {what} {twice[0]!r} twice.")
    return entries


def chosen(entries: Sequence[Entry], only: Sequence[str]) -> list[Entry]:
    """Those named, or whose names begin with a name given and a dash; all where none is given.

    Raises:
        InputError: a name fits none.
    """
    found: dict[str, Entry] = {}
    for name in only:
        fits = {e.name: e for e in entries if e.name == name or e.name.startswith(f"{name}-")}
        if not fits:
            raise InputError(f"There is no recording {name!r}. There are: {listed([e.name for e in entries])}.")
        found |= fits
    return [e for e in entries if e.name in found] if only else list(entries)


def add_recordings(kinds: Any) -> None:
    """Add `bench recordings` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("recordings", help="make the recorded runs of assets/demo anew")
    one.add_argument("--only", action="append", default=[], metavar="NAME", help="a recording, or several by beginning")
    one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    one.add_argument("--out", type=Path, metavar="DIR", help="in place of assets/demo, for a comparison")
    one.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the commands one after the other; stops at the first that fails.

    Raises:
        InputError: no such recording, a folder that is missing, or a command that failed, named.
    """
    settings = get_settings()
    entries = chosen(read_list(settings.assets / "studies" / LIST), args.only)
    target = args.out or settings.assets / "demo"
    made: list[dict[str, str]] = []
    for entry in entries:
        shown = shlex.join(["judgescope", *entry.words(args.data, target)])
        made.append({"name": entry.name, "command": shown, "place": entry.place})
        print(f"{entry.name}: {shown}", flush=True)
        if not args.dry_run:
            _make(entry, args.data, target)
    return {"recordings": made, "dry_run": args.dry_run}


def _make(entry: Entry, data: Path, target: Path) -> None:
    """Run one command; its run takes the old one's place."""
    from engine.cli.main import main

    if entry.needs_data and not data.is_dir():
        raise InputError(
            f"{entry.name} reads the public data sets, and there is no folder {data.name}. Give --data DIR."
        )
    with tempfile.TemporaryDirectory() as folder:
        code = main(entry.words(data, Path(folder)))
        if code != OK:
            raise InputError(f"{entry.name} ended with exit code {code}; the recording before it stays as it was.")
        if entry.place:
            place = target / entry.place
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(folder) / entry.place, place)

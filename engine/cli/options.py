"""From the `data` argument of a command to a dataset."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from engine.cli import add_json
from engine.core.errors import InputError, listed
from engine.core.files import read_file
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.comparisons import (
    ALIASES,
    DEMO_PAIRS,
    Comparisons,
    list_comparisons,
    load_comparisons,
    read_comparisons,
    save_comparisons,
)
from engine.data.dataset import Dataset, build_dataset
from engine.data.encodings import CHOICES
from engine.data.formats.base import Imported
from engine.data.formats.hub import HUB, fetch
from engine.data.formats.registry import FORMATS, TABLE, open_source, read_known, read_source, recognise
from engine.data.formats.use import as_comparisons, as_dataset
from engine.data.mapping import suggest_mapping
from engine.data.raw import DELIMITERS, group_problems
from engine.data.reading import read_table
from engine.data.store import load_dataset, save_dataset


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Options for reading a file."""
    parser.add_argument("--task", default=Task.DIALOGUE.value, choices=[t.value for t in Task])
    add_reading_options(parser)
    add_format_options(parser)
    parser.add_argument("--map", action="append", default=[], metavar="FIELD=COLUMN", help="which column holds what")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Options for what a file does not always say of itself; `reading_of` takes them up."""
    parser.add_argument("--encoding", metavar="NAME", help=f"of a text file: {', '.join(CHOICES)}")
    parser.add_argument("--delimiter", metavar="NAME", help=f"of a csv or tsv file: {', '.join(DELIMITERS.values())}")
    parser.add_argument("--sheet", metavar="NAME", help="of a workbook; or the key of a JSON object with several lists")


def reading_of(args: argparse.Namespace) -> dict[str, str | None]:
    """The options of `add_reading_options`, as every reader takes them; None where a command has not got one."""
    return {name: getattr(args, name, None) for name in ("encoding", "delimiter", "sheet")}


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """Option for the known format of a file."""
    parser.add_argument(
        "--format", metavar="NAME", help=f"a known format, or {TABLE}; found by itself where it is certain: "
        f"{', '.join(FORMATS)}"
    )  # fmt: skip
    parser.add_argument(
        "--with", action="append", default=[], dest="companions", metavar="FILE",
        help="a file that belongs to the data, such as FastChat's answers and questions",
    )  # fmt: skip


def known_of(data: str, args: argparse.Namespace) -> Imported | None:
    """A file of a known format, or a data set of the Hub; None where it is a plain table. What was read is printed.

    Raises:
        InputError: it cannot be read, or several formats could be meant.
    """
    wanted = args.format or ""
    if data.startswith(HUB):
        fetched = fetch(data)
        filename, content, wanted = fetched.filename, fetched.content, wanted or fetched.format
        print(f"Fetched {filename} at revision {fetched.revision}.", file=sys.stderr)
    else:
        filename, content = Path(data).name, read_file(Path(data))
    if wanted == TABLE or (not wanted and getattr(args, "map", [])):
        return None
    how = reading_of(args)
    companions = [(Path(name).name, read_file(Path(name))) for name in args.companions]
    if wanted:
        found = read_known(filename, content, wanted, companions=companions, **how)
    else:
        source = open_source(filename, content, companions=companions, **how)
        recognition = recognise(source)
        if len(recognition.fits) > 1:
            raise InputError(f"{filename}: {recognition.in_words()} Use --format NAME.")
        if not recognition.certain:
            if recognition.near:
                print(f"{filename}: {recognition.in_words()}", file=sys.stderr)
            vars(args).setdefault("tables", {})[data] = source.table  # read once: `dataset_of` goes on with it
            return None
        found = read_source(source, recognition.certain)
    for line in understood(found):
        print(line, file=sys.stderr)
    return found


def understood(found: Imported) -> list[str]:
    """Lines on a reading: data, way of reading, problems."""
    labels = ", ".join(f"{label} is {side}" for label, side in found.labels.items())
    lines = [f"{found.how_read} Format {found.format}: {found.counts()}.", *found.notes]
    lines += [f"Labels: {labels}."] if labels else []
    lines += [f"{p.severity}: {p.where}: {p.what} {p.fix}" for p in group_problems(found.problems)]
    return lines


Known = Callable[[str, argparse.Namespace], Imported | None]


def dataset_of(data: str, args: argparse.Namespace, known: Known = known_of) -> Dataset:
    """A saved dataset by its id, a set of the Hub, or a file read, mapped, checked and saved.

    Raises:
        InputError: no such data, or rows with errors; the problems are printed first.
    """
    path = Path(data)
    if not path.suffix and not data.startswith(HUB):
        return load_dataset(data, get_settings().datasets)
    if found := known(data, args):
        dataset = as_dataset(found)
        save_dataset(dataset, get_settings().datasets)
        return dataset
    if data.startswith(HUB):
        raise InputError(f"{data} has no known format. Say which with --format NAME, or download it and use --map.")
    raw = vars(args).get("tables", {}).pop(data, None)
    if raw is None:
        raw = read_table(path.name, read_file(path), **reading_of(args))
    raw.require_certain(path.name, "Say which it is with --encoding NAME.")
    print(raw.how_read(), file=sys.stderr)
    mapping = suggest_mapping(raw.frame)
    for pair in args.map:
        field, equals, column = pair.partition("=")
        if not equals or column not in raw.frame.columns:
            raise InputError(
                f"--map {listed([pair])}: write FIELD=COLUMN with one of the columns {listed(raw.frame.columns)}."
            )
        # a column named by hand is taken away from the field it was only suggested for
        mapping = {f: c for f, c in mapping.items() if c != column} | {field: column}
    if quality := mapping.get("quality"):
        print(f"Column {quality!r} is read as the quality.", file=sys.stderr)
    dataset = build_dataset(raw, mapping, task=args.task, name=path.name)
    for problem in group_problems(dataset.problems):
        print(f"{problem.severity}: {problem.where}: {problem.what} {problem.fix}", file=sys.stderr)
    if any(p.severity == "error" for p in dataset.problems):
        raise InputError(f"{path.name} was not scored; mend the errors above and run again.")
    save_dataset(dataset, get_settings().datasets)
    return dataset


# What several commands share: exit codes, common options, progress.


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options for the size of a run, its place, and the words before it."""
    parser.add_argument(
        "--judge-card", type=Path, metavar="NAME|FILE", help="a saved card or a TOML file that replaces the prompts"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N responses")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where run folders go")
    parser.add_argument("--run-id", help="name of the run; the same name resumes it")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="say what it would take: calls, tokens, and seconds where a probe can tell",
    )
    parser.add_argument("--budget-seconds", type=float, metavar="S", help="stop after S seconds and keep what is done")
    parser.add_argument("--recorded", action="store_true", help="mark the run as a recording to be shown as such")
    parser.add_argument("--no-cache", action="store_true", help="ask the judge again even where an answer is kept")
    add_json(parser)


def show_progress(done: int, total: int) -> None:
    """One line that counts up, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{done} of {total} judge calls", end="\n" if done == total else "", file=sys.stderr, flush=True)


def pairs_of(data: str, args: argparse.Namespace, known: Known = known_of) -> Comparisons:
    """A saved set of pairs by its id, or a file read, checked and saved.

    Raises:
        InputError: no such set, or a file that cannot be used; the message names what is wrong.
    """
    path, root = Path(data), get_settings().comparisons
    if not path.suffix and not data.startswith(HUB):
        return load_comparisons(data, root)
    if imported := known(data, args):
        found = as_comparisons(imported)
        save_comparisons(found, root)
        return found
    chosen: dict[str, str] = {}
    for pair in args.map:
        field, equals, column = pair.partition("=")
        if not equals:
            raise InputError(f"--map {pair}: write FIELD=COLUMN, for example verdict=gpt35_judge.")
        chosen[field] = column
    found = read_comparisons(path.name, read_file(path), chosen, **reading_of(args))
    save_comparisons(found, root)
    return found


class Files:
    """Opens data for a command: saved data by id, a file, or a set of the Hub. Each is read once.

    Args:
        args: the command's options: encoding, sheet, columns, format.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._datasets: dict[str, Dataset] = {}
        self._comparisons: dict[str, Comparisons] = {}
        self._imported: dict[str, Imported | None] = {}

    def dataset(self, name: str) -> Dataset:
        """Responses with their items.

        Raises:
            InputError: no such data, or rows with errors.
        """
        if name not in self._datasets:
            found = dataset_of(name, self._args, self._known)
            self._datasets |= {name: found, found.dataset_id: found}
        return self._datasets[name]

    def comparisons(self, name: str) -> Comparisons:
        """Pairs of responses; what was read, left out and which label is which side go to stderr.

        Raises:
            InputError: no such set, or a file that cannot be used.
        """
        if name not in self._comparisons:
            found = pairs_of(name, self._args, self._known)
            print(f"{found.name}: {found.counts()}.", file=sys.stderr)
            for reason, n in found.left_out.items():
                print(f"left out: {n} ({reason})", file=sys.stderr)
            if found.spellings:
                sides = ", ".join(f"{label} is {side}" for label, side in found.spellings.items())
                print(f"labels: {sides}", file=sys.stderr)
            self._comparisons |= {name: found, found.set_id: found}
        return self._comparisons[name]

    def holds_pairs(self, name: str) -> bool:
        """It is a saved set of pairs, a known format with pairs, or a table with a column for each response of a pair.

        Raises:
            InputError: the file cannot be read.
        """
        path = Path(name)
        if name in self._comparisons or name in self._datasets:
            return name in self._comparisons
        if not path.suffix and not name.startswith(HUB):
            return name == DEMO_PAIRS or name in list_comparisons(get_settings().comparisons)
        if imported := self._known(name, self._args):
            return imported.has_texts and bool(len(imported.comparisons))
        columns = set(map(str, read_table(path.name, read_file(path), **reading_of(self._args)).frame.columns))
        return all(columns & set(ALIASES[side]) for side in ("response_a", "response_b"))

    def _known(self, name: str, args: argparse.Namespace) -> Imported | None:
        """As `known_of`, read once."""
        if name not in self._imported:
            self._imported[name] = known_of(name, args)
        return self._imported[name]

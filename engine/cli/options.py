"""Options that several commands share, and the data behind their `data` argument."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from engine.cli import add_json
from engine.core.errors import InputError, listed
from engine.core.files import read_file
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.core.stages import stage
from engine.data.comparisons import (
    ALIASES,
    Comparisons,
    comparisons_of,
    is_pairs,
    load_comparisons,
    save_comparisons,
)
from engine.data.dataset import Dataset, build_dataset
from engine.data.encodings import CHOICES
from engine.data.formats.base import Imported
from engine.data.formats.hub import HUB, fetch
from engine.data.formats.registry import FORMATS, TABLE, open_source, read_known, read_source, recognise
from engine.data.formats.use import as_comparisons, as_dataset
from engine.data.guessing import guess_columns, guess_task
from engine.data.labelled import Labelled, labelled_of, load_labelled, save_labelled
from engine.data.raw import DELIMITERS, RawTable, group_problems
from engine.data.reading import read_table
from engine.data.store import load_dataset, save_dataset


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Options for reading a file."""
    parser.add_argument("--task", choices=[t.value for t in Task], help="by default told from the columns")
    add_reading_options(parser)
    add_format_options(parser)
    parser.add_argument("--map", action="append", default=[], metavar="FIELD=COLUMN", help="which column holds what")
    parser.add_argument("--yes", action="store_true", help="use guessed columns without asking")


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
        f"{FORMATS.in_words()}"
    )  # fmt: skip
    parser.add_argument(
        "--with", action="append", default=[], dest="companions", metavar="FILE",
        help="a file that belongs to the data, such as FastChat's answers and questions",
    )  # fmt: skip


def open_file(data: str, args: argparse.Namespace) -> Imported | RawTable:
    """A file, or a data set of the Hub: of a known format, which is printed, or a plain table.

    Raises:
        InputError: it cannot be read, several formats could be meant, or a set of the Hub has none that is known.
    """
    wanted, how = args.format or "", reading_of(args)
    if data.startswith(HUB):
        fetched = fetch(data)
        filename, content, wanted = fetched.filename, fetched.content, wanted or fetched.format
        print(f"Fetched {filename} at revision {fetched.revision}.", file=sys.stderr)
    else:
        filename, content = Path(data).name, read_file(Path(data))
    table: RawTable | None = None
    if not wanted and not getattr(args, "map", []):
        source = open_source(filename, content, companions=_companions(args), **how)
        recognition = recognise(source)
        if len(recognition.fits) > 1:
            raise InputError(f"{filename}: {recognition.in_words()} Use --format NAME.")
        if recognition.certain:
            return _said(read_source(source, recognition.certain))
        if recognition.near:
            print(f"{filename}: {recognition.in_words()}", file=sys.stderr)
        table = source.table
    elif wanted not in ("", TABLE):
        return _said(read_known(filename, content, wanted, companions=_companions(args), **how))
    if data.startswith(HUB):
        raise InputError(f"{data} has no known format. Say which with --format NAME, or download it and use --map.")
    return table if table is not None else read_table(filename, content, **how)


def _companions(args: argparse.Namespace) -> list[tuple[str, bytes]]:
    return [(Path(name).name, read_file(Path(name))) for name in args.companions]


def _said(found: Imported) -> Imported:
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
    parser.add_argument(
        "--devices", metavar="LIST", help="a process with the judge on each of these devices, such as cuda:0,cuda:1"
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="spread the judge's calls over a Ray cluster: auto, local, or HOST:PORT"
    )
    parser.add_argument("--no-cache", action="store_true", help="ask the judge again even where an answer is kept")
    add_json(parser)


def show_progress(done: int, total: int) -> None:
    """One line that counts up, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{done} of {total} judge calls", end="\n" if done == total else "", file=sys.stderr, flush=True)


class Files:
    """Opens data for a command: saved data by id, a file, or a set of the Hub. Each is read once.

    Args:
        args: the command's options: encoding, sheet, columns, format.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._opened: dict[str, Imported | RawTable] = {}
        self._datasets: dict[str, Dataset] = {}
        self._comparisons: dict[str, Comparisons] = {}
        self._labelled: dict[str, Labelled] = {}

    def dataset(self, name: str) -> Dataset:
        """Responses with their items; those of a file are saved.

        Raises:
            InputError: no such data, or rows with errors; the problems are printed first.
        """
        if name not in self._datasets:
            with stage("data"):
                found = self._dataset(name)
            self._datasets |= {name: found, found.dataset_id: found}
        return self._datasets[name]

    def _dataset(self, name: str) -> Dataset:
        root = get_settings().datasets
        if _is_id(name):
            return load_dataset(name, root)
        opened = self._open(name)
        found = as_dataset(opened) if isinstance(opened, Imported) else self._mapped(Path(name).name, opened)
        save_dataset(found, root)
        del opened, self._opened[name]  # the file's cells, each context once a response
        return found

    def comparisons(self, name: str) -> Comparisons:
        """Pairs of responses, those of a file saved; what was read, left out and which label is which go to stderr.

        Raises:
            InputError: no such set, or a file that cannot be used.
        """
        if name not in self._comparisons:
            root = get_settings().comparisons
            if _is_id(name):
                found = load_comparisons(name, root)
            else:
                opened = self._open(name)
                if isinstance(opened, Imported):
                    found = as_comparisons(opened)
                else:
                    found = comparisons_of(Path(name).name, opened, self._columns("verdict=gpt35_judge"))
                save_comparisons(found, root)
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
        if name in self._comparisons or name in self._datasets:
            return name in self._comparisons
        if _is_id(name):
            return is_pairs(name, get_settings().comparisons)
        opened = self._open(name)
        if isinstance(opened, Imported):
            return opened.has_texts and bool(len(opened.comparisons))
        columns = set(map(str, opened.frame.columns))
        return all(columns & set(ALIASES[side]) for side in ("response_a", "response_b"))

    def labelled(self, name: str) -> Labelled:
        """Verdicts with people's labels, those of a file saved; how they were read goes to stderr.

        Raises:
            InputError: no such set, or a file that cannot be used.
        """
        if name not in self._labelled:
            root = get_settings().labelled
            if _is_id(name):
                found = load_labelled(name, root)
            else:
                raw = read_table(Path(name).name, read_file(Path(name)), **reading_of(self._args))
                found = labelled_of(Path(name).name, raw, self._columns("verdict=judge_score"))
                save_labelled(found, root)
            print(f"{found.name}: {found.counts()}.", file=sys.stderr)
            if found.spellings:
                said = ", ".join(f"{spelled} is {value}" for spelled, value in found.spellings.items())
                print(f"read: {said}", file=sys.stderr)
            self._labelled |= {name: found, found.set_id: found}
        return self._labelled[name]

    def _open(self, name: str) -> Imported | RawTable:
        if name not in self._opened:
            self._opened[name] = open_file(name, self._args)
        return self._opened[name]

    def _columns(self, example: str) -> dict[str, str]:
        """Field -> column, as --map gives them."""
        pairs = [pair.partition("=") for pair in self._args.map]
        if wrong := ["".join(pair) for pair in pairs if not pair[1]]:
            raise InputError(f"--map {listed(wrong)}: write FIELD=COLUMN, for example {example}.")
        return {field: column for field, _, column in pairs}

    def _mapped(self, filename: str, raw: RawTable) -> Dataset:
        """A plain table as responses, by --map and by what its columns suggest."""
        raw.require_certain(filename, "Say which it is with --encoding NAME.")
        print(raw.how_read(), file=sys.stderr)
        mapping = self._mapping(raw.frame)
        task, why = guess_task(raw.frame, mapping)
        if self._args.task is None:
            print(f"Read as {task.value}: {why}. --task changes it.", file=sys.stderr)
        dataset = build_dataset(raw, mapping, task=self._args.task or task, name=filename)
        for problem in group_problems(dataset.problems):
            print(f"{problem.severity}: {problem.where}: {problem.what} {problem.fix}", file=sys.stderr)
        if dataset.errors:
            raise InputError(f"{filename} was not scored; mend the errors above and run again.")
        return dataset

    def _mapping(self, frame: pd.DataFrame) -> dict[str, str]:
        """Columns by name where a name says it, by `--map`, and by a guess that was agreed to.

        Raises:
            InputError: `--map` names no column, or nothing certain holds the responses; the text shows the guess.
        """
        guess = guess_columns(frame)
        chosen = self._columns("response=answer")
        for field, column in chosen.items():
            if column not in frame.columns:
                raise InputError(
                    f"--map {listed([f'{field}={column}'])}: write FIELD=COLUMN with one of the columns "
                    f"{listed(frame.columns)}."
                )
        # a column named by hand is taken away from the field it was only guessed for
        open_guesses = {f: g for f, g in guess.columns.items() if f not in chosen and g.column not in chosen.values()}
        unsure = {f: g for f, g in open_guesses.items() if g.sure != "sure"}
        for line in guess.notices:
            print(line, file=sys.stderr)
        for field, one in unsure.items():
            print(f"{one.sure}: {field} = {one.column} ({one.why})", file=sys.stderr)
        if unsure and not (self._args.yes or _agreed()):
            if "response" in unsure:
                raise InputError(
                    f"No column's name says for certain that it holds the responses; {unsure['response'].column!r} is "
                    "guessed. Add --yes to use the guesses above, or say --map response=COLUMN."
                )
            print("These are not used; --yes takes them, --map FIELD=COLUMN says others.", file=sys.stderr)
            open_guesses = {f: g for f, g in open_guesses.items() if f not in unsure}
        return {field: one.column for field, one in open_guesses.items()} | chosen


def _agreed() -> bool:
    """Ask on a terminal; in a pipe nobody is asked, and nothing is agreed to."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print("Use these columns? [Y/n] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("", "y", "yes")


def _is_id(name: str) -> bool:
    """It names saved data, neither a file nor a set of the Hub."""
    return not Path(name).suffix and not name.startswith(HUB)

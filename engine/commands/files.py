"""From the `data` argument of a command to a dataset."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from engine.data.dataset import Dataset, build_dataset
from engine.data.encodings import CHOICES
from engine.data.mapping import suggest_mapping
from engine.data.problems import group_problems
from engine.data.reading import DELIMITERS, read_table
from engine.data.store import load_dataset, save_dataset
from engine.errors import InputError
from engine.schema import Task
from engine.settings import get_settings


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """How a file is read."""
    parser.add_argument("--task", default=Task.DIALOGUE.value, choices=[t.value for t in Task])
    parser.add_argument("--encoding", metavar="NAME", help=f"of a text file: {', '.join(CHOICES)}")
    parser.add_argument("--delimiter", metavar="NAME", help=f"of a csv or tsv file: {', '.join(DELIMITERS.values())}")
    parser.add_argument("--sheet", metavar="NAME", help="of a workbook; or the key of a JSON object with several lists")
    parser.add_argument("--map", action="append", default=[], metavar="FIELD=COLUMN", help="which column holds what")


def dataset_of(data: str, args: argparse.Namespace) -> Dataset:
    """A saved dataset by its id, or a file read, mapped, checked and saved.

    Raises:
        InputError: no such data, or rows with errors; the problems are printed first.
    """
    path = Path(data)
    if not path.suffix:
        return load_dataset(data, get_settings().datasets)
    try:
        raw = read_table(
            path.name, path.read_bytes(), delimiter=args.delimiter, encoding=args.encoding, sheet=args.sheet
        )
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    raw.require_certain(path.name, "Say which it is with --encoding NAME.")
    print(raw.how_read(), file=sys.stderr)
    mapping = suggest_mapping(raw.frame)
    for pair in args.map:
        field, equals, column = pair.partition("=")
        if not equals or column not in raw.frame.columns:
            raise InputError(
                f"--map {pair}: write FIELD=COLUMN with one of the columns {', '.join(raw.frame.columns)}."
            )
        # a column named by hand is taken away from the field it was only suggested for
        mapping = {f: c for f, c in mapping.items() if c != column} | {field: column}
    dataset = build_dataset(raw, mapping, task=args.task, name=path.name)
    for problem in group_problems(dataset.problems):
        print(f"{problem.severity}: {problem.where}: {problem.what} {problem.fix}", file=sys.stderr)
    if any(p.severity == "error" for p in dataset.problems):
        raise InputError(f"{path.name} was not scored; mend the errors above and run again.")
    save_dataset(dataset, get_settings().datasets)
    return dataset

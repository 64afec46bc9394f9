"""`judgescope convert FILE --to NAME --out FILE`: from a known format to our own plain tables or to another tool's."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from engine.cli import add_json
from engine.cli.options import add_format_options, add_reading_options, open_file, understood
from engine.core.errors import InputError
from engine.core.schema import Task
from engine.data.comparisons import comparisons_of
from engine.data.dataset import build_dataset
from engine.data.formats.base import Imported
from engine.data.formats.conversion import OWN, of_comparisons, of_dataset, write_as, writers
from engine.data.formats.registry import FORMATS
from engine.data.mapping import suggest_mapping


def add(commands: Any) -> None:
    """Add the command."""
    convert = commands.add_parser("convert", help="read a file of a known format and write it as a table or for a tool")
    convert.add_argument("file", nargs="?", help="a data file, or hub:OWNER/NAME")
    convert.add_argument("--to", metavar="NAME", help=f"{', '.join(writers())}")
    convert.add_argument("--out", type=Path, metavar="FILE", help="the file to write; its ending says of which kind")
    convert.add_argument("--list", action="store_true", help="list the known formats")
    add_reading_options(convert)
    convert.add_argument(
        "--task", default=Task.DIALOGUE.value, choices=[t.value for t in Task], help="of a plain table"
    )
    convert.add_argument("--overwrite", action="store_true", help="replace the file if it is there")
    add_format_options(convert)
    add_json(convert)
    convert.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Read, say what was understood, write."""
    if args.list:
        return _list()
    if not args.file or not args.to or not args.out:
        raise InputError("Write: judgescope convert FILE --to NAME --out FILE; --list shows the names.")
    if args.out.exists() and not args.overwrite:
        raise InputError(f"{args.out.name} is there already. Choose another name, or add --overwrite.")
    found = opened(args)
    made = write_as(found, args.to, _ending(args))
    try:
        args.out.write_bytes(made.content)
    except OSError as error:
        raise InputError(f"{args.out.name} cannot be written: {error.strerror}.") from None
    print(f"{found.name} ({found.format}) holds {found.counts()}.")
    print(f"{args.out.name} ({args.to}) holds {made.holds.counts()}.")
    if made.left_out:
        print(made.in_words())
    return {
        "format": found.format,
        "to": args.to,
        "records": found.n_records,
        "excluded": found.n_excluded,
        **_sizes(found),
        "written": _sizes(made.holds),
        "left_out": [dataclasses.asdict(one) for one in made.left_out],
        "problems": [p.as_dict() for p in found.problems[:100]],
    }


def _ending(args: argparse.Namespace) -> str:
    """The ending of the file to write; empty where the format is not written, which its writer says."""
    able = writers().get(args.to, ())
    ending: str = args.out.suffix.lower()
    if able and not ending:
        raise InputError(f"--out {args.out.name} has no ending. A file of {args.to} ends in {' or '.join(able)}.")
    return ending if able else ""


def _sizes(one: Imported) -> dict[str, int]:
    return {table: len(getattr(one, table)) for table in ("items", "responses", "comparisons", "verdicts")}


def _list() -> dict[str, Any]:
    for form in FORMATS.values():
        print(f"{form.name:<24} {form.holds}")
    for name in OWN:
        print(f"{name:<24} Our own plain table of {name}, read back by its columns.")
    print(f"All are read. Written are: {', '.join(writers())}.")
    rows = [{"name": f.name, "title": f.title, "holds": f.holds, "aspects": list(f.aspects),
             "hub": [h.dataset_id for h in f.hub]} for f in FORMATS.values()]  # fmt: skip
    return {"formats": rows, "own": list(OWN), "written": list(writers())}


def opened(args: argparse.Namespace) -> Imported:
    """The file: of a known format; else a plain table, of pairs where it has both responses, else of responses.

    Raises:
        InputError: it is none of these, or has rows with errors.
    """
    raw = open_file(args.file, args)
    if isinstance(raw, Imported):
        return raw
    filename = Path(args.file).name
    raw.require_certain(filename, "Say which it is with --encoding NAME.")
    print(raw.how_read(), file=sys.stderr)
    mapping = suggest_mapping(raw.frame)
    if "response" not in mapping:
        return of_comparisons(comparisons_of(filename, raw, {}))
    dataset = build_dataset(raw, mapping, task=args.task, name=filename)
    if dataset.errors:
        raise InputError("\n".join(f"{p.where}: {p.what} {p.fix}" for p in dataset.errors[:20]))
    found = of_dataset(dataset)
    for line in understood(found):
        print(line, file=sys.stderr)
    return found

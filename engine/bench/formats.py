"""`judgescope bench formats`: how long a large file takes, beside the bare reader of its kind on the same bytes.

Known formats beside `json.loads`: one file of records with one broken line, one that is a single JSON object. Tables
beside `pandas.read_csv`: recorded pairs in both orders, a hundred responses scored of many, responses converted. The
files are made up here, of a wanted size.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.core.errors import InputError
from engine.core.settings import child_environment
from engine.data.formats.registry import open_source, read_source, recognise

MEGABYTES = 50
ROWS = 200_000
SCORED = 100
"""Responses of a large file that are scored."""


def add_formats(kinds: Any) -> None:
    """Add `bench formats` to the kinds of `judgescope bench`."""
    formats = kinds.add_parser("formats", help="reading large files of known formats")
    formats.add_argument("--megabytes", type=float, default=MEGABYTES, metavar="MB", help="size of each JSON file")
    formats.add_argument("--rows", type=int, default=ROWS, metavar="N", help="rows of each table")
    formats.add_argument("--json", action="store_true", help="last line is one JSON object")
    formats.set_defaults(run=run_formats)


def run_formats(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: a size below 0.01 or above 100 MB, which is what an upload may have, or rows out of bounds.
    """
    if not SCORED <= args.rows <= ROWS:
        raise InputError(f"--rows {args.rows}: from {SCORED} to {ROWS:,}.")
    if not 0.01 <= args.megabytes <= 100:
        raise InputError(f"--megabytes {args.megabytes:g}: from 0.01 to 100.")
    rows = []
    for name, (filename, make) in FILES.items():
        print(f"{name} ...", file=sys.stderr)
        rows.append(measure(name, filename, make(int(args.megabytes * 1e6))))
    tables = []
    with tempfile.TemporaryDirectory() as folder:
        for name in COMMANDS:
            print(f"{name} ...", file=sys.stderr)
            tables.append(measure_table(name, args.rows, Path(folder)))
    print(table(rows))
    print(table_of_tables(tables))
    return {"rows": rows, "tables": tables}


def pairs_file(size: int) -> bytes:
    """RewardBench lines of about `size` bytes, the middle one cut."""
    lines: list[str] = []
    length = 0
    while length < size:
        n = len(lines)
        texts = {"chosen": "good " * 200, "rejected": f"bad {n} " * 120}
        row = {"id": n, "prompt": f"Ask {n}", **texts, "chosen_model": "ant", "rejected_model": "bee", "subset": "chat"}
        lines.append(json.dumps(row))
        length += len(lines[-1]) + 1
    lines[len(lines) // 2] = lines[len(lines) // 2][:-9]
    return "\n".join(lines).encode("ascii")


def results_file(size: int) -> bytes:
    """One object of promptfoo results of about `size` bytes."""
    results: list[dict[str, object]] = []
    for n in range(max(1, size // 2200)):
        graded = {"pass": True, "score": 1, "reason": "fine"}
        results.append(
            {
                "promptIdx": 0, "testIdx": n, "provider": {"id": "ant"}, "prompt": {"raw": f"Ask {n}"},
                "response": {"output": "word " * 400}, "success": True, "score": 1, "gradingResult": graded,
            }
        )  # fmt: skip
    return json.dumps({"evalId": "x", "results": {"version": 3, "results": results}}).encode("ascii")


FILES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "rewardbench": ("pairs.jsonl", pairs_file),
    "promptfoo": ("results.json", results_file),
}


def measure(name: str, filename: str, content: bytes) -> dict[str, Any]:
    """Seconds for each step on one file.

    Raises:
        InputError: it is not recognised as what it is, which would make the times meaningless.
    """
    clock = time.perf_counter
    begin = clock()
    for line in content.split(b"\n") if filename.endswith("l") else [content]:
        try:
            json.loads(line)
        except ValueError:
            continue
    plain = clock()
    source = open_source(filename, content)
    opened = clock()
    found = recognise(source)
    known = clock()
    if found.certain != name:
        raise InputError(f"{filename} was recognised as {found.fits}, not as {name}.")
    held = read_source(source, name)
    done = clock()
    return {
        "format": name,
        "megabytes": len(content) / 1e6,
        "records": held.n_records,
        "excluded": held.n_excluded,
        "responses": len(held.responses),
        "json_seconds": plain - begin,
        "open_seconds": opened - plain,
        "recognise_seconds": known - opened,
        "tables_seconds": done - known,
        "ratio": (done - plain) / (plain - begin),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows for the README."""
    lines = ["| format | MB | records | left out | json.loads | open | recognise | tables | all / json.loads |"]
    lines.append("| --- " * 9 + "|")
    for r in rows:
        steps = " | ".join(
            f"{r[k]:.2f} s" for k in ("json_seconds", "open_seconds", "recognise_seconds", "tables_seconds")
        )
        size = f"{r['megabytes']:.0f} | {r['records']:,} | {r['excluded']}"
        lines.append(f"| {r['format']} | {size} | {steps} | {r['ratio']:.1f} |")
    return "\n".join(lines)


# Tables: a whole command on a file, beside pandas.read_csv of it.


def recorded_pairs(rows: int) -> list[Sequence[object]]:
    """Verdicts of one judge on pairs of twenty systems, each pair in both orders."""
    draw = random.Random(0)
    out: list[Sequence[object]] = [("item_id", "system_a", "system_b", "order", "outcome")]
    for i in range(rows // 2):
        a, b = draw.sample(range(20), 2)
        outcome = draw.choice(["a", "b", "tie"])
        out += [(f"q{i}", f"s{a}", f"s{b}", order, outcome) for order in ("ab", "ba")]
    return out


def responses(rows: int) -> list[Sequence[object]]:
    """Responses of twenty words by four systems to each item."""
    draw = random.Random(0)
    words = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "and", "then", "some", "more", "words")
    out: list[Sequence[object]] = [("response_id", "item_id", "context", "response", "system")]
    for i in range(rows):
        text = " ".join(draw.choice(words) for _ in range(20))
        out.append((f"r{i}", f"q{i // 4}", f"ctx {i // 4}", text, f"s{i % 4}"))
    return out


COMMANDS: dict[str, tuple[Callable[[int], list[Sequence[object]]], tuple[str, ...]]] = {
    "recorded": (recorded_pairs, ("recorded", "{file}", "--out", "{folder}/runs")),
    "score": (
        responses,
        ("score", "{file}", "--judge", "planted:verbosity", "--limit", str(SCORED), "--out", "{folder}/runs"),
    ),
    "convert": (responses, ("convert", "{file}", "--to", "responses", "--out", "{folder}/made.csv")),
}
"""Command -> the table it reads and its arguments."""


def measure_table(name: str, rows: int, folder: Path) -> dict[str, Any]:
    """CPU seconds of a command on its file, in a process and a home of its own, and of `pandas.read_csv` in this one.

    Raises:
        InputError: the command failed, which would make the times meaningless.
    """
    make, words = COMMANDS[name]
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(make(rows))
    argv = [word.format(file=path, folder=folder) for word in words]
    begin = time.process_time()
    pd.read_csv(path)
    plain = time.process_time() - begin
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "engine.cli.main", *argv],
        env=child_environment(JUDGESCOPE_HOME=str(folder / "home"), JUDGESCOPE_THREADS="1", OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise InputError(f"{name} ended with {done.returncode}: {done.stderr[-300:]}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "command": name,
        "rows": rows,
        "megabytes": path.stat().st_size / 1e6,
        "read_csv_seconds": plain,
        "command_seconds": seconds,
        "ratio": seconds / plain,
    }


def table_of_tables(rows: list[dict[str, Any]]) -> str:
    """The rows of commands on tables, for the documents."""
    lines = ["| command | rows | MB | pandas.read_csv | command | command / read_csv |", "| --- " * 6 + "|"]
    for r in rows:
        seconds = f"{r['read_csv_seconds']:.2f} s | {r['command_seconds']:.1f} s"
        lines.append(f"| {r['command']} | {r['rows']:,} | {r['megabytes']:.1f} | {seconds} | {r['ratio']:.0f} |")
    return "\n".join(lines)

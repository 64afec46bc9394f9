"""`judgescope bench formats`: how long a large file of a known format takes, beside a bare `json.loads` of it.

The files are made up here, of a wanted size; one of records with one broken line, one that is a single JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from engine.core.errors import InputError
from engine.data.formats.opening import open_source
from engine.data.formats.registry import read_source, recognise

MEGABYTES = 50


def add_formats(kinds: Any) -> None:
    """Add `bench formats` to the kinds of `judgescope bench`."""
    formats = kinds.add_parser("formats", help="reading large files of known formats")
    formats.add_argument("--megabytes", type=float, default=MEGABYTES, metavar="MB", help="size of each file")
    formats.add_argument("--json", action="store_true", help="last line is one JSON object")
    formats.set_defaults(run=run_formats)


def run_formats(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: a size below 0.01 or above 100 MB, which is what an upload may have.
    """
    if not 0.01 <= args.megabytes <= 100:
        raise InputError(f"--megabytes {args.megabytes:g}: from 0.01 to 100.")
    rows = []
    for name, (filename, make) in FILES.items():
        print(f"{name} ...", file=sys.stderr)
        rows.append(measure(name, filename, make(int(args.megabytes * 1e6))))
    print(table(rows))
    return {"rows": rows}


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

"""`judgescope bench run`: a whole `judgescope score`, from the file to the written tables, at growing sizes.

The files are made up here. Each run is a process of its own with an empty home, so nothing is remembered. Two rates
are told: over the whole process, and over what it takes beyond the smallest run, which leaves the start-up out. Below
them stands where the time goes, the share of it in which the device computes first. A model that runs here is also
asked for the prompts of the largest run alone, all in one call, with nothing to read, write or make ready beside it.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.errors import InputError
from engine.core.settings import child_environment, get_settings
from engine.core.stages import BESIDE, seconds_by_stage, watch
from engine.judges.processes import spreads

SIZES = (1_000, 10_240, 100_000)
ATTACKS = ("dsi", "bed")
ARMS = 1 + len(ATTACKS)
_WARM = 512
"""Calls that warm the device up."""
_WORDS = (
    "the",
    "report",
    "says",
    "that",
    "people",
    "in",
    "town",
    "met",
    "to",
    "talk",
    "about",
    "river",
    "water",
    "and",
    "new",
    "rules",
    "for",
    "schools",
)


def add_run(kinds: Any) -> None:
    """Add `bench run` to the kinds of `judgescope bench`."""
    run = kinds.add_parser("run", help="whole runs of score: verdicts a second, CPU, memory, growth")
    run.add_argument("--judge", metavar="SPEC", default="planted:injection", help="who is asked")
    run.add_argument("--responses", type=int, nargs="+", default=list(SIZES), metavar="N", help="sizes of the file")
    run.add_argument("--devices", metavar="LIST", default="", help="a process a device, as `score --devices` has it")
    run.add_argument("--json", action="store_true", help="last line is one JSON object")
    run.set_defaults(run=run_whole)


def run_whole(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: a size below 8, or a run that failed.
    """
    if min(args.responses) < 8:
        raise InputError(f"--responses {min(args.responses)}: at least 8, two items of four systems.")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sorted(set(args.responses)):
            print(f"{size:,} responses ...", file=sys.stderr)
            rows.append(measure(args.judge, size, Path(folder), args.devices))
        engine = engine_alone(args.judge, rows[-1], Path(folder)) if spreads(args.judge) else None
    print(table(rows))
    if engine:
        print(engine_line(rows, engine))
    return {"judge": args.judge, "devices": args.devices, "rows": rows, "growth": growth(rows), "engine": engine}


def responses_file(size: int, path: Path) -> None:
    """A csv of so many responses, four to an item; always the same."""
    draw = random.Random(size)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "item_id", "context", "response", "system"])
        context = ""
        for i in range(size):
            if i % 4 == 0:
                context = " ".join(draw.choices(_WORDS, k=120))
            rows.writerow([f"r{i}", f"q{i // 4}", context, " ".join(draw.choices(_WORDS, k=40)), f"s{i % 4}"])


def _new_home(path: Path) -> dict[str, str]:
    """The environment with an empty home and no answer kept; the weights are those that are here."""
    settings, cache = get_settings(), path / "cache"
    cache.mkdir(parents=True)
    for held in (settings.weights, settings.models):
        (cache / held.name).symlink_to(held.resolve())
    return child_environment(JUDGESCOPE_HOME=str(path), JUDGESCOPE_CACHE=str(cache))


def command_of(judge: str, size: int, folder: Path, out: str) -> list[str]:
    """The arguments of a run of so many responses, whose file lies in the folder, as the tables will."""
    command = ["score", str(folder / f"{size}.csv"), "--yes", "--judge", judge, "--out", str(folder / out), "--json"]
    return [*command, *itertools.chain.from_iterable(("--attack", attack) for attack in ATTACKS)]


def measure(judge: str, size: int, folder: Path, devices: str = "") -> dict[str, Any]:
    """Seconds, CPU seconds and memory of one run; CPU and memory of the driver alone where there are several devices.

    Raises:
        InputError: it failed.
    """
    times = folder / "times.json"
    responses_file(size, folder / f"{size}.csv")
    command = command_of(judge, size, folder, f"out-{size}")
    if devices:
        command += ["--devices", devices]
    began = time.monotonic()
    with (folder / "said").open("w+") as said, (folder / "failed").open("w+") as failed:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine.bench.whole_run", str(times), *command],
            env=_new_home(folder / f"home-{size}"),
            stdout=said,
            stderr=failed,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        said.seek(0)
        failed.seek(0)
        if process.returncode:
            raise InputError(f"The run of {size} responses ended with {process.returncode}: {failed.read()[-300:]}")
        judged = sum(arm["n"] for arm in json.loads(said.read().splitlines()[-1])["arms"])
    return {
        "responses": size,
        "verdicts": judged,
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
        "stages": json.loads(times.read_text(encoding="utf-8")),
    }


def watched(argv: Sequence[str]) -> int:
    """The command line with its stages measured.

    Args:
        argv: a file for the seconds of each stage, then the arguments of `judgescope`.
    """
    from engine.cli.main import main

    watch()
    code = main(argv[1:])
    if "torch" in sys.modules:
        from engine.inference.batching import count_passes

        count_passes(finished=False)
    Path(argv[0]).write_text(json.dumps(seconds_by_stage()), encoding="utf-8")
    return code


def engine_alone(judge: str, row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Calls and seconds of the engine alone on the prompts of a measured run.

    Raises:
        InputError: it failed.
    """
    command = command_of(judge, row["responses"], folder, "alone")
    said = subprocess.run(
        [sys.executable, "-m", "engine.bench.whole_run", "alone", *command],
        env={**_new_home(folder / "home-alone"), "JUDGESCOPE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode:
        raise InputError(f"The engine alone ended with {said.returncode}: {said.stderr[-300:]}")
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


def alone(argv: Sequence[str]) -> dict[str, float]:
    """Take down the prompts of a run, with even odds for answers, and then ask for all of them at once.

    Args:
        argv: the arguments of `judgescope`.
    """
    from engine.cli.main import main
    from engine.judges import labelled

    score = getattr(labelled, "label_probabilities")  # noqa: B009 - it is no export of that module
    held: dict[Any, list[Any]] = {}

    def take_down(loaded: Any, prompts: Sequence[Any], labels: Any, after: Any) -> None:
        held.setdefault((loaded, labels), []).extend(prompts)
        after(list(range(len(prompts))), np.full((len(prompts), len(labels.labels)), 1 / len(labels.labels)))

    setattr(labelled, "label_probabilities", take_down)  # noqa: B010 - with another signature
    if code := main(argv):
        raise SystemExit(code)
    for (loaded, labels), prompts in held.items():
        score(loaded, prompts[:_WARM], labels)
    began = time.perf_counter()
    for (loaded, labels), prompts in held.items():
        score(loaded, prompts, labels)
    return {"calls": sum(map(len, held.values())), "seconds": time.perf_counter() - began}


def engine_line(rows: Sequence[dict[str, Any]], engine: dict[str, Any]) -> str:
    """The engine's rate, and the largest run's share of it, with its start and without."""
    last, first, rate = rows[-1], rows[0], engine["calls"] / engine["seconds"]
    whole = last["verdicts"] / last["seconds"]
    words = f"The engine alone: {rate:,.0f} of the same calls a second; the run reached {whole / rate:.2f} of that"
    if len(rows) > 1:
        beyond = (last["verdicts"] - first["verdicts"]) / (last["seconds"] - first["seconds"])
        words += f", {beyond / rate:.2f} beyond the smallest run"
    return f"\n{words}."


def stage_line(row: dict[str, Any]) -> str:
    """Where the seconds of a run went; stages beside the main thread are no part of the sum."""
    own = {name: seconds for name, seconds in row["stages"].items() if not name.startswith(BESIDE)}
    busy = own.pop("device", 0.0)
    rest = row["seconds"] - sum(own.values()) - busy
    parts = [f"{name} {seconds:.1f}" for name, seconds in sorted(own.items(), key=lambda one: -one[1])]
    beside = [f"{name} {seconds:.1f}" for name, seconds in row["stages"].items() if name.startswith(BESIDE)]
    return (
        f"{row['responses']:,} responses: {row['verdicts'] / row['seconds']:,.0f} verdicts/s; device busy "
        f"{busy / row['seconds']:.0%} of the time; {', '.join([*parts, f'start and rest {rest:.1f}', *beside])} s"
    )


def growth(rows: Sequence[dict[str, Any]]) -> float | None:
    """Exponent of the CPU seconds in the verdicts, beyond the smallest run, between the last two sizes; None for fewer.

    1 is a run whose verdicts cost the same however many there are.
    """
    if len(rows) < 3:
        return None
    least, middle, most = rows[0], rows[-2], rows[-1]
    ratio = (most["cpu_seconds"] - least["cpu_seconds"]) / (middle["cpu_seconds"] - least["cpu_seconds"])
    more = (most["verdicts"] - least["verdicts"]) / (middle["verdicts"] - least["verdicts"])
    return math.log(ratio) / math.log(more) if ratio > 0 else None


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for the documents, and the exponent below them."""
    lines = ["| responses | verdicts | seconds | CPU seconds | verdicts a CPU second | MB |", "| --- " * 6 + "|"]
    for r in rows:
        rate = r["verdicts"] / r["cpu_seconds"]
        lines.append(
            f"| {r['responses']:,} | {r['verdicts']:,} | {r['seconds']:.1f} | {r['cpu_seconds']:.1f} | {rate:,.0f} "
            f"| {r['megabytes']:,.0f} |"
        )
    lines += ["", *(stage_line(row) for row in rows)]
    exponent = growth(rows)
    return "\n".join([*lines, *([f"\nCPU seconds grow as verdicts to the {exponent:.2f}."] if exponent else [])])


if __name__ == "__main__":
    if sys.argv[1] == "alone":
        print(json.dumps(alone(sys.argv[2:])))
        sys.exit()
    sys.exit(watched(sys.argv[1:]))

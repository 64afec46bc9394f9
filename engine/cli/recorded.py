"""`judgescope recorded FILE`: the numbers of verdicts somebody already has; no judge is asked."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.cli import add_json
from engine.cli.options import add_reading_options, reading_of
from engine.cli.study import run_into_folder, told
from engine.core.settings import get_settings
from engine.data.recording import in_spec
from engine.judges.recorded import RECORDED
from engine.studies.recorded.study import STUDY, RecordedConfig
from engine.studies.study import Context


def add(commands: Any) -> None:
    """Add the command."""
    recorded = commands.add_parser("recorded", help="analyse verdicts you already have")
    recorded.add_argument("file", help="a file of verdicts; after ? how it is read, for example v.csv?judge=GPT-4")
    recorded.add_argument("--format", metavar="NAME", help="a known format of the file, or table; see convert --list")
    add_reading_options(recorded)
    recorded.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    recorded.add_argument("--out", type=Path, metavar="DIR", help="where run folders go")
    recorded.add_argument("--run-id", help="name of the run")
    add_json(recorded)
    recorded.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Import, say what was left out, print every metric with its interval and n."""
    settings = get_settings()
    spec = args.file if args.file.startswith(RECORDED) else RECORDED + args.file
    given = {"format": args.format, **{f"read.{name}": value for name, value in reading_of(args).items()}}
    for key, value in given.items():
        if value:
            spec += f"{'&' if '?' in spec else '?'}{in_spec(key, value)}"
    config = RecordedConfig(judge=spec, seed=args.seed, run_id=args.run_id)
    folder, _ = run_into_folder(STUDY, config, Context(settings), args.out or settings.runs, "recorded")
    summary = told(STUDY.summary(config, folder), folder)
    return {"run_id": folder.run_id, **summary.record, "exit_code": summary.exit_code}

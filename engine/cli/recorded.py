"""`judgescope recorded FILE`: what verdicts somebody already has say, without asking a judge."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.cli.options import add_json
from engine.core.settings import get_settings
from engine.judges.recorded import RECORDED
from engine.studies.recorded.metrics import recorded_remarks
from engine.studies.recorded.run import RecordedConfig, recorded_run


def add(commands: Any) -> None:
    """Add the command."""
    recorded = commands.add_parser("recorded", help="analyse verdicts you already have")
    recorded.add_argument("file", help="a file of verdicts; after ? how it is read, for example v.csv?judge=GPT-4")
    recorded.add_argument("--format", metavar="NAME", help="a known format of the file, or table; see convert --list")
    recorded.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    recorded.add_argument("--out", type=Path, metavar="DIR", help="where run folders go")
    recorded.add_argument("--run-id", help="name of the run")
    add_json(recorded)
    recorded.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Import, say what was left out, print every metric with its interval and n."""
    settings = get_settings()
    spec = args.file if args.file.startswith(RECORDED) else RECORDED + args.file
    if args.format:
        spec += f"{'&' if '?' in spec else '?'}format={args.format}"
    config = RecordedConfig(spec, seed=args.seed)
    folder = recorded_run(config, args.out or settings.runs, args.run_id, roots=settings.model_roots)
    found = folder.manifest()["recording"]
    calls = f"{found['n_calls']:,} calls, {found['n_read']:,} read"
    print(f"{found['n_records']:,} records, layout {found['layout']}: {calls}.")
    for what in ("unread", "left_out"):
        for reason, n in found[what].items():
            print(f"{what.replace('_', ' ')}: {n:,} ({reason})")
    metrics = folder.table("metrics")
    for row in metrics.itertuples():
        value = f"{row.value:7.3f} [{row.lower:.3f}, {row.upper:.3f}]"
        what = f"{row.metric!s} {row.group!s}".removesuffix(" nan")
        print(f"{row.attack:<12} {row.defense:<12} {what:<32} {value:<26} n {row.n}, unread {row.n_unread}")
    remarks = recorded_remarks(folder.table("verdicts"))
    for remark in remarks:
        print(remark)
    return {
        "run_id": folder.run_id,
        "recording": found,
        "metrics": metrics.to_dict("records"),
        "remarks": remarks,
    }

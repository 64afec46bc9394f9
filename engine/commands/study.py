"""`judgescope study NAME|FILE.toml`."""

from __future__ import annotations

import argparse
from typing import Any

from engine.commands.files import add_file_options, dataset_of
from engine.commands.score import add_run_options, run_arms
from engine.settings import get_settings
from engine.studies.load import read_study
from engine.studies.score import ScoreConfig


def add(commands: Any) -> None:
    """Add the command."""
    study = commands.add_parser("study", help="run a study by its name, or from a TOML file")
    study.add_argument("name", help="a file in assets/studies such as grid, or the path of a TOML file")
    study.add_argument("--judge", help="in place of the study's own")
    study.add_argument("--data", help="a data file or a saved dataset, in place of the study's own")
    study.add_argument("--attack", action="append", metavar="NAME", help="in place of the study's own")
    study.add_argument("--defense", action="append", metavar="NAME", help="in place of the study's own")
    add_file_options(study)
    add_run_options(study)
    study.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Read the study, apply what the command line changes, run it."""
    changes = {
        "judge": args.judge,
        "data": args.data,
        "attacks": args.attack,
        "defenses": args.defense,
        "limit": args.limit,
        "budget_seconds": args.budget_seconds,
        "run_id": args.run_id,
    }
    name, config = read_study(args.name, get_settings().assets / "studies", changes)
    assert isinstance(config, ScoreConfig)
    dataset = dataset_of(config.data, args)
    return run_arms(name, config.model_copy(update={"data": dataset.dataset_id}), dataset, args)

"""`judgescope study NAME|FILE.toml`."""

from __future__ import annotations

import argparse
from typing import Any

from engine.commands.common import show_progress
from engine.commands.files import add_file_options, dataset_of
from engine.commands.score import add_run_options, run_arms
from engine.data.dataset import Dataset
from engine.errors import InputError
from engine.judges.registry import make_judge
from engine.runs import create_run
from engine.settings import get_settings
from engine.studies.load import read_study
from engine.studies.score import ScoreConfig
from engine.studies.verify import VerifyConfig, run_verify


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
    changes: dict[str, Any] = {
        "judge": args.judge,
        "data": args.data,
        "attacks": args.attack,
        "defenses": args.defense,
        "limit": args.limit,
        "budget_seconds": args.budget_seconds,
        "run_id": args.run_id,
    }
    name, config = read_study(args.name, get_settings().assets / "studies", changes)
    assert isinstance(config, ScoreConfig | VerifyConfig)
    dataset = dataset_of(config.data, args)
    config = config.model_copy(update={"data": dataset.dataset_id})
    if isinstance(config, VerifyConfig):
        return _run_verify(name, config, dataset, args)
    return run_arms(name, config, dataset, args)


def _run_verify(name: str, config: VerifyConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    settings = get_settings()
    if args.dry_run:
        raise InputError("The study verify has no dry run: it makes one call for each response.")
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    run_folder = create_run(args.out or settings.runs, name, config.model_dump(), config.run_id)
    metrics = run_verify(config, dataset, judge, run_folder, show_progress)
    run_folder.update_manifest(recorded=args.recorded)
    for row in metrics.itertuples():
        print(f"{row.metric:<16} {row.value:.3f} [{row.lower:.3f}, {row.upper:.3f}]  n {row.n}, unread {row.n_unread}")
    print(f"Run {run_folder.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    return {"run_id": run_folder.run_id, "judge": judge.spec, "metrics": metrics.to_dict("records")}

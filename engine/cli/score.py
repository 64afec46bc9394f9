"""`judgescope score`, and what it shares with the studies: plan, run, report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from engine.catalog import ATTACKS, DEFENSES, JUDGES
from engine.cli.options import add_file_options, add_json, dataset_of, show_progress
from engine.core.errors import INCONCLUSIVE, OK
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.judges.card_files import judge_given
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.studies.attack_grid.run import ScoreConfig, plan_score, run_score
from engine.studies.registry import settings_of
from engine.studies.running import OutOfBudget, Plan, plan_text

# The arms of a run as the command line prints them and as its JSON names them.


def arms_of(metrics: pd.DataFrame) -> list[dict[str, Any]]:
    """Every arm of a metrics table, in its order."""
    pairs = dict.fromkeys(zip(metrics["attack"], metrics["defense"], strict=True))
    return [_arm(metrics, attack, defense) for attack, defense in pairs]


def _arm(metrics: pd.DataFrame, attack: str, defense: str) -> dict[str, Any]:
    """One arm as the JSON names it; what an arm has no number for is null."""
    own = metrics[(metrics["attack"] == attack) & (metrics["defense"] == defense)].set_index("metric")

    def read(metric: str, column: str) -> Any:
        return own.loc[metric, column] if metric in own.index else None

    return {
        "attack": attack,
        "defense": defense,
        "n": read("mean" if attack == NONE else "shift", "n"),
        "n_unread": read("mean" if attack == NONE else "shift", "n_unread"),
        "mean": read("mean", "value"),
        "shift": read("shift", "value"),
        "shift_lower": read("shift", "lower"),
        "shift_upper": read("shift", "upper"),
        "relative_shift": read("relative_shift", "value"),
    }


def arm_table(arms: Sequence[dict[str, Any]]) -> str:
    """A table to read."""
    head = f"{'attack':<12} {'defense':<22} {'n':>5} {'unread':>6} {'mean':>6}  shift [95 % interval]"
    lines = [head, "-" * len(head)]
    for a in arms:
        shift = "" if a["shift"] is None else f"{a['shift']:+.3f} [{a['shift_lower']:+.3f}, {a['shift_upper']:+.3f}]"
        lines.append(f"{a['attack']:<12} {a['defense']:<22} {a['n']:>5} {a['n_unread']:>6} {a['mean']:>6.2f}  {shift}")
    return "\n".join(lines)


def add(commands: Any) -> None:
    """Add the command."""
    score = commands.add_parser("score", help="score responses under attacks and defenses")
    score.add_argument("data", help="a data file, or the id of a saved dataset such as demo-dialogue")
    score.add_argument("--judge", help=f"a judge spec, for example {', '.join(JUDGES)}; by default the first")
    score.add_argument("--attack", action="append", default=[], metavar="NAME", help=", ".join(ATTACKS))
    score.add_argument(
        "--defense", action="append", default=[], metavar="NAME", help=f"{', '.join(DEFENSES)}; joined by +"
    )
    score.add_argument("--own-text", default="", help="the text of the attack 'own'")
    score.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    add_file_options(score)
    add_run_options(score)
    score.set_defaults(run=run)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """How much is run, where it goes, and what is said before."""
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
    parser.add_argument("--no-cache", action="store_true", help="ask the judge again even where an answer is kept")
    add_json(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Score a file or a saved dataset."""
    dataset = dataset_of(args.data, args)
    settings = {
        "judge": judge_given(args.judge, args.judge_card, get_settings().cards),
        "data": dataset.dataset_id,
        "attacks": args.attack,
        "defenses": args.defense or [NONE],
        "own_text": args.own_text,
        "limit": args.limit,
        "budget_seconds": args.budget_seconds,
        "run_id": args.run_id,
        "seed": args.seed,
    }
    config = settings_of(ScoreConfig, settings, "judgescope score")
    assert isinstance(config, ScoreConfig)
    return run_arms("score", config, dataset, args)


def run_arms(study: str, config: ScoreConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Plan only, or run all arms and print them; what the JSON object holds."""
    settings = get_settings()
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    if args.dry_run:
        return say_plan(plan_score(config, dataset, judge))
    run_folder = create_run(args.out or settings.runs, study, config.model_dump(), config.run_id)
    code = OK
    try:
        run_score(config, dataset, judge, run_folder, show_progress)
    except OutOfBudget:
        code = INCONCLUSIVE
        print(f"Stopped at the budget of {config.budget_seconds:g} s; the arms below hold what was done.")
    run_folder.update_manifest(recorded=args.recorded)
    arms = arms_of(run_folder.table("metrics"))
    print(arm_table(arms))
    print(f"Run {run_folder.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    done = {"run_id": run_folder.run_id, "judge": judge.spec, "fingerprint": judge.fingerprint}
    return {**done, "state": run_folder.manifest()["state"], "arms": arms, "exit_code": code}


def say_plan(plan: Plan) -> dict[str, Any]:
    """Print what a study would take; what the JSON object holds."""
    print(plan_text(plan))
    return plan._asdict()

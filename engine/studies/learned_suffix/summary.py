"""`judgescope study suffix` and `judgescope study detection`."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

from engine.cli.options import INCONCLUSIVE, OK, show_progress
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.defenses.guard import guard_for
from engine.judges.planted import make_planted
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.studies.learned_suffix.run import SuffixConfig, plan_suffix, run_suffix, start_suffix
from engine.studies.perplexity_threshold.run import DetectionConfig, plan_detection, run_detection
from engine.studies.running import OutOfBudget


def run_study_suffix(config: SuffixConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Search, save, measure on the other items, print."""
    settings = get_settings()
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    if args.dry_run:
        plan = plan_suffix(config, dataset, judge)
        print(
            f"The search computes at most {plan['search_prompts']:,} prompts, the measurement {plan['verdicts']:,} "
            f"verdicts: {plan['tokens']:,} tokens with every prompt whole. Beginnings that prompts share are computed "
            "once, so no seconds are given."
        )
        return dict(plan)
    run = start_suffix(config, args.out or settings.runs)
    code = OK
    try:
        run_suffix(config, dataset, judge, run, show_progress)
    except OutOfBudget:
        code = INCONCLUSIVE
        print(
            f"Stopped at the budget of {config.budget_seconds:g} s; the same --run-id goes on behind the words found."
        )
    run.update_manifest(recorded=args.recorded)
    manifest, metrics = run.manifest(), run.table("metrics")
    phrase = manifest["phrase"]
    steps = zip(("(none)", *phrase["words"]), phrase["values"], strict=False)
    print(f"Learned on {len(manifest['split']['train_responses'])} responses, {phrase['queries']:,} queries:")
    print("\n".join(f"  {word:<24} {value:.3f}" for word, value in steps))
    print(f"On {manifest['data']['n_responses']} responses of {manifest['data']['n_items']} other items:")
    print(_rows(metrics[metrics["metric"].isin(["mean", "shift"])]))
    if code == OK:
        print(f"The phrase is saved: attack suffix:{phrase['name']}.")
    print(f"Run {run.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    done = {"run_id": run.run_id, "judge": judge.spec, "fingerprint": judge.fingerprint, "state": manifest["state"]}
    return {**done, "phrase": phrase, "metrics": metrics.to_dict("records"), "exit_code": code}


def run_study_detection(config: DetectionConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Read the texts, fit the thresholds, measure them on the other items, print."""
    settings = get_settings()
    if args.dry_run:
        found = plan_detection(config, dataset)
        print(
            f"{found['texts']:,} texts are read once each, about {found['tokens']:,} tokens; what the cache knows is "
            "not read again. No seconds are given."
        )
        return dict(found)
    run = create_run(args.out or settings.runs, "detection", config.model_dump(mode="json"), config.run_id)
    guard = guard_for(make_planted("planted:constant"), settings)
    metrics = run_detection(config, dataset, guard, run, show_progress)
    run.update_manifest(recorded=args.recorded)
    for family, own in metrics.groupby("group", sort=False):
        print(f"Against {family} attacks:")
        print(_rows(own))
    print(f"Run {run.run_id}: data {dataset.name}. Tables are in its run folder.")
    return {"run_id": run.run_id, "metrics": metrics.to_dict("records")}


def _rows(metrics: pd.DataFrame) -> str:
    lines = []
    for row in metrics.to_dict("records"):
        bounds = "" if pd.isna(row["lower"]) else f" [{row['lower']:.3f}, {row['upper']:.3f}]"
        value = f"{row['value']:7.3f}{bounds}"
        lines.append(f"  {row['metric']:<13} {row['attack']:<34} {value}  n {row['n']}, unread {row['n_unread']}")
    return "\n".join(lines)

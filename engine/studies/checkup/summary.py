"""`judgescope study checkup`: every probe on a judge, a verdict each, and an exit code that can gate a pipeline."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.cli.options import INCONCLUSIVE, OK, THRESHOLD_FAILED, dataset_of, known_of, show_progress
from engine.cli.score import say_plan
from engine.core.errors import InputError
from engine.core.settings import Settings, get_settings
from engine.data.comparisons import ALIASES, DEMO_PAIRS, list_comparisons, read_comparisons, save_comparisons
from engine.data.formats.hub import HUB
from engine.data.formats.use import as_comparisons
from engine.data.reading import read_table
from engine.judges.registry import make_judge
from engine.runs.folder import create_run, open_run
from engine.studies.checkup.material import Material, load_material, of_dataset
from engine.studies.checkup.metrics import (
    FAILS,
    NOT_ASKED,
    UNDERPOWERED,
    Decision,
    as_record,
    check_thresholds,
    summary,
)
from engine.studies.checkup.run import CheckupConfig, plan_checkup, redecide, run_checkup, stored
from engine.studies.running import OutOfBudget


def add_options(parser: argparse.ArgumentParser) -> None:
    """What only a check-up takes."""
    parser.add_argument(
        "--threshold", action="append", default=[], metavar="PROBE=VALUE", help="of a check-up, for example order=0.05"
    )
    parser.add_argument(
        "--redecide", metavar="RUN", help="hold a check-up's stored numbers against thresholds; no judge is asked"
    )


def thresholds_of(pairs: Sequence[str]) -> dict[str, float]:
    """The thresholds of a command line.

    Raises:
        InputError: one is not PROBE=NUMBER.
    """
    found: dict[str, float] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"--threshold {pair}: write PROBE=NUMBER, for example order=0.05.")
    return found


def run_study_checkup(name: str, config: CheckupConfig, args: argparse.Namespace) -> dict[str, Any]:
    """Plan only, run, or decide anew; what the JSON object holds."""
    settings = get_settings()
    changed = thresholds_of(args.threshold)
    if args.redecide:
        run = open_run(args.out or settings.runs, args.redecide)
        decisions = redecide(run, changed)
        about = run.manifest()
        _print(decisions)
        done = {"run_id": run.run_id, "judge": about["judge"]["spec"], "state": about["state"], "calls": 0}
        return _result(done, decisions, strict=config.strict)
    material = _material(config.data, args, settings)
    thresholds = check_thresholds({**config.thresholds, **changed})
    config = config.model_copy(update={"data": material.data_id, "thresholds": thresholds})
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    if args.dry_run:
        return say_plan(plan_checkup(config, material, judge))
    run = create_run(args.out or settings.runs, name, stored(config), config.run_id)
    stopped = False
    try:
        decisions = run_checkup(config, material, judge, run, show_progress)
    except OutOfBudget:
        stopped = True
        decisions = redecide(run, {})
        print(f"Stopped at the budget of {config.budget_seconds:g} s; the same --run-id goes on from the calls made.")
    run.update_manifest(recorded=args.recorded)
    _print(decisions)
    print(f"Run {run.run_id}: judge {judge.spec}, data {material.dataset.name}. Tables are in its run folder.")
    done = {"run_id": run.run_id, "judge": judge.spec, "fingerprint": judge.fingerprint}
    return _result(done | {"state": run.manifest()["state"]}, decisions, strict=config.strict, stopped=stopped)


def _result(
    done: dict[str, Any], decisions: Sequence[Decision], *, strict: bool, stopped: bool = False
) -> dict[str, Any]:
    """The JSON object with one object a probe, and the exit code."""
    verdicts = [d.verdict for d in decisions]
    code = OK
    if stopped or (strict and UNDERPOWERED in verdicts):
        code = INCONCLUSIVE
    if FAILS in verdicts and not stopped:
        code = THRESHOLD_FAILED
    counts = {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}
    more = {"summary": summary(decisions), "verdicts": counts, "probes": [as_record(d) for d in decisions]}
    return {**done, **more, "exit_code": code}


def _material(data: str, args: argparse.Namespace, settings: Settings) -> Material:
    """Saved data by its id; a file is a set of pairs where its columns say so, otherwise a set of responses."""
    path = Path(data)
    if not path.suffix and not data.startswith(HUB):
        known = data == DEMO_PAIRS or data in list_comparisons(settings.comparisons)
        return load_material(data, settings) if known else of_dataset(dataset_of(data, args))
    if (found := known_of(data, args)) and found.has_texts and len(found.comparisons):
        pairs = as_comparisons(found)
        save_comparisons(pairs, settings.comparisons)
        return load_material(pairs.set_id, settings)
    if found or not _holds_pairs(path):
        return of_dataset(dataset_of(data, args))
    read = read_comparisons(path.name, path.read_bytes())
    save_comparisons(read, settings.comparisons)
    return load_material(read.set_id, settings)


def _holds_pairs(path: Path) -> bool:
    try:
        columns = set(map(str, read_table(path.name, path.read_bytes()).frame.columns))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    return all(columns & set(ALIASES[side]) for side in ("response_a", "response_b"))


def _print(decisions: Sequence[Decision]) -> None:
    print(summary(decisions))
    print(f"{'probe':<28} {'verdict':<16} {'effect [interval]':<30} {'n':>5} {'items':>5}  allowed")
    for d in decisions:
        if d.verdict == NOT_ASKED:
            print(f"{d.card.title:<28} {d.verdict:<16} {d.reason}")
            continue
        row = d.row
        items = "" if row["n_clusters"] is None else f"{row['n_clusters']}"
        where = ", ".join(str(row[c]) for c in ("arm", "protocol") if isinstance(row[c], str))
        print(
            f"{d.card.title:<28} {d.verdict:<16} {_effect(row):<30} {row['n']:>5} {items:>5}  "
            f"{d.card.allowed(d.threshold)} ({where})"
        )


def _effect(row: Any) -> str:
    if math.isnan(row["value"]):
        return "undefined"
    if math.isnan(row["lower"]):
        return f"{row['value']:+.3f}"
    return f"{row['value']:+.3f} [{row['lower']:+.3f}, {row['upper']:+.3f}]"

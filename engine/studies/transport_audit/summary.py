"""`judgescope study puaudit`: reads the pairs, runs the audit, prints where it helps and where it hurts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from engine.cli.options import INCONCLUSIVE, OK, known_of, show_progress
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons, load_comparisons, read_comparisons, save_comparisons
from engine.data.embeddings import read_embeddings, save_embeddings
from engine.data.formats.hub import HUB
from engine.data.formats.use import as_comparisons
from engine.judges.base import Cost
from engine.runs.folder import create_run
from engine.stats.intervals import NO_VARIATION
from engine.studies.running import OutOfBudget, as_json, expense_of
from engine.studies.transport_audit.run import AuditConfig, audit_judge, run_puaudit
from engine.studies.transport_audit.verdicts import plan_pairs


def pairs_of(data: str, args: argparse.Namespace) -> Comparisons:
    """A saved set of pairs by its id, or a file read, checked and saved.

    Raises:
        InputError: no such set, or a file that cannot be used; the message names what is wrong.
    """
    path, root = Path(data), get_settings().comparisons
    if not path.suffix and not data.startswith(HUB):
        return load_comparisons(data, root)
    if known := known_of(data, args):
        found = as_comparisons(known)
        save_comparisons(found, root)
        return found
    chosen: dict[str, str] = {}
    for pair in args.map:
        field, equals, column = pair.partition("=")
        if not equals:
            raise InputError(f"--map {pair}: write FIELD=COLUMN, for example verdict=gpt35_judge.")
        chosen[field] = column
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    found = read_comparisons(path.name, content, chosen)
    save_comparisons(found, root)
    return found


def run_study_puaudit(name: str, config: AuditConfig, args: argparse.Namespace) -> dict[str, Any]:
    """Plan only, or run and print; what the JSON object holds."""
    settings = get_settings()
    found = pairs_of(config.data, args)
    config = config.model_copy(update={"data": found.set_id})
    print(f"{found.name}: {found.counts()}.", file=sys.stderr)
    for reason, n in found.left_out.items():
        print(f"left out: {n} ({reason})", file=sys.stderr)
    if found.spellings:
        print("labels: " + ", ".join(f"{label} is {side}" for label, side in found.spellings.items()), file=sys.stderr)
    if args.embeddings:
        config = config.model_copy(update={"encoders": _with_given(config, found, args)})
    options = {"card": args.judge_card, "cache": not args.no_cache}
    judge = audit_judge(config.judge, settings, **options)
    if args.dry_run:
        cost = plan_pairs(judge, found, config.limit) if judge else Cost(0, 0, 2 * len(found.comparisons))
        arms = len(config.attacks)
        print(f"Clean arm: {cost.calls:,} calls of {cost.tokens:,} tokens, {cost.known:,} known; as many for each of")
        print(f"{arms} attacks, whose texts depend on the clean verdicts; then each text is encoded once per encoder.")
        plan: dict[str, Any] = {
            "clean_calls": cost.calls,
            "clean_tokens": cost.tokens,
            "known": cost.known,
            "attacks": arms,
        }
        if judge and (expense := expense_of(judge, cost)):
            print(f"Clean arm: {expense.sentence()}")
            plan |= {"clean_expense": as_json(expense)}
        return plan
    run = create_run(args.out or settings.runs, name, config.model_dump(), config.run_id)
    try:
        metrics = run_puaudit(config, found, judge, run, settings, show_progress)
    except OutOfBudget:
        print(f"Stopped at the budget of {config.budget_seconds:g} s; the same run id goes on from the calls made.")
        return {"run_id": run.run_id, "state": "stopped", "exit_code": INCONCLUSIVE}
    run.update_manifest(recorded=args.recorded)
    manifest = run.manifest()
    _print(metrics, manifest)
    print(f"Run {run.run_id}: judge {manifest['judge']['spec']}, pairs {found.name}. Tables are in its run folder.")
    done = {"run_id": run.run_id, "judge": manifest["judge"]["spec"], "excluded": manifest["excluded"]}
    summary: dict[str, Any] = manifest["summary"]
    return done | summary | {"exit_code": OK}


def _with_given(config: AuditConfig, found: Comparisons, args: argparse.Namespace) -> tuple[str, ...]:
    """The embeddings of a file as the first encoder, before those named with it."""
    path: Path = args.embeddings
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    read = read_embeddings(path.name, content, found)
    print(f"{path.name}: {read.counts()}", file=sys.stderr)
    return (save_embeddings(read, get_settings().embeddings), *(config.encoders if args.encoder else ()))


_SHOWN = (
    "cons_orig", "cons_adj", "gain", "cons_all", "cons_random", "cons_centroid", "cons_nearest", "cons_top10",
    "gain_over_best", "auc_entry_mass", "auc_centroid", "auc_nearest", "auc_top10", "verdict_flips",
    "verdict_undecided", "mass_clean", "mass_attacked", "mass_oracle", "cons_adj_items", "gain_items",
)  # fmt: skip


def _print(metrics: pd.DataFrame, manifest: dict[str, Any]) -> None:
    overall = metrics[metrics["group"].isna() & metrics["metric"].isin(_SHOWN)]
    print(f"{'attack':<12} {'metric':<16} value [95 % interval]")
    for row in overall.to_dict("records"):
        print(f"{row['attack']:<12} {row['metric']:<16} {_number(row)}  n {row['n']}")
    summary = manifest["summary"]
    for kind in summary["by_type"]:
        if kind["gain"] and kind["enough"]:
            print(f"{NONE:<12} gain, {kind['type']:<24} {_number(kind['gain'])}  n {kind['n']}")
    if summary["best_control"]:
        print(f"Best control: {summary['best_control']}, chosen on the same pairs, which favours it.")
    if not summary["n_splits"]:
        print("Consistency cannot be checked: no labelled pair with a verdict could be held back.")
    excluded = manifest["excluded"]
    print(f"Excluded: {sum(excluded.values())} pairs {excluded}. Kept share = mass by construction (an input).")


def _number(row: dict[Any, Any]) -> str:
    """Value and interval of a row or a summary's entry; why it has none, where there is a reason."""
    if pd.isna(row["value"]):
        return "undefined"
    if not pd.isna(row["lower"]):
        return f"{row['value']:+.3f} [{row['lower']:+.3f}, {row['upper']:+.3f}]"
    return f"{row['value']:+.3f}" + (f" ({row['method']})" if row["method"] == NO_VARIATION else "")

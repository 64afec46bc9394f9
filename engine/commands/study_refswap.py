"""`judgescope study refswap`: run, print what is accepted before and after, and the JSON object."""

from __future__ import annotations

import argparse
import math
from typing import Any

from engine.attacks.master_keys import key_text, shown
from engine.commands.common import INCONCLUSIVE, OK, show_progress
from engine.data.dataset import Dataset
from engine.figures.text import plural
from engine.gallery.refswap import fewer_note, unread_note
from engine.judges.registry import make_judge
from engine.metrics.intervals import Interval
from engine.metrics.refswap import Summary, Table, sample_table, summarise
from engine.runs import RunFolder, create_run
from engine.settings import get_settings
from engine.studies.plan import OutOfBudget
from engine.studies.refswap import plan_refswap, pool_of, run_refswap
from engine.studies.refswap_config import RefSwapConfig
from engine.studies.refswap_record import as_record


def run_study_refswap(study: str, config: RefSwapConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """Run the study, or say with --dry-run what its first stage takes."""
    settings = get_settings()
    judge = make_judge(
        config.judge, settings, card=args.judge_card, cache=not args.no_cache, threshold=config.threshold
    )
    pool = pool_of(config.pool, dataset, settings)
    if args.dry_run:
        plan = plan_refswap(config, dataset, judge, pool)
        checks = config.k_max * len(config.arms)
        print(f"{plan.verdicts:,} verdicts: {plan.known:,} known, {plan.calls:,} calls of {plan.tokens:,} tokens.")
        if plan.expense:
            print(plan.expense["sentence"])
        print(f"Each YES among them takes {checks} further calls, which share most of their tokens.")
        return plan._asdict()
    run = create_run(args.out or settings.runs, study, config.model_dump(), config.run_id)
    code = OK
    try:
        run_refswap(config, dataset, judge, run, show_progress, pool)
    except OutOfBudget:
        code = INCONCLUSIVE
        print(f"Stopped at the budget of {config.budget_seconds:g} s; the numbers below hold the items that were done.")
    run.update_manifest(recorded=args.recorded)
    left_out = int(run.manifest()["data"]["n_without_reference"])
    arms: dict[str, Any] = {}
    for arm in config.arms:
        table, summary = _summary(run, config, arm)
        arms[arm] = as_record(table, summary, config.judge, left_out)
        _say(table, summary, arm)
    if left_out:
        print(f"Left out: {plural(left_out, 'item')} without a reference.")
    print(f"Run {run.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    first = arms[config.arms[0]] | {"arms": arms} if len(arms) > 1 else arms[config.arms[0]]
    return {"run_id": run.run_id, "state": run.manifest()["state"], **first, "exit_code": code}


def _summary(run: RunFolder, config: RefSwapConfig, arm: str) -> tuple[Table, Summary]:
    table = sample_table(run.table("verdicts"), run.table("samples"), arm)
    k, delta = config.k, config.delta / 100
    return table, summarise(table.samples, k=k, delta=delta, threshold=config.threshold, level=config.level)


def _say(table: Table, summary: Summary, arm: str) -> None:
    kind = "another" if arm == "other" else "the same"
    print(f"Counterfactual references of {kind} answer type, K = {summary.k}")
    head = f"  {'master key':<40} {'accepted':<24} {'behind RefSwap':<24} {'n':>4}"
    print(head)
    for name, before, after in zip(table.keys, summary.before.per_key, summary.after.per_key, strict=True):
        print(f"  {shown(key_text(name)):<40} {_text(before):<24} {_text(after):<24} {before.n:>4}")
    for what, before, after in (
        ("mean of the keys", summary.before.fpr, summary.after.fpr),
        ("accuracy on responses (test part)", summary.before.accuracy, summary.after.accuracy),
        ("accuracy on responses (dev part)", summary.dev_before.accuracy, summary.dev_after.accuracy),
    ):
        print(f"  {what:<40} {_text(before):<24} {_text(after):<24} {before.n:>4}")
    for note in (unread_note(table, summary), fewer_note(summary)):
        if note:
            print(f"  {note}")
    bound = summary.before.fpr
    if math.isnan(bound.value):
        print("  No key was read, so nothing can be said of keys.")
    elif not summary.n_fooled:
        print(
            f"  No key was accepted: 0 of {bound.n} (test part), at most {bound.upper:.1%}. There is nothing to remove."
        )
    else:
        signed = "" if math.isnan(summary.auc.value) else ", signed"
        print(f"  gamma {summary.gamma:.4g} at delta {100 * summary.delta:g} points; AUC {_text(summary.auc)}{signed}")
        print(
            f"  of the accepted, {_text(summary.pass_right)} of correct responses pass and "
            f"{_text(summary.pass_fooled)} of keys"
        )
        print(
            f"  AUC at K = 1 {_text(summary.one_auc)}, of the s-score {_text(summary.s_auc)}; "
            f"Cohen's d {_text(summary.cohens_d)}"
        )
    if summary.auc.lower <= 0.5 <= summary.auc.upper:
        print("  max_p_cf does not measurably tell keys from correct answers here: gamma removes both alike.")
    elif summary.auc.value < 0.5:
        print("  Below 0.5: RefSwap would remove correct answers before keys, since they survive a swap less often.")
    clean, key = summary.cost_clean, summary.cost_key
    print(f"  forward passes per sample: clean {clean.passes:.2f}, key {key.passes:.2f}")
    if not math.isnan(clean.tokens_ratio):
        print(f"  tokens against the undefended verifier: clean {clean.tokens_ratio:.2f}, key {key.tokens_ratio:.2f}")


def _text(one: Interval) -> str:
    if math.isnan(one.value):
        return "undefined"
    if math.isnan(one.lower):
        return f"{one.value:.3f}"
    return f"{one.value:.3f} [{one.lower:.3f}, {one.upper:.3f}]"

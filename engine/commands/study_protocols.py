"""`judgescope study protocols`."""

from __future__ import annotations

import argparse
from typing import Any

from engine.commands.common import INCONCLUSIVE, OK, show_progress
from engine.commands.files import dataset_of
from engine.errors import InputError
from engine.judges.registry import make_judge
from engine.metrics.rewritings import content_checks
from engine.readout.arena import build_arena, label_values
from engine.runs import create_run
from engine.settings import get_settings
from engine.studies.plan import OutOfBudget, Plan
from engine.studies.protocols import ProtocolsConfig, plan_protocols, run_protocols
from engine.studies.protocols_json import as_json


def run_study_protocols(name: str, config: ProtocolsConfig, args: argparse.Namespace) -> dict[str, Any]:
    """Rewrite, judge in both protocols, print what the page shows."""
    settings = get_settings()
    dataset = dataset_of(config.data, args)
    config = config.model_copy(update={"data": dataset.dataset_id})
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    if args.dry_run:
        return _show_plan(plan_protocols(config, dataset, judge, settings))
    run = create_run(args.out or settings.runs, name, config.model_dump(mode="json"), config.run_id)
    code = OK
    try:
        run_protocols(config, dataset, judge, run, settings, show_progress)
    except OutOfBudget:
        code = INCONCLUSIVE
        print(f"Stopped at the budget of {config.budget_seconds:g} s; the same --run-id goes on from there.")
    run.update_manifest(recorded=args.recorded)
    verdicts = run.table("verdicts")
    if not len(verdicts):
        raise InputError("The budget was spent before the first verdict. Give more --budget-seconds.")
    manifest = run.manifest()
    arena = build_arena(verdicts, run.table("variants"), label_values(manifest["judge"]))
    found = as_json(arena, config.view, config.boards, config.lowest, config.elo_k)
    kept = content_checks(run.table("variants"))
    checks = [{str(name): value for name, value in row.items()} for row in kept.to_dict("records")]
    print("\n".join([*_checked(checks), *_lines(found)]))
    skipped = manifest.get("skipped", {})
    for protocol, why in skipped.items():
        print(f"Not asked: {protocol}. {why}")
    print(f"Run {run.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    about = {"run_id": run.run_id, "judge": judge.spec, "data": dataset.name, "criterion": config.criterion}
    return {**about, "n_verdicts": len(verdicts), "rewritings": checks, **found, "skipped": skipped, "exit_code": code}


def _show_plan(plan: Plan) -> dict[str, Any]:
    time = f", {plan.seconds:,.0f} s at the pace of {plan.measured_on:,} tokens" if plan.measured_on else ""
    print(
        f"About {plan.verdicts:,} verdicts: {plan.known:,} known already, {plan.calls:,} calls of {plan.tokens:,} "
        f"prompt tokens{time}."
    )
    if plan.expense:
        print(plan.expense["sentence"])
    return {"dry_run": True, **plan._asdict()}


def _checked(checks: list[dict[str, Any]]) -> list[str]:
    """What the content checks kept of each style."""
    return [
        f"rewritten {one['style']:<18} by {one['rewriter']}: {one['kept']} of {one['n']} kept, length "
        f"x{one['length_ratio']:.2f}{'; left out: ' + one['left_out'] if one['left_out'] else ''}"
        f"{'; breaks or mends a rule, so left out: ' + str(one['rules_changed']) if one['rules_changed'] else ''}"
        for one in checks
    ]


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"Pointwise ties: {found['tie_rule']}.", *_flips(found["flips_by_distractor"])]
    for entry in found["preferred_distracted"]:
        lines.append(
            f"rewriting preferred {entry['distractor']:<16} pairwise {_share(entry['pairwise'])}  "
            f"pointwise {_share(entry['pointwise'])}"
        )
    for entry in found["severity"]:
        lines.append(
            f"severity {entry['severity']} {entry['distractor']:<18} {entry['protocol']:<10} accuracy {_share(entry)}"
        )
    for entry in found["ratings"]:
        lines.append(
            f"{entry['distractor']:<18} {entry['protocol']:<10} {entry['system']:<20} {_whole(entry['before'])} -> "
            f"{_whole(entry['after'])}  rank {_rank(entry['rank_before'])} -> {_rank(entry['rank_after'])}"
            f"{'  rewritten' if entry['distracted'] else ''}"
        )
    for entry in found["connections"]:
        lines += [f"{entry['distractor']}, {entry['protocol']}: {problem}." for problem in entry["problems"]]
    if found["first_slot_rate"]:
        lines.append(f"first slot {_share(found['first_slot_rate'])}")
        lines.append(
            f"intransitive triads {_share(found['intransitivity']['averaged'])}, circles "
            f"{_share(found['intransitivity']['cycles'])} "
            f"({found['intransitivity']['cycles_by_coin_tosses']:g} if every comparison were a coin toss)"
        )
    return [*lines, *_unread(found)]


def _flips(entries: list[dict[str, Any]]) -> list[str]:
    """A line a distractor, the difference less the placebo's first; losers whose rewriting cannot count are said."""
    lines = []
    for entry in entries:
        rates, net, out = entry["flip_rate"], entry["difference_minus_placebo"], entry["losers_left_out"]
        raw = entry["difference"]
        tested = f"difference less placebo {_tested(net)}, raw {_tested(raw)}" if net else f"difference {_tested(raw)}"
        lines.append(
            f"flips {entry['distractor']:<22} pairwise {_share(rates['pairwise'])}  "
            f"pointwise {_share(rates['pointwise'])}  {tested}; losers left out {out['pairwise']} / {out['pointwise']}"
        )
    return lines


def _unread(found: dict[str, Any]) -> list[str]:
    """Judge calls without a usable answer by protocol and arm, and a warning where arms differ."""
    lost = [one for one in found["unread"] if one["unread"]]
    if not lost:
        return [f"unread 0 of {sum(one['asked'] for one in found['unread'])} verdicts"]
    parts = [f"{one['protocol']} {one['distractor']} {one['unread']} of {one['asked']}" for one in lost]
    return [f"unread: {'; '.join(parts)}", *([found["unread_warning"]] if found["unread_warning"] else [])]


def _tested(entry: dict[str, Any]) -> str:
    return f"{_share(entry)} p {entry['p_value']:.3g}" if entry["n"] else "no data"


def _share(entry: dict[str, Any]) -> str:
    """A number with its interval; where all items are alike, or there is one, the rows give none."""
    value = entry.get("value", entry.get("accuracy"))
    if not entry["n"]:
        return "no data"
    known = entry["lower"] == entry["lower"]
    ends = f"[{entry['lower']:.3f}, {entry['upper']:.3f}]" if known else "(no interval: one item, or all items alike)"
    return f"{value:.3f} {ends} n {entry['n']}"


def _whole(rating: float) -> str:
    return f"{rating:>6.0f}" if rating == rating else f"{'none':>6}"


def _rank(rank: float) -> str:
    return f"{rank:g}" if rank == rank else "none"

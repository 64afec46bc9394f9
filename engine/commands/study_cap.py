"""`judgescope study cap`: run it and print what was found."""

from __future__ import annotations

import argparse
from typing import Any

from engine.commands.common import INCONCLUSIVE, show_progress
from engine.data.dataset import Dataset
from engine.judges.registry import make_judge
from engine.runs import create_run
from engine.settings import get_settings
from engine.studies.cap import load_tutor, run_cap
from engine.studies.cap_config import CapConfig, divide, expected_work
from engine.studies.plan import OutOfBudget


def run_study_cap(name: str, config: CapConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    """The study from the command line.

    Raises:
        InputError: as the study.
    """
    settings = get_settings()
    if args.dry_run:
        work = expected_work(config, divide(config, dataset))
        print(f"About {work:,} texts written and judge calls; the anchors decide what they cost, so no time is given.")
        return {"steps": work}
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    tutor = load_tutor(config.tutor, settings, cache=not args.no_cache)
    run = create_run(args.out or settings.runs, name, config.model_dump(), config.run_id)
    try:
        result = run_cap(config, dataset, judge, tutor, run, settings, show_progress)
    except OutOfBudget:
        print(f"Stopped at the budget of {config.budget_seconds:g} s. Run the same id again: what was asked is kept.")
        return {"run_id": run.run_id, "state": "stopped", "exit_code": INCONCLUSIVE}
    run.update_manifest(recorded=args.recorded)
    print(report(result))
    print(f"Run {run.run_id}: judge {judge.spec}, tutor {tutor.loaded.spec}, data {dataset.name}.")
    return {**result, "judge": judge.spec, "tutor": tutor.loaded.spec, "state": "done"}


def report(result: dict[str, Any]) -> str:
    """The summary for reading."""
    separation = "outside" if result["separated"] else "inside"
    lines = [
        f"Layer {result['layer']} of {len(result['separability'])}: separability after PCA "
        f"{result['separability'][result['layer'] - 1]:.2f} on texts it was not fitted on, {separation} its null.",
        f"Standards {result['standard_low']:.2f} and {result['standard_high']:.2f}; nearest alphas "
        f"{result['alpha_low']:g} (low) and {result['alpha_high']:g} (high).",
        *(
            f"Learned on the judge {'behind CAP' if one['defense'] == 'cap' else 'undefended'}: "
            f"{' '.join(one['words'])!r} ({one['attack']}), mean training score {one['values'][0]:.2f} -> "
            f"{one['values'][-1]:.2f} after {one['queries']:,} prompts."
            for one in result.get("learned", ())
        ),
        "",
        f"{'attack':<10} {'defense':<14} {'shift':>28} {'relative':>9} {'n':>4} {'unread':>6}",
        "-" * 76,
    ]
    for arm in result["arms"]:
        text = f"{arm['shift']:+.2f} [{arm['shift_lower']:+.2f}, {arm['shift_upper']:+.2f}]"
        relative = arm["relative_shift"]
        lines.append(
            f"{arm['attack']:<10} {arm['defense']:<14} {text:>28} "
            f"{f'{100 * relative:+.0f} %' if relative is not None else '':>9} {arm['n']:>4} {arm['n_unread']:>6}"
        )
    lines += ["", f"{'defense':<14} {'Spearman':>9} {'tokens alone':>13} {'shared':>8} {'gap':>6} {'effect':>7}"]
    lines.append("-" * 62)
    for defense, cost in result["cost"].items():
        cells = [result["spearman"].get(defense), cost["tokens_alone"], cost["tokens_shared"]]
        cells += [result["anchor_gap"].get(defense), result["anchor_effect"].get(defense)]
        widths = (9, 13, 8, 6, 7)
        forms = (".2f", ".0f", ".0f", ".2f", ".2f")
        shown = [f"{'' if c is None else format(c, f):>{w}}" for c, f, w in zip(cells, forms, widths, strict=True)]
        lines.append(f"{defense:<14} {' '.join(shown)}")
    lines.append("gap: score of the high anchor less the low one's; effect: mean change when the two change places.")
    return "\n".join(lines)

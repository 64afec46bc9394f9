"""`judgescope score`."""

from __future__ import annotations

import argparse
from typing import Any

from engine.catalog import ATTACKS, DEFENSES, JUDGES
from engine.cli.options import add_file_options, add_run_options
from engine.cli.study import context_of, run_and_print, run_each, with_judge
from engine.core.schema import NONE
from engine.core.settings import get_settings
from engine.judges.card_files import judge_given
from engine.studies.attack_grid.study import STUDY
from engine.studies.registry import settings_of
from engine.studies.study import Context


def add(commands: Any) -> None:
    """Add the command."""
    score = commands.add_parser("score", help="score responses under attacks and defenses")
    score.add_argument("data", help="a data file, or the id of a saved dataset such as demo-dialogue")
    score.add_argument(
        "--judge", action="append", metavar="SPEC",
        help=f"for example {JUDGES.in_words()}; by default the first; repeated, each in turn and a panel",
    )  # fmt: skip
    score.add_argument("--attack", action="append", default=[], metavar="NAME", help=ATTACKS.in_words())
    score.add_argument(
        "--defense", action="append", default=[], metavar="NAME", help=f"{DEFENSES.in_words()}; joined by +"
    )
    score.add_argument("--own-text", default="", help="the text of the attack 'own'")
    score.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    add_file_options(score)
    add_run_options(score)
    score.set_defaults(run=run, config_of=config_of)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Score a file or a saved dataset: the study attack_grid with its settings as options."""
    context, config = config_of(args)
    if len(args.judge or ()) > 1:
        configs = {judge: config_of(with_judge(args, judge), context)[-1] for judge in args.judge}
        return run_each(STUDY, configs, context, args, "score")
    return run_and_print(STUDY, config, context, args, "score")


def config_of(args: argparse.Namespace, context: Context | None = None) -> tuple[Context, Any]:
    """The context, which has read the data by then, and the settings with the first judge that is named.

    Raises:
        InputError: no such data, or a setting that is refused.
    """
    context = context or context_of(args)
    settings = {
        "judge": judge_given((args.judge or [None])[0], args.judge_card, get_settings().cards),
        "data": context.data.dataset(args.data).dataset_id,
        "attacks": args.attack,
        "defenses": args.defense or [NONE],
        "own_text": args.own_text,
        "limit": args.limit,
        "budget_seconds": args.budget_seconds,
        "run_id": args.run_id,
        "seed": args.seed,
    }
    return context, settings_of(STUDY.config, settings, "judgescope score")

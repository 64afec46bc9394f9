"""`python -m engine.training`: sample drafts, count examples, train adapters.

Exit codes: 0 done, 2 the user's input, 3 stopped at the time limit (the same command goes on from there).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.settings import Settings, get_settings
from engine.training.compose import EncodedUnit, compose, encode, grouped
from engine.training.config import TrainingConfig, read_config
from engine.training.examples import load_asker
from engine.training.material import load_material
from engine.training.sources import DEFAULT_DATA, read_dialogues, read_rule_prompts, read_summaries, read_written

UNFINISHED = 3
AS_THEY_CAME = {
    "summary_rated",
    "summary_anchored_rated",
    "dialogue_rated",
    "dialogue_anchored_rated",
    "pair_human",
    "pair_recorded",
    "verification",
}
"""Pools of texts as they came with their labels; the others also draw on drafts of the base model."""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args, get_settings()))
    except EngineError as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.training", description="Make the bundled judge's adapter.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, about in (
        ("drafts", _drafts, "sample the base model's drafts that assets/training/drafts.jsonl lacks"),
        ("examples", _examples, "count the examples of a recipe"),
        ("train", _train, "train the adapters of a recipe"),
    ):
        one = commands.add_parser(name, help=about)
        one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
        one.set_defaults(run=run)
        if name != "drafts":
            one.add_argument("--config", type=Path, metavar="FILE", help="default: assets/training/judge.toml")
        if name == "train":
            one.add_argument("--out", type=Path, required=True, metavar="DIR", help="one folder per seed goes there")
            one.add_argument("--seed", type=int, action="append", help="only this seed (repeatable)")
            one.add_argument("--seconds", type=float, default=500.0, help="time limit of this command")
    return parser


def _drafts(args: argparse.Namespace, settings: Settings) -> int:
    from engine.inference.loading import load_model
    from engine.training.drafts import draft_jobs, write_drafts

    written = read_written(settings.assets / "training" / "dialogues.jsonl")
    jobs = draft_jobs(read_summaries(args.data), read_dialogues(args.data), read_rule_prompts(args.data), written)
    path = settings.assets / "training" / "drafts.jsonl"
    write_drafts(load_model("bundled:base", settings), jobs, path, report=lambda d, n: print(f"{d} of {n} drafts"))
    return 0


def _examples(args: argparse.Namespace, settings: Settings) -> int:
    units, _ = _encoded(args, settings)
    by_pool: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for unit in units:
        for one in unit:
            by_pool[one.pool] += 1
            tokens[one.pool] += len(one.ids)
    for pool, count in by_pool.items():
        print(f"{pool:<20} {count:>6} prompts {tokens[pool]:>10,} tokens")
    print(f"{'all':<20} {by_pool.total():>6} prompts {tokens.total():>10,} tokens")
    return 0


def _train(args: argparse.Namespace, settings: Settings) -> int:
    import torch

    from engine.inference.loading import load_model, pick_device
    from engine.training.train import train_adapter

    started = time.monotonic()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    units, config = _encoded(args, settings)
    exact = replace(settings, device="cpu")  # on a GPU the loader would round the weights to bfloat16
    unfinished = False
    for seed in args.seed or config.seeds:
        left = args.seconds - (time.monotonic() - started)
        if left <= 0:
            unfinished = True
            continue
        base = load_model("bundled:base", exact).model.to(pick_device(settings.device))
        result = train_adapter(base, units, config, seed, args.out / f"seed{seed}", seconds=left)
        print(f"seed {seed}: {result.done} of {result.steps} steps, loss {result.loss:.4f}, {result.seconds:.0f} s")
        unfinished |= not result.finished
    if unfinished:
        print("Stopped at the time limit. The same command goes on from the checkpoint.")
    return UNFINISHED if unfinished else 0


def _encoded(args: argparse.Namespace, settings: Settings) -> tuple[list[EncodedUnit], TrainingConfig]:
    """The recipe's examples as token ids; what was too long is named."""
    from transformers import PreTrainedTokenizerFast

    config = read_config(args.config or settings.assets / "training" / "judge.toml")
    asker = load_asker(settings.assets / "cards")
    material = load_material(args.data, settings.assets, config.sides, drafts=not set(config.mix) <= AS_THEY_CAME)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(settings.assets / "judge", local_files_only=True)
    units, left_out = encode(compose(config, material, asker), asker.cards, tokenizer, config.max_tokens)
    for pool, count in left_out.items():
        print(f"{pool}: {count} left out, longer than {config.max_tokens} tokens")
    return grouped(units, config.data_seed), config


if __name__ == "__main__":
    sys.exit(main())

"""`judgescope bench judge`: every figure of the model card, measured again, beside the card's own numbers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.cache import CallCache
from engine.errors import InputError
from engine.metrics.intervals import Interval
from engine.models.loader import LoadedModel, load_model, pick_device
from engine.settings import Settings, get_settings
from engine.strict_json import dumps
from engine.studies.bench_base import Bench
from engine.studies.bench_floor import note
from engine.studies.judge_measure import measure_judge
from engine.training.examples import load_asker
from engine.training.heldout import Side
from engine.training.sources import DEFAULT_DATA

CARD_FIGURES = "figures.json"
"""Beside the adapter: what the model card prints, as `bench judge` wrote it."""


def add_bench(commands: Any) -> Any:
    """Add `bench judge` to the command line's subcommands; returns the parser's kinds, for further ones."""
    bench = commands.add_parser("bench", help="measure again what the project claims")
    kinds = bench.add_subparsers(required=True, metavar="WHAT")
    judge = kinds.add_parser("judge", help="the figures of the bundled judge's model card")
    judge.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    judge.add_argument("--adapter", type=Path, metavar="DIR", help="another adapter than the bundled one")
    judge.add_argument("--side", default=Side.TEST.value, choices=[Side.TEST.value, Side.TUNE.value])
    judge.add_argument("--limit", type=int, metavar="N", help="only the first N documents, dialogues, prompts, ...")
    judge.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    judge.add_argument("--out", type=Path, metavar="FILE", help="also write the figures there, as JSON")
    judge.add_argument("--no-cache", action="store_true", help="ask again even where an answer is kept")
    judge.add_argument("--json", action="store_true", help="last line is one JSON object")
    judge.set_defaults(run=run_bench)
    return kinds


def run_bench(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return the figures by name.

    Raises:
        InputError: a data file is missing, or the limit is not positive.
    """
    settings = get_settings()
    if args.limit is not None and args.limit < 1:
        raise InputError(f"--limit is {args.limit}; give at least 1.")
    started = time.monotonic()
    bench = Bench(
        loaded=load_exact(settings, args.adapter),
        asker=load_asker(settings.assets / "cards"),
        data=args.data,
        side=Side(args.side),
        limit=args.limit,
        seed=args.seed,
        cache=None if args.no_cache else CallCache(settings.calls),
        note=note,
    )
    figures = measure_judge(bench)
    result: dict[str, Any] = {name: as_record(f) for name, f in figures.items()}
    result["measurement"] = {
        "side": bench.side.value,
        "limit": args.limit,
        "judge_calls": bench.calls,
        "unread": bench.unread,
        "lowest_coverage": bench.lowest_coverage,
        "fingerprint": bench.loaded.fingerprint,
        "device": bench.loaded.device,
        "seconds": time.monotonic() - started,
    }
    print(table(figures, card_figures(settings.assets / "judge" / CARD_FIGURES)))
    print(f"{bench.calls:,} judge calls, {bench.unread} unread, lowest coverage {bench.lowest_coverage:.3f}.")
    if args.out:
        args.out.write_text(dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def load_exact(settings: Settings, adapter: Path | None = None) -> LoadedModel:
    """The bundled judge in float32 on whatever device there is, so that the card's numbers do not depend on it.

    Args:
        settings: where the weights are.
        adapter: a folder with another adapter in peft's format; None for the bundled one.
    """
    device = pick_device(settings.device)
    on_cpu = replace(settings, device="cpu")
    loaded = load_model("bundled:base" if adapter else "bundled:judge", on_cpu)
    if adapter:
        from peft import PeftModel

        from engine.models.weights import sha256_of

        model: Any = PeftModel.from_pretrained(loaded.model, str(adapter)).merge_and_unload().eval()
        digest = sha256_of(adapter / "adapter_model.safetensors")
        loaded = replace(loaded, model=model, fingerprint=f"{loaded.fingerprint}-{digest[:16]}")
    return replace(loaded, model=loaded.model.to(device), device=device)


def as_record(figure: Interval) -> dict[str, Any]:
    """One figure as the JSON names it."""
    return {
        "value": figure.value,
        "lower": figure.lower,
        "upper": figure.upper,
        "n": figure.n,
        "n_clusters": figure.n_clusters,
        "method": figure.method,
    }


def card_figures(path: Path) -> dict[str, dict[str, Any]]:
    """The model card's figures of the shipped adapter; empty where the card has none yet."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["shipped"])
    except OSError:
        return {}
    except (ValueError, KeyError) as error:
        raise InputError(f"{path.name} beside the adapter is damaged ({error}). Restore it from the project.") from None


def table(figures: Mapping[str, Interval], card: Mapping[str, Mapping[str, Any]]) -> str:
    """Each figure with its interval and, beside it, the card's."""
    head = f"{'figure':<44} {'measured now':<26} {'n':>5}  card"
    lines = [head, "-" * len(head)]
    for name, f in figures.items():
        own = card.get(name)
        claimed = _number(own["value"], own["lower"], own["upper"]) if own else ""
        lines.append(f"{name:<44} {_number(f.value, f.lower, f.upper):<26} {f.n:>5}  {claimed}".rstrip())
    return "\n".join(lines)


def _number(value: float | None, lower: float | None, upper: float | None) -> str:
    if value is None:
        return "undefined"
    if lower is None or upper is None or lower != lower or upper != upper:
        return f"{value:.3f}"
    return f"{value:.3f} [{lower:.3f}, {upper:.3f}]"

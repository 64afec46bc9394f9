"""`judgescope study NAME|FILE.toml`, and the runner that it shares with `judgescope score`."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.catalog import ENCODERS
from engine.cli.gate import add_gate_options, file_named, outputs_asked, write_gates
from engine.cli.options import Files, add_file_options, add_run_options, show_progress
from engine.core.errors import INCONCLUSIVE, OK, THRESHOLD_FAILED, InputError
from engine.core.gate import FAILED, UNKNOWN, Check, Gate
from engine.core.settings import device_list, get_settings
from engine.judges.card_files import judge_given
from engine.runs.folder import RunFolder, new_run_id, open_run
from engine.runs.library import TEXT_READ, numbered, outage, text_read
from engine.studies.registry import all_studies, read_study, settings_given, study_named, study_named_in
from engine.studies.running import carry_out
from engine.studies.study import Context, Study, Summary

EXTRA = ("embeddings", "encoder", "threshold", "redecide")
"""Options that not every study reads; they reach it through its context."""


def add(commands: Any) -> None:
    """Add the command."""
    study = commands.add_parser("study", help="run a study by its name, or from a TOML file")
    study.add_argument("name", help="a file in assets/studies such as grid, or the path of a TOML file")
    study.add_argument(
        "--judge",
        action="append",
        metavar="SPEC",
        help="in place of the study's own; repeated, each in turn and a panel",
    )
    study.add_argument("--data", help="a data file or a saved dataset, in place of the study's own")
    study.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting, as in TOML")
    study.add_argument("--attack", action="append", metavar="NAME", help="in place of the study's own")
    study.add_argument("--defense", action="append", metavar="NAME", help="in place of the study's own")
    study.add_argument("--tutor", metavar="SPEC", help="what writes anchors, in place of the study's own")
    study.add_argument(
        "--rewriter", metavar="SPEC", help="for protocols and puaudit: rules, bundled:base, hf:..., path:..., api:MODEL"
    )
    study.add_argument("--key", action="append", metavar="TEXT", help="a master key, in place of the study's own")
    study.add_argument(
        "--encoder", action="append", metavar="NAME", help="for puaudit: " + ", ".join(card.name for card in ENCODERS)
    )
    study.add_argument(
        "--embeddings", type=Path, metavar="FILE", help="for puaudit: your own vectors (npy, parquet, csv)"
    )
    study.add_argument(
        "--threshold", action="append", default=[], metavar="PROBE=VALUE", help="of a check-up, for example order=0.05"
    )
    study.add_argument(
        "--require",
        action="append",
        metavar="RULE",
        help="of trust, for example 'kappa>=0.6'; exit code 4 where it fails",
    )
    study.add_argument(
        "--redecide", metavar="RUN", help="hold a check-up's stored numbers against thresholds; no judge is asked"
    )
    add_gate_options(study, "for checkup and trust: ")
    add_file_options(study)
    add_run_options(study)
    study.set_defaults(run=run, config_of=config_of)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Read the study, apply what the command line changes, run it, for each judge in turn where there are several."""
    name, study, config = config_of(args)
    if (asked := outputs_asked(args)) and not study.gate:
        gates = ", ".join(one.names[0] for one in all_studies() if one.gate)
        raise InputError(
            f"--{next(iter(asked))} is for studies that end as a gate: {gates}; {name} is none. Leave it out."
        )
    if args.ray and "judge" not in study.config.model_fields:
        print(f"The study {study.names[0]} asks no judge, so nothing of it is distributed.", file=sys.stderr)
    context = context_of(args, _extra(study, args))
    if len(args.judge or ()) > 1 and not study.several:
        configs = {judge: config_of(with_judge(args, judge))[-1] for judge in args.judge}
        made = run_each(study, configs, context, args, name)
    else:
        made = run_and_print(study, config, context, args, name)
    write_gates(args, [one["gate"] for one in made.get("runs", [made]) if "gate" in one])
    return made


def config_of(args: argparse.Namespace) -> tuple[str, Study, Any]:
    """The study's name, the study and its settings as the command line changes them.

    Raises:
        InputError: no such study, or a setting that it refuses.
    """
    settings = get_settings()
    changes: dict[str, Any] = {
        "data": args.data,
        "attacks": args.attack,
        "defenses": args.defense,
        "tutor": args.tutor,
        "rewriter": args.rewriter,
        "keys": args.key,
        "require": args.require,
        "encoders": args.encoder,
        "limit": args.limit,
        "budget_seconds": args.budget_seconds,
        "run_id": args.run_id,
        **settings_given(args.set),
    }
    judges = args.judge or []
    if judges:
        several = study_named_in(args.name, settings.assets / "studies").several
        changes |= {"judges": tuple(judges)} if several else {"judge": judges[0]}
    name, study, config = read_study(args.name, settings.assets / "studies", changes)
    if args.judge_card and hasattr(config, "judge"):
        spec = judge_given(judges[0] if judges else None, args.judge_card, settings.cards, config.judge)
        config = config.model_copy(update={"judge": spec})
    return name, study, config


def context_of(args: argparse.Namespace, extra: Mapping[str, Any] | None = None) -> Context:
    """Context that a command gives its study: it may read files, and shows progress on a terminal.

    Args:
        args: options of the command.
        extra: values of the options that only this study reads.
    """
    settings = get_settings()
    settings = replace(settings, ray=args.ray or settings.ray)
    if args.devices:
        settings = replace(settings, devices=device_list(args.devices))
    return Context(
        settings, show_progress, Files(args), card=args.judge_card, cache=not args.no_cache, local_files=True,
        extra=extra or {},
    )  # fmt: skip


def run_and_print(study: Study, config: Any, context: Context, args: argparse.Namespace, name: str) -> dict[str, Any]:
    """Plan a study or run it, and print its summary; what the JSON object holds.

    Args:
        study: which one.
        config: its settings.
        context: what it has at hand.
        args: options of the command.
        name: what the manifest calls the study.
    """
    root = args.out or context.settings.runs
    if answer := study.instead(config, context, root):
        answer = told(answer, open_run(root, answer.record["run_id"]), strict=getattr(config, "strict", False))
        about = {"judge": str(answer.record["judge"]), "run": str(answer.record["run_id"])}
        return {**answer.record, **_gate(study, config, answer, about), "exit_code": answer.exit_code}
    config = study.prepare(config, context)
    if args.dry_run:
        plan, words = study.plan(config, context.seeded(config))
        print(words)
        return plan
    folder, code = run_into_folder(study, config, context, root, name)
    if args.recorded:
        folder.update_manifest(recorded=True)
    manifest = folder.manifest()
    summary = told(study.summary(config, folder), folder, strict=getattr(config, "strict", False))
    if code:
        stop = Check("finished", "Finished within the budget", UNKNOWN, "It was stopped; the same run id goes on.")
        summary = replace(summary, exit_code=code, checks=(*summary.checks, stop))
    if text_read(manifest):
        print(TEXT_READ)
    judge = str(manifest["judge"].get("spec") or getattr(config, "judge", ""))
    data = str(manifest["data"].get("name") or getattr(config, "data", ""))
    print(f"Run {folder.run_id}: judge {judge}, data {data}. Tables are in its run folder.")
    head = {"run_id": folder.run_id, "kind": study.kind, "judge": judge, "state": manifest["state"]}
    head |= {"fingerprint": manifest["judge"].get("fingerprint", "")}
    head |= {"read_as": api["read_as"]} if "read_as" in (api := manifest["judge"].get("api") or {}) else {}
    gate = _gate(study, config, summary, {"judge": judge, "data": data, "run": folder.run_id})
    return {**head, **summary.record, **gate, "exit_code": summary.exit_code}


def _gate(study: Study, config: Any, summary: Summary, about: Mapping[str, str]) -> dict[str, Gate]:
    """The outcome of a study that ends as a gate, as part of what the JSON object holds; empty for any other."""
    if not study.gate:
        return {}
    known = {what: name for what, name in about.items() if name}
    file = file_named(str(getattr(config, "data", "")))
    return {"gate": Gate(study.kind, study.gate, summary.checks, summary.exit_code, known, summary.notes, file)}


def with_judge(args: argparse.Namespace, judge: str) -> argparse.Namespace:
    """The options as if this judge alone had been named."""
    return argparse.Namespace(**{**vars(args), "judge": [judge]})


def run_each(
    study: Study, configs: Mapping[str, Any], context: Context, args: argparse.Namespace, name: str
) -> dict[str, Any]:
    """A study for each of several judges, a run each in the same folder, then a panel of them; what the JSON holds.

    The runs are called RUN_ID-JUDGE and RUN_ID-panel, so that the same command with the same run id goes on where it
    stopped. `--budget-seconds` is divided among the judges.

    Args:
        study: which one.
        configs: judge -> the study's settings with it.
        context: as `run_and_print`.
        args: options of the command.
        name: as `run_and_print`.

    Raises:
        InputError: a judge stands twice or cannot be asked, which shows before any of them runs; or a stored run is
            read in place of asking.
    """
    if len(configs) < len(args.judge):
        raise InputError(f"--judge names a judge twice: {', '.join(args.judge)}. Name each judge once.")
    if getattr(args, "redecide", None):
        raise InputError("--redecide reads one stored run and asks no judge. Leave --judge out, or name one.")
    base = args.run_id or new_run_id(study.names[0])
    ids = _run_ids(base, list(configs))
    share = args.budget_seconds / len(configs) if args.budget_seconds else None
    ready = {j: c.model_copy(update={"run_id": ids[j], **({"budget_seconds": share} if share else {})})
             for j, c in configs.items()}  # fmt: skip
    planned = _planned(study, ready, context)
    if args.dry_run:
        return planned
    print(f"The runs are called {base}-...; with --run-id {base} the same command goes on where it stopped.")
    runs = [run_and_print(study, config, context, with_judge(args, judge), name) for judge, config in ready.items()]
    code = max(int(run.pop("exit_code", OK)) for run in runs)
    made: dict[str, Any] = {"judges": planned["judges"], "runs": runs, "panel": None}
    first = next(iter(ready.values()))
    data = str(getattr(study.prepare(first, context), "data", ""))  # by its id
    panel = study_named("panel")
    config = panel.config(runs=tuple(ids.values()), data=data, run_id=f"{base}-panel", level=first.level)
    try:
        made["panel"] = run_and_print(panel, config, context, args, panel.names[0])
        made["panel"].pop("exit_code")
    except InputError as error:
        print(f"No panel: {error}")
    return {**made, "exit_code": code}


def _run_ids(base: str, judges: Sequence[str]) -> dict[str, str]:
    """Judge -> the id of its run: the base and the judge in plain letters, numbered where two would be alike."""
    found: dict[str, str] = {}
    for judge in judges:
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", judge).strip("-.")[-40:].lstrip("-.") or "judge"
        called = f"{base[: 79 - len(plain)]}-{plain}"
        k = 1
        while called in found.values():
            k += 1
            called = numbered(f"{base[: 79 - len(plain)]}-{plain}", k)
        found[judge] = called
    return found


def _planned(study: Study, configs: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The cost of every judge, printed with its sum; a study that cannot say is asked nothing."""
    judges: list[dict[str, Any]] = []
    says = type(study).plan is not Study.plan or type(study).cost is not Study.cost
    for judge, config in configs.items():
        plan, words = (
            study.plan(study.prepare(config, context), context) if says else ({}, "no cost is known beforehand.")
        )
        print(f"{judge}: {words}")
        judges.append({"judge": judge, **plan})
    counted = [key for key in ("verdicts", "calls", "tokens", "seconds") if all(key in one for one in judges)]
    total = {key: sum(one[key] for one in judges) for key in counted}
    if "tokens" in total:
        calls = f"{total['calls']:,} calls of " if "calls" in total else ""
        time = f", about {total['seconds']:,.0f} s" if not math.isnan(total.get("seconds", math.nan)) else ""
        print(f"Together: {calls}{total['tokens']:,} tokens{time}.")
    return {"judges": judges, **total}


def told(summary: Summary, folder: RunFolder, *, strict: bool = False) -> Summary:
    """Print a summary; where the judge was out for most calls, say so, which is no pass.

    Args:
        summary: of the run.
        folder: the run.
        strict: an outage is a failed threshold (exit code 4), not merely inconclusive (3).
    """
    print(summary.text)
    reason = outage(folder)
    if not reason:
        return summary
    print(reason)
    code = max(summary.exit_code, THRESHOLD_FAILED if strict else INCONCLUSIVE)
    check = Check(
        "calls-read", "Calls read", FAILED if strict else UNKNOWN, reason, allowed="at least half of each protocol"
    )
    return replace(
        summary, record={**summary.record, "inconclusive": reason}, exit_code=code, checks=(*summary.checks, check)
    )


def run_into_folder(study: Study, config: Any, context: Context, root: Path, name: str) -> tuple[RunFolder, int]:
    """Begin a run under `root` and carry it out; its folder and the exit code. A refused setting leaves no folder."""
    folder = study.begin(config, root, name)
    if not carry_out(study, config, context, folder):
        print(f"Stopped at the budget of {config.budget_seconds:g} s; the same --run-id goes on from the calls made.")
        return folder, INCONCLUSIVE
    return folder, OK


def _extra(study: Study, args: argparse.Namespace) -> dict[str, Any]:
    """The options of this study alone.

    Raises:
        InputError: one was given that this study does not read.
    """
    given = {option: getattr(args, option) for option in EXTRA if getattr(args, option)}
    for option in given.keys() - study.options:
        reads = ", ".join(f"--{o}" for o in sorted(study.options)) or "none of this kind"
        raise InputError(f"--{option} is no option of the study {study.names[0]}; it takes {reads}.")
    return given

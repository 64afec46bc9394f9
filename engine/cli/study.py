"""`judgescope study NAME|FILE.toml`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from engine.catalog import ENCODERS
from engine.cli.options import add_file_options, dataset_of, show_progress
from engine.cli.score import add_run_options, run_arms, say_plan
from engine.core.errors import InputError
from engine.core.settings import get_settings
from engine.data.dataset import Dataset
from engine.judges.card_files import judge_given
from engine.judges.registry import make_judge
from engine.runs.folder import create_run
from engine.studies.attack_grid.run import ScoreConfig
from engine.studies.cap.study import CapConfig
from engine.studies.cap.summary import run_study_cap
from engine.studies.checkup.run import CheckupConfig
from engine.studies.checkup.summary import add_options as add_checkup_options
from engine.studies.checkup.summary import run_study_checkup
from engine.studies.learned_suffix.run import SuffixConfig
from engine.studies.learned_suffix.summary import run_study_detection, run_study_suffix
from engine.studies.perplexity_threshold.run import DetectionConfig
from engine.studies.protocols.run import ProtocolsConfig
from engine.studies.protocols.summary import run_study_protocols
from engine.studies.refswap.study import RefSwapConfig
from engine.studies.refswap.summary import run_study_refswap
from engine.studies.registry import read_study, settings_given
from engine.studies.transport_audit.run import AuditConfig
from engine.studies.transport_audit.summary import run_study_puaudit
from engine.studies.verify.run import VerifyConfig, plan_verify, run_verify


def add(commands: Any) -> None:
    """Add the command."""
    study = commands.add_parser("study", help="run a study by its name, or from a TOML file")
    study.add_argument("name", help="a file in assets/studies such as grid, or the path of a TOML file")
    study.add_argument("--judge", help="in place of the study's own")
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
    add_checkup_options(study)
    add_file_options(study)
    add_run_options(study)
    study.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Read the study, apply what the command line changes, run it."""
    changes: dict[str, Any] = {
        "judge": args.judge,
        "data": args.data,
        "attacks": args.attack,
        "defenses": args.defense,
        "tutor": args.tutor,
        "rewriter": args.rewriter,
        "keys": args.key,
        "encoders": args.encoder,
        "limit": args.limit,
        "budget_seconds": args.budget_seconds,
        "run_id": args.run_id,
        **settings_given(args.set),
    }
    name, config = read_study(args.name, get_settings().assets / "studies", changes)
    if args.judge_card and hasattr(config, "judge"):
        spec = judge_given(args.judge, args.judge_card, get_settings().cards, config.judge)
        config = config.model_copy(update={"judge": spec})
    if args.embeddings and not isinstance(config, AuditConfig):
        raise InputError(f"--embeddings belongs to the study puaudit; {name} takes none.")
    if isinstance(config, AuditConfig):
        return run_study_puaudit(name, config, args)
    if isinstance(config, ProtocolsConfig):
        return run_study_protocols(name, config, args)
    if isinstance(config, CheckupConfig):
        return run_study_checkup(name, config, args)
    assert isinstance(config, ScoreConfig | VerifyConfig | CapConfig | RefSwapConfig | SuffixConfig | DetectionConfig)
    dataset = dataset_of(config.data, args)
    config = config.model_copy(update={"data": dataset.dataset_id})
    if isinstance(config, CapConfig):
        return run_study_cap(name, config, dataset, args)
    if isinstance(config, RefSwapConfig):
        return run_study_refswap(name, config, dataset, args)
    if isinstance(config, SuffixConfig):
        return run_study_suffix(config, dataset, args)
    if isinstance(config, DetectionConfig):
        return run_study_detection(config, dataset, args)
    if isinstance(config, VerifyConfig):
        return _run_verify(name, config, dataset, args)
    return run_arms(name, config, dataset, args)


def _run_verify(name: str, config: VerifyConfig, dataset: Dataset, args: argparse.Namespace) -> dict[str, Any]:
    settings = get_settings()
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    if args.dry_run:
        return say_plan(plan_verify(config, dataset, judge))
    run_folder = create_run(args.out or settings.runs, name, config.model_dump(), config.run_id)
    metrics = run_verify(config, dataset, judge, run_folder, show_progress)
    run_folder.update_manifest(recorded=args.recorded)
    for row in metrics.itertuples():
        print(f"{row.metric:<16} {row.value:.3f} [{row.lower:.3f}, {row.upper:.3f}]  n {row.n}, unread {row.n_unread}")
    print(f"Run {run_folder.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    return {"run_id": run_folder.run_id, "judge": judge.spec, "metrics": metrics.to_dict("records")}

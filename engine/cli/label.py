"""`judgescope label`: plan which rows people label, hand labels in and out, say how far they are."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.cli import add_json
from engine.core.errors import InputError, RunError
from engine.core.files import read_file, safe_csv, user_path, write_atomically
from engine.core.settings import Settings, get_settings
from engine.data.comparisons import Comparisons, is_pairs, load_comparisons, require_texts
from engine.data.dataset import Dataset
from engine.data.label_plan import STRATIFIERS, Kind, Scale, make_plan
from engine.data.labels import answers_table, export_table, import_answers, list_plans, open_session, save_plan
from engine.data.reading import read_table
from engine.data.store import load_dataset
from engine.runs.labelling import people_agree, population, worth_so_far
from engine.runs.library import find_run
from engine.stats.intervals import with_ends

Action = Callable[[argparse.Namespace, Settings], dict[str, Any]]


def add(commands: Any) -> None:
    """Add the command and its own ones."""
    label = commands.add_parser("label", help="plan, export and import people's labels; the page Label takes them")
    parts = label.add_subparsers(required=True, metavar="ACTION")
    plan = _part(parts, "plan", _plan, "draw the rows that people label")
    plan.add_argument("data", help="id of a saved data set or set of pairs, for example demo-dialogue")
    plan.add_argument("--n", type=int, required=True, metavar="N", help="rows to label")
    plan.add_argument("--scale", default="", metavar="LABELS", help="pass (by default), or a rating such as 1-5")
    plan.add_argument(
        "--run", dest="runs", action="append", default=[], metavar="ID", help="a judge's run; at most two"
    )
    plan.add_argument("--by", action="append", default=[], choices=STRATIFIERS, help="draw more rows there")
    plan.add_argument("--seed", type=int, default=0)
    plan.add_argument("--question", default="", help="what people are asked")
    status = _part(parts, "status", _status, "how far people are, and what the labels say so far")
    status.add_argument("id", nargs="?", default="", help="of one session; by default all")
    export = _part(parts, "export", _export, "write every row with its label and inclusion probability as csv")
    export.add_argument("id")
    export.add_argument("--annotator", default="", help="this person's labels; by default the final ones")
    export.add_argument("--answers", action="store_true", help="each person's answers below one another")
    export.add_argument("--out", type=Path, metavar="FILE", help="by default labels-ID.csv here")
    taken = _part(parts, "import", _import, "take in labels: columns id and label, annotator and skipped_reason")
    taken.add_argument("id")
    taken.add_argument("file")
    taken.add_argument("--annotator", default="", help="who gave them, where the file does not say")


def _part(parts: Any, name: str, action: Action, about: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = parts.add_parser(name, help=about)
    add_json(made)
    made.set_defaults(run=lambda args: action(args, get_settings()))
    return made


def _plan(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    paired = is_pairs(args.data, settings.comparisons)
    data: Dataset | Comparisons
    if paired:
        data = load_comparisons(args.data, settings.comparisons)
        require_texts(data, "Labelling")
    else:
        data = load_dataset(args.data, settings.datasets)
    scale = _scale(args.scale, paired=paired)
    try:
        runs = [find_run(settings.runs, settings.assets / "demo", name) for name in args.runs]
        rows = population(data, scale, runs)
    except RunError as error:
        raise InputError(str(error)) from None  # a wrong id is the user's to mend
    made = make_plan(
        rows, data=args.data, scale=scale, n=args.n, by=list(dict.fromkeys(args.by)), seed=args.seed,
        question=args.question, runs=args.runs,
    )  # fmt: skip
    plan = save_plan(made, settings.labels).plan
    strata = plan.strata()
    for row in strata.to_dict("records"):
        print(f"  {row['stratum']:<28} {row['drawn']:>6,} of {row['rows']:,} rows, inclusion {row['inclusion']:.4f}")
    print(f"{plan.plan_id}: {plan.n:,} rows of {args.data}. Label them on the page Label (label?data={args.data}).")
    return {"id": plan.plan_id, "data": plan.data, "n": plan.n, "strata": strata.to_dict("records")}


def _scale(text: str, *, paired: bool) -> Scale:
    if paired or text in ("", Kind.PASS.value):
        if paired and text:
            raise InputError(f"--scale {text}: pairs are labelled a, b or tie. Leave it out.")
        return Scale(Kind.PAIRS if paired else Kind.PASS)
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and len(text) < 8):
        raise InputError(f"--scale {text[:20]!r}: write pass, or the lowest and highest rating such as 1-5.")
    return Scale(Kind.RATING, int(low), int(high))


def _status(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    ids = [args.id] if args.id else [str(about["plan_id"]) for about in list_plans(settings.labels)]
    out = []
    for plan_id in ids:
        session = open_session(plan_id, settings.labels)
        held = session.answers()
        done = {who: len(held.of(who)) for who in held.annotators}
        said = ", ".join(f"{who} {n:,}" for who, n in done.items()) or "nobody has begun"
        print(f"{plan_id}  {session.plan.data}, {session.plan.n:,} rows: {said}")
        about: dict[str, Any] = {
            "id": plan_id, "data": session.plan.data, "n": session.plan.n, "done": done, "unreadable": held.unreadable,
            "disagreements": len(session.disagreements(held)), "settled": len(held.settled),
        }  # fmt: skip
        for name, one in (worth_so_far(session) if done else {}).items():
            print(f"    {name:<12} {with_ends(one.value, one.lower, one.upper)}  labels {one.n_labels:,}")
            about[name] = {"value": one.value, "lower": one.lower, "upper": one.upper, "n_labels": one.n_labels}
        if agreement := people_agree(session):
            for name, interval in (("kappa", agreement.kappa.interval), ("alpha", agreement.alpha)):
                print(
                    f"    {name:<12} {with_ends(interval.value, interval.lower, interval.upper)}  rows {interval.n:,}"
                )
                about[name] = {"value": interval.value, "lower": interval.lower, "upper": interval.upper}
        out.append(about)
    if not ids:
        print("There is no labelling session yet: judgescope label plan DATA --n 100.")
    return {"sessions": out}


def _export(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    session = open_session(args.id, settings.labels)
    if args.annotator and args.annotator not in session.answers().annotators:
        known = ", ".join(session.answers().annotators) or "nobody yet"
        raise InputError(f"--annotator {args.annotator!r} has no label here; there are: {known}.")
    table = answers_table(session) if args.answers else export_table(session, args.annotator)
    out = args.out or Path(f"labels-{args.id}.csv")
    write_atomically(out, safe_csv(table))
    labelled = int(table["label"].notna().sum())
    print(f"{out}: {len(table):,} rows, {labelled:,} with a label.")
    return {"id": args.id, "file": out.name, "rows": len(table), "labels": labelled}


def _import(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    session = open_session(args.id, settings.labels)
    path = user_path(args.file)
    raw = read_table(path.name, read_file(path))
    raw.require_certain(path.name, "Save the file again as UTF-8.")
    added = import_answers(session, raw.frame, args.annotator)
    print(f"{added:,} new answers; what was here already is unchanged.")
    return {"id": args.id, "new": added}

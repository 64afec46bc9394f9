"""`judgescope runs`: list, one up close, two side by side; titles, tags, trash, zips; going on, asking again."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from engine.cli import add_json
from engine.cli.options import show_progress
from engine.core.errors import INCONCLUSIVE, OK, InputError, RunError
from engine.core.files import read_file
from engine.core.settings import Settings, get_settings
from engine.runs import library as runs_kept
from engine.runs.archive import MAX_ZIP, export_run, import_run
from engine.runs.compare import Comparison, compare_runs, differing_settings, same_responses, same_scale
from engine.runs.folder import RunFolder, open_run
from engine.runs.library import facts, problems
from engine.stats.intervals import with_ends

Action = Callable[[argparse.Namespace, Settings], dict[str, Any]]


def add(commands: Any) -> None:
    """Add the command and its own ones."""
    runs = commands.add_parser("runs", help="list, compare, name, delete, export, import, resume and retry runs")
    parts = runs.add_subparsers(required=True, metavar="ACTION")
    listed = _part(parts, "list", _list, "the runs here and the recorded ones, newest first")
    for name in ("study", "judge", "data", "tag", "text"):
        listed.add_argument(f"--{name}", default="", help="only runs with this" if name != "text" else "anywhere")
    listed.add_argument("--state", default="", choices=["", *runs_kept.STATES], metavar="STATE")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="only the first N; 0 for all")
    listed.add_argument("--trash", action="store_true", help="the deleted ones that can be restored")
    _part(parts, "show", _show, "facts, problems and metrics of one run").add_argument("id")
    rename = _part(parts, "rename", _rename, "give a run a title; its id stays")
    rename.add_argument("id")
    rename.add_argument("title", help="an empty one takes the title away")
    tag = _part(parts, "tag", _tag, "add and take away tags")
    tag.add_argument("id")
    tag.add_argument("tags", nargs="*", help="to add")
    tag.add_argument("--remove", action="append", default=[], metavar="TAG")
    delete = _part(parts, "delete", _delete, f"move runs to the trash, which keeps them {runs_kept.TRASH_DAYS} days")
    delete.add_argument("ids", nargs="*", metavar="id")
    delete.add_argument("--empty-trash", action="store_true", help="remove for good what is in the trash")
    _part(parts, "restore", _restore, "bring a deleted run back").add_argument("id")
    export = _part(parts, "export", _export, "write a run as a zip")
    export.add_argument("id")
    export.add_argument("--out", type=Path, metavar="FILE", help="by default ID.zip here")
    _part(parts, "import", _import, "take in a run from a zip").add_argument("file", type=Path)
    compare = _part(parts, "compare", _compare, "paired differences of two runs, and the settings that differ")
    compare.add_argument("first")
    compare.add_argument("second")
    _part(parts, "resume", _resume, "go on with a run that was stopped, failed or interrupted").add_argument("id")
    _part(parts, "retry", _retry, "ask a run's unread calls again, keeping the others").add_argument("id")


def _part(parts: Any, name: str, action: Action, about: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = parts.add_parser(name, help=about)
    made.add_argument("--root", type=Path, metavar="DIR", help="where the run folders are: what --out of a study named")
    add_json(made)
    made.set_defaults(run=lambda args: _done(action, args))
    return made


def _done(action: Action, args: argparse.Namespace) -> dict[str, Any]:
    settings = get_settings()
    if args.root is not None:
        if not args.root.is_dir():
            raise InputError(f"--root {args.root}: there is no such folder. Give the one that --out of a study named.")
        settings = dataclasses.replace(settings, runs_in=args.root)
    try:
        return action(args, settings)
    except RunError as error:
        raise InputError(str(error)) from None  # a wrong id or file is the user's to mend


def _find(run_id: str, settings: Settings) -> RunFolder:
    return runs_kept.find_run(settings.runs, settings.assets / "demo", run_id)


def _list(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    if args.trash:
        deleted = runs_kept.trash(settings.runs)
        for one in deleted:
            print(f"{one.run_id:<40} deleted {one.deleted[:16]}  gone {one.gone[:10]}  {one.title}")
        print(f"{len(deleted)} in the trash.")
        return {"trash": [dataclasses.asdict(one) for one in deleted]}
    rows = runs_kept.all_runs(settings.runs, settings.assets / "demo")
    chosen = {name: getattr(args, name) for name in ("study", "judge", "data", "tag", "state", "text")}
    found = runs_kept.select(rows, **chosen)
    shown = found[: args.limit] if args.limit else found
    for row in shown:
        tags = f" [{', '.join(row.tags)}]" if row.tags else ""
        when = row.begun[:16].replace("T", " ")
        print(f"{row.run_id:<40} {row.study:<10} {row.state:<11} {when:<16} {row.judge}, {row.data}")
        if row.title or tags:
            print(f"{'':<4}{row.title}{tags}")
    print(f"{len(shown)} of {len(found)} runs shown; {len(rows)} in all.")
    return {"n": len(found), "runs": [dataclasses.asdict(row) for row in shown]}


def _show(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    run = _find(args.id, settings)
    manifest, notes = run.manifest(), run.notes()
    for name, value in ({"Title": notes.get("title", "")} | facts(manifest)).items():
        if value:
            print(f"{name:<12} {value}")
    wrong = problems(run)
    for what, fix in wrong:
        print(f"Problem: {what}\n  {fix}")
    metrics = run.table("metrics")
    for row in metrics.head(30).to_dict("records"):
        arm = " ".join(str(row[k]) for k in ("attack", "defense", "protocol", "group") if not pd.isna(row[k]))
        print(f"  {row['metric']!s:<22} {arm:<34} {_numbers(row)}  n {row['n']}")
    if len(metrics) > 30:
        print(f"  and {len(metrics) - 30} more rows in its table metrics")
    found = [{"what": what, "fix": fix} for what, fix in wrong]
    return {"run_id": args.id, **notes, "manifest": manifest, "problems": found, "metrics": metrics.to_dict("records")}


def _numbers(row: dict[Any, Any]) -> str:
    return with_ends(row["value"], row["lower"], row["upper"])


def _rename(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    runs_kept.rename(settings.runs, args.id, args.title)
    title = str(open_run(settings.runs, args.id).notes().get("title", ""))
    print(f"{args.id} is called {title!r}." if title else f"{args.id} has no title.")
    return {"run_id": args.id, "title": title}


def _tag(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    tags = runs_kept.set_tags(settings.runs, args.id, add=args.tags, remove=args.remove)
    print(f"{args.id}: {', '.join(tags) or 'no tags'}")
    return {"run_id": args.id, "tags": tags}


def _delete(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    if not args.ids and not args.empty_trash:
        raise InputError("Name the runs to delete, or give --empty-trash.")
    deleted = [dataclasses.asdict(runs_kept.delete(settings.runs, run_id)) for run_id in args.ids]
    for one in deleted:
        print(f"{one['run_id']} is in the trash until {one['gone'][:10]}: judgescope runs restore {one['run_id']}")
    removed = runs_kept.empty_trash(settings.runs) if args.empty_trash else 0
    if args.empty_trash:
        print(f"{removed} removed for good.")
    return {"deleted": deleted, "removed": removed}


def _restore(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    run_id = runs_kept.restore(settings.runs, args.id)
    print(f"{run_id} is back.")
    return {"run_id": run_id}


def _export(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    content = export_run(_find(args.id, settings))
    plain = args.id.removeprefix(runs_kept.RECORDED).replace("/", "-")
    out = args.out or Path(f"{plain}.zip")
    try:
        out.write_bytes(content)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}.") from None
    print(f"{out}: {len(content):,} bytes")
    return {"run_id": args.id, "file": out.name, "bytes": len(content)}


def _import(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    came = import_run(settings.runs, read_file(args.file, MAX_ZIP))
    new = "" if came.run_id == came.was else f", its id {came.was} was taken"
    print(f"The same run is here already: {came.run_id}." if came.skipped else f"Imported as {came.run_id}{new}.")
    return dataclasses.asdict(came)


def compare_folders(first: RunFolder, second: RunFolder, settings: Settings) -> Comparison:
    """Two runs compared; responses of different data pair where id and text are the same."""
    a, b = first.manifest(), second.manifest()
    ids = [str(m.get("data", {}).get("dataset_id") or m.get("config", {}).get("data") or "") for m in (a, b)]
    same = same_responses(*ids, datasets=settings.datasets, comparisons=settings.comparisons)
    tables = [(run.table("verdicts"), run.table("metrics")) for run in (first, second)]
    verdicts, metrics = ((tables[0][k], tables[1][k]) for k in (0, 1))
    return compare_runs(verdicts, metrics, same=same, same_scale=same_scale(a, b))


def _compare(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    first, second = (_find(run_id, settings) for run_id in (args.first, args.second))
    found = compare_folders(first, second, settings)
    changed = differing_settings(first.manifest(), second.manifest())
    only = f"{found.only_a:,} only in the first, {found.only_b:,} only in the second"
    print(f"{found.matched:,} calls made by both; {only}. Differences are second minus first.")
    for remark in found.remarks:
        print(remark)
    for row in found.differences.to_dict("records"):
        arm = " ".join(str(row[k]) for k in ("protocol", "attack", "defense", "group") if row[k])
        q = "" if pd.isna(row["q_value"]) else f"  q {row['q_value']:.3g}"
        kind = "paired" if row["paired"] else "unpaired"
        print(f"  {row['what']:<18} {arm:<40} {_numbers(row)}  n {row['n']}, unread {row['n_unread']}, {kind}{q}")
    print("Settings that differ:" if len(changed) else "No setting differs.")
    for row in changed.to_dict("records"):
        print(f"  {row['part']}: {row['setting']}: {row['a'][:60]} | {row['b'][:60]}")
    return {
        "first": args.first, "second": args.second, "matched": found.matched, "only_first": found.only_a,
        "only_second": found.only_b, "remarks": found.remarks, "differences": found.differences.to_dict("records"),
        "settings": changed.to_dict("records"),
    }  # fmt: skip


def _resume(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    from engine.studies.retry import resume_run

    resume_run(_own(args.id), settings, show_progress)
    print(f"{args.id} is done.")
    return {"run_id": args.id, "state": open_run(settings.runs, args.id).manifest()["state"]}


def _retry(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    from engine.studies.retry import RetryConfig, retry_job

    found = retry_job(RetryConfig(run_id=_own(args.id)), settings, show_progress)
    read = found["unread_before"] - found["unread_after"]
    print(f"{found['unread_before']:,} calls asked again: {read:,} are read now, {found['unread_after']:,} are not.")
    for reason, n in found["reasons"].items():
        print(f"  {n:,}: {reason}")
    return {**found, "exit_code": INCONCLUSIVE if found["unread_after"] else OK}


def _own(run_id: str) -> str:
    if runs_kept.is_recorded(run_id):
        raise RunError(f"{run_id} ships with the project and cannot be changed. Export it and import the copy.")
    return run_id

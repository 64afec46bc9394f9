"""`judgescope drift`: freeze a run's prompts and verdicts, and hold a judge against them later."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from engine.cli import add_json
from engine.cli.gate import add_gate_options, file_named, outputs_asked, write_gates
from engine.cli.options import show_progress
from engine.core.errors import InputError, RunError, shown
from engine.core.gate import Gate
from engine.core.settings import Settings, get_settings
from engine.runs.drift import MAX_FLIPS, MAX_SHIFT, Answers, Drift, find_drift, title_of
from engine.runs.folder import RunFolder
from engine.runs.frozen import (
    ITEMS,
    STRATA,
    draw_items,
    frozen,
    is_frozen,
    read_frozen,
    same_texts,
    write_frozen,
)
from engine.runs.library import find_run
from engine.stats.intervals import with_ends

FREEZE = "freeze"


def add(commands: Any) -> None:
    """Add the command."""
    drift = commands.add_parser(
        "drift", help="freeze a run's prompts and verdicts, and hold a judge against them later",
        description="drift freeze RUN --out FILE keeps a run's prompts and verdicts. drift BASE NEW says what moved "
        "between two sides, each a frozen set, a run, its folder or a file of verdicts; drift BASE --ask asks the "
        "judge anew, without the cache. Exit code 4: drift; 3: cannot tell; 0: no drift seen.",
    )  # fmt: skip
    drift.add_argument("what", nargs="+", metavar="freeze RUN | BASE [NEW]")
    drift.add_argument(
        "--out", type=Path, metavar="PATH", help="file or folder of the frozen set; with --ask the answers"
    )
    drift.add_argument(
        "--items", type=int, default=ITEMS, metavar="N", help=f"items of the frozen set, by default {ITEMS}"
    )
    drift.add_argument("--by", choices=STRATA, default="none", help="strata that the items are drawn by")
    drift.add_argument("--seed", type=int, default=0, help="of the draw and of bootstrap intervals")
    drift.add_argument("--ask", action="store_true", help="ask the judge the frozen prompts now; never from the cache")
    drift.add_argument(
        "--again",
        type=int,
        metavar="N",
        help="askings more for the retest noise: 1 by default with --ask, 0 with freeze",
    )
    drift.add_argument("--judge", metavar="SPEC", help="the judge to ask, by default the frozen one")
    drift.add_argument("--judge-card", type=Path, metavar="NAME|FILE", help="a card that replaces the judge's prompts")
    drift.add_argument(
        "--retest", action="append", default=[], metavar="RUN", help="the base asked again, as a run or file"
    )
    drift.add_argument(
        "--max-shift", type=float, default=MAX_SHIFT, metavar="P", help="tolerated shift of a mean score"
    )
    drift.add_argument(
        "--max-flips", type=float, default=MAX_FLIPS, metavar="S", help="tolerated share of flips and rates"
    )
    add_gate_options(drift)
    add_json(drift)
    drift.set_defaults(run=run)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Freeze, or compare."""
    settings = get_settings()
    if args.what[0] == FREEZE:
        return _freeze(args, settings)
    if len(args.what) > 2:
        raise InputError(f"drift takes a base and one new side, not {len(args.what)}.")
    if args.ask == (len(args.what) == 2):
        raise InputError("Name the new side, or give --ask to ask the judge now: drift BASE NEW, or drift BASE --ask.")
    outputs_asked(args)
    base = open_side(args.what[0], settings)
    retests = [open_side(name, settings).verdicts for name in args.retest]
    base = Answers(base.name, base.manifest, base.verdicts, (*base.again, *retests), base.requests)
    new, left_out = _asked(args, base, settings) if args.ask else (open_side(args.what[1], settings), {})
    found = find_drift(
        base, new, max_shift=args.max_shift, max_flips=args.max_flips, same=same_texts(base, new, settings),
        seed=args.seed,
    )  # fmt: skip
    lines = lines_of(found, base, new, left_out)
    print("\n".join(lines))
    gate = gate_of(found, base, new, left_out, file_named(args.what[0]))
    write_gates(args, [gate])
    return {
        "verdict": found.verdict, "sentence": found.sentence(), "base": base.name, "new": new.name,
        "quantities": found.rows.to_dict("records"), "agreement": _agreement(found),
        "changed": found.changed.to_dict("records"), "matched": found.matched, "only_base": found.only_base,
        "only_new": found.only_new, "asked_again": list(found.retest), "retest_flips": found.retest_flips,
        "left_out": left_out, "remarks": found.remarks, "gate": gate, "exit_code": found.exit_code,
    }  # fmt: skip


def open_side(name: str, settings: Settings) -> Answers:
    """A frozen set, a run by id or folder, or a file of verdicts.

    Raises:
        InputError: it is none of these.
    """
    path = Path(name).expanduser()
    if is_frozen(path):
        return read_frozen(path)
    if (path / "manifest.json").is_file():
        return _of_run(RunFolder(path))
    if path.is_file() or (name.startswith("recorded:") and "?" in name):
        from engine.judges.recorded import RECORDED, make_recorded

        judge = make_recorded(name if name.startswith(RECORDED) else RECORDED + name)
        about = {"judge": {"spec": judge.spec, "fingerprint": judge.fingerprint}}
        return Answers(path.name, about, judge.recording.verdicts)
    try:
        return _of_run(find_run(settings.runs, settings.assets / "demo", name))
    except RunError as error:
        raise InputError(
            f"{shown(name)} is no frozen set, no run folder, no file of verdicts and no run: {error}"
        ) from None


def _of_run(folder: RunFolder) -> Answers:
    try:
        return Answers(folder.run_id, folder.manifest(), folder.table("verdicts"))
    except RunError as error:
        raise InputError(str(error)) from None


def _freeze(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    if len(args.what) != 2:
        raise InputError("Name one run to freeze: drift freeze RUN --out FILE.")
    if args.out is None:
        raise InputError("Say where the frozen set goes: --out FILE.json, or a folder.")
    source = open_side(args.what[1], settings)
    if source.verdicts.empty:
        raise InputError(f"{source.name} holds no verdicts, so there is nothing to freeze.")
    from engine.studies.asking import ask_again, calls_word_for_word, groups_of

    groups = groups_of(source.manifest, settings) if args.by == "group" else {}
    items = draw_items(source.verdicts, args.items, by=args.by, groups=groups, seed=args.seed)
    requests, left_out = calls_word_for_word(source.manifest, source.verdicts, items, settings)
    again = list(source.again)
    if args.again:
        asked, _ = ask_again(
            Answers(source.name, source.manifest, source.verdicts, (), tuple(requests)), settings, times=args.again,
            spec=args.judge or "", card=args.judge_card, checkpoint=show_progress,
        )  # fmt: skip
        _same_judge(source, asked)
        again += [asked.verdicts, *asked.again]
    sample = {"items": len(items), "of": int(source.verdicts["item_id"].nunique()), "by": args.by, "seed": args.seed}
    content = frozen(
        source.name, source.manifest, source.verdicts, items, requests=requests, again=again, sample=sample
    )
    path = write_frozen(content, args.out)
    n = len(content["verdicts"])
    print(f"{path}: {n:,} verdicts on {len(items):,} of {sample['of']:,} items, {len(requests):,} with their words.")
    for reason, count in left_out.items():
        print(f"Cannot be asked again: {count:,} ({reason})")
    print(f"Further askings: {len(again)}. Digest {content['digest'][:16]}.")
    return {"file": path.name, "digest": content["digest"], "items": len(items), "verdicts": n,
            "askable": len(requests), "not_askable": left_out, "asked_again": len(again), "sample": sample}  # fmt: skip


def _same_judge(source: Answers, asked: Answers) -> None:
    """Retest noise is that of one judge."""
    was, now = (str(a.manifest.get("judge", {}).get("fingerprint", "")) for a in (source, asked))
    if was and was != now:
        raise InputError(
            f"The judge is another one than the run's (fingerprint {now[:16]} for {was[:16]}), so asking it would "
            "not measure retest noise. Run the study again and freeze that run."
        )


def _asked(args: argparse.Namespace, base: Answers, settings: Settings) -> tuple[Answers, dict[str, int]]:
    from engine.studies.asking import ask_again

    times = 1 + (1 if args.again is None else args.again)
    new, left_out = ask_again(
        base, settings, spec=args.judge or "", times=times, card=args.judge_card, checkpoint=show_progress
    )
    if args.out:
        items = [str(i) for i in dict.fromkeys(new.verdicts["item_id"])]
        content = frozen(new.name, new.manifest, new.verdicts, items, requests=new.requests, again=new.again)
        print(f"The answers are in {write_frozen(content, args.out)}.", file=sys.stderr)
    return new, left_out


# Words of a result.


def lines_of(found: Drift, base: Answers, new: Answers, left_out: dict[str, int]) -> list[str]:
    """A result for a terminal."""
    lines = [found.sentence(), f"Base: {base.name}. New: {new.name}. {found.matched:,} calls of both, "
             f"{found.only_base:,} only in the base, {found.only_new:,} only in the new one."]  # fmt: skip
    for row in found.rows.to_dict("records"):
        unit = "points" if row["unit"] == "points" else "share"
        numbers = with_ends(row["value"], row["lower"], row["upper"], "+.3f")
        band = f", retest band ±{row['band']:.3f}" if row["band"] == row["band"] else ""
        least = f", would have seen {row['detectable']:.3f}" if row["detectable"] == row["detectable"] else ""
        lines.append(f"  {row['verdict']:<14} {title_of(row):<40} {numbers} {unit}, tolerated {row['threshold']:g}"
                     f"{band}{least}, n {row['n']} of {row['n_clusters']} items")  # fmt: skip
    kappa = found.agreement
    lines.append(f"Same verdict: {kappa.observed:.1%} of calls, kappa {kappa.interval.value:.3f}.")
    times = sum(found.retest)
    flips = f"{found.retest_flips:.1%} of verdicts flip when the same prompt is asked again"
    lines += [f"Further askings: {times}; {flips}."] if times else []
    changed = found.named_changes()
    lines += (
        ["What differs:", *(f"  {line}" for line in changed)] if changed else ["Judge, prompts and data are the same."]
    )
    lines += [f"Not asked: {count:,} ({reason})" for reason, count in left_out.items()]
    return lines + list(found.remarks)


def gate_of(found: Drift, base: Answers, new: Answers, left_out: dict[str, int], file: str = "") -> Gate:
    """A result as a gate: the quantities as checks, and the lines of `lines_of` that are not about one of them."""
    lines = lines_of(found, base, new, left_out)
    notes = (lines[0], *lines[2 + len(found.rows) :])
    about = {"judge": str(new.manifest.get("judge", {}).get("spec", "")), "base": base.name, "new": new.name}
    known = {what: name for what, name in about.items() if name}
    return Gate("drift", "drift", found.checks(), found.exit_code, known, notes, file)


def _agreement(found: Drift) -> dict[str, float]:
    kappa = found.agreement
    return {"observed": kappa.observed, "kappa": kappa.interval.value, "lower": kappa.interval.lower,
            "upper": kappa.interval.upper}  # fmt: skip

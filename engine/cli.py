"""The command line: the same engine as the dashboard, for scripts, CI and clusters.

Exit codes: 0 done, 1 our fault, 2 the user's input, 3 inconclusive, 130 stopped (the run can be resumed).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine import __version__
from engine.catalog import ATTACKS, DEFENSES, JUDGES
from engine.errors import Cancelled, EngineError, InputError
from engine.schema import NONE, Task
from engine.settings import get_settings
from engine.strict_json import dumps

OK, OUR_FAULT, USER_INPUT, STOPPED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, print; returns the exit code."""
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], dict[str, Any]] = args.run
    try:
        result = run(args)
    except InputError as error:
        return _fail(str(error), USER_INPUT)
    except EngineError as error:
        return _fail(str(error), OUR_FAULT)
    except (Cancelled, KeyboardInterrupt):
        return _fail("Stopped. What was done is kept: the same command goes on from there.", STOPPED)
    if args.json:
        print(dumps(result))
    return int(result.get("exit_code", OK))


def _fail(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="judgescope", description="Probe, attack and defend an LLM judge.")
    parser.add_argument("--version", action="version", version=f"judgescope {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_doctor(commands)
    _add_score(commands)
    _add_dashboard(commands)
    return parser


def _add_doctor(commands: Any) -> None:
    doctor = commands.add_parser("doctor", help="check that everything a judge needs is there")
    doctor.add_argument("--fetch", action="store_true", help="download and prepare the bundled judge's weights")
    doctor.add_argument("--json", action="store_true", help="last line is one JSON object")
    doctor.set_defaults(run=_doctor)


def _add_score(commands: Any) -> None:
    score = commands.add_parser("score", help="score responses under attacks and defenses")
    score.add_argument("data", help="a csv or jsonl file, or the id of a saved dataset such as demo-dialogue")
    score.add_argument("--judge", default="bundled:judge", help=f"a judge spec, for example {', '.join(JUDGES)}")
    score.add_argument("--judge-card", type=Path, metavar="FILE", help="a TOML card that replaces the prompts")
    score.add_argument("--attack", action="append", default=[], metavar="NAME", help=", ".join(ATTACKS))
    score.add_argument("--defense", action="append", default=[], metavar="NAME", help=", ".join(DEFENSES))
    score.add_argument("--own-text", default="", help="the text of the attack 'own'")
    score.add_argument("--task", default=Task.DIALOGUE.value, choices=[t.value for t in Task])
    score.add_argument("--map", action="append", default=[], metavar="FIELD=COLUMN", help="which column holds what")
    score.add_argument("--limit", type=int, metavar="N", help="only the first N responses")
    score.add_argument("--seed", type=int, default=0, help="seed of bootstrap intervals")
    score.add_argument("--out", type=Path, metavar="DIR", help="where run folders go")
    score.add_argument("--run-id", help="name of the run; the same name resumes it")
    score.add_argument("--recorded", action="store_true", help="mark the run as a recording to be shown as such")
    score.add_argument("--no-cache", action="store_true", help="ask the judge again even where an answer is kept")
    score.add_argument("--json", action="store_true", help="last line is one JSON object")
    score.set_defaults(run=_score)


def _add_dashboard(commands: Any) -> None:
    dashboard = commands.add_parser("dashboard", help="open the dashboard on 127.0.0.1")
    dashboard.add_argument("--port", type=int, default=8501)
    dashboard.set_defaults(run=_dashboard, json=False)


def _doctor(args: argparse.Namespace) -> dict[str, Any]:
    from engine.doctor import checkup

    checks = checkup(get_settings(), fetch=args.fetch)
    for check in checks:
        print(f"{'ok     ' if check.ok else 'MISSING' if check.needed else 'absent '}  {check.name}: {check.found}")
        if not check.ok:
            print(f"           {check.remedy}")
    good = all(c.ok for c in checks if c.needed)
    return {"ok": good, "checks": [c._asdict() for c in checks], "exit_code": OK if good else OUR_FAULT}


def _score(args: argparse.Namespace) -> dict[str, Any]:
    from engine.judges.registry import make_judge
    from engine.runs import create_run
    from engine.studies.score import ScoreConfig, run_score

    settings = get_settings()
    if args.limit is not None and args.limit < 1:
        raise InputError(f"--limit is {args.limit}; give at least 1.")
    dataset = _dataset(args)
    config = ScoreConfig(
        judge=args.judge,
        data=dataset.dataset_id,
        attacks=tuple(args.attack),
        defenses=tuple(args.defense) or (NONE,),
        own_text=args.own_text,
        limit=args.limit,
        run_id=args.run_id,
        seed=args.seed,
    )
    judge = make_judge(config.judge, settings, card=args.judge_card, cache=not args.no_cache)
    run = create_run(args.out or settings.runs, "score", config.model_dump(), config.run_id)
    metrics = run_score(config, dataset, judge, run, _progress)
    run.update_manifest(recorded=args.recorded)
    arms = [_arm(metrics, attack, defense) for attack, defense in _arm_names(metrics)]
    print(_table(arms))
    print(f"Run {run.run_id}: judge {judge.spec}, data {dataset.name}. Tables are in its run folder.")
    return {"run_id": run.run_id, "judge": judge.spec, "fingerprint": judge.fingerprint, "arms": arms}


def _dataset(args: argparse.Namespace) -> Any:
    from engine.data.dataset import build_dataset
    from engine.data.mapping import suggest_mapping
    from engine.data.reading import read_table
    from engine.data.store import load_dataset

    path = Path(args.data)
    if not path.suffix:
        return load_dataset(args.data, get_settings().datasets)
    try:
        raw = read_table(path.name, path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    mapping = suggest_mapping(raw.frame)
    for pair in args.map:
        field, equals, column = pair.partition("=")
        if not equals or column not in raw.frame.columns:
            raise InputError(
                f"--map {pair}: write FIELD=COLUMN with one of the columns {', '.join(raw.frame.columns)}."
            )
        # a column named by hand is taken away from the field it was only suggested for
        mapping = {f: c for f, c in mapping.items() if c != column} | {field: column}
    dataset = build_dataset(raw, mapping, task=args.task, name=path.name)
    for problem in dataset.problems:
        print(f"{problem.severity}: {problem.where}: {problem.what} {problem.fix}", file=sys.stderr)
    if any(p.severity == "error" for p in dataset.problems):
        raise InputError(f"{path.name} was not scored; mend the errors above and run again.")
    return dataset


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total} judge calls", end="\n" if done == total else "", file=sys.stderr, flush=True)


def _arm_names(metrics: Any) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(metrics["attack"], metrics["defense"], strict=True)))


def _arm(metrics: Any, attack: str, defense: str) -> dict[str, Any]:
    """One arm as the JSON names it; what an arm has no number for is null."""
    own = metrics[(metrics["attack"] == attack) & (metrics["defense"] == defense)].set_index("metric")

    def read(metric: str, column: str) -> Any:
        return own.loc[metric, column] if metric in own.index else None

    return {
        "attack": attack,
        "defense": defense,
        "n": read("mean" if attack == NONE else "shift", "n"),
        "n_unread": read("mean" if attack == NONE else "shift", "n_unread"),
        "mean": read("mean", "value"),
        "shift": read("shift", "value"),
        "shift_lower": read("shift", "lower"),
        "shift_upper": read("shift", "upper"),
        "relative_shift": read("relative_shift", "value"),
    }


def _table(arms: Sequence[dict[str, Any]]) -> str:
    head = f"{'attack':<12} {'defense':<22} {'n':>5} {'unread':>6} {'mean':>6}  shift [95 % interval]"
    lines = [head, "-" * len(head)]
    for a in arms:
        shift = "" if a["shift"] is None else f"{a['shift']:+.3f} [{a['shift_lower']:+.3f}, {a['shift_upper']:+.3f}]"
        lines.append(f"{a['attack']:<12} {a['defense']:<22} {a['n']:>5} {a['n_unread']:>6} {a['mean']:>6.2f}  {shift}")
    return "\n".join(lines)


def _dashboard(args: argparse.Namespace) -> dict[str, Any]:
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", "--server.port", str(args.port)]
    print(f"JudgeScope opens on http://127.0.0.1:{args.port} (Ctrl-C stops it).")
    return {"exit_code": subprocess.run(command, cwd=root, check=False).returncode}


if __name__ == "__main__":
    sys.exit(main())

"""Freezes numbers, so that code can move: `freeze.py save DIR`, later `freeze.py compare DIR OTHER`.

It uses the command line alone: recordings and their figures' data, each study on a planted or the bundled judge,
scores of the demo sets, recorded verdicts. `--cli` names another launcher, for example that of another checkout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
CLOCK = ("seconds", "created", "finished", "resumed", "writer", "versions", "fingerprint", "run_id", "path", "files")
TIGHT = 1e-9
SHRUNK: dict[str, list[str]] = {
    "grid": ["--judge", "planted:injection", "--limit", "6", "--defense", "none", "--defense", "delimiters"],
    "verify": ["--judge", "planted:verifier"],
    "refswap": ["--judge", "planted:verifier", "--limit", "24"],
    "puaudit": ["--judge", "planted:position", "--encoder", "words"],
    "checkup": ["--judge", "planted:verbosity", "--limit", "8"],
    "protocols": ["--judge", "planted:assertiveness", "--limit", "4"],
    "detection": ["--limit", "6", "--set", "suffixes=['suffix']", "--set", "prompts=['dsi']"],
    "cap": ["--limit", "4", "--attack", "dsi", "--defense", "none", "--defense", "score-anchors", "--defense", "cap",
            "--set", "candidates=2", "--set", "alphas=[0.5]"],
    "suffix": ["--set", "words=1", "--set", "candidates=4", "--set", "prompts=1", "--limit", "4"],
}  # fmt: skip
"""Each study, made small."""
SETTINGS = (["alpha=1.0"], ["mass=0.5"], ["delta=5.0"], ["k=3"], ["gamma=0.2"])
"""Second values of the figures' settings; a run without the setting says so, which is frozen as well."""


def main() -> int:
    """Save or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    save = commands.add_parser("save")
    save.add_argument("dir", type=Path)
    save.add_argument("--only", action="append", default=[], help="steps whose name begins so")
    save.add_argument("--cli", default="", help="launcher, by default judgescope beside this Python")
    compare = commands.add_parser("compare")
    compare.add_argument("dirs", type=Path, nargs=2)
    args = parser.parse_args()
    if args.command == "compare":
        found = differences(*args.dirs)
        print("\n".join(found) or "No difference.")
        return 1 if found else 0
    args.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        runner = Runner(args.dir, Path(home), args.cli)
        for name, step in steps(Path(home)):
            if not args.only or any(name.startswith(only) for only in args.only):
                runner.take(name, step)
    return 0


def steps(home: Path) -> list[tuple[str, list[str]]]:
    """Name and arguments of each command; {runs} stands for the folder of runs."""
    scores, pairs = verdict_files(home)
    out: list[tuple[str, list[str]]] = []
    demo = ROOT / "assets" / "demo"
    for file in sorted(demo.rglob("manifest.json")):
        place = file.parent.relative_to(demo).as_posix()
        out.append((f"recorded-{place.replace('/', '-')}", ["figures", f"recorded:{place}", "--format", "html"]))
        out += [
            (f"recorded-{place.replace('/', '-')}-{value[0]}", [*out[-1][1], "--set", *value])
            for value in SETTINGS
            if any(word in place for word in ("dialogue", "pairs", "refswap"))
        ]
        out.append((f"show-{place.replace('/', '-')}", ["runs", "show", f"recorded:{place}"]))
    for name, options in SHRUNK.items():
        out.append((f"study-{name}", ["study", name, *options, "--run-id", f"f-{name}", "--out", "{runs}"]))
        out.append((f"figures-{name}", ["figures", f"{{runs}}/f-{name}", "--format", "html"]))
    for data in ("dialogue", "summary", "instruction"):
        arms = ["--attack", "dsi", "--attack", "bed", "--defense", "none", "--defense", "sandwich"]
        for judge, limit in (("planted:verbosity", "9"), ("bundled:judge", "3")):
            run_id = f"s-{data}-{judge.partition(':')[0]}"
            options = ["--judge", judge, "--limit", limit, "--run-id", run_id, "--out", "{runs}"]
            out.append((f"score-{data}-{judge.partition(':')[0]}", ["score", f"demo-{data}", *arms, *options]))
    out.append(("compare", ["runs", "compare", "s-dialogue-planted", "s-dialogue-bundled", "--root", "{runs}"]))
    out.append(("verdicts-scores", ["recorded", str(scores), "--run-id", "v-scores", "--out", "{runs}"]))
    out.append(("verdicts-pairs", ["recorded", str(pairs), "--run-id", "v-pairs", "--out", "{runs}"]))
    return out


def verdict_files(home: Path) -> tuple[Path, Path]:
    """Verdicts that somebody already has: scores with human ratings, and pairs in both orders."""
    rows = [(f"i{k // 4}", f"r{k}", f"s{k % 4}", (k * 7) % 5 + 1, (k * 3) % 5 + 1) for k in range(48)]
    scores, pairs = home / "scores.csv", home / "pairs.csv"
    pd.DataFrame(rows, columns=["item_id", "response_id", "system", "score", "human_score"]).to_csv(scores, index=False)
    both = [
        (f"i{k}", f"a{k}", f"b{k}", order, "a" if (k * 5 + (order == "ba")) % 3 else "b", "ab"[k % 2])
        for k in range(24)
        for order in ("ab", "ba")
    ]
    columns = ["item_id", "response_a", "response_b", "order", "outcome", "human"]
    pd.DataFrame(both, columns=columns).to_csv(pairs, index=False)
    return scores, pairs


class Runner:
    """Runs commands in a home of their own and keeps what they give."""

    def __init__(self, out: Path, home: Path, cli: str) -> None:
        self._out, self._runs = out, home / "runs"
        self._cli = shlex.split(cli) or [str(Path(sys.executable).with_name("judgescope"))]
        self._env = {**os.environ, "JUDGESCOPE_HOME": str(home / "home"), "JUDGESCOPE_DEVICE": "cpu"}
        self._env |= {"JUDGESCOPE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        cache = Path(os.environ.get("JUDGESCOPE_CACHE", Path.home() / ".cache" / "judgescope"))
        (home / "cache").mkdir()
        (home / "cache" / "weights").symlink_to(cache / "weights")
        self._env["JUDGESCOPE_CACHE"] = str(home / "cache")

    def take(self, name: str, argv: list[str]) -> None:
        """Run one command; keep its exit code, its JSON object, the run's tables or the figures' data."""
        folder = self._out / name
        folder.mkdir(parents=True, exist_ok=True)
        argv = [word.replace("{runs}", str(self._runs)) for word in argv]
        if argv[0] == "figures":
            argv += ["--out", str(folder / "figures")]
        done = subprocess.run([*self._cli, *argv, "--json"], env=self._env, capture_output=True, text=True, check=False)
        last = (done.stdout.strip().splitlines() or [""])[-1]
        about: dict[str, Any] = {"exit": done.returncode}
        about["json"] = json.loads(last) if last.startswith("{") else None
        if done.returncode:
            about["error"] = done.stderr.strip().splitlines()[-1:]
        (folder / "result.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
        for html in folder.glob("figures/*.html"):
            html.unlink()
        run_id = argv[argv.index("--run-id") + 1] if "--run-id" in argv else ""
        for table in sorted((self._runs / run_id).glob("*.parquet")) if run_id else ():
            pd.read_parquet(table).to_json(folder / f"{table.stem}.json", orient="records", double_precision=15)
        print(f"{name}: exit {done.returncode}", flush=True)


def differences(one: Path, two: Path) -> list[str]:
    """What is not the same, by file and place."""
    found: list[str] = []
    names = sorted({p.relative_to(d) for d in (one, two) for p in d.rglob("*") if p.is_file()})
    for name in names:
        if not (one / name).is_file() or not (two / name).is_file():
            found.append(f"{name}: only in {one if (one / name).is_file() else two}")
        elif name.suffix in {".json", ".csv"}:
            found += [f"{name}: {text}" for text in unlike(read(one / name), read(two / name))][:5]
    return found


def read(path: Path) -> Any:
    """A frozen file as plain values."""
    if path.suffix == ".csv":
        return pd.read_csv(path).to_dict("list")
    return json.loads(path.read_text(encoding="utf-8"))


def unlike(a: Any, b: Any, at: str = "") -> list[str]:
    """Places at which two values differ; clock-like keys are left out."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [k for k in sorted({*map(str, a), *map(str, b)}) if not any(word in k for word in CLOCK)]
        return [text for k in keys for text in unlike(a.get(k), b.get(k), f"{at}.{k}")]
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return [f"{at}: {len(a)} and {len(b)} entries"]
        return [text for k, (x, y) in enumerate(zip(a, b, strict=True)) for text in unlike(x, y, f"{at}[{k}]")]
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        same = a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= TIGHT * max(1.0, abs(a))
    else:
        same = a == b
    return [] if same else [f"{at}: {str(a)[:80]} and {str(b)[:80]}"]


if __name__ == "__main__":
    sys.exit(main())

"""`judgescope bench audit`: transport audits of verdicts that others recorded, judge by judge and prompt by prompt.

LLMBar's objective labels with six judges under up to fifteen prompts, both orders, and PandaLM's human labels with two
judges (one order). No judge is asked. Each row is one run of the study `puaudit` without attack.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from engine.bench.verifier import write_rows
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.core.settings import Settings, get_settings
from engine.data.comparisons import Comparisons, read_comparisons
from engine.judges.base import Judge, no_checkpoint
from engine.judges.recorded import make_recorded
from engine.studies.transport_audit.metrics import CONTROLS, GEOMETRY
from engine.studies.transport_audit.run import run_transport_audit
from engine.studies.transport_audit.study import IN_DATA, STUDY, AuditConfig
from engine.training.sources import DEFAULT_DATA

PANDALM_JUDGES = ("gpt35_judge", "pandalm7b_judge")
MAIN_PROMPT = "Vanilla"
"""The prompt that every encoder is tried on; the others take the first encoder alone."""
PER_TYPE, POOLED = "per type", "pooled"
_BOUNDED = ("cons_orig", "cons_adj", "gain", "gain_over_best")
_SCORES = (*(f"cons_{name}" for name in CONTROLS[1:]), "auc_entry_mass", *(f"auc_{name}" for name in GEOMETRY))
_KEY = ("data", "judge", "prompt", "encoder", "transport")


class Case(NamedTuple):
    """One audit: which verdicts, which encoder, and whether each question type has a transport of its own."""

    data: str
    judge: str
    prompt: str
    encoder: str
    transport: str


def add_audit(kinds: Any) -> None:
    """Add `bench audit` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("audit", help="transport audits of recorded verdicts: LLMBar's prompts and PandaLM")
    one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    one.add_argument("--encoder", action="append", metavar="SPEC", help="bundled:minilm and words by default")
    one.add_argument("--prompt", action="append", metavar="NAME", help="only these of LLMBar's prompts")
    one.add_argument("--splits", type=int, default=10, metavar="N", help="seeded splits of the labelled pairs")
    one.add_argument("--seconds", type=float, default=3600.0, metavar="S", help="stop after about so long; whole rows")
    one.add_argument("--out", type=Path, metavar="FILE", help="write the table there, and go on behind its rows")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_audit)


def run_audit(args: argparse.Namespace) -> dict[str, Any]:
    """Run every audit that the table does not hold yet; print, write and return the rows.

    Raises:
        InputError: a data file is missing, or there is no such prompt.
    """
    settings, started = get_settings(), time.monotonic()
    rows = _known(args.out)
    done = {tuple(row[name] for name in _KEY) for row in rows}
    sets = _Sets(args.data)
    cases = all_cases(sets.recordings, args.encoder or ["bundled:minilm", "words"], args.prompt)
    for case in [c for c in cases if c not in done]:
        if time.monotonic() - started > args.seconds:
            print(f"Stopped after {args.seconds:g} s; the same command goes on behind the rows it wrote.")
            break
        try:
            row = measure(case, *sets.of(case), args.splits, settings)
        except InputError as error:
            print(f"left out: {' / '.join(case)}: {error}", file=sys.stderr)
            continue
        rows.append(row)
        print(_line(row), flush=True)
        if args.out:
            write_rows(args.out, rows)
    return {"rows": rows, "seconds": time.monotonic() - started}


def all_cases(recordings: pd.DataFrame, encoders: Sequence[str], prompts: Sequence[str] | None = None) -> list[Case]:
    """Every audit, PandaLM first and then LLMBar's judges with the main prompt ahead.

    Args:
        recordings: LLMBar's recorded verdicts with the columns judge and prompt.
        encoders: specs; all of them for the main prompt, the first alone for the others.
        prompts: LLMBar's prompts wanted; None for all.

    Raises:
        InputError: a prompt that was not recorded.
    """
    pairs = recordings.drop_duplicates(["judge", "prompt"])[["judge", "prompt"]].itertuples(index=False, name=None)
    found = sorted(pairs, key=lambda pair: (pair[1] != MAIN_PROMPT, pair[1], pair[0]))
    known = sorted({prompt for _, prompt in found})
    for prompt in prompts or ():
        if prompt not in known:
            raise InputError(f"LLMBar has no verdicts under the prompt {prompt!r}. It has: {', '.join(known)}.")
    cases = [
        Case("PandaLM", judge.removesuffix("_judge"), "", encoder, POOLED)
        for encoder in encoders
        for judge in PANDALM_JUDGES
    ]
    for judge, prompt in found:
        if prompts is None or prompt in prompts:
            own = encoders if prompt == MAIN_PROMPT else encoders[:1]
            cases += [Case("LLMBar", judge, prompt, e, t) for e in own for t in (POOLED, PER_TYPE)]
    return cases


class _Sets:
    """The pairs of both data sets, each read once, and LLMBar's recorded verdicts."""

    def __init__(self, data: Path) -> None:
        self._pandalm = _content(data / "pandalm" / "pairs.jsonl")
        self._llmbar = read_comparisons("pairs.jsonl", _content(data / "llmbar" / "pairs.jsonl"))
        self._file = data / "llmbar" / "recorded_verdicts.csv"
        _content(self._file)
        self.recordings = pd.read_csv(self._file, dtype=str)

    def of(self, case: Case) -> tuple[Comparisons, Judge | None]:
        """The pairs of a case and who judged them; None where the verdicts came with the pairs."""
        if case.data == "PandaLM":
            columns = {"prompt": "prompt+input", "verdict": f"{case.judge}_judge"}
            return read_comparisons("pairs.jsonl", self._pandalm, columns), None
        spec = f"recorded:{self._file}?judge={case.judge}&prompt={case.prompt}&map.comparison_id=id"
        return self._llmbar, make_recorded(spec)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path.parent.name}/{path.name} cannot be read: {error.strerror}. Name --data DIR.") from None


def measure(case: Case, found: Comparisons, judge: Judge | None, splits: int, settings: Settings) -> dict[str, Any]:
    """One audit as a row of the table.

    Raises:
        InputError: too few pairs are left to audit.
    """
    config = AuditConfig(
        judge=judge.spec if judge else IN_DATA,
        data=found.set_id,
        encoders=(case.encoder,),
        splits=splits,
        bootstraps=0,
        umap=False,
        p_ratios=(),
        within_type=case.transport == PER_TYPE,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = STUDY.begin(config, Path(folder))
        metrics = run_transport_audit(config, found, judge, run, settings, no_checkpoint)
        summary = run.manifest()["summary"]
    overall = metrics[metrics["group"].isna() & (metrics["attack"] == NONE)]
    own: dict[str, Any] = {str(row["metric"]): row for row in overall.to_dict("records")[::-1]}
    row: dict[str, Any] = case._asdict()
    row |= {"n_pairs": int(own["cons_orig"]["n"]), "n_excluded": summary["n_excluded"], "mass": summary["mass"]}
    for name in _BOUNDED:
        row |= {name: own[name]["value"]} | {f"{name}_{end}": own[name][end] for end in ("lower", "upper")}
    return row | {"best_control": summary["best_control"]} | {name: own[name]["value"] for name in _SCORES}


def _known(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a table begun before; numbers as numbers."""
    if path is None or not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [dict(row) for row in csv.DictReader(file)]
    if any(set(_KEY) - set(row) for row in rows):
        raise InputError(f"{path.name} is no table of this command (columns {', '.join(_KEY)}). Name another --out.")
    return [{name: _number(name, value) for name, value in row.items()} for row in rows]


def _number(name: str, value: str) -> Any:
    if name in (*_KEY, "best_control"):
        return value
    if not value:
        return float("nan")
    return int(value) if name.startswith("n_") else float(value)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['data']:<8} {row['judge']:<13} {row['prompt']:<22} {row['encoder']:<15} {row['transport']:<9} "
        f"n {row['n_pairs']:<4} {row['cons_orig']:.3f} -> {row['cons_adj']:.3f}  gain {row['gain']:+.3f}  "
        f"over {row['best_control']} {row['gain_over_best']:+.3f} "
        f"[{row['gain_over_best_lower']:+.3f}, {row['gain_over_best_upper']:+.3f}]"
    )

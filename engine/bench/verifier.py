"""`judgescope bench verifier`: the bundled verifiers at full size, on public solutions with a reference.

Held-out GSM8K solutions (questions from 1000 on, which no adapter saw), and as transfer MATH solutions and
VerifyBench-hard, each under the ten master keys, with RefSwap at the paper's three tolerances. Counterfactual
references of another answer type come from MATH and VerifyBench, since all of GSM8K is numeric.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from engine.core.errors import Cancelled, InputError
from engine.core.json import dumps
from engine.core.schema import ITEMS, RESPONSES, Task
from engine.core.settings import Settings, get_settings
from engine.data.dataset import Dataset
from engine.data.mapping import RIGHT, WRONG
from engine.judges.base import Judge, device_of, no_checkpoint
from engine.judges.registry import make_judge
from engine.runs.folder import RunFolder, create_run
from engine.studies.refswap.metrics import Table, sample_table, summarise
from engine.studies.refswap.references import ReferencePool, final_answer, make_pool
from engine.studies.refswap.run import run_refswap
from engine.studies.refswap.scores import max_p_cf
from engine.studies.refswap.study import Arm, RefSwapConfig
from engine.studies.refswap.summary import as_record
from engine.training.heldout import GSM8K_TEST_FROM
from engine.training.sources import DEFAULT_DATA, read_lines

DELTAS = (0.5, 2.0, 5.0)
LONGEST = 8_000
"""Characters of a VerifyBench response; longer ones are left out, since they do not fit the small model's window."""
SOLUTIONS_PER_MATH_QUESTION = 2
Solved = tuple[str, str, str, str, bool]
"""Item, question, reference, response, whether it is correct."""


class Part(NamedTuple):
    """One verifier on one data set, and its share of the time that is left."""

    data: str
    judge: str
    arms: tuple[Arm, ...]
    share: float


SHORTCUT, JUDGE = "bundled:shortcut-verifier", "bundled:judge"
PLAN = (
    Part("gsm8k", SHORTCUT, ("other", "same"), 0.5),
    Part("gsm8k", JUDGE, ("other", "same"), 0.5),
    Part("math", JUDGE, ("other",), 0.4),
    Part("verifybench_hard", JUDGE, ("other",), 0.45),
    Part("math", SHORTCUT, ("other",), 0.6),
    Part("verifybench_hard", SHORTCUT, ("other",), 1.0),
)


def add_verifier(kinds: Any) -> None:
    """Add `bench verifier` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("verifier", help="both bundled verifiers on GSM8K, MATH and VerifyBench-hard, with RefSwap")
    one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    one.add_argument("--questions", type=int, default=200, metavar="N", help="held-out GSM8K questions")
    one.add_argument("--seconds", type=float, default=600.0, metavar="S", help="stop after about so long; whole items")
    one.add_argument("--variant", default="reference last", help="form of the verifier's prompt")
    one.add_argument("--out", type=Path, metavar="FILE", help="also write the table there, as CSV")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_verifier)


def run_verifier(args: argparse.Namespace) -> dict[str, Any]:
    """Run every part that time allows, print and return its rows.

    Raises:
        InputError: a data file is missing, or a number is out of range.
    """
    if args.questions < 2:
        raise InputError(f"--questions is {args.questions}; give at least 2, one of them for calibration.")
    settings, started = get_settings(), time.monotonic()
    sets, pool = read_sets(args.data, args.questions)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in PLAN:
            left = args.seconds - (time.monotonic() - started)
            if left > 0:
                rows += _measure(part, sets[part.data], pool, args.variant, left * part.share, Path(folder), settings)
    for row in rows:
        print(_line(row))
    if args.out:
        write_rows(args.out, rows)
    return {"rows": rows, "seconds": time.monotonic() - started}


def read_sets(data: Path, questions: int) -> tuple[dict[str, Dataset], ReferencePool]:
    """The three data sets, and the pool of counterfactual references.

    Raises:
        InputError: a data file is missing.
    """
    gsm = [r for r in read_lines(data, "gsm8k/model_solutions.jsonl") if _number(r) >= GSM8K_TEST_FROM]
    math = list(read_lines(data, "math/math100x8_solutions.jsonl"))
    hard = list(read_lines(data, "verifybench_hard_316/rows.jsonl"))
    first = set(sorted({_number(r) for r in gsm})[:questions])
    few = [r for r in math if int(r["id"].split("-")[1]) < SOLUTIONS_PER_MATH_QUESTION]
    short = [(i, r) for i, r in enumerate(hard) if len(r["response"]) <= LONGEST]
    sets = {
        "gsm8k": _dataset("gsm8k", (_solved(f"g{_number(r)}", r) for r in gsm if _number(r) in first)),
        "math": _dataset("math", (_solved(f"m{_number(r)}", r) for r in few)),
        "verifybench_hard": _dataset("verifybench_hard", (_solved(f"h{i}", r) for i, r in short)),
    }
    references = [str(r["reference"]) for r in (*math, *hard, *gsm)]
    return sets, make_pool(references, "of MATH, VerifyBench-hard and GSM8K")


def _number(row: dict[str, Any]) -> int:
    return int(row["id"].split("-")[0])


def _solved(item: str, row: dict[str, Any]) -> Solved:
    return item, row["question"], final_answer(str(row["reference"])), row["response"], bool(row["correct"])


def _dataset(name: str, solved: Iterable[Solved]) -> Dataset:
    items: dict[str, dict[str, str]] = {}
    responses = []
    for i, (item, question, reference, text, correct) in enumerate(solved):
        task = Task.VERIFICATION.value
        items.setdefault(item, {"item_id": item, "task": task, "context": question, "reference": reference})
        quality = RIGHT if correct else WRONG
        responses.append({"response_id": f"{item}-{i}", "item_id": item, "text": text, "quality": quality})
    tables = ITEMS.conform(pd.DataFrame(list(items.values()))), RESPONSES.conform(pd.DataFrame(responses))
    return Dataset(name, name, Task.VERIFICATION.value, *tables)


def _measure(
    part: Part, dataset: Dataset, pool: ReferencePool, variant: str, seconds: float, root: Path, settings: Settings
) -> list[dict[str, Any]]:
    """One part's rows: an arm and a tolerance each."""
    config = RefSwapConfig(
        judge=part.judge, data=part.data, variant=variant, k_max=5, arms=part.arms, budget_seconds=seconds
    )
    judge = make_judge(part.judge, settings)
    run = create_run(root, "refswap", config.model_dump(), f"{part.data}-{part.judge.replace(':', '-')}")
    clock = time.monotonic()
    try:
        run_refswap(config, dataset, judge, run, no_checkpoint, pool)
    except Cancelled:
        print(f"{part.data}, {part.judge}: stopped at its share of the time; whole items are kept.")
    took = time.monotonic() - clock
    if not len(run.table("samples")):
        return []
    return [row for arm in part.arms for row in _rows(part, run, judge, arm, took)]


def _rows(part: Part, run: RunFolder, judge: Judge, arm: str, took: float) -> list[dict[str, Any]]:
    table = sample_table(run.table("verdicts"), run.table("samples"), arm)
    where = {"data": part.data, "arm": arm, "items": int(table.samples.item.max()) + 1, "device": device_name(judge)}
    manifest = run.manifest()
    where["state"] = manifest["state"]
    left_out = int(manifest["data"]["n_without_reference"])
    rows = []
    for delta in DELTAS:
        record = as_record(table, summarise(table.samples, k=5, delta=delta / 100), part.judge, left_out)
        flat = {key: value for key, value in record.items() if isinstance(value, int | float | str)}
        for key in ("forward_passes_per_sample", "tokens_ratio", "accepted_tokens_ratio", "n_accepted", "pass_rates"):
            flat |= {f"{key}_{kind}": value for kind, value in record[key].items()}
        for key in ("auc", "one_auc", "s_auc", "cohens_d"):
            flat |= dict(zip((f"{key}_lower", f"{key}_upper"), record["intervals"][key], strict=True))
        for key in ("accuracy_before", "accuracy_after", "fpr_before", "fpr_after"):
            flat |= dict(zip((f"{key}_lower", f"{key}_upper"), record["test"][key][1:], strict=True))
        flat |= {f"dev_{key}": record["dev"][key][0] for key in ("accuracy_before", "accuracy_after")}
        for name, one in record["baselines"].items():
            flat |= {f"{name}_{key}": value for key, value in one.items()}
        rows.append({**where, **flat, **_medians(table), "seconds": round(took, 1)})
    return rows


def _medians(table: Table) -> dict[str, float]:
    s = table.samples
    score, yes = max_p_cf(s, 5), s.yes() == 1

    def median(part: Any) -> float:
        values = score[part & ~np.isnan(score)]
        return float(np.median(values)) if len(values) else float("nan")

    return {"median_correct": median(yes & s.clean & s.right), "median_key": median(yes & ~s.clean)}


def device_name(judge: Judge) -> str:
    """Where the judge ran, for a table: a GPU's name and the precision, else the plain device."""
    device = device_of(judge)
    if not device.startswith("cuda"):
        return device
    import torch

    loaded = getattr(judge, "loaded", None)
    return f"{torch.cuda.get_device_name()}, {getattr(loaded, 'dtype', '?')}"


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The rows as a CSV file; what is undefined stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            clean = json.loads(dumps(row))
            writer.writerow({name: _short(clean.get(name)) for name in names})


def _short(value: Any) -> Any:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['data']:<17} {row['judge'].removeprefix('bundled:'):<18} {row['arm']:<6} delta {row['delta']:<4g} "
        f"items {row['items']:<4} accuracy {row['accuracy_before']:.3f} -> {row['accuracy_after']:.3f}  "
        f"keys {row['fpr_before']:.3f} -> {row['fpr_after']:.3f}  AUC {row['auc']:.3f}  gamma {row['gamma']:.3g}"
    )

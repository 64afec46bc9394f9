"""`judgescope bench claims`: the frozen claims on the public data, one judge after the other; writes claims.csv.

    judgescope bench claims --data DIR --out DIR --judge SPEC [--paper CAP] [--claim flips]
    judgescope bench claims --out DIR --recordings

The runs that the claims read lie in OUT/runs and are not made twice, so that papers can be run apart. Rows of the same
judge, claim and set in OUT/claims.csv are replaced; q and verdicts are taken anew over all rows of a judge. Only the
test side is judged. `--recordings` takes the shipped verdicts of LLMBar's six judges and of MT-bench's three: nobody is
asked, and no data are needed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from engine.bench.full_data import (
    CAP_PER_DOCUMENT,
    cap_data,
    ladder_judged,
    llmbar_audited,
    llmbar_judged,
    mtbench_judged,
    pandalm_audited,
    pandalm_judged,
)
from engine.bench.verifier import read_sets, write_rows
from engine.core.errors import INCONCLUSIVE, OK, InputError
from engine.core.schema import Task
from engine.core.settings import get_settings
from engine.data.comparisons import Comparisons
from engine.data.dataset import Dataset
from engine.defenses.writing import TUTOR
from engine.inference.loading import load_model
from engine.judges.base import no_checkpoint
from engine.runs.folder import RunFolder
from engine.studies.claims.metrics import decide
from engine.studies.claims.run import run_claims
from engine.studies.claims.study import RECORDED, ClaimsConfig, SubRun
from engine.studies.claims.study import STUDY as CLAIMS
from engine.studies.claims.tables import VERDICTS
from engine.studies.registry import read_study
from engine.studies.running import OutOfBudget
from engine.studies.study import Context, SavedData
from engine.training.sources import DEFAULT_DATA, read_dialogues, read_rule_prompts, read_summaries

COLUMNS = (
    "judge", "claim", "paper", "set", "value", "lower", "upper", "method", "n", "n_items", "least", "stated", "p_value",
    "q_value", "detectable", "verdict", "reason", "device", "commit", "date", "command",
)  # fmt: skip
"""Columns of claims.csv."""
QUESTIONS = 319
"""GSM8K questions of the test side."""
LLMBAR_JUDGES = ("GPT-4", "ChatGPT", "ChatGPT-0301", "PaLM2", "LLaMA2", "Falcon")
MTBENCH_JUDGES = ("gpt-4-0613", "gpt-3.5-turbo-1106", "gemini-pro")
PAIRS_PER_LIMIT = 10
"""Pairs audited for each item of `--limit`."""
_FEW = 4
"""Responses of a training context that a phrase may be learned on."""


@dataclass
class Sets:
    """The public data sets by their frozen names, each made when first asked for.

    Attributes:
        data: their folder.
        limit: items of each set and side, for a try; None for all.
    """

    data: Path
    limit: int | None
    _made: dict[str, Dataset | Comparisons] = field(default_factory=dict)

    @cached_property
    def _verified(self) -> tuple[dict[str, Dataset], list[str]]:
        sets, pool = read_sets(self.data, self.limit or QUESTIONS)
        return {name: _first_items(one, self.limit) for name, one in sets.items()}, [
            entry.text for entry in pool.entries
        ]

    @property
    def references(self) -> list[str]:
        """The pool of counterfactual references of all verification sets."""
        return self._verified[1]

    def made(self, name: str, inputs: str) -> Dataset | Comparisons:
        """The responses, or the comparisons, of a set.

        Raises:
            InputError: a file is missing.
        """
        key = f"{name}/{inputs}"
        if key not in self._made:
            make: Callable[[], Dataset | Comparisons] = self._makers()[key]
            self._made[key] = make()
        return self._made[key]

    def inputs_of(self, name: str) -> list[str]:
        """The kinds of data that a set has."""
        return [inputs for inputs in ("responses", "comparisons") if f"{name}/{inputs}" in self._makers()]

    def _makers(self) -> dict[str, Callable[[], Dataset | Comparisons]]:
        data, limit = self.data, self.limit
        responses: dict[str, Callable[[], Dataset]] = {
            "topicalchat": lambda: _scored("TopicalChat", Task.DIALOGUE, read_dialogues(data), None, limit),
            "summeval": lambda: _scored("SummEval", Task.SUMMARY, read_summaries(data), CAP_PER_DOCUMENT, limit),
            "llmbar": lambda: llmbar_judged(data, limit),
            "pandalm": lambda: pandalm_judged(data, limit),
            "mtbench": lambda: mtbench_judged(data, limit),
            "mtbench-clean": lambda: mtbench_judged(data, limit, clean=True),
            "ifeval": lambda: ladder_judged(read_rule_prompts(data), load_model(TUTOR, get_settings()), limit),
        }
        for name in ("gsm8k", "math", "verifybench_hard"):
            responses[name] = partial(lambda name: self._verified[0][name], name)
        pairs = {"llmbar": lambda: llmbar_audited(data), "pandalm": lambda: pandalm_audited(data)}
        return {f"{k}/responses": v for k, v in responses.items()} | {f"{k}/comparisons": v for k, v in pairs.items()}


def _scored(name: str, task: Task, rated: Any, per_context: int | None, limit: int | None) -> Dataset:
    """Test side judged; contexts of the tuning side with some responses, on which a phrase is learned."""
    return cap_data(name, task, rated, per_context, limit, learned_on=_FEW)


def _first_items(dataset: Dataset, limit: int | None) -> Dataset:
    if limit is None:
        return dataset
    items = dataset.items[:limit].reset_index(drop=True)
    responses = dataset.responses[dataset.responses["item_id"].isin(items["item_id"])].reset_index(drop=True)
    return Dataset(dataset.dataset_id, dataset.name, dataset.task, items, responses)


class Held(SavedData):
    """Opens the public sets by the ids they were given, and saved data."""

    def __init__(self) -> None:
        super().__init__(get_settings())
        self._held: dict[str, Dataset | Comparisons] = {}

    def hold(self, one: Dataset | Comparisons) -> str:
        """Keep a set and say its id."""
        name = one.dataset_id if isinstance(one, Dataset) else one.set_id
        self._held[name] = one
        return name

    def dataset(self, name: str) -> Dataset:
        """A set that is held, or a saved one."""
        held = self._held.get(name)
        return held if isinstance(held, Dataset) else super().dataset(name)

    def comparisons(self, name: str) -> Comparisons:
        """Likewise, of pairs."""
        held = self._held.get(name)
        return held if isinstance(held, Comparisons) else super().comparisons(name)


def add_claims(kinds: Any) -> None:
    """Add `bench claims` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("claims", help="the frozen claims of the four papers on the public data: claims.csv")
    one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="claims.csv goes there, and the runs")
    one.add_argument("--judge", action="append", default=[], metavar="SPEC", help="whose claims are decided")
    one.add_argument("--recordings", action="store_true", help="recorded verdicts of LLMBar's and MT-bench's judges")
    one.add_argument("--paper", action="append", default=[], metavar="NAME", help="only the claims of this paper")
    one.add_argument("--claim", action="append", default=[], metavar="ID", help="only this claim, and what it requires")
    one.add_argument("--set", action="append", default=[], metavar="NAME", help="only on this data set")
    one.add_argument("--named", metavar="TEXT", help="the judge's name in the table, where its spec names a folder")
    one.add_argument("--commit", default="", metavar="HASH", help="of the code, where it cannot be asked of git")
    one.add_argument("--limit", type=int, metavar="N", help="a try: N items of each set and side, short searches")
    one.add_argument("--seconds", type=float, metavar="S", help="stop after about so long; the same command goes on")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> dict[str, Any]:
    """Decide the claims of every judge named; the JSON object counts the verdicts of each.

    Raises:
        InputError: no judge was named, a data file is missing, or a name is unknown.
    """
    if not args.judge and not args.recordings:
        raise InputError("Name a judge: --judge SPEC, or --recordings for the verdicts that others recorded.")
    sets, opener = Sets(args.data, args.limit), Held()
    said: dict[str, Any] = {}
    whole = True
    for spec in [*args.judge, *(recordings() if args.recordings else ())]:
        name, done = _decided(spec, args, sets, opener)
        whole &= done
        said[name] = _told(args.out, name)
    return {"judges": said, "exit_code": OK if whole else INCONCLUSIVE}


def recordings() -> list[str]:
    """Specs of the recorded judges that ship, under the prompt that all of LLMBar's judges have."""
    llmbar = [f"{RECORDED}demo-llmbar?judge={judge}&prompt=Vanilla" for judge in LLMBAR_JUDGES]
    return llmbar + [f"{RECORDED}demo-mtbench?judge={judge}" for judge in MTBENCH_JUDGES]


def _decided(spec: str, args: argparse.Namespace, sets: Sets, opener: Held) -> tuple[str, bool]:
    """Run the claims of one judge and write its rows; its name in the table, and false where it was stopped."""
    settings = get_settings()
    name = args.named if args.named and not spec.startswith(RECORDED) else spec.replace(f"{args.data}/", "")
    changes: dict[str, Any] = {
        "judge": spec,
        "papers": args.paper,
        "claims": args.claim,
        "budget_seconds": args.seconds,
    }
    *_, bare = read_study("claims", settings.assets / "studies", changes)
    assert isinstance(bare, ClaimsConfig)
    wanted = dict.fromkeys(s for claim in bare.wanted for s in claim.data if not args.set or s in args.set)
    if unknown := [s for s in args.set if s not in bare.sets]:
        raise InputError(f"--set {unknown[0]}: there is no such set. Allowed: {', '.join(bare.sets)}.")
    if bare.shipped:  # the pairs come with the recording
        wanted = {}
    data = {s: _ids(sets, opener, s, spec.startswith(RECORDED)) for s in wanted}
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    slug = re.sub(r"[^A-Za-z0-9]+", "-", name.rpartition("/")[2].rpartition("judge=")[2]).strip("-")[:24] + f"-{mark}"
    runs = bare.runs if args.limit is None else {key: _smaller(one) for key, one in bare.runs.items()}
    more = {"runs": runs, "data": data, "settings": _open_settings(args, sets, wanted), "run_id": f"claims-{slug}"}
    config = bare.model_copy(update=more)
    run = CLAIMS.begin(config, args.out / "runs")
    context = Context(settings, no_checkpoint, opener, local_files=True)
    done = True
    try:
        run_claims(config, context, run)
    except OutOfBudget:
        done = False
        print(f"{name}: stopped at {args.seconds:g} s; the same command goes on behind the finished runs.")
    finally:
        run.release()
        _keep(run, config, name, args)
    return name, done


def _smaller(run: SubRun) -> SubRun:
    """A run with the sizes it has on bundled data, for a try."""
    return run.model_copy(update={"settings": run.settings | {k: v for k, v in run.demo.items() if k != "split"}})


def _ids(sets: Sets, opener: Held, name: str, recorded: bool) -> dict[str, str]:
    """The ids of a set's data by kind; of a recording's responses none are opened, since nobody is asked."""
    kinds = [k for k in sets.inputs_of(name) if not (recorded and k == "responses")]
    return {k: opener.hold(sets.made(name, k)) for k in kinds} or {"responses": name}


def _open_settings(args: argparse.Namespace, sets: Sets, wanted: dict[str, None]) -> dict[str, dict[str, Any]]:
    """What the frozen settings leave open: the pool of references, and small sizes in a try."""
    given: dict[str, dict[str, Any]] = {}
    if {"gsm8k", "math", "verifybench_hard"} & set(wanted):
        pool = args.out / "references.txt"
        pool.parent.mkdir(parents=True, exist_ok=True)
        pool.write_text("".join(f"{' '.join(text.split())}\n" for text in sets.references), encoding="utf-8")
        given["refswap"] = {"pool": str(pool)}
    if args.limit is not None:
        given |= {name: {"limit": PAIRS_PER_LIMIT * args.limit} for name in ("audit", "audit-by-type")}
        given["cap"] = {"new_tokens": 24}
        given["cap-plain"] = {"new_tokens": 24}
    return given


def _keep(run: RunFolder, config: ClaimsConfig, name: str, args: argparse.Namespace) -> None:
    """Put a run's rows into claims.csv, in place of older ones, and decide the whole table anew."""
    fresh = run.table("claims")
    path = args.out / "claims.csv"
    if fresh.empty:
        return
    judge = [name if j == config.judge else j for j in fresh["judge"]]
    rows = fresh.assign(
        judge=judge,
        commit=args.commit or _commit(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        command=_command(args, name),
        device=[_device(args.out / "runs", str(r), d) for r, d in zip(fresh["run"], fresh["device"], strict=True)],
    )
    old = pd.read_csv(path) if path.is_file() else rows.iloc[:0]
    key = ["judge", "claim", "set"]
    both = pd.concat([old, rows], ignore_index=True).drop_duplicates(key, keep="last").reset_index(drop=True)
    table = decide(both, config.model_copy(update={"claim": _same_names(config, name)}))
    for column in ("commit", "date", "command"):
        table[column] = both[column].to_numpy()
    write_rows(path, [{str(k): v for k, v in row.items() if k in COLUMNS} for row in _ordered(table, config)])


def _same_names(config: ClaimsConfig, name: str) -> tuple[Any, ...]:
    """The claims with the table's name of a judge beside its spec, where one is by construction for it."""
    return tuple(
        one if isinstance(one.by_construction, bool) or config.judge not in one.by_construction
        else one.model_copy(update={"by_construction": (*one.by_construction, name)})
        for one in config.claim
    )  # fmt: skip


def _ordered(table: pd.DataFrame, config: ClaimsConfig) -> list[dict[Any, Any]]:
    place = {one.id: i for i, one in enumerate(config.claim)}
    sets = {name: i for i, name in enumerate(config.sets)}
    judges = {name: i for i, name in enumerate(dict.fromkeys(table["judge"]))}
    rows = table[[c for c in COLUMNS if c in table]].to_dict("records")
    return sorted(rows, key=lambda r: (judges[r["judge"]], place[r["claim"]], sets[r["set"]]))


def _device(runs: Path, run: str, device: Any) -> str:
    """A GPU's name and the precision, else the plain device."""
    if not isinstance(device, str) or not device.startswith("cuda"):
        return device if isinstance(device, str) else ""
    import torch

    precision = (RunFolder(runs / run).manifest().get("judge") or {}).get("precision", "?")
    return f"{torch.cuda.get_device_name()}, {precision}"


def _commit() -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _command(args: argparse.Namespace, name: str) -> str:
    what = "--out DIR --recordings" if name.startswith(RECORDED) else f"--data DIR --out DIR --judge {name}"
    only = "".join(f" --{k} {v}" for k in ("paper", "claim", "set") for v in getattr(args, k))
    few = f" --limit {args.limit}" if args.limit is not None else ""
    return f"judgescope bench claims {what}{only}{few}"


def _told(out: Path, name: str) -> dict[str, int]:
    """Print the counts of one judge; what the JSON object says of it."""
    path = out / "claims.csv"
    table = pd.read_csv(path) if path.is_file() else pd.DataFrame({"judge": [], "verdict": []})
    own = table[table["judge"] == name]["verdict"].value_counts()
    found = {verdict: int(own[verdict]) for verdict in VERDICTS if verdict in own}
    print(f"{name}: " + ", ".join(f"{verdict} {n}" for verdict, n in found.items()), flush=True)
    return found

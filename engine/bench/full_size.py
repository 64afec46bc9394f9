"""`judgescope bench full`: the studies of the four papers at full size, and the tables of `assets/results` they fill.

    judgescope bench full --data DIR --out DIR --only cap          cap.csv
    judgescope bench full --data DIR --out DIR --only suffix       suffix.csv, detection.csv
    judgescope bench full --data DIR --out DIR --only puaudit      puaudit_bundled.csv
    judgescope bench full --data DIR --out DIR --only protocols    protocols.csv
    judgescope bench full --data DIR --out DIR --only puaudit --part PandaLM    that part of puaudit_bundled.csv

On an NVIDIA H200 none of the four took more than eight minutes. A table is written again whenever one of its runs
ends, so stopping loses nothing but the run under way, and judge calls are cached. The run folders lie in DIR/runs.

`suffix` saves its two phrases as `topicalchat` and `topicalchat-random`, in place of saved phrases of these names;
`--part "written defenses"` and `--part "behind CAP"` (rows of cap.csv) alone take the one saved before.
Only the test side is judged, since the judge was trained on the training and the tuning side. In `assets/results`
the PandaLM rows of `puaudit_bundled` are of one CPU thread (11 minutes of its time). The rows of `protocols` are older:
their PandaLM and IFEval prompts are partly of the tuning side, as the column `data` says.
Those of IFEval, the only ones with format rules, were made before rewritings that fail other rules were left out.
`assets/results/README.md` lists what each table predates.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from engine.attacks.distractors import MORE_PLACEBOS
from engine.bench.full_data import (
    CAP_PER_DOCUMENT,
    cap_data,
    evaluation_side,
    ladder_judged,
    llmbar_audited,
    llmbar_judged,
    mtbench_judged,
    pandalm_audited,
    pandalm_judged,
    seen_in_training,
    suffix_data,
)
from engine.bench.verifier import device_name, write_rows
from engine.core.errors import INCONCLUSIVE, OK, EngineError, InputError
from engine.core.schema import NONE, Task
from engine.core.settings import Settings, get_settings
from engine.data.comparisons import Comparisons
from engine.data.dataset import Dataset
from engine.data.store import load_dataset
from engine.defenses.guard import guard_for
from engine.defenses.writing import TUTOR
from engine.inference.loading import load_model
from engine.judges.base import Judge, no_checkpoint
from engine.judges.planted import make_planted
from engine.judges.registry import make_judge
from engine.runs.folder import RunFolder, create_run
from engine.studies.attack_grid.run import run_score
from engine.studies.attack_grid.study import ScoreConfig
from engine.studies.cap.run import run_cap
from engine.studies.cap.study import CAP, Cap, CapConfig
from engine.studies.cap.tutor import load_tutor
from engine.studies.learned_suffix.run import run_suffix
from engine.studies.learned_suffix.study import LearnedSuffix, SuffixConfig
from engine.studies.perplexity_threshold.run import run_detection
from engine.studies.perplexity_threshold.study import DetectionConfig, PerplexityThreshold
from engine.studies.protocols.run import run_protocols
from engine.studies.protocols.study import ProtocolsConfig
from engine.studies.registry import read_study
from engine.studies.running import OutOfBudget, within
from engine.studies.transport_audit.run import run_transport_audit
from engine.studies.transport_audit.study import AuditConfig, TransportAudit
from engine.training.heldout import Side
from engine.training.sources import DEFAULT_DATA, read_dialogues, read_rule_prompts, read_summaries

_VALUES = ("value", "lower", "upper")
_ARM = ("metric", "attack", "defense")
_COUNTED = ("level", "method", "n", "n_clusters")
_TESTED = ("n_unread", "p_value", "q_value", "detectable")
COLUMNS: dict[str, tuple[str, ...]] = {
    "cap": (*_ARM, *_VALUES, *_COUNTED, *_TESTED, "data", "device"),
    "suffix": (*_ARM, "protocol", *_VALUES, *_COUNTED, *_TESTED, "search", "device"),
    "detection": (*_ARM, "group", *_VALUES, *_COUNTED, "n_unread", "device"),
    "puaudit_bundled": (*_ARM, "group", *_VALUES, *_COUNTED, "data", "judge", "device"),
    "protocols": (
        *("data", "judge", "device", "metric", "attack", "protocol", "group"),
        *(*_VALUES, "method", "n", "n_clusters", "p_value", "q_value"),
    ),
}
"""Columns of each table, named by its file."""
PHRASE, CONTROL = "topicalchat", "topicalchat-random"
PHRASE_WORDS, PHRASE_CANDIDATES, PHRASE_PROMPTS = 5, 128, 36
PROMPT_ATTACKS = ("dsi", "bed", "adaptive")
WRITTEN = ("perplexity?threshold=112", "cot", "score-anchors", "wcap")
"""Defenses that read or write texts; the threshold is the one `detection` fits against phrases on the training side."""
CAP_CANDIDATES = 18
"""Texts written for each context and standard."""
PAIRS_PER_LIMIT = 10
"""Pairs audited for each item of `--limit`: fewer hold no two human preferences on both sides of a split."""


@dataclass
class Work:
    """The command under way.

    Attributes:
        data: folder of the public data sets.
        out: where the tables and `runs` go.
        limit: items of each data set and side, for a try; None runs the full size.
        spec: the judge's; `judge` is loaded when first asked for.
        encoders: of the transport audit.
        tutor: writes cap's texts and the ladder's drafts.
        rows: of each table, as far as its runs have ended.
        done: parts that came to their end.
    """

    data: Path
    out: Path
    limit: int | None
    settings: Settings
    spec: str = "bundled:judge"
    encoders: tuple[str, ...] = ("bundled:judge", "words")
    tutor: str = TUTOR
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    @cached_property
    def judge(self) -> Judge:
        """The judge of all studies."""
        return make_judge(self.spec, self.settings)

    @property
    def runs(self) -> Path:
        """Where the run folders go."""
        return self.out / "runs"

    def keep(self, table: str, run: RunFolder, **named: str) -> None:
        """Add a run's metrics to a table and write the table."""
        metrics = run.table("metrics").assign(device=device_name(self.judge), **named)
        names = list(COLUMNS[table])
        rows = metrics[names].to_dict("records")
        self.rows.setdefault(table, []).extend({str(k): v for k, v in row.items()} for row in rows)
        if self.rows[table]:
            write_rows(self.out / f"{table}.csv", self.rows[table])


class Part(NamedTuple):
    """One run: its name, its share of the time against the others, and a part that must have ended before it."""

    name: str
    share: float
    run: Callable[[float | None], None]
    after: str = ""


def add_full(kinds: Any) -> None:
    """Add `bench full` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("full", help="the studies of the four papers at full size: the tables of assets/results")
    one.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="the public data sets")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="the tables go there, as CSV, and the runs")
    one.add_argument("--only", nargs="+", choices=tuple(STUDIES), metavar="STUDY", help=f"of {', '.join(STUDIES)}")
    one.add_argument("--part", default="", metavar="TEXT", help="only the runs whose name holds TEXT, as PandaLM")
    one.add_argument("--limit", type=int, metavar="N", help="a try: N items of each data set and side, short searches")
    one.add_argument("--seconds", type=float, metavar="S", help="stop after about so long; every run has its share")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_full)


def run_full(args: argparse.Namespace) -> dict[str, Any]:
    """Run the chosen studies; the JSON object names each part's state and the rows of each table.

    Raises:
        InputError: a data file is missing, or a number is out of range; nothing has run then.
    """
    if args.limit is not None and args.limit < 2:
        raise InputError(f"--limit is {args.limit}; give at least 2, since a study compares items.")
    if args.seconds is not None and args.seconds <= 0:
        raise InputError(f"--seconds is {args.seconds:g}; give more than 0.")
    work = Work(args.data, args.out, args.limit, get_settings())
    return run_parts(work, args.only or tuple(STUDIES), args.seconds, args.part)


def run_parts(work: Work, studies: Sequence[str], seconds: float | None, named: str = "") -> dict[str, Any]:
    """Run the parts of some studies one after the other.

    Args:
        work: data, output and judge.
        studies: keys of `STUDIES`.
        seconds: for all parts together; each gets its share of what is left. None sets no limit.
        named: only the parts whose name holds this text.

    Raises:
        InputError: a data file is missing, no part has such a name, or the folder cannot be written.
    """
    every = [part for name in dict.fromkeys(studies) for part in STUDIES[name](work)]
    parts = [part for part in every if named in part.name]
    if not parts:
        names = "; ".join(part.name for part in every)
        raise InputError(f"--part {named!r} is in the name of no run. Allowed is a piece of one of these: {names}.")
    try:
        work.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {work.out}: {error.strerror}. Name a folder that can be written.") from None
    chosen = {part.name for part in parts}
    parts = [part if part.after in chosen else part._replace(after="") for part in parts]  # it rests on an earlier call
    end = None if seconds is None else time.monotonic() + seconds
    states: dict[str, str] = {}
    for i, part in enumerate(parts):
        left = None
        if end is not None:
            left = (end - time.monotonic()) * part.share / sum(p.share for p in parts[i:])
        clock = time.monotonic()
        states[part.name] = _state(work, part, left)
        print(f"{part.name}: {states[part.name]}, {time.monotonic() - clock:.1f} s", flush=True)
    whole = all(state == "done" for state in states.values())
    counts = {name: len(rows) for name, rows in work.rows.items()}
    return {"parts": states, "rows": counts, "exit_code": OK if whole else INCONCLUSIVE}


def _state(work: Work, part: Part, left: float | None) -> str:
    """Run one part; how it ended. What goes wrong with one does not keep the others from running."""
    if part.after and part.after not in work.done:
        return f"not run, since {part.after} did not end"
    if left is not None and left <= 0:
        return "not run, no time left"
    try:
        part.run(left)
    except OutOfBudget:
        return "stopped at its share of the time"
    except EngineError as error:
        return f"failed: {error}"
    work.done.add(part.name)
    return "done"


def cap_parts(work: Work) -> list[Part]:
    """TopicalChat and SummEval, and TopicalChat with the vectors centred."""
    replies = cap_data("TopicalChat", Task.DIALOGUE, read_dialogues(work.data), None, work.limit)
    summaries = cap_data("SummEval", Task.SUMMARY, read_summaries(work.data), CAP_PER_DOCUMENT, work.limit)
    centred = {"form": "centred", "defenses": (NONE, CAP), "suffix_words": ()}
    return [
        Part("cap, topicalchat", 2, partial(_cap, work, "topicalchat", replies, {})),
        Part("cap, summeval", 4, partial(_cap, work, "summeval", summaries, {})),
        Part("cap, topicalchat-centred", 1, partial(_cap, work, "topicalchat-centred", replies, centred)),
    ]


def _cap(work: Work, name: str, dataset: Dataset, changes: dict[str, Any], seconds: float | None) -> None:
    # the thresholds need as many texts in a try, so only their length is cut
    size = {"candidates": CAP_CANDIDATES} | ({} if work.limit is None else {"new_tokens": 24})
    fixed = {"judge": work.spec, "data": dataset.dataset_id, "tutor": work.tutor, "split": "group"}
    config = CapConfig.model_validate(fixed | size | changes | {"budget_seconds": seconds})
    run = Cap().begin(config, work.runs)
    tutor = load_tutor(config.tutor, work.settings)
    try:
        run_cap(config, dataset, work.judge, tutor, run, work.settings, no_checkpoint)
    finally:
        work.keep("cap", run, data=name)  # a stopped run has the defenses that were judged


def suffix_parts(work: Work) -> list[Part]:
    """A phrase by gradient, under defenses, its control at random, and whether perplexity detects it."""
    dialogues = read_dialogues(work.data)
    dataset = suffix_data(dialogues, work.limit)
    replies = cap_data("TopicalChat", Task.DIALOGUE, dialogues, None, work.limit)
    anchored = {"attacks": (_phrase(work),), "defenses": (NONE, "wcap", CAP), "suffix_words": ()}
    found = f"suffix, {PHRASE}"
    return [
        Part(found, 3, partial(_search, work, PHRASE, dataset, True)),
        Part("suffix, defenses", 2, partial(_defended, work, dataset), found),
        Part("suffix, written defenses", 3, partial(_written, work, dataset), found),
        Part("suffix, behind CAP", 4, partial(_cap, work, "topicalchat-learned", replies, anchored), found),
        Part(f"suffix, {CONTROL}", 3, partial(_search, work, CONTROL, dataset, False)),
        Part("detection", 1, partial(_detected, work, dataset), found),
    ]


def _search(work: Work, name: str, dataset: Dataset, guided: bool, seconds: float | None) -> None:
    n = work.limit
    config = SuffixConfig(
        judge=work.spec,
        data=dataset.dataset_id,
        split="group",
        name=name,
        guided=guided,
        words=PHRASE_WORDS if n is None else min(n, PHRASE_WORDS),
        candidates=PHRASE_CANDIDATES if n is None else min(4 * n, PHRASE_CANDIDATES),
        prompts=PHRASE_PROMPTS if n is None else min(n, PHRASE_PROMPTS),
        budget_seconds=seconds,
    )
    run = LearnedSuffix().begin(config, work.runs)
    run_suffix(config, dataset, work.judge, run, no_checkpoint)
    work.keep("suffix", run, search=name)


def _words(work: Work) -> int:
    return PHRASE_WORDS if work.limit is None else min(work.limit, PHRASE_WORDS)


def _defended(work: Work, dataset: Dataset, seconds: float | None) -> None:
    learned = tuple(f"suffix:{PHRASE}:{k}" for k in range(1, _words(work) + 1))
    attacks, defenses = (*learned, "suffix", *PROMPT_ATTACKS), (NONE, "human-anchors", "random-anchors")
    _scored(work, dataset, "defenses", {"attacks": attacks, "defenses": defenses}, seconds)


def _written(work: Work, dataset: Dataset, seconds: float | None) -> None:
    arms = {"attacks": (_phrase(work), "suffix"), "defenses": (NONE, *WRITTEN)}
    _scored(work, dataset, "written defenses", arms, seconds)


def _scored(work: Work, dataset: Dataset, search: str, arms: dict[str, Any], seconds: float | None) -> None:
    given = {"judge": work.spec, "data": dataset.dataset_id, "budget_seconds": seconds}
    config = ScoreConfig.model_validate(given | arms)
    run = create_run(work.runs, "score", config.model_dump(mode="json"))
    try:
        run_score(config, evaluation_side(dataset), work.judge, run, no_checkpoint)
    finally:
        work.keep("suffix", run, search=search)


def _phrase(work: Work) -> str:
    """The learned phrase at the length that figures compare: four words."""
    return f"suffix:{PHRASE}:{min(4, _words(work))}"


def _detected(work: Work, dataset: Dataset, seconds: float | None) -> None:
    config = DetectionConfig(data=dataset.dataset_id, suffixes=(_phrase(work), "suffix"), prompts=PROMPT_ATTACKS)
    run = PerplexityThreshold().begin(config, work.runs)
    guard = guard_for(make_planted("planted:constant"), work.settings)
    run_detection(config, dataset, guard, run, within(seconds))
    work.keep("detection", run)


def puaudit_parts(work: Work) -> list[Part]:
    """LLMBar and PandaLM's held-out prompts with the judge as encoder; LLMBar again, a transport for each subset."""
    llmbar, pandalm = llmbar_audited(work.data), pandalm_audited(work.data)
    pairs, by_type = f"LLMBar, {len(llmbar.comparisons)} pairs", "LLMBar, a transport for each subset"
    held_out = f"PandaLM, {len(pandalm.comparisons)} pairs of {len(pandalm.items)} held-out prompts"
    each = f"{pairs}, a transport for each subset"
    return [
        Part("puaudit, LLMBar", 3, partial(_audited, work, pairs, llmbar, False)),
        Part("puaudit, PandaLM", 3, partial(_audited, work, held_out, pandalm, False)),
        Part(f"puaudit, {by_type}", 1, partial(_audited, work, each, llmbar, True)),
    ]


def _audited(work: Work, name: str, found: Comparisons, within_type: bool, seconds: float | None) -> None:
    changes = {
        "judge": work.spec,
        "data": found.set_id,
        "encoders": work.encoders,
        "within_type": within_type,
        "umap": False,
        "bootstraps": 0,
        "p_ratios": (),
        "limit": None if work.limit is None else PAIRS_PER_LIMIT * work.limit,
        "budget_seconds": seconds,
    }
    *_, config = read_study("puaudit", work.settings.assets / "studies", changes)
    assert isinstance(config, AuditConfig)
    run = TransportAudit().begin(config, work.runs)
    run_transport_audit(config, found, work.judge, run, work.settings, no_checkpoint)
    work.keep("puaudit_bundled", run, data=name, judge=work.spec)


def protocols_parts(work: Work) -> list[Part]:
    """The demo's instructions as `study protocols` runs them, MT-bench, the IFEval ladder, LLMBar and PandaLM."""
    prompts = read_rule_prompts(work.data)
    demo = load_dataset("demo-instruction", work.settings.datasets)
    given: dict[str, tuple[float, Dataset, dict[str, Any]]] = {
        "MT-bench": (4, mtbench_judged(work.data, work.limit), {"copies": False}),
        # a part of the questions above, so every call is in the cache
        "MT-bench, clean questions": (0.2, mtbench_judged(work.data, work.limit, clean=True), {"copies": False}),
        "LLMBar": (2, llmbar_judged(work.data, work.limit), {"copies": False, "boards": ()}),
        "PandaLM": (2, pandalm_judged(work.data, work.limit), {"copies": False}),
    }

    def ladder(seconds: float | None) -> None:
        began = time.monotonic()
        seen = seen_in_training((p.prompt for p in prompts if p.side is Side.TEST), work.data)
        dataset = ladder_judged(prompts, load_model(work.tutor, work.settings), work.limit, seen)
        left = None if seconds is None else max(1.0, seconds - (time.monotonic() - began))
        _both_ways(
            work,
            dataset.name,
            dataset,
            ProtocolsConfig(judge=work.spec, data=dataset.dataset_id, placebos=MORE_PLACEBOS),
            left,
        )

    *_, config = read_study("protocols", work.settings.assets / "studies", {"judge": work.spec, "limit": work.limit})
    assert isinstance(config, ProtocolsConfig)
    parts = [Part("protocols, demo", 1, partial(_both_ways, work, "demo-instruction, six systems", demo, config))]
    for name, (share, dataset, changes) in given.items():
        given_to_all = {"judge": work.spec, "data": dataset.dataset_id, "placebos": MORE_PLACEBOS}
        own = ProtocolsConfig.model_validate(given_to_all | changes)
        parts.append(Part(f"protocols, {name}", share, partial(_both_ways, work, dataset.name, dataset, own)))
    return [*parts[:2], Part("protocols, IFEval ladder", 2, ladder), *parts[2:]]


def _both_ways(work: Work, name: str, dataset: Dataset, config: ProtocolsConfig, seconds: float | None) -> None:
    config = config.model_copy(update={"budget_seconds": seconds})
    run = create_run(work.runs, "protocols", config.model_dump())
    try:
        run_protocols(config, dataset, work.judge, run, work.settings, no_checkpoint)
    finally:
        work.keep("protocols", run, data=name, judge=work.spec)


STUDIES: dict[str, Callable[[Work], list[Part]]] = {
    "cap": cap_parts,
    "suffix": suffix_parts,
    "puaudit": puaudit_parts,
    "protocols": protocols_parts,
}
"""The studies, by what `--only` calls them; each reads its data at once and runs later."""

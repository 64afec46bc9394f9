"""`judgescope bench cap`: what CAP costs in seconds against the undefended judge, its anchors' writing included.

The recorded study's tutor, vectors and alphas write the two anchors of one evaluation context anew, and the judge reads
responses to it between them; nothing comes from a cache. Once 16 responses under 4 attacks share a context's anchors,
which is what the bar is for, and once a single clean response pays for them alone. Responses are the context's own
four, then those of other contexts: what stands in a response decides no time but by its length.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from engine.attacks.registry import make_attack
from engine.bench.base import causal_flops, device_name, matmul_rate, note, peak_bytes, reset_peak, synchronise
from engine.bench.steering import bandwidth, floor_bytes
from engine.core.errors import InputError
from engine.core.settings import Settings, get_settings
from engine.data.store import DEMO_DIALOGUE, load_dataset
from engine.defenses.anchors import AnchoredJudge, Anchors, GivenAnchors
from engine.defenses.writing import TUTOR
from engine.inference.llama import unsupported_reason
from engine.inference.prefix import trie_tokens
from engine.judges.base import Request, no_checkpoint
from engine.judges.labelled import CardJudge
from engine.judges.registry import make_judge
from engine.runs.folder import open_run
from engine.steering.vectors import SIDES, Side, Standards
from engine.studies.cap.contexts import divide
from engine.studies.cap.metrics import SHARED
from engine.studies.cap.study import CAP, CapConfig
from engine.studies.cap.tutor import Draft, Tutor, load_tutor, plain_prompt, steered_texts, stored_standards
from engine.studies.running import build_requests, with_attack

ATTACKS = ("dsi", "bed", "adaptive", "suffix")
MOST = 3.0
"""Seconds behind CAP over the undefended judge's, allowed where 16 responses under 4 attacks share the anchors."""


Result = TypeVar("Result")


class Spent(NamedTuple):
    """Wall and CPU seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Material:
    """The responses to judge and the writing of their anchors.

    Attributes:
        config: of the recorded study.
        standards: its vectors.
        alphas: its strength of each side.
        many: 16 responses to one context, each under 4 attacks.
        one: one of them, clean.
    """

    config: CapConfig
    standards: Standards
    alphas: dict[Side, float]
    many: list[Request]
    one: list[Request]


def add_cap(kinds: Any) -> None:
    """Add `bench cap` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("cap", help="seconds behind CAP, anchors written anew, against the undefended judge")
    one.add_argument("--judge", default="bundled:judge", metavar="SPEC", help="a judge with a model")
    one.add_argument("--repeats", type=int, default=3, metavar="N", help="times that each way is measured")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_cap_bench)


def run_cap_bench(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: the judge has no model, or a number is out of range.
    """
    if args.repeats < 1:
        raise InputError(f"--repeats is {args.repeats}; give at least 1.")
    settings = get_settings()
    judge = make_judge(args.judge, settings, cache=False)
    if not isinstance(judge, CardJudge):
        raise InputError(f"{args.judge} has no model to measure. Name a language model with --judge.")
    tutor = load_tutor(TUTOR, settings, cache=False)
    result = measure(judge, tutor, recorded_material(settings), args.repeats)
    print(table(result))
    return result


def recorded_material(settings: Settings) -> Material:
    """The recorded study's vectors and alphas, and responses to the first context that it wrote both anchors for."""
    run = open_run(settings.assets / "demo" / DEMO_DIALOGUE.removeprefix("demo-"), CAP)
    config, cap = CapConfig.model_validate(run.manifest()["config"]), run.manifest()["cap"]
    dataset = load_dataset(DEMO_DIALOGUE, settings.datasets)
    table = run.table("cap_anchors")
    written = table[(table["arm"] == CAP) & table["text"].fillna("").ne("")].groupby("item_id")["side"].nunique()
    context = next(r for r in divide(config, dataset).evaluation if written.get(r.item_id, 0) == len(SIDES))
    alphas: dict[Side, float] = {side: float(cap[f"alpha_{side}"]) for side in SIDES}
    return material(config, stored_standards(run), alphas, context, build_requests(dataset))


def material(
    config: CapConfig, standards: Standards, alphas: dict[Side, float], context: Request, requests: Sequence[Request]
) -> Material:
    """The responses, the context's own first, as responses to this context, clean and attacked.

    Raises:
        InputError: fewer than 16 different responses.
    """
    own = sorted(requests, key=lambda r: r.item_id != context.item_id)  # stable: the context's own come first
    texts = list(dict.fromkeys(r.response for r in own))[: SHARED[0]]
    if len(texts) < SHARED[0]:
        raise InputError(f"The data has {len(texts)} different responses; {SHARED[0]} are needed.")
    clean = [replace(context, response=text, response_id=f"r{k}") for k, text in enumerate(texts)]
    many = [with_attack(r, make_attack(a)) for r in clean for a in ATTACKS[: SHARED[1]]]
    return Material(config, standards, alphas, many, clean[:1])


def measure(judge: CardJudge, tutor: Tutor, made: Material, repeats: int) -> dict[str, Any]:
    """Time both ways for many responses and for one.

    Args:
        judge: without a cache.
        tutor: without a cache.
        made: the responses that are judged.
        repeats: turns; in each the ways alternate.

    Returns:
        JSON-ready; seconds are medians over the turns, ratios medians of the turns' own. `cpu_ratio` is of the
        process's CPU time, which other work on the machine changes less.

    Raises:
        InputError: the tutor wrote no text for an anchor.
    """
    _behind(judge, tutor, made, made.one)  # first calls load kernels
    judge.judge(made.one)
    rates = matmul_rate(judge.loaded), bandwidth(tutor.loaded)
    reset_peak(judge.device)
    found = {name: _turns(judge, tutor, made, asked, repeats, rates) for name, asked in _parts(made)}
    return {
        "judge": judge.spec,
        "tutor": tutor.loaded.spec,
        "device": device_name(judge.loaded),
        "dtype": judge.loaded.dtype,
        "responses": SHARED[0],
        "attacks": SHARED[1],
        **found,
        "most": MOST,
        "met": found["many"]["ratio"] <= MOST,
        "peak_bytes": peak_bytes(judge.device),
        "repeats": repeats,
    }


def _parts(made: Material) -> tuple[tuple[str, list[Request]], ...]:
    return ("many", made.many), ("one", made.one)


def _turns(
    judge: CardJudge, tutor: Tutor, made: Material, asked: list[Request], repeats: int, rates: tuple[float, float]
) -> dict[str, Any]:
    turns = []
    anchors = Anchors()
    drafts: list[Draft] = []

    def undefended() -> Spent:
        return _clocked(judge.device, lambda: judge.judge(asked))[1]

    for turn in range(repeats):
        bare = undefended() if turn % 2 == 0 else None
        drafts, anchors, writing, judging = _behind(judge, tutor, made, asked)
        bare = bare or undefended()
        turns.append(
            {
                "seconds_undefended": bare.wall,
                "seconds": writing.wall + judging.wall,
                "seconds_writing": writing.wall,
                "ratio": (writing.wall + judging.wall) / bare.wall,
                "cpu_seconds_undefended": bare.cpu,
                "cpu_seconds": writing.cpu + judging.cpu,
                "cpu_ratio": (writing.cpu + judging.cpu) / bare.cpu,
            }
        )
        note(f"{len(asked)} verdicts, turn {turn + 1} of {repeats}: {turns[-1]['ratio']:.2f}x")
    shown = [replace(r, anchor_low=anchors.low, anchor_high=anchors.high) for r in asked]
    return {
        "verdicts": len(asked),
        **{key: float(np.median([turn[key] for turn in turns])) for key in turns[0]},
        **_floors(judge, tutor, asked, shown, drafts, rates),
    }


def _behind(
    judge: CardJudge, tutor: Tutor, made: Material, asked: list[Request]
) -> tuple[list[Draft], Anchors, Spent, Spent]:
    """Write the two anchors, then judge between them: drafts, anchors, what writing and what judging took."""
    rows = [(asked[0], side, made.alphas[side]) for side in SIDES]
    drafts, writing = _clocked(
        tutor.loaded.device,
        lambda: steered_texts(tutor, judge, made.standards, rows, made.config, no_checkpoint),
    )
    texts = dict(zip(SIDES, (draft.text for draft in drafts), strict=True))
    if missing := [side for side, text in texts.items() if not text]:
        raise InputError(f"{tutor.loaded.spec} wrote no {missing[0]} anchor, so there is nothing to judge between.")
    anchors = Anchors(low=texts["low"], high=texts["high"])
    behind = AnchoredJudge(judge, CAP, GivenAnchors(CAP, {asked[0].item_id: anchors}))
    return drafts, anchors, writing, _clocked(judge.device, lambda: behind.judge(asked))[1]


def _clocked(device: str, run: Callable[[], Result]) -> tuple[Result, Spent]:
    synchronise(device)
    wall, cpu = time.perf_counter(), time.process_time()
    out = run()
    synchronise(device)
    return out, Spent(time.perf_counter() - wall, time.process_time() - cpu)


def _floors(
    judge: CardJudge,
    tutor: Tutor,
    asked: list[Request],
    shown: list[Request],
    drafts: list[Draft],
    rates: tuple[float, float],
) -> dict[str, Any]:
    """The least seconds at this machine's rates, and the tokens behind them.

    Judging: the arithmetic of its tokens, shared beginnings once. Writing: that of its prompt, and for each step one
    reading of the tutor's weights.
    """
    flops, bytes_per_second = rates
    tokens = {}
    for name, requests in (("undefended", asked), ("cap", shown)):
        tokens[name] = trie_tokens([tuple(judge.token_ids(r)) for r in requests])
    judging = {name: causal_flops(judge.loaded, n, len(asked)) / flops for name, n in tokens.items()}
    written = [draft.tokens for draft in drafts]
    prompt = len(tutor.ids(plain_prompt(asked[0])))
    steps = max(written) - prompt
    packed = floor_bytes(tutor.loaded, 0, steps) if not unsupported_reason(tutor.loaded) else 0
    writing = causal_flops(tutor.loaded, prompt, 1) / flops + steps * packed / bytes_per_second
    return {
        "tokens_undefended": tokens["undefended"],
        "tokens_cap": tokens["cap"] + sum(written),
        "anchor_tokens": [n - prompt for n in written],
        "floor_seconds_undefended": judging["undefended"],
        "floor_seconds": judging["cap"] + writing,
    }


def table(result: dict[str, Any]) -> str:
    """The result for reading."""
    lines = [
        f"{result['judge']} in {result['dtype']} on {result['device']}, anchors by {result['tutor']}, "
        f"{result['repeats']} x, no cache.",
        "",
        f"{'':<26} {'undefended':>10} {'floor':>7} {'behind CAP':>11} {'floor':>7} {'of it writing':>14} {'ratio':>7}",
        "-" * 87,
    ]
    many = f"{result['responses']} responses x {result['attacks']} attacks"
    for name, what in (("many", many), ("one", "one response")):
        one = result[name]
        lines.append(
            f"{what:<26} {one['seconds_undefended']:>8.3f} s {one['floor_seconds_undefended']:>5.2f} s "
            f"{one['seconds']:>9.3f} s {one['floor_seconds']:>5.2f} s {one['seconds_writing']:>12.3f} s "
            f"{one['ratio']:>6.2f}x"
        )
    bar = "met" if result["met"] else "not met"
    lines += [
        "",
        f"At most {result['most']:g}x is asked for where {many} share the anchors: {bar} "
        f"({result['many']['cpu_ratio']:.2f}x in CPU time). Peak memory {result['peak_bytes'] / 2**20:,.0f} MiB.",
    ]
    return "\n".join(lines)

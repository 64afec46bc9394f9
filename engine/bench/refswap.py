"""`judgescope bench refswap`: what RefSwap costs behind a verifier, in tokens and time, against the undefended one.

With the reference at the end of the prompt, a counterfactual shares everything before it with the first stage, so
that K of them cost a few tokens each. The plain form, where the reference stands before the response, is measured
beside it. So are K + 1 separate passes over the accepted samples, each in padded batches: what a verifier without
shared prefixes takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.bench.base import causal_flops, device_name, matmul_rate, peak_bytes, reset_peak
from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.core.settings import Settings, get_settings
from engine.data.store import DEMO_VERIFICATION, load_dataset
from engine.inference.prefix import trie_tokens
from engine.inference.scoring import Way, label_probabilities, label_tokens
from engine.judges.base import Request
from engine.judges.labelled import CardJudge
from engine.judges.registry import make_judge
from engine.studies.refswap.references import K_MAX
from engine.studies.refswap.run import Material, pool_of, prepare
from engine.studies.refswap.study import RefSwapConfig

FORMS = ("reference last", "")
MOST = 1.5
"""Tokens of an accepted sample with K = 5 over the undefended verifier's, allowed with the reference last."""


def add_refswap(kinds: Any) -> None:
    """Add `bench refswap` to the kinds of `judgescope bench`."""
    one = kinds.add_parser("refswap", help="tokens and time of RefSwap against the undefended verifier")
    one.add_argument("--judge", default="bundled:shortcut-verifier", metavar="SPEC", help="a verifier with a model")
    one.add_argument("--limit", type=int, default=20, metavar="N", help="only the first N responses")
    one.add_argument("--k", type=int, default=5, help="counterfactual references for each accepted sample")
    one.add_argument("--json", action="store_true", help="last line is one JSON object")
    one.set_defaults(run=run_refswap_bench)


def run_refswap_bench(args: argparse.Namespace) -> dict[str, Any]:
    """Measure both forms of the prompt, print, return the numbers.

    Raises:
        InputError: the judge has no model, accepts nothing, or a number is out of range.
    """
    for name, value in (("limit", args.limit), ("k", args.k)):
        if value < 1:
            raise InputError(f"--{name} is {value}; give at least 1.")
    if args.k > K_MAX:
        raise InputError(f"--k is {args.k}; at most {K_MAX} references are drawn.")
    settings = get_settings()
    forms = {form or "plain": measure(args.judge, form, args.k, args.limit, settings) for form in FORMS}
    for form, found in forms.items():
        print(
            f"{form:<16} {found['accepted']} of {found['samples']} accepted; tokens of an accepted sample "
            f"x{found['tokens_ratio']:.2f} (responses x{found['tokens_ratio_correct']:.2f}, keys "
            f"x{found['tokens_ratio_key']:.2f}), one prompt at a time x{found['tokens_ratio_alone']:.2f}; "
            f"time x{found['time_ratio']:.2f}; {args.k + 1} separate passes take {found['passes_ratio']:.2f} times "
            f"its {found['seconds_both_stages']:.2f} s, the floor is {found['floor_seconds']:.2f} s"
        )
    within = forms["reference last"]["tokens_ratio"] <= MOST
    print(f"With the reference last, at most x{MOST:g} is asked for: {'met' if within else 'not met'}.")
    return {
        "judge": args.judge,
        "device": forms["plain"]["device"],
        "k": args.k,
        "limit": args.limit,
        "forms": forms,
        "met": within,
    }


def measure(spec: str, form: str, k: int, limit: int, settings: Settings) -> dict[str, Any]:
    """Tokens and seconds of both stages for the samples that the first one accepts.

    Returns:
        JSON-ready. Ratios are against the first stage of the same samples: `tokens_ratio` counts what each sample's
        own prompts share once, `tokens_ratio_alone` counts every prompt whole, `time_ratio` is of wall times without
        a cache, `passes_ratio` is the time of K + 1 separate passes over that of both stages. The largest difference
        of a p(YES) between these two ways stands beside them.
    """
    judge = make_judge(spec, settings, cache=False)
    if not isinstance(judge, CardJudge):
        raise InputError(f"{spec} has no model to measure. Name a language model with --judge.")
    dataset = load_dataset(DEMO_VERIFICATION, settings.datasets)
    config = RefSwapConfig(judge=spec, data=DEMO_VERIFICATION, variant=form, k=k, k_max=k, limit=limit)
    material = prepare(config, dataset, pool_of(config.pool, dataset, settings))
    requests = [r for own in material.requests.values() for r in own]
    verdicts = judge.judge(requests)
    accepted = [r for r, v in zip(requests, verdicts, strict=True) if v.read and v.p_yes >= config.threshold]
    if not accepted:
        raise InputError(f"{spec} accepts none of the {len(requests)} samples, so there is nothing to check.")
    checks = {id(r): _swapped(r, material) for r in accepted}
    first, _ = _timed(judge, [accepted], None)
    reset_peak(judge.device)
    both, ours = _timed(judge, [[one for r in accepted for one in (r, *checks[id(r)])]], None)
    peak = peak_bytes(judge.device)
    passes, theirs = _timed(judge, list(zip(*((r, *checks[id(r)]) for r in accepted), strict=True)), "plain")
    by_sample = theirs.reshape(k + 1, len(accepted), -1).swapaxes(0, 1).reshape(ours.shape)
    every = [tuple(judge.token_ids(one)) for r in accepted for one in (r, *checks[id(r)])]
    work = causal_flops(judge.loaded, trie_tokens(every), len(every))
    return {
        "samples": len(requests),
        "accepted": len(accepted),
        **_tokens(judge, accepted, checks),
        "seconds_first_stage": first,
        "seconds_both_stages": both,
        "seconds_separate_passes": passes,
        "time_ratio": both / first,
        "passes_ratio": passes / both,
        "max_abs_difference": float(np.abs(ours - by_sample).max()),
        "floor_seconds": work / matmul_rate(judge.loaded),
        "peak_bytes": peak,
        "device": device_name(judge.loaded),
    }


def _swapped(request: Request, material: Material) -> list[Request]:
    texts = material.swaps[request.item_id]["other"]
    return [replace(request, reference=t, reference_id=f"other-{i}") for i, t in enumerate(texts, start=1)]


def _tokens(judge: CardJudge, accepted: Sequence[Request], checks: dict[int, list[Request]]) -> dict[str, float]:
    rows = []
    for request in accepted:
        prompts = [tuple(judge.token_ids(r)) for r in (request, *checks[id(request)])]
        rows.append((request.attack == NONE, len(prompts[0]), trie_tokens(prompts), sum(map(len, prompts))))

    def ratio(part: list[tuple[bool, int, int, int]], column: int) -> float:
        base = sum(row[1] for row in part)
        return sum(row[column] for row in part) / base if base else float("nan")

    return {
        "tokens_ratio": ratio(rows, 2),
        "tokens_ratio_correct": ratio([row for row in rows if row[0]], 2),
        "tokens_ratio_key": ratio([row for row in rows if not row[0]], 2),
        "tokens_ratio_alone": ratio(rows, 3),
    }


def _timed(judge: CardJudge, passes: Sequence[Sequence[Request]], way: Way | None) -> tuple[float, NDArray[np.float64]]:
    """Seconds of the passes, one after another, and the labels' probabilities in their order, (prompts, labels)."""
    asked = [[tuple(judge.token_ids(r)) for r in one] for one in passes]
    labels = label_tokens(judge.loaded.tokenizer, judge.labels(passes[0][0]))
    clock = time.perf_counter()
    found = [label_probabilities(judge.loaded, prompts, labels, way=way) for prompts in asked]
    return time.perf_counter() - clock, np.concatenate(found)

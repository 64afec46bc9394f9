"""`judgescope bench refswap`: what RefSwap costs behind a verifier, in tokens and time, against the undefended one.

With the reference at the end of the prompt, a counterfactual shares everything before it with the first stage, so
that K of them cost a few tokens each. The plain form, where the reference stands before the response, is measured
beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.data.store import DEMO_VERIFICATION, load_dataset
from engine.errors import InputError
from engine.judges.base import Request
from engine.judges.labelled import CardJudge
from engine.judges.registry import make_judge
from engine.models.trie import trie_tokens
from engine.schema import NONE
from engine.settings import Settings, get_settings
from engine.studies.refswap import Material, pool_of, prepare
from engine.studies.refswap_config import RefSwapConfig

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
    if args.limit < 1:
        raise InputError(f"--limit is {args.limit}; give at least 1.")
    settings = get_settings()
    forms = {form or "plain": measure(args.judge, form, args.k, args.limit, settings) for form in FORMS}
    for form, found in forms.items():
        print(
            f"{form:<16} {found['accepted']} of {found['samples']} accepted; tokens of an accepted sample "
            f"x{found['tokens_ratio']:.2f} (responses x{found['tokens_ratio_correct']:.2f}, keys "
            f"x{found['tokens_ratio_key']:.2f}), one prompt at a time x{found['tokens_ratio_alone']:.2f}; "
            f"time x{found['time_ratio']:.2f}"
        )
    within = forms["reference last"]["tokens_ratio"] <= MOST
    print(f"With the reference last, at most x{MOST:g} is asked for: {'met' if within else 'not met'}.")
    return {"judge": args.judge, "k": args.k, "limit": args.limit, "forms": forms, "met": within}


def measure(spec: str, form: str, k: int, limit: int, settings: Settings) -> dict[str, Any]:
    """Tokens and seconds of both stages for the samples that the first one accepts.

    Returns:
        JSON-ready. Ratios are against the first stage of the same samples: `tokens_ratio` counts what each sample's
        own prompts share once, `tokens_ratio_alone` counts every prompt whole, `time_ratio` is of wall times without
        a cache.
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
    first = _seconds(judge, accepted)
    both = _seconds(judge, [one for r in accepted for one in (r, *checks[id(r)])])
    return {
        "samples": len(requests),
        "accepted": len(accepted),
        **_tokens(judge, accepted, checks),
        "seconds_first_stage": first,
        "seconds_both_stages": both,
        "time_ratio": both / first,
        "device": judge.device,
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


def _seconds(judge: CardJudge, requests: Sequence[Request]) -> float:
    clock = time.perf_counter()
    judge.judge(requests)
    return time.perf_counter() - clock

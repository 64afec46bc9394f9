"""`judgescope bench suffix`: a step's candidates behind shared beginnings, against the plain loop.

Both ways score candidates on the training prompts of the demo search and must agree. The plain loop asks for one
candidate after the other, its prompts in one padded batch; it is measured on a part of the candidates. The gradients
that choose the candidates are measured too, with and without shared beginnings. The ways alternate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.attacks.suffix_search import PROBES, SuffixSearch, Vocabulary, vocabulary_of
from engine.bench.base import causal_flops, device_name, matmul_rate, note, peak_bytes, reset_peak
from engine.core.errors import InputError
from engine.core.schema import Protocol
from engine.core.settings import Settings, get_settings
from engine.data.store import load_dataset
from engine.inference.gradients import slot_gradients
from engine.inference.loading import LoadedModel
from engine.inference.prefix import trie_tokens
from engine.inference.scoring import way_for
from engine.judges.registry import make_judge
from engine.studies.suffix_targets import PromptCutter, inner_judge, split_requests

DATA = "demo-dialogue"
PLAIN_CANDIDATES = 6
PLAIN_GRADIENTS = 4
"""Candidates of the plain loop, and prompts differentiated whole, in each turn."""


def add_suffix(kinds: Any) -> None:
    """Add `bench suffix` to the kinds of `judgescope bench`."""
    suffix = kinds.add_parser("suffix", help="candidates of a suffix search behind shared beginnings and one by one")
    suffix.add_argument("--judge", default="bundled:judge", metavar="SPEC", help="the white-box judge")
    suffix.add_argument("--candidates", type=int, default=64, metavar="N", help="candidates of the step")
    suffix.add_argument("--prompts", type=int, default=8, metavar="N", help="training prompts")
    suffix.add_argument("--repeats", type=int, default=1, metavar="N", help="times that each way is measured")
    suffix.add_argument("--json", action="store_true", help="last line is one JSON object")
    suffix.set_defaults(run=run_bench_suffix)


def run_bench_suffix(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: a number below 1, or a judge that is no white box.
    """
    if min(args.candidates, args.prompts, args.repeats) < 1:
        raise InputError("--candidates, --prompts and --repeats take whole numbers of at least 1.")
    search, vocabulary, loaded = frozen_search(args.judge, args.prompts, get_settings())
    result = {"judge": args.judge, "data": DATA} | measure(search, vocabulary, loaded, args.candidates, args.repeats)
    print(table(result))
    return result


def frozen_search(spec: str, prompts: int, settings: Settings) -> tuple[SuffixSearch, Vocabulary, LoadedModel]:
    """The search of the first step on the demo dialogues, seed 0.

    Raises:
        InputError: the judge is no white box.
    """
    judge = make_judge(spec, settings, cache=False)
    loaded = inner_judge(judge).loaded
    split = split_requests(load_dataset(DATA, settings.datasets), Protocol.POINTWISE, prompts, 0.5, 0)
    vocabulary = vocabulary_of(loaded.tokenizer)
    cutter = PromptCutter(judge, split.train, vocabulary)
    return SuffixSearch(loaded, cutter.labels, cutter.targets, vocabulary, cutter.fits), vocabulary, loaded


def measure(
    search: SuffixSearch, vocabulary: Vocabulary, loaded: LoadedModel, candidates: int, repeats: int
) -> dict[str, Any]:
    """Time both ways of scoring and of differentiating.

    Args:
        search: the search whose training prompts are used.
        vocabulary: its words.
        loaded: its model.
        candidates: words scored, drawn at random; their number is what counts.
        repeats: turns; in each the ways alternate.

    Returns:
        JSON-ready; ratios are medians over the turns of times measured beside each other.
    """
    drawn = np.random.default_rng(1).choice(len(vocabulary.words), min(candidates, len(vocabulary.words)), False)
    words = [vocabulary.words[i] for i in drawn.tolist()]
    part = words[:PLAIN_CANDIDATES]
    sequences = [search.prompt(t, [w]) for w in words for t in search.targets]
    way = way_for(loaded, sequences)
    rate = matmul_rate(loaded)
    search.evaluate([part[:1]], way="plain")  # first calls load kernels
    reset_peak(loaded.device)
    turns = []
    for turn in range(repeats):
        turns.append(_turn(search, words, part, shared_first=turn % 2 == 0))
        note(f"turn {turn + 1} of {repeats}")
    tokens, computed = sum(map(len, sequences)), trie_tokens(sequences)
    floor = causal_flops(loaded, computed, len(sequences)) / rate
    mean = {k: float(np.median([t[k] for t in turns])) for k in turns[0]}
    return {
        "device": device_name(loaded),
        "dtype": loaded.dtype,
        "way": way,
        "candidates": len(words),
        "prompts": len(search.targets),
        "token_ratio": tokens / computed,
        "candidates_per_second": mean["shared"],
        "candidates_per_second_plain": mean["plain"],
        "wall_ratio_plain": float(np.median([t["shared"] / t["plain"] for t in turns])),
        "max_abs_difference": max(t["difference"] for t in turns),
        "gradients_per_second": mean["gradients"],
        "gradients_per_second_plain": mean["gradients_plain"],
        "gradient_ratio_plain": float(np.median([t["gradients"] / t["gradients_plain"] for t in turns])),
        "max_abs_gradient_difference": max(t["gradient_difference"] for t in turns),
        "floor_seconds": floor,
        "over_floor": len(words) / mean["shared"] / floor,
        "peak_bytes": peak_bytes(loaded.device),
        "repeats": repeats,
    }


def _turn(search: SuffixSearch, words: Sequence[str], part: Sequence[str], *, shared_first: bool) -> dict[str, float]:
    """Candidates and gradients per second of each way, and how far the numbers differ."""

    def together() -> Any:
        return search.evaluate([[w] for w in words])[0]

    def one_by_one() -> Any:
        return np.array([search.evaluate([[w]], way="plain")[0][0] for w in part])

    if shared_first:
        (fast, a), (slow, b) = _clocked(together), _clocked(one_by_one)
    else:
        (slow, b), (fast, a) = _clocked(one_by_one), _clocked(together)
    probes = list(words[:PROBES])
    (quick, own) = _clocked(lambda: search.gradients([], probes))
    few = search.targets[:PLAIN_GRADIENTS]
    prompts = [search.prompt(t, probes[:1]) for t in few]
    slots = [len(t.head) for t in few]
    worth = np.array([t.values for t in few])
    (whole, plain) = _clocked(lambda: slot_gradients(search.loaded, prompts, slots, search.labels, worth, share=False))
    return {
        "shared": len(words) / fast,
        "plain": len(part) / slow,
        "difference": float(np.nanmax(np.abs(a[: len(part)] - b))),
        "gradients": len(own) / quick,
        "gradients_plain": len(plain) / whole,
        "gradient_difference": float(np.abs(own[:: len(probes)][: len(few)] - plain).max()),
    }


def _clocked(run: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds, and what came out (as arrays, so the device is done)."""
    clock = time.perf_counter()
    out = run()
    return time.perf_counter() - clock, out


def table(result: dict[str, Any]) -> str:
    """The result for reading."""
    return "\n".join(
        [
            f"{result['candidates']} candidates on {result['prompts']} prompts, {result['repeats']} x; "
            f"{result['judge']} in {result['dtype']} on {result['device']}, way {result['way']}.",
            f"Token ratio {result['token_ratio']:.2f}.",
            "",
            f"{'':<24} {'shared':>10} {'plain':>10} {'ratio':>7}",
            "-" * 54,
            f"{'candidates per second':<24} {result['candidates_per_second']:>10.2f} "
            f"{result['candidates_per_second_plain']:>10.2f} {result['wall_ratio_plain']:>6.1f}x",
            f"{'gradients per second':<24} {result['gradients_per_second']:>10.2f} "
            f"{result['gradients_per_second_plain']:>10.2f} {result['gradient_ratio_plain']:>6.1f}x",
            "",
            f"{result['over_floor']:.1f}x the floor of {result['floor_seconds']:.2f} s for the candidates; largest "
            f"difference of an objective {result['max_abs_difference']:.1e}, of a gradient "
            f"{result['max_abs_gradient_difference']:.1e}; peak memory {result['peak_bytes'] / 2**20:,.0f} MiB.",
        ]
    )

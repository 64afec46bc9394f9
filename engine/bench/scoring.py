"""`judgescope bench scoring`: a frozen grid of judge prompts, scored with shared prefixes and in the plain ways.

The arms alternate, block by block, and every ratio is of times measured beside each other: on a CPU a block is the
prompts of a few responses, on a GPU the whole grid, so that its batches are full. One prompt at a time is measured
on a part of the prompts, spread over the grid, and scaled by their tokens.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.attacks.registry import make_attack
from engine.bench.base import causal_flops, device_name, matmul_rate, note, peak_bytes, reset_peak, synchronise
from engine.core.errors import InputError
from engine.core.settings import Settings, get_settings
from engine.data.store import load_dataset
from engine.defenses.base import unwrap
from engine.defenses.registry import defend
from engine.inference.loading import LoadedModel
from engine.inference.prefix import Tokens, trie_tokens
from engine.inference.scoring import LabelTokens, Way, label_probabilities, label_tokens
from engine.judges.labelled import CardJudge
from engine.judges.registry import make_judge
from engine.studies.running import build_requests, with_attack

# Models of larger shapes with random weights: how long scoring takes as the model grows, without any download.

SHAPES: dict[str, dict[str, int]] = {
    "1b": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "7b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
}
"""Llama configs of about so many parameters; the vocabulary is the measured judge's."""
WAYS: tuple[Way, ...] = ("shared", "plain")


def random_model(shape: str, like: LoadedModel) -> LoadedModel:
    """A Llama of this shape with random weights, on the device and in the precision of another model.

    Raises:
        InputError: no such shape.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    if shape not in SHAPES:
        raise InputError(f"{shape!r} is no shape; allowed: {', '.join(SHAPES)}.")
    config = LlamaConfig(vocab_size=len(like.tokenizer), max_position_embeddings=like.max_tokens, **SHAPES[shape])
    default = torch.get_default_dtype()
    torch.set_default_dtype(like.model.dtype)
    try:
        with torch.device(like.device):
            model: Any = LlamaForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(default)
    return replace(like, spec=f"random:{shape}", model=model, fingerprint=f"random-{shape}-{like.dtype}")


def model_growth(
    prompts: Sequence[Tokens], loaded: LoadedModel, labels: LabelTokens, shapes: Sequence[str]
) -> dict[str, Any]:
    """Seconds of the grid by model size, with shared prefixes and in padded batches.

    Args:
        prompts: that are scored.
        loaded: the bundled judge; the first size.
        labels: the answers.
        shapes: names of `SHAPES`.

    Returns:
        JSON-ready; `exponent` is the slope of log seconds over log parameters.
    """
    rows = []
    for name in ("", *shapes):
        model = random_model(name, loaded) if name else loaded
        for way in WAYS:  # first calls load kernels
            label_probabilities(model, prompts[:8], labels, way=way)
        reset_peak(model.device)
        row: dict[str, Any] = {"judge": model.spec, "parameters": sum(p.numel() for p in model.model.parameters())}
        for way in WAYS:
            synchronise(model.device)
            clock = time.perf_counter()
            label_probabilities(model, prompts, labels, way=way)
            synchronise(model.device)
            row["padded" if way == "plain" else way] = time.perf_counter() - clock
        rows.append(row | {"ratio": row["padded"] / row["shared"], "peak_bytes": peak_bytes(model.device)})
        note(f"{model.spec}: shared {row['shared']:.2f} s, padded {row['padded']:.2f} s")
    sizes = np.log([row["parameters"] for row in rows])
    slopes = {way: float(np.polyfit(sizes, np.log([row[way] for row in rows]), 1)[0]) for way in ("shared", "padded")}
    return {"models": rows, "exponent": slopes}


GRID = "bench_scoring.toml"
RESPONSES_PER_BLOCK = 4
SINGLES = 24
"""Prompts of a block asked one at a time: one in so many."""


class Grid(BaseModel):
    """Prompts to score."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bench: str = "scoring"
    judge: str
    data: str
    responses: int = Field(ge=1)
    attacks: tuple[str, ...]
    defenses: tuple[str, ...]


@dataclass(frozen=True)
class Timed:
    """One block, each arm measured once: wall and processor seconds, and the largest difference of a probability."""

    prompts: tuple[Tokens, ...]
    shared: float
    padded: float
    single: float
    shared_cpu: float
    padded_cpu: float
    difference: float


def add_scoring(kinds: Any) -> None:
    """Add `bench scoring` to the kinds of `judgescope bench`."""
    scoring = kinds.add_parser("scoring", help="shared prefixes against padded batches and single prompts")
    scoring.add_argument("--judge", metavar="SPEC", help="another judge than the grid's")
    scoring.add_argument("--limit", type=int, metavar="N", help="only the first N responses")
    scoring.add_argument("--repeats", type=int, default=1, metavar="N", help="times that every block is measured")
    scoring.add_argument("--growth", type=int, nargs="+", default=[], metavar="N", help="also time so many items")
    scoring.add_argument(
        "--shapes", nargs="+", default=[], choices=SHAPES, help="also time random models of these sizes (GPU)"
    )
    scoring.add_argument("--float32", action="store_true", help="in float32 also on a GPU, to compare the numbers")
    scoring.add_argument("--json", action="store_true", help="last line is one JSON object")
    scoring.set_defaults(run=run_scoring)


def run_scoring(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: the grid file is wrong, the judge has no model, or a number is not positive.
    """
    if min([args.repeats, *([args.limit] if args.limit is not None else []), *args.growth]) < 1:
        raise InputError("--limit, --repeats and --growth take whole numbers of at least 1.")
    settings = get_settings()
    grid = read_grid(settings.assets / "studies" / GRID)
    grid = grid.model_copy(update={"judge": args.judge or grid.judge, "responses": args.limit or grid.responses})
    blocks, loaded, labels = grid_prompts(grid, settings)
    if args.float32 and loaded.dtype != "float32":
        loaded = replace(
            loaded, model=loaded.model.float(), dtype="float32", fingerprint=f"{loaded.fingerprint}-float32"
        )
    if loaded.device != "cpu":
        blocks = [[prompt for block in blocks for prompt in block]]
    result = measure(blocks, loaded, labels, args.repeats)
    if args.growth:
        result["growth"] = growth([p for block in blocks for p in block], loaded, labels, args.growth)
    if args.shapes:
        result["model_growth"] = model_growth([p for b in blocks for p in b], loaded, labels, args.shapes)
    print(table(result))
    return result


def read_grid(path: Path) -> Grid:
    """Read a grid file.

    Raises:
        InputError: unreadable or wrong; the message names the field.
    """
    try:
        return Grid.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise InputError(f"The grid file {path.name} cannot be used: {error}.") from None


def grid_prompts(grid: Grid, settings: Settings) -> tuple[list[list[Tokens]], LoadedModel, LabelTokens]:
    """The prompts of all arms of a few responses at a time, and the model that is to score them.

    Raises:
        InputError: the judge has no model of its own.
    """
    judge = make_judge(grid.judge, settings, cache=False)
    if not isinstance(judge, CardJudge):
        raise InputError(f"{grid.judge} has no model to measure. Name a language model with --judge.")
    requests = build_requests(load_dataset(grid.data, settings.datasets))[: grid.responses]
    attacks = [make_attack(name) for name in grid.attacks]
    judges = [defend(judge, name) for name in grid.defenses]
    blocks = []
    for start in range(0, len(requests), RESPONSES_PER_BLOCK):
        arms = [with_attack(r, a) for r in requests[start : start + RESPONSES_PER_BLOCK] for a in attacks]
        blocks.append([tuple(judge.token_ids(r)) for defended in judges for r in unwrap(defended, arms)[1]])
    return blocks, judge.loaded, label_tokens(judge.loaded.tokenizer, judge.labels(requests[0]))


def measure(
    blocks: Sequence[Sequence[Tokens]], loaded: LoadedModel, labels: LabelTokens, repeats: int = 1
) -> dict[str, Any]:
    """Time all arms.

    Args:
        blocks: prompts; the arms alternate between blocks.
        loaded: the model.
        labels: the answers scored.
        repeats: times each block is measured.

    Returns:
        JSON-ready; ratios are medians over blocks and repeats, seconds are sums over the blocks (medians over the
        repeats).
    """
    rate = matmul_rate(loaded)
    for way in ("plain", "shared"):  # first calls load kernels
        label_probabilities(loaded, blocks[0][:4], labels, way=way)
    reset_peak(loaded.device)
    seen: list[list[Timed]] = []
    for turn in range(repeats):
        seen.append([])
        for k, block in enumerate(blocks):
            seen[-1].append(_block(block, loaded, labels, shared_first=(turn + k) % 2 == 0))
            note(f"repeat {turn + 1} of {repeats}, block {k + 1} of {len(blocks)}")
    every = [timed for one in seen for timed in one]
    prompts = [p for block in blocks for p in block]
    tokens, trie = sum(map(len, prompts)), trie_tokens(prompts)
    computed = sum(trie_tokens(block) for block in blocks)
    floor = causal_flops(loaded, computed, len(prompts)) / rate
    seconds = {
        arm: sum(float(np.median([getattr(one[k], arm) for one in seen])) for k in range(len(blocks)))
        for arm in ("shared", "padded", "single")
    }
    return {
        "device": device_name(loaded),
        "judge": loaded.spec,
        "dtype": loaded.dtype,
        "prompts": len(prompts),
        "prompt_tokens": tokens,
        "trie_tokens": trie,
        "token_ratio": tokens / trie,
        "token_ratio_in_blocks": tokens / computed,
        "wall_ratio_padded": float(np.median([t.padded / t.shared for t in every])),
        "wall_ratio_single": float(np.median([t.single / t.shared for t in every])),
        "cpu_ratio_padded": float(np.median([t.padded_cpu / t.shared_cpu for t in every])),
        "max_abs_difference": max(t.difference for t in every),
        "seconds": seconds,
        "prompt_tokens_per_second": {arm: tokens / s for arm, s in seconds.items()},
        "matmul_flops": rate,
        "floor_seconds": floor,
        "over_floor": seconds["shared"] / floor,
        "peak_bytes": peak_bytes(loaded.device),
        "repeats": repeats,
        "blocks": len(blocks),
    }


def _block(block: Sequence[Tokens], loaded: LoadedModel, labels: LabelTokens, *, shared_first: bool) -> Timed:
    def run(way: Way) -> tuple[float, float, Any]:
        return _clocked(lambda: label_probabilities(loaded, block, labels, way=way))

    order: tuple[Way, Way] = ("shared", "plain") if shared_first else ("plain", "shared")
    found = {way: run(way) for way in order}
    part = block[:: max(1, min(SINGLES, len(block) // 2))]
    single = _clocked(lambda: [label_probabilities(loaded, [p], labels, way="plain") for p in part])[0]
    scale = sum(map(len, block)) / sum(map(len, part))
    (shared, shared_cpu, a), (padded, padded_cpu, b) = found["shared"], found["plain"]
    return Timed(tuple(block), shared, padded, single * scale, shared_cpu, padded_cpu, float(np.abs(a - b).max()))


def growth(prompts: Sequence[Tokens], loaded: LoadedModel, labels: LabelTokens, sizes: Sequence[int]) -> dict[str, Any]:
    """Seconds for so many items, and the exponent of a power law through them (wall and processor time).

    An item is a prompt of the grid behind a beginning of its own (one token of the vocabulary, so that items share
    nothing), with two endings.
    """
    half = min(map(len, prompts)) // 2
    seconds, cpu = [], []
    for n in sizes:
        rng = np.random.default_rng(0)
        heads = rng.integers(0, len(loaded.tokenizer), size=(n, 2)).tolist()
        own = [(*heads[i], *prompts[i % len(prompts)]) for i in range(n)]
        asked = [p for one in own for p in (one, one[:-half] + one[-half // 2 :])]
        wall, own_cpu, _ = _clocked(lambda asked=asked: label_probabilities(loaded, asked, labels))  # type: ignore[misc]
        seconds.append(wall)
        cpu.append(own_cpu)
        note(f"growth: {n} items in {wall:.1f} s")
    return {
        "items": list(sizes),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "exponent": _exponent(sizes, seconds),
        "cpu_exponent": _exponent(sizes, cpu),
    }


def _exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) if len(set(sizes)) > 1 else float("nan")


def _clocked(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall seconds, processor seconds of all threads, and what came out (as arrays, so the device is done)."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = run()
    return time.perf_counter() - wall, time.process_time() - cpu, out


def table(result: dict[str, Any]) -> str:
    """The result for reading."""
    seconds, pace = result["seconds"], result["prompt_tokens_per_second"]
    lines = [
        f"{result['prompts']} prompts, {result['prompt_tokens']:,} tokens; their trie has {result['trie_tokens']:,}: "
        f"token ratio {result['token_ratio']:.2f} ({result['token_ratio_in_blocks']:.2f} within the blocks).",
        f"{result['judge']} in {result['dtype']} on {result['device']}; {result['blocks']} blocks, each measured "
        f"{result['repeats']} x.",
        "",
        f"{'way':<26} {'seconds':>9} {'prompt tokens/s':>16}",
        "-" * 53,
    ]
    names = {"shared": "shared prefixes", "padded": "padded batches", "single": "one at a time (scaled)"}
    lines += [f"{name:<26} {seconds[arm]:>9.2f} {pace[arm]:>16,.0f}" for arm, name in names.items()]
    lines += [
        f"{'floor of the trie':<26} {result['floor_seconds']:>9.2f}",
        "",
        f"Gain over padded batches {result['wall_ratio_padded']:.2f}x (processor time "
        f"{result['cpu_ratio_padded']:.2f}x), over one at a time {result['wall_ratio_single']:.2f}x; "
        f"{result['over_floor']:.1f}x the floor at "
        f"{result['matmul_flops'] / 1e12:.2f} TFLOP/s.",
        f"Largest difference of a probability {result['max_abs_difference']:.1e}; peak memory "
        f"{result['peak_bytes'] / 2**20:,.0f} MiB.",
    ]
    if grown := result.get("growth"):
        pairs = ", ".join(f"{n}: {s:.1f} s" for n, s in zip(grown["items"], grown["seconds"], strict=True))
        lines.append(
            f"Growth with the items: {pairs}; exponent {grown['exponent']:.2f} (processor time "
            f"{grown['cpu_exponent']:.2f})."
        )
    if sizes := result.get("model_growth"):
        lines += [
            f"{row['judge']}: {row['parameters'] / 1e6:,.0f} M parameters, shared {row['shared']:.2f} s, padded "
            f"{row['padded']:.2f} s, gain {row['ratio']:.2f}x, peak {row['peak_bytes'] / 2**30:.1f} GiB."
            for row in sizes["models"]
        ]
        lines.append(f"Growth with the parameters: exponent {sizes['exponent']['shared']:.2f} with shared prefixes.")
    return "\n".join(lines)

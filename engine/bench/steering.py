"""`judgescope bench steering`: a steering sweep in our decode loop and in the library's generate with the same hook.

Prompts are windows of one length over the demo contexts, so that generate needs no padding, and no text ends early:
both write the same number of tokens. The vectors are random (they decide what is written, not how long it takes).
A sweep of generate is measured on a few of its alphas and scaled by their number.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from engine.bench.base import device_name, note, peak_bytes, reset_peak, synchronise
from engine.core.errors import InputError
from engine.core.settings import Settings, get_settings
from engine.data.store import DEMO_NAMES, load_dataset
from engine.inference.chat import encode_text
from engine.inference.llama import Row, Session, fused_forward, slots_for, unsupported_reason, way_for
from engine.inference.loading import LoadedModel, load_model
from engine.steering.activations import blocks, steered
from engine.steering.vectors import Edit, Editor, Side, Standards, edit_of

PROMPT_TOKENS = 128
SIDES: tuple[Side, ...] = ("high", "low")
CPU_TURNS = 3
"""Times that each arm writes on a CPU, where others may be at work too; the best time of each counts."""
NO_END: frozenset[int] = frozenset()


def add_steering(kinds: Any) -> None:
    """Add `bench steering` to the kinds of `judgescope bench`."""
    steering = kinds.add_parser("steering", help="a batched steering sweep against the library's generate with a hook")
    steering.add_argument("--tutor", default="bundled:base", metavar="SPEC", help="the model that is steered")
    steering.add_argument("--alphas", type=int, metavar="N", help="strengths of the sweep (GPU 21, CPU 3)")
    steering.add_argument("--contexts", type=int, metavar="N", help="contexts of the sweep (GPU 32, CPU 4)")
    steering.add_argument("--tokens", type=int, metavar="N", help="tokens written for each row (GPU 64, CPU 24)")
    steering.add_argument(
        "--plain-runs", type=int, default=2, metavar="N", help="alphas of the sweep given to generate"
    )
    steering.add_argument("--json", action="store_true", help="last line is one JSON object")
    steering.set_defaults(run=run_steering)


def run_steering(args: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, return it.

    Raises:
        InputError: a number below 1, or a tutor that our loop cannot decode.
    """
    settings = get_settings()
    loaded = load_model(args.tutor, settings)
    if reason := unsupported_reason(loaded):
        raise InputError(f"{args.tutor} is decoded through its own modules ({reason}), so there is nothing to compare.")
    gpu = loaded.device != "cpu"
    sizes = {
        "alphas": (21 if gpu else 3) if args.alphas is None else args.alphas,
        "contexts": (32 if gpu else 4) if args.contexts is None else args.contexts,
        "tokens": (64 if gpu else 24) if args.tokens is None else args.tokens,
        "plain_runs": args.plain_runs,
    }
    if min(sizes.values()) < 1:
        raise InputError("--alphas, --contexts, --tokens and --plain-runs take whole numbers of at least 1.")
    result = measure(loaded, settings, **sizes)
    print(table(result))
    return result


def measure(
    loaded: LoadedModel, settings: Settings, *, alphas: int, contexts: int, tokens: int, plain_runs: int
) -> dict[str, Any]:
    """All measurements, JSON-ready.

    Args:
        loaded: the tutor.
        settings: where the demo data are.
        alphas: strengths of each direction.
        contexts: prompts of the sweep.
        tokens: tokens of every row.
        plain_runs: pairs of alpha and direction that generate writes.
    """
    prompts = windows(loaded, settings, contexts)
    standards = _standards(loaded)
    pairs: list[tuple[Side, float]] = [(s, float(a)) for s in SIDES for a in np.linspace(0, 4000, alphas)]
    _generate(loaded, prompts[:1], edit_of(standards, pairs[:1]), 2)  # first calls load kernels
    batch_sizes = (1, 64 if loaded.device != "cpu" else 16)
    steps = [_steps(loaded, prompts, standards, rows, tokens) for rows in batch_sizes]
    return {
        "tutor": loaded.spec,
        "device": device_name(loaded),
        "dtype": loaded.dtype,
        "prompt_tokens": PROMPT_TOKENS,
        "tokens": tokens,
        "steps": steps,
        "sweep": _sweep(loaded, prompts, standards, pairs, tokens, plain_runs),
        "bandwidth_bytes_per_second": (rate := bandwidth(loaded)),
        "floor_ms": [floor_bytes(loaded, rows, tokens) / rate * 1000 for rows in batch_sizes],
    }


def windows(loaded: LoadedModel, settings: Settings, count: int) -> list[list[int]]:
    """Prompts of `PROMPT_TOKENS` tokens each, cut from the demo contexts one after the other."""
    text = "\n\n".join(
        context for name in DEMO_NAMES for context in load_dataset(name, settings.datasets).items["context"].dropna()
    )
    ids = encode_text(loaded.tokenizer, text)
    step = max(1, min(PROMPT_TOKENS, (len(ids) - PROMPT_TOKENS) // count))
    return [ids[k * step : k * step + PROMPT_TOKENS] for k in range(count)]


def _standards(loaded: LoadedModel) -> Standards:
    width = int(loaded.model.config.get_text_config().hidden_size)
    high, low = np.random.default_rng(0).normal(size=(2, width))
    return Standards(max(1, len(blocks(loaded)) // 2), high, low, float(np.sqrt(width)))


def _steps(
    loaded: LoadedModel, prompts: Sequence[list[int]], standards: Standards, rows: int, tokens: int
) -> dict[str, Any]:
    """Milliseconds of one step of a batch, in our loop and in generate, and whether they wrote the same."""
    chosen = [prompts[k % len(prompts)] for k in range(rows)]
    edit = edit_of(standards, [(SIDES[k % 2], 500.0 * (k % 5)) for k in range(rows)])
    reset_peak(loaded.device)
    session, made = _clocked(loaded, lambda: _session(loaded, chosen, [Row(k) for k in range(rows)], tokens, edit))
    own_turns, plain_turns = [], []
    ours: list[list[int]] = []
    plain: list[list[int]] = []
    for _ in range(1 if loaded.device != "cpu" else CPU_TURNS):  # in turns, so that both meet the same neighbours
        (ours, _), spent = _clocked(loaded, lambda: session.run(NO_END))
        own_turns.append(spent)
        plain, spent = _clocked(loaded, lambda: _generate(loaded, chosen, edit, tokens))
        plain_turns.append(spent)
    seconds, plain_seconds = min(own_turns), min(plain_turns)
    peak = peak_bytes(loaded.device)
    note(f"batch {rows}: {1000 * seconds / tokens:.2f} ms a step, generate {1000 * plain_seconds / tokens:.2f}")
    return {
        "rows": rows,
        "ms_per_step": 1000 * seconds / tokens,
        "ms_per_step_generate": 1000 * plain_seconds / tokens,
        "ratio": plain_seconds / seconds,
        "tokens_per_second": rows * tokens / seconds,
        "setup_seconds": made,
        "same_rows": float(np.mean([a == b for a, b in zip(ours, plain, strict=True)])),
        "same_tokens_before_first_difference": float(
            np.mean([_common(a, b) for a, b in zip(ours, plain, strict=True)])
        ),
        "peak_bytes": peak,
    }


def _sweep(
    loaded: LoadedModel,
    prompts: Sequence[list[int]],
    standards: Standards,
    pairs: Sequence[tuple[Side, float]],
    tokens: int,
    plain_runs: int,
) -> dict[str, Any]:
    """Seconds of all alphas, directions and contexts as rows of one batch, and of generate pair by pair."""
    rows = [Row(k) for _ in pairs for k in range(len(prompts))]
    edit = edit_of(standards, [pair for pair in pairs for _ in prompts])
    reset_peak(loaded.device)
    session, made = _clocked(loaded, lambda: _session(loaded, prompts, rows, tokens, edit))
    _, written = _clocked(loaded, lambda: session.run(NO_END))
    peak = peak_bytes(loaded.device)
    chosen = [pairs[k] for k in np.linspace(0, len(pairs) - 1, min(plain_runs, len(pairs))).astype(int)]
    seconds = []
    for pair in chosen:
        own = edit_of(standards, [pair] * len(prompts))
        seconds.append(_clocked(loaded, lambda own=own: _generate(loaded, prompts, own, tokens))[1])  # type: ignore[misc]
    plain = float(np.mean(seconds)) * len(pairs)
    return {
        "rows": len(rows),
        "seconds": made + written,
        "setup_seconds": made,
        "seconds_generate": plain,
        "generate_measured": len(chosen),
        "generate_scaled_to": len(pairs),
        "ratio": plain / (made + written),
        "tokens_per_second": len(rows) * tokens / (made + written),
        "peak_bytes": peak,
    }


def _session(
    loaded: LoadedModel, prompts: Sequence[list[int]], rows: Sequence[Row], tokens: int, edit: Edit
) -> Session:
    import torch

    with torch.inference_mode():
        session = Session(fused_forward(loaded), prompts, rows, tokens, Editor(edit, loaded.device))
        if loaded.device != "cpu":
            session.capture()
    return session


def _generate(loaded: LoadedModel, prompts: Sequence[list[int]], edit: Edit | None, tokens: int) -> list[list[int]]:
    """Texts of the library with the hook in place; no end token, so that every row has its tokens."""
    import torch
    from transformers import GenerationConfig

    config = GenerationConfig(max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)
    ids = torch.tensor(prompts, device=loaded.device)
    with torch.inference_mode(), steered(loaded, edit) if edit else nullcontext():
        out = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    return [row[len(prompts[0]) :] for row in out.tolist()]


def bandwidth(loaded: LoadedModel) -> float:
    """Bytes per second of reading memory: the best of several sums over a large array."""
    import torch

    gpu = loaded.device != "cpu"
    array = torch.ones((1 << 28) if gpu else (1 << 26), dtype=torch.float32, device=loaded.device)
    return float(array.nbytes / min(_clocked(loaded, array.sum)[1] for _ in range(5)))


def floor_bytes(loaded: LoadedModel, rows: int, tokens: int) -> int:
    """Bytes a step must read: every weight once (the input embedding is only looked up), and the rows' cache."""
    model = fused_forward(loaded)
    embedded = 0 if model.head is model.embedding else model.embedding.nbytes
    weights = sum(p.nbytes for p in loaded.model.parameters()) - embedded
    if way_for(model, tokens) == "packed" and model.packed:
        weights = model.packed.nbytes
    slots = slots_for([[0] * PROMPT_TOKENS], tokens)
    held = 2 * len(model.layers) * model.kv_heads * slots * model.width * loaded.model.dtype.itemsize
    return int(weights + rows * held)


def _common(a: list[int], b: list[int]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), len(a))


def _clocked(loaded: LoadedModel, run: Callable[[], Any]) -> tuple[Any, float]:
    synchronise(loaded.device)
    clock = time.perf_counter()
    import torch

    with torch.inference_mode():
        out = run()
    synchronise(loaded.device)
    return out, time.perf_counter() - clock


def table(result: dict[str, Any]) -> str:
    """The result for reading."""
    sweep = result["sweep"]
    lines = [
        f"{result['tutor']} in {result['dtype']} on {result['device']}; prompts of {result['prompt_tokens']} tokens, "
        f"{result['tokens']} tokens written.",
        "",
        f"{'batch':>6} {'ms a step':>10} {'floor':>8} {'generate':>10} {'ratio':>7} {'tokens/s':>10} {'same rows':>10} "
        f"{'peak MiB':>9}",
        "-" * 77,
    ]
    for one, floor in zip(result["steps"], result["floor_ms"], strict=True):
        lines.append(
            f"{one['rows']:>6} {one['ms_per_step']:>10.2f} {floor:>8.2f} {one['ms_per_step_generate']:>10.2f} "
            f"{one['ratio']:>6.1f}x {one['tokens_per_second']:>10,.0f} {one['same_rows']:>10.2f} "
            f"{one['peak_bytes'] / 2**20:>9,.0f}"
        )
    lines += [
        "",
        f"Sweep of {sweep['rows']:,} rows: {sweep['seconds']:.2f} s ({sweep['setup_seconds']:.2f} s of it reading the "
        f"prompts and recording the graph), generate {sweep['seconds_generate']:.1f} s (measured on "
        f"{sweep['generate_measured']} of {sweep['generate_scaled_to']} pairs of alpha and direction, scaled): "
        f"{sweep['ratio']:.1f}x; {sweep['tokens_per_second']:,.0f} tokens/s, peak "
        f"{sweep['peak_bytes'] / 2**20:,.0f} MiB.",
    ]
    return "\n".join(lines)

"""`judgescope bench scoring --llama-cpp PROGRAM`: the grid behind llama.cpp's server with prompt caching.

The server reads the base's own 4-bit file (ours are the same weights, dequantised) with the judge's adapter laid over
it, gets the very same token ids on as many threads as torch has, and answers one token with the probabilities of the
likeliest. Every pass starts on a fresh server, since it keeps prompts and would know the second time; starting is not
counted. What it likes best (the grid's order or sorted prompts, one slot or several) is found on the first block.
Both sides measure in turns.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
from numpy.typing import NDArray

from engine.bench.base import note
from engine.core.errors import InputError, ModelError
from engine.core.settings import Settings
from engine.inference.loading import LoadedModel
from engine.inference.prefix import Tokens
from engine.inference.scoring import LabelTokens, label_probabilities
from engine.inference.weights import base_record, find_gguf
from engine.studies.llama_adapter import write_adapter
from engine.studies.llama_server import ANSWER_S, complete, llama_server, require_vocabulary, version_of

LISTED = 20
"""Likeliest tokens asked for with each answer; more where the labels have more spellings."""
ROOM = 64
"""Tokens of a slot beyond its longest prompt."""


@dataclass(frozen=True)
class Setting:
    """How the prompts are sent: in which order, and over how many slots (each gets neighbours)."""

    order: Literal["grid", "sorted"]
    slots: int


SETTINGS = (Setting("grid", 1), Setting("sorted", 1), Setting("sorted", 4))


@dataclass(frozen=True)
class Program:
    """What is started: llama.cpp's server, its weights, the adapter (None for the base alone) and its threads."""

    path: Path
    gguf: Path
    adapter: Path | None
    threads: int
    vocabulary: int


@dataclass(frozen=True)
class Pass:
    """One pass over some prompts.

    Attributes:
        seconds: from the first request to the last answer.
        cpu_seconds: of the server, all threads.
        sent: prompt tokens of all prompts.
        computed: prompt tokens it says it computed (the others were in its cache).
        peak_bytes: most memory of the server.
        probabilities: (N, L), of the labels; NaN where no spelling of a label is among the likeliest tokens.
        least: the smallest probability listed, a bound on what is not listed.
    """

    seconds: float
    cpu_seconds: float
    sent: int
    computed: int
    peak_bytes: int
    probabilities: NDArray[np.float64]
    least: float


def require_llama_cpp(path: Path, loaded: LoadedModel, labels: LabelTokens) -> str:
    """Make sure, before anything is measured, that a comparison can be made; returns the program's version.

    Raises:
        InputError: no such program, a judge that is not bundled, labels of several tokens, or a GPU.
    """
    if loaded.device != "cpu" or labels.sequences or not loaded.spec.startswith("bundled:"):
        raise InputError(
            "--llama-cpp compares a bundled judge with labels of one token, on a CPU (JUDGESCOPE_DEVICE=cpu); this is "
            f"{loaded.spec} on {loaded.device}."
        )
    return version_of(path)


def measure_llama_cpp(
    path: Path,
    blocks: Sequence[Sequence[Tokens]],
    loaded: LoadedModel,
    labels: LabelTokens,
    settings: Settings,
    repeats: int = 1,
) -> dict[str, Any]:
    """Time llama.cpp's server and our shared prefixes in turns, block by block, so many times.

    Returns:
        JSON-ready: `wall_ratio_llama_cpp` (median over blocks and repeats, above 1 where we are faster), the same of
        processor time, the same against the base without the adapter, and `llama_cpp` with what was measured.

    Raises:
        InputError: what `require_llama_cpp` raises.
        ModelError: the server cannot be used; the message says why.
    """
    import torch

    version = require_llama_cpp(path, loaded, labels)
    gguf = find_gguf(settings, base_record(settings.assets / "judge"))
    with tempfile.TemporaryDirectory() as scratch:
        folder, adapter = settings.assets / loaded.spec.removeprefix("bundled:"), None
        if (folder / "adapter_model.safetensors").exists():
            write_adapter(folder, loaded.model.config, adapter := Path(scratch) / "adapter.gguf")
        program = Program(path, gguf, adapter, torch.get_num_threads(), len(loaded.tokenizer))
        tried = {one: run_pass(program, blocks[0], labels, one) for one in SETTINGS}
        best = min(tried, key=lambda one: tried[one].seconds)
        label_probabilities(loaded, blocks[0][:4], labels)  # first calls load kernels
        turns = [_turn(program, block, loaded, labels, best, k) for k, block in enumerate([*blocks] * repeats)]
    return _summary(turns) | {
        "llama_cpp": _facts(turns, program, best, repeats)
        | {"version": version, "tried": [_tried(one, of_it) for one, of_it in tried.items()]}
    }


@dataclass(frozen=True)
class Turn:
    """One block: our seconds, processor seconds and probabilities, the server's pass, and one without the adapter."""

    ours: float
    ours_cpu: float
    probabilities: NDArray[np.float64]
    theirs: Pass
    base: Pass


def _turn(
    program: Program, block: Sequence[Tokens], loaded: LoadedModel, labels: LabelTokens, best: Setting, k: int
) -> Turn:
    def ours() -> tuple[float, float, NDArray[np.float64]]:
        wall, cpu = time.perf_counter(), time.process_time()
        found = label_probabilities(loaded, block, labels)
        return time.perf_counter() - wall, time.process_time() - cpu, np.asarray(found, dtype=np.float64)

    first = ours() if k % 2 == 0 else None
    theirs = run_pass(program, block, labels, best)
    seconds, cpu, found = first or ours()
    alone = Program(program.path, program.gguf, None, program.threads, program.vocabulary)
    base = run_pass(alone, block, labels, best) if program.adapter else theirs
    note(f"llama.cpp, block {k + 1}: {theirs.seconds:.1f} s, ours {seconds:.1f} s")
    return Turn(seconds, cpu, found, theirs, base)


def run_pass(program: Program, prompts: Sequence[Tokens], labels: LabelTokens, setting: Setting) -> Pass:
    """Ask a fresh server all prompts.

    Raises:
        ModelError: the server cannot be used; the message says why.
    """
    context = math.ceil((max(map(len, prompts)) + ROOM) / 256) * 256
    with llama_server(
        program.path,
        program.gguf,
        threads=program.threads,
        slots=setting.slots,
        context=context,
        adapter=program.adapter,
    ) as server:
        require_vocabulary(server.url, program.vocabulary)
        cpu = server.cpu_seconds()
        seconds, computed, found, least = ask_all(server.url, prompts, labels, setting)
        sent = sum(map(len, prompts))
        return Pass(seconds, server.cpu_seconds() - cpu, sent, computed, server.peak_bytes(), found, least)


def ask_all(
    url: str, prompts: Sequence[Tokens], labels: LabelTokens, setting: Setting
) -> tuple[float, int, NDArray[np.float64], float]:
    """Seconds, tokens computed, probabilities (N, L) in the order of the prompts, and the smallest one listed.

    Raises:
        ModelError: the server is gone, refuses, or gives no probabilities.
    """
    order = sorted(range(len(prompts)), key=lambda i: prompts[i]) if setting.order == "sorted" else range(len(prompts))
    shares = np.array_split(np.asarray(order), setting.slots)
    listed = max(LISTED, 2 * sum(map(len, labels.ids)))
    computed, least = 0, 1.0
    found = np.full((len(prompts), len(labels.labels)), np.nan)
    with ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(timeout=ANSWER_S)) for _ in shares]
        pool = stack.enter_context(ThreadPoolExecutor(len(shares)))

        def ask(slot: int) -> list[dict[str, Any]]:
            more = {"id_slot": slot} if setting.slots > 1 else {}  # one slot may also keep older prompts aside
            return [complete(clients[slot], url, prompts[i], n_predict=1, n_probs=listed, **more) for i in shares[slot]]

        clock = time.perf_counter()
        answers = list(pool.map(ask, range(len(shares))))
        seconds = time.perf_counter() - clock
    for share, of_share in zip(shares, answers, strict=True):
        for i, answer in zip(share, of_share, strict=True):
            computed += int(answer["timings"]["prompt_n"])
            found[i], smallest = read_probabilities(answer, labels)
            least = min(least, smallest)
    return seconds, computed, found, least


def read_probabilities(answer: dict[str, Any], labels: LabelTokens) -> tuple[NDArray[np.float64], float]:
    """Probabilities (L,) of the labels, NaN where none of a label's tokens is listed, and the smallest one listed.

    Raises:
        ModelError: the answer lists no tokens.
    """
    places = answer.get("completion_probabilities") or [{}]
    listed = {one["id"]: math.exp(one["logprob"]) for one in places[0].get("top_logprobs") or []}
    if not listed:
        raise ModelError(
            "llama.cpp's server gave no log probabilities (completion_probabilities, top_logprobs), so there is "
            "nothing to compare. Use a newer version of it."
        )
    sums = [[listed[i] for i in ids if i in listed] for ids in labels.ids]
    return np.array([sum(one) if one else np.nan for one in sums]), min(listed.values())


def _difference(turns: Sequence[Turn]) -> tuple[float, int]:
    """Largest difference of a listed label's probability, and how many labels were not listed."""
    gaps = np.concatenate([np.abs(t.probabilities - t.theirs.probabilities).ravel() for t in turns])
    return float(np.nanmax(gaps)), int(np.isnan(gaps).sum())


def _summary(turns: Sequence[Turn]) -> dict[str, Any]:
    ratios = {
        "wall_ratio_llama_cpp": [t.theirs.seconds / t.ours for t in turns],
        "cpu_ratio_llama_cpp": [t.theirs.cpu_seconds / t.ours_cpu for t in turns],
        "wall_ratio_llama_cpp_base": [t.base.seconds / t.ours for t in turns],
        "cpu_ratio_llama_cpp_base": [t.base.cpu_seconds / t.ours_cpu for t in turns],
    }
    return {name: float(np.median(values)) for name, values in ratios.items()}


def _facts(turns: Sequence[Turn], program: Program, best: Setting, repeats: int) -> dict[str, Any]:
    """What was measured; seconds and tokens are sums over the blocks (means over the repeats)."""
    difference, unlisted = _difference(turns)
    sums = {
        "seconds": [t.theirs.seconds for t in turns],
        "seconds_without_adapter": [t.base.seconds for t in turns],
        "seconds_ours": [t.ours for t in turns],
        "cpu_seconds": [t.theirs.cpu_seconds for t in turns],
        "cpu_seconds_without_adapter": [t.base.cpu_seconds for t in turns],
        "cpu_seconds_ours": [t.ours_cpu for t in turns],
    }
    tokens = {
        "prompt_tokens_sent": [t.theirs.sent for t in turns],
        "prompt_tokens_computed": [t.theirs.computed for t in turns],
    }
    return {
        "weights": program.gguf.name,
        "adapter": program.adapter is not None,
        "threads": program.threads,
        "order": best.order,
        "slots": best.slots,
        **{name: sum(values) / repeats for name, values in sums.items()},
        **{name: sum(values) // repeats for name, values in tokens.items()},
        "max_abs_difference": difference,
        "labels_not_listed": unlisted,
        "least_probability_listed": max(t.theirs.least for t in turns),
        "peak_bytes": max(t.theirs.peak_bytes for t in turns),
        "turns": len(turns),
    }


def _tried(setting: Setting, seen: Pass) -> dict[str, Any]:
    return {
        "order": setting.order,
        "slots": setting.slots,
        "seconds": seen.seconds,
        "cpu_seconds": seen.cpu_seconds,
        "prompt_tokens_computed": seen.computed,
    }


def _words(one: dict[str, Any]) -> str:
    return f"{one['order']} order on {one['slots']} slot{'' if one['slots'] == 1 else 's'}"


def llama_lines(result: dict[str, Any]) -> list[str]:
    """What was measured, for reading; none where llama.cpp was not asked."""
    if not (of_it := result.get("llama_cpp")):
        return []
    adapter = "with the judge's adapter" if of_it["adapter"] else "no adapter (the judge has none)"
    tried = ", ".join(f"{_words(one)} {one['seconds']:.1f} s" for one in of_it["tried"])
    return [
        "",
        f"llama.cpp ({of_it['version']}), {of_it['weights']}, {adapter}, {of_it['threads']} threads: "
        f"{of_it['seconds']:.2f} s, ours beside it {of_it['seconds_ours']:.2f} s, "
        f"{of_it['seconds'] / result['floor_seconds']:.1f}x the floor (float32 products).",
        f"Gain over llama.cpp {result['wall_ratio_llama_cpp']:.2f}x (processor time "
        f"{result['cpu_ratio_llama_cpp']:.2f}x), over its base without the adapter "
        f"{result['wall_ratio_llama_cpp_base']:.2f}x ({result['cpu_ratio_llama_cpp_base']:.2f}x).",
        f"It computed {of_it['prompt_tokens_computed']:,} of {of_it['prompt_tokens_sent']:,} tokens in "
        f"{_words(of_it)} (first block: {tried}); largest difference of a probability "
        f"{of_it['max_abs_difference']:.1e}; its peak memory {of_it['peak_bytes'] / 2**20:,.0f} MiB.",
    ]

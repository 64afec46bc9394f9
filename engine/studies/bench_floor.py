"""What benchmarks share: the floor (arithmetic that must be done, over this machine's rate), memory, clock, notes."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

from engine.models.loader import LoadedModel


def matmul_rate(loaded: LoadedModel, seconds: float = 0.5) -> float:
    """FLOP per second of a large matrix product in the model's precision, the best of several."""
    import torch

    size = 2048 if loaded.device == "cpu" else 8192
    a, b = (torch.randn(size, size, device=loaded.device, dtype=loaded.model.dtype) for _ in range(2))
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        synchronise(loaded.device)
        clock = time.perf_counter()
        a @ b
        synchronise(loaded.device)
        best = min(best, time.perf_counter() - clock)
    return float(2 * size**3 / best)


def causal_flops(loaded: LoadedModel, tokens: int, reads: int) -> float:
    """Two per weight and token, the vocabulary only where logits are read; attention is left out (a true floor)."""
    model: Any = loaded.model
    vocabulary = model.get_output_embeddings().weight.numel()
    embedded = model.get_input_embeddings().weight.numel()
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    every = sum(p.numel() for p in model.parameters())
    layers = every - embedded - (0 if tied else vocabulary)
    return float(2 * layers * tokens + 2 * vocabulary * reads)


def reset_peak(device: str) -> None:
    """Start counting the peak anew, where that can be done."""
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats(device)


def peak_bytes(device: str) -> int:
    """Most memory held: allocated on the GPU since `reset_peak`, of the whole process on a CPU."""
    if device != "cpu":
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def synchronise(device: str) -> None:
    """Wait for what a GPU was given to do, so that a clock read next is right."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize(device)


def device_name(loaded: LoadedModel) -> str:
    """The model's device in words."""
    import torch

    if loaded.device == "cpu":
        return f"cpu, {torch.get_num_threads()} threads"
    return str(torch.cuda.get_device_name(loaded.device))


def note(line: str) -> None:
    """Show how far a benchmark is, in one line of a terminal; nothing where there is none."""
    if sys.stderr.isatty():
        print(f"\r{line:<70}", end="", file=sys.stderr, flush=True)

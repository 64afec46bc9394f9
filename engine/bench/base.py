"""A judge under measurement: prompts from the project's cards, answers as label probabilities, kept in the cache."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.cache import CallCache, call_key
from engine.inference.chat import render_ids
from engine.inference.loading import LoadedModel
from engine.inference.scoring import label_probabilities, label_tokens
from engine.judges.cards import Card, fill
from engine.judges.labelled import MIN_COVERAGE
from engine.stats.intervals import Interval
from engine.training.examples import Asker
from engine.training.heldout import Side

Floats = NDArray[np.float64]
Figures = dict[str, Interval]


@dataclass
class Bench:
    """A judge under measurement: asks prompts, keeps answers in the call cache, counts what is unread.

    Attributes:
        side: the side of the data that is read.
        limit: at most so many documents, dialogues, prompts and questions; None for all.
        note: called with a line of progress.
    """

    loaded: LoadedModel
    asker: Asker
    data: Path
    side: Side = Side.TEST
    limit: int | None = None
    level: float = 0.95
    seed: int = 0
    cache: CallCache | None = None
    note: Callable[[str], None] | None = None
    unread: int = 0
    calls: int = 0
    lowest_coverage: float = 1.0
    figures: Figures = field(default_factory=dict)

    def ask(self, what: str, card: Card, prompts: Sequence[Mapping[str, str]]) -> Floats:
        """Answer probabilities (N, L), each row summing to 1; a row is NaN where the verdict is unread."""
        tokens = label_tokens(self.loaded.tokenizer, card.labels, card.spellings)
        ids = [render_ids(self.loaded.tokenizer, card.system, fill(card.user, p).removeprefix("\n")) for p in prompts]
        keys = [call_key(self.loaded.fingerprint, one, tokens.ids) for one in ids]
        known = self.cache.get_many(keys) if self.cache else {}
        todo = list({k: i for i, k in enumerate(keys) if k not in known}.values())
        todo = [i for i in todo if len(ids[i]) <= self.loaded.max_tokens]
        done = 0

        def keep(batch: list[int], rows: Floats) -> None:
            nonlocal done
            found = [(keys[todo[j]], row) for j, row in zip(batch, rows, strict=True)]
            known.update(found)
            if self.cache:
                self.cache.put_many(found)
            done += len(batch)
            if self.note:
                self.note(f"{what}: {done} of {len(todo)} prompts")

        if todo:
            label_probabilities(self.loaded, [ids[i] for i in todo], tokens, keep)
        raw = np.array([known.get(k, np.full(len(card.labels), np.nan)) for k in keys]).reshape(-1, len(card.labels))
        coverage = raw.sum(axis=1)
        self.lowest_coverage = min(self.lowest_coverage, float(np.nanmin(coverage, initial=1.0)))
        bad = ~(coverage >= MIN_COVERAGE)
        self.unread += int(bad.sum())
        self.calls += len(keys)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(bad[:, None], np.nan, raw / coverage[:, None])

    def scores(self, what: str, card_name: str, prompts: Sequence[Mapping[str, str]]) -> Floats:
        """Expected scores (N,)."""
        card = self.asker.cards[card_name]
        return self.ask(what, card, prompts) @ np.asarray(card.values, dtype=np.float64)

    def taken(self, names: Iterable[str]) -> frozenset[str]:
        """The first `limit` of the distinct names."""
        every = list(dict.fromkeys(names))
        return frozenset(every[: self.limit])


# Common parts of benchmarks: the floor (arithmetic that must be done, over this machine's rate), memory, clock, notes.


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

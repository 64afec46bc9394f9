"""Prompts into batches and tensors; padding always stands on the right."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.core.errors import ModelError
from engine.core.stages import record, stage, watching

CPU_BATCH_TOKENS = 768
"""Padded tokens of a batch on a CPU: about a second of work, so that an interactive call waits no longer."""
GPU_BATCH_TOKENS = 32_768
DEVICE = "device"
"""Stage in which the device computes."""
_PASSES: deque[tuple[Any, Any]] = deque()
"""First and last event of passes that a GPU may still be at."""


def token_budget(device: str) -> int:
    """Most padded tokens in a batch on this device."""
    return CPU_BATCH_TOKENS if device == "cpu" else GPU_BATCH_TOKENS


def batches(lengths: Sequence[int], budget: int, *, equal: bool = False) -> list[list[int]]:
    """Indices in batches of similar length, each at most `budget` padded tokens (or one prompt).

    Args:
        lengths: tokens of each prompt.
        budget: most padded tokens in a batch.
        equal: true where a batch may hold prompts of one length only, so that nothing is padded.
    """
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    made: list[list[int]] = []
    for i in order:
        # lengths ascend, so the newest member is the longest of its batch
        fits = bool(made) and lengths[i] * (len(made[-1]) + 1) <= budget
        if fits and not (equal and lengths[made[-1][0]] != lengths[i]):
            made[-1].append(i)
        else:
            made.append([i])
    return made


def pad_right(rows: Sequence[Sequence[int]], filler: int, device: str) -> tuple[Any, Any]:
    """Token ids (B, T) with `filler` after each row's end, and the mask (B, T), 1 where a token is real."""
    import torch

    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
    return ids, mask


def is_split(model: Any) -> bool:
    """The model's layers are on several devices; what comes out of it is where its input was."""
    return len(set(getattr(model, "hf_device_map", {}).values())) > 1


def last_logits(model: Any, ids: Any, last: Any, **options: Any) -> tuple[Any, Any]:
    """Next-token logits after position `last[b]` of each row, as float32 (B, V), and the model's whole output.

    Only the positions asked for reach the vocabulary matrix; of a model on several devices, all from the first of them.
    """
    import torch

    kept: Any
    if is_split(model):  # a tensor of places would have to lie where the last layer's output does
        first = int(last.min())
        kept, row_of = ids.shape[1] - first, last - first
    else:
        kept, row_of = torch.unique(last, return_inverse=True)
    logits = (out := model(input_ids=ids, logits_to_keep=kept, **options)).logits  # (B, U, V)
    row_of = row_of.to(logits.device)
    return logits[torch.arange(len(last), device=logits.device), row_of].float().to(ids.device), out


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Around one pass: its seconds on the device become the stage `device`, where stages are measured.

    On a GPU they run from the pass's first kernel to its last, whatever the processor does meanwhile.
    """
    if not watching() or not device.startswith("cuda"):
        with stage(DEVICE):
            yield
        return
    import torch

    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    yield
    last.record()
    _PASSES.append((first, last))
    count_passes(finished=True)


def count_passes(*, finished: bool) -> None:
    """Add the seconds of a GPU's passes to the stage `device`.

    Args:
        finished: only of those that are over; else the device is waited for.
    """
    while _PASSES and (not finished or _PASSES[0][1].query()):
        first, last = _PASSES.popleft()
        last.synchronize()
        record(DEVICE, first.elapsed_time(last) / 1000)


# Memory that a pass takes, from the model's config, and that there is; the way out when it is not enough.

Item = TypeVar("Item")
Count = Any
"""A whole number, or an array of them."""
SHARE = 0.5
"""Share of the free memory that a pass may take; the rest is for what the allocator and others need."""
_LIMIT, _USED = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))


@dataclass(frozen=True)
class Footprint:
    """Bytes that a causal model needs, by its config.

    Attributes:
        kv: keys and values of one token in all layers.
        layer_kv: the same in one layer, repeated for grouped queries and copied once.
        token: activations of one token in the widest layer.
        pair: mask, and scores where the attention keeps them, of one query and one key.
        logits: of one position read, with its softmax in float32.
    """

    kv: int
    layer_kv: int
    token: int
    pair: int
    logits: int

    def of(self, rows: Count, tokens: Count, path: Count, reads: Count) -> Count:
        """Bytes of a pass.

        Args:
            rows: rows of the pass.
            tokens: padded tokens of a row.
            path: padded tokens before a row whose keys and values are given.
            reads: positions of a row that reach the vocabulary.
        """
        keys = path + tokens
        cached = (path + keys) * self.kv + keys * self.layer_kv  # gathered, and joined with the new ones
        return rows * (cached + tokens * self.token + tokens * keys * self.pair + reads * self.logits)


def footprint(model: Any) -> Footprint:
    """Memory of a model of the usual decoder shape."""
    config = model.config.get_text_config()
    size = model.dtype.itemsize
    heads = int(config.num_attention_heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    kv_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    inner = int(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    eager = getattr(config, "_attn_implementation", "") == "eager"
    masks = 2 if getattr(config, "sliding_window", None) else 1
    return Footprint(
        kv=2 * int(config.num_hidden_layers) * kv_heads * width * size,
        layer_kv=2 * 2 * heads * width * size,
        token=size * (6 * int(config.hidden_size) + 3 * inner + 4 * heads * width),
        pair=size * masks + 2 + (heads * (size + 4) if eager else 0),
        logits=int(config.vocab_size) * (size + 3 * 4),
    )


def free_bytes(device: str) -> int:
    """Memory that could be taken now on this device; on a CPU within the control group's limit."""
    if device.startswith("cuda"):
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    import psutil  # type: ignore[import-untyped]

    available = int(psutil.virtual_memory().available)
    try:
        return min(available, int(_LIMIT.read_text()) - int(_USED.read_text()))
    except (OSError, ValueError):  # no such file, or no limit ("max")
        return available


def is_out_of_memory(error: RuntimeError) -> bool:
    """True where torch failed for want of memory; a CPU allocator says so only in its message."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def halving(run: Callable[[Sequence[Item]], None], rows: Sequence[Item], device: str) -> None:
    """Run a batch; where memory does not suffice, its halves one after the other.

    Args:
        run: computes a batch; must change nothing before it has its memory.
        rows: the batch.
        device: where the memory is.

    Raises:
        ModelError: not even one row fits.
    """
    try:
        return run(rows)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if len(rows) == 1:
            raise ModelError(
                f"One prompt needs more memory than {device} has left ({free_bytes(device) / 2**30:.1f} GiB). Shorten "
                "it, use a smaller model, or free memory on the device."
            ) from None
    _release(device)
    middle = len(rows) // 2
    halving(run, rows[:middle], device)
    halving(run, rows[middle:], device)
    return None


def _release(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()

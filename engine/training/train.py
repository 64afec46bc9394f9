"""Training a LoRA adapter whose answer is one token: soft cross-entropy at the last token of each prompt.

Prompts are padded on the right and read at their last real token (left padding gave NaN under SDPA). A run stops
at its time limit with a checkpoint and goes on from there; order, weights and optimizer state all come from the
seed and the checkpoint, so on a CPU an interrupted run ends in the same adapter as an uninterrupted one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import InputError
from engine.training.compose import EncodedUnit, Report, is_pair, micro_batches, order_of, rows_of
from engine.training.config import TrainingConfig
from engine.training.llama import LoraLlama

BASE_NAME = "SmolLM2-135M-Instruct"
MAX_ADAPTER_BYTES = 12_000_000
_LOG_EVERY = 50


@dataclass(frozen=True)
class TrainingResult:
    """Where a run stands: steps done of all, and the mean loss of the last ones."""

    done: int
    steps: int
    loss: float
    seconds: float

    @property
    def finished(self) -> bool:
        """True where the adapter is final."""
        return self.done >= self.steps


def train_adapter(
    base: Any,
    units: Sequence[EncodedUnit],
    config: TrainingConfig,
    seed: int,
    folder: Path,
    *,
    seconds: float = math.inf,
    stop_after: int | None = None,
    report: Report = print,
) -> TrainingResult:
    """Train one adapter, or go on with the checkpoint in `folder`, and write it in peft's format.

    Args:
        base: the base causal language model, float32, on its device; adapters are put into it.
        units: training units, each once.
        config: the recipe.
        seed: of order and initial weights.
        folder: gets `checkpoint.safetensors`, `state.json`, and at the end the adapter.
        seconds: time limit; the run stops after the step that passes it.
        stop_after: stop after so many steps in all (for tests of resuming).
        report: gets one line every 50 steps.

    Raises:
        InputError: the checkpoint is of another recipe or seed, or the loss became infinite.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # cuDNN's attention would build a new plan for each shape of batch, and nearly every batch has its own
    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    folder.mkdir(parents=True, exist_ok=True)
    model = LoraLlama(base, config.rank, config.alpha, seed)
    weights = model.parameters
    optimizer = torch.optim.AdamW(weights.values(), lr=config.learning_rate, weight_decay=0.0)
    batches = order_of(units, config.batch, seed)
    done = _resume(folder, _identity(config, seed, len(batches)), weights, optimizer)
    started = saved = time.monotonic()
    losses: list[Any] = []
    while done < len(batches) and time.monotonic() - started < seconds and done != stop_after:
        with sdpa_kernel(kernels):
            losses.append(_step(model, [units[i] for i in batches[done]], config, optimizer, done, len(batches)))
        done += 1
        if done % _LOG_EVERY == 0:
            line = f"seed {seed} step {done}/{len(batches)} loss {_mean(losses, done):.4f}"
            report(f"{line} {time.monotonic() - started:.0f} s")
        if time.monotonic() - saved > config.checkpoint_seconds:
            _save(folder, _identity(config, seed, len(batches)), done, weights, optimizer)
            saved = time.monotonic()
    _save(folder, _identity(config, seed, len(batches)), done, weights, optimizer)
    if done == len(batches):
        write_adapter(model, folder)
    return TrainingResult(done, len(batches), _mean(losses, done), time.monotonic() - started)


def _mean(losses: Sequence[Any], step: int) -> float:
    """The mean of the last losses, read from the device only here.

    Raises:
        InputError: the loss is no longer a number.
    """
    tail = [float(one) for one in losses[-_LOG_EVERY:]]
    mean = sum(tail) / len(tail) if tail else math.nan
    if tail and not math.isfinite(mean):
        raise InputError(f"The loss became {mean} before step {step}; lower the learning rate.")
    return mean


def _step(
    model: LoraLlama, units: Sequence[EncodedUnit], config: TrainingConfig, optimizer: Any, step: int, steps: int
) -> Any:
    """One optimizer step over all prompts of a batch; returns the mean loss per prompt, still on the device."""
    import torch

    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * _schedule(step, steps, config.warmup)
    count = sum(len(unit) for unit in units)
    adapted = model.adapted()
    parts = []
    for part in micro_batches(units, config.micro_tokens):
        loss = _loss(model, adapted, part, config.consistency) / count
        loss.backward()
        parts.append(loss.detach())
    model.collect(adapted)
    torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], config.clip)
    optimizer.step()
    return torch.stack(parts).sum()


def _schedule(step: int, steps: int, warmup: float) -> float:
    """Linear warm-up over the first share of the steps, then a cosine to zero."""
    first = max(1, round(warmup * steps))
    if step < first:
        return (step + 1) / first
    return 0.5 * (1 + math.cos(math.pi * (step - first) / max(1, steps - first)))


def _loss(model: LoraLlama, adapted: Mapping[str, Any], units: Sequence[EncodedUnit], consistency: float) -> Any:
    """Summed cross-entropy of a part, plus the disagreement between the two orders of its pairs."""
    import torch

    examples = [one for unit in units for one in unit]
    wide = max(len(one.labels) for one in examples)
    labels = torch.tensor([[*one.labels, *[0] * (wide - len(one.labels))] for one in examples], device=model.device)
    targets = torch.tensor([[*one.target, *[0.0] * (wide - len(one.target))] for one in examples], device=model.device)
    rows = [row for unit in units for row in rows_of(unit)]
    logits = model.last_logits(adapted, rows, filler=examples[0].labels[0])  # (B, V)
    answers = logits.float().log_softmax(dim=-1).gather(1, labels)  # (B, L)
    total = -(answers * targets).sum()
    if consistency:
        for mirror in {unit[1].mirror for unit in units if is_pair(unit)}:
            total = total + 2 * consistency * _disagreement(answers, *_twins(units, mirror), mirror)
    return total


def _twins(units: Sequence[EncodedUnit], mirror: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Row numbers of the first and of the second order of the pairs with this mirror."""
    first, row = [], 0
    for unit in units:
        if is_pair(unit) and unit[1].mirror == mirror:
            first.append(row)
        row += len(unit)
    return first, [i + 1 for i in first]


def _disagreement(answers: Any, first: list[int], second: list[int], mirror: Sequence[int]) -> Any:
    """Jensen-Shannon divergence between the answers to two orders, the second seen from the first; summed."""
    p = answers[first, : len(mirror)].softmax(dim=-1)
    q = answers[second][:, list(mirror)].softmax(dim=-1)
    middle = ((p + q) / 2).clamp_min(1e-9).log()
    parts = p * (p.clamp_min(1e-9).log() - middle) + q * (q.clamp_min(1e-9).log() - middle)
    return 0.5 * parts.sum()


def _identity(config: TrainingConfig, seed: int, steps: int) -> dict[str, Any]:
    return {"config": config.model_dump(mode="json"), "seed": seed, "steps": steps}


def _save(folder: Path, identity: dict[str, Any], done: int, weights: dict[str, Any], optimizer: Any) -> None:
    """Weights and both moments of AdamW as safetensors; the step is written last and names the file it fits."""
    from safetensors.torch import save_file

    tensors = {f"weight.{n}": p.detach().cpu().contiguous() for n, p in weights.items()}
    for name, parameter in weights.items():
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment in optimizer.state.get(parameter, {}):
                tensors[f"{moment}.{name}"] = optimizer.state[parameter][moment].cpu().contiguous()
    part = folder / "checkpoint.part"
    save_file(tensors, part, metadata={"done": str(done)})
    part.replace(folder / "checkpoint.safetensors")
    (folder / "state.json").write_text(json.dumps(identity, indent=1), encoding="utf-8")


def _resume(folder: Path, identity: dict[str, Any], weights: dict[str, Any], optimizer: Any) -> int:
    """Load the checkpoint where there is one; returns the steps done."""
    import torch
    from safetensors import safe_open

    path = folder / "checkpoint.safetensors"
    if not path.is_file():
        return 0
    if json.loads((folder / "state.json").read_text(encoding="utf-8")) != identity:
        raise InputError(f"The checkpoint in {folder.name} is of another recipe or seed. Name another folder.")
    with safe_open(path, framework="pt") as file:
        done = int(file.metadata()["done"])
        for name, parameter in weights.items():
            with torch.no_grad():
                parameter.copy_(file.get_tensor(f"weight.{name}"))
            if done:
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(done)),
                    **{m: file.get_tensor(f"{m}.{name}").to(parameter.device) for m in ("exp_avg", "exp_avg_sq")},
                }
    return done


def write_adapter(model: LoraLlama, folder: Path) -> None:
    """The adapter in peft's format, without anything that names this machine.

    Raises:
        InputError: it is larger than the project allows.
    """
    size = model.write(folder, BASE_NAME).stat().st_size
    if size > MAX_ADAPTER_BYTES:
        raise InputError(f"The adapter has {size:,} bytes, allowed are {MAX_ADAPTER_BYTES:,}. Lower the rank.")

"""Models of larger shapes with random weights: how long scoring takes as the model grows, without any download."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine.errors import InputError
from engine.models.labels import LabelTokens
from engine.models.loader import LoadedModel
from engine.models.scoring import Way, label_probabilities
from engine.models.trie import Tokens
from engine.studies.bench_floor import note, peak_bytes, reset_peak, synchronise

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
        prompts: what is scored.
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

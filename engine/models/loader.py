"""From a spec string to a loaded model; the only place that calls `from_pretrained` for a judge."""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError, ModelError
from engine.models.kinds import ModelKind, Pooling, window_of
from engine.models.named import NamedModel, load_named
from engine.models.weights import base_folder, base_record, sha256_of
from engine.settings import Settings

_BUNDLED = {"judge": "judge", "shortcut-verifier": "shortcut-verifier", "base": ""}
"""The bundled models, and the folder of assets that holds their adapter."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?")


@dataclass(frozen=True)
class LoadedModel:
    """A model ready for scoring or encoding.

    Attributes:
        model: in eval mode, on `device`, adapters merged.
        fingerprint: digest of weights and precision; two models with one fingerprint answer alike.
        max_tokens: longest prompt it takes; longer ones are unread, never cut.
        kind: what it can be asked; only causal models and encoder-decoders answer prompts.
        pooling: how its hidden states become one vector.
    """

    spec: str
    model: Any
    tokenizer: Any
    device: str
    dtype: str
    fingerprint: str
    max_tokens: int
    kind: ModelKind = "causal"
    pooling: Pooling = "last"


def pick_device(wanted: str) -> str:
    """`auto` becomes `cuda:0` where there is one, else `cpu`.

    Raises:
        InputError: a CUDA device was asked for and there is none.
    """
    if wanted == "cpu":  # loads no torch: a worker that never loads a model starts in half the time
        return wanted
    if not re.fullmatch(r"auto|cuda(:\d+)?", wanted):
        raise InputError(f"JUDGESCOPE_DEVICE is {wanted!r}; allowed: auto, cpu, cuda, cuda:N.")
    import torch

    if wanted == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    if not torch.cuda.is_available():
        raise InputError(f"JUDGESCOPE_DEVICE is {wanted}, but torch sees no CUDA device. Use cpu or auto.")
    return wanted


def load_model(spec: str, settings: Settings) -> LoadedModel:
    """Load `bundled:judge`, `bundled:shortcut-verifier`, `bundled:base`, `hf:ORG/NAME[@REVISION]` or `path:FOLDER`.

    float32 on a CPU (bfloat16 is several times slower there), bfloat16 on a GPU.

    Raises:
        InputError: the spec names no known kind, or a folder outside the configured roots.
        ModelError: the weights cannot be loaded; the message names the next step.
    """
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    kind, _, name = spec.partition(":")
    device = pick_device(settings.device)
    if device != "cpu":  # it builds a plan for every new shape, and each batch of prompts has another one
        torch.backends.cuda.enable_cudnn_sdp(False)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    if kind == "bundled" and name in _BUNDLED:
        named = _load_bundled(settings, _BUNDLED[name])
    elif kind == "path" or (kind == "hf" and _HUB_NAME.fullmatch(name)):
        named = load_named(kind, name, settings.model_roots, dtype)
    elif kind == "api":
        raise InputError(
            f"{spec} is behind a server, which gives text and token probabilities but no hidden states, gradients or "
            "weights. For this role name a model that runs here: bundled:base, hf:ORG/NAME or path:FOLDER."
        )
    else:
        raise InputError(
            f"{spec!r} names no model. Allowed: {', '.join(f'bundled:{one}' for one in _BUNDLED)}, "
            "hf:ORG/NAME[@REVISION], path:FOLDER."
        )
    model = named.model.to(device=device, dtype=dtype).eval()
    if named.kind == "causal" and kind != "bundled":
        _require_causal(model, spec)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    precision = str(dtype).removeprefix("torch.")
    return LoadedModel(
        spec=spec,
        model=model,
        tokenizer=named.tokenizer,
        device=device,
        dtype=precision,
        fingerprint=f"{named.digest[:16]}-{precision}",
        max_tokens=window_of(model.config, named.tokenizer, named.kind),
        kind=named.kind,
        pooling=named.pooling,
    )


def _load_bundled(settings: Settings, adapter_folder: str) -> NamedModel:
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    common = settings.assets / "judge"
    record = base_record(common)
    folder = base_folder(settings, record)
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, local_files_only=True
    )
    tokenizer = PreTrainedTokenizerFast.from_pretrained(common, local_files_only=True)
    digest = hashlib.sha256(record.gguf_sha256.encode())
    if adapter_folder:
        from peft import PeftModel

        adapter = settings.assets / adapter_folder
        weights = adapter / "adapter_model.safetensors"
        if not weights.is_file():
            raise ModelError(f"{weights.name} is missing from assets/{adapter_folder}. Restore it from the project.")
        with warnings.catch_warnings():  # peft asks transformers for an attribute it is about to rename
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        digest.update(sha256_of(weights).encode())
        digest.update((adapter / "adapter_config.json").read_bytes())
    digest.update((common / "tokenizer.json").read_bytes())
    return NamedModel(model, tokenizer, digest.hexdigest(), "causal", "last")


def _require_causal(model: Any, spec: str) -> None:
    """Refuse a model in which a token sees what follows it: its scores would depend on the padding.

    Two short inputs that differ in their last token must agree before it.
    """
    import torch

    ids = torch.tensor([[3, 4, 5], [3, 4, 6]], device=model.device)  # rarely special, never padding
    with torch.inference_mode():
        logits = model(input_ids=ids, use_cache=False).logits[:, :2].float()  # (2, 2, V)
    if not torch.allclose(logits[0], logits[1], atol=0.02 * float(logits.abs().max()), equal_nan=True):
        raise ModelError(
            f"{spec} looks at the text in both directions, so it is no causal language model. Use it as an encoder, "
            "or name a model made for generating text."
        )

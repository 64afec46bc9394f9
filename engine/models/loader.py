"""From a spec string to a loaded model; the only place that calls `from_pretrained` for a judge."""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError, ModelError
from engine.models.weights import base_folder, base_record, sha256_of
from engine.settings import Settings

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?")


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model ready for scoring.

    Attributes:
        model: in eval mode, on `device`, adapters merged.
        fingerprint: digest of weights and precision; two models with one fingerprint answer alike.
        max_tokens: longest prompt it takes; longer ones are unread, never cut.
    """

    spec: str
    model: Any
    tokenizer: Any
    device: str
    dtype: str
    fingerprint: str
    max_tokens: int


def pick_device(wanted: str) -> str:
    """`auto` becomes `cuda:0` where there is one, else `cpu`.

    Raises:
        InputError: a CUDA device was asked for and there is none.
    """
    import torch

    if wanted == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"JUDGESCOPE_DEVICE is {wanted}, but torch sees no CUDA device. Use cpu or auto.")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", wanted):
        raise InputError(f"JUDGESCOPE_DEVICE is {wanted!r}; allowed: auto, cpu, cuda, cuda:N.")
    return wanted


def load_model(spec: str, settings: Settings) -> LoadedModel:
    """Load `bundled:judge`, `bundled:base`, `hf:ORG/NAME[@REVISION]` or `path:FOLDER`.

    float32 on a CPU (bfloat16 is several times slower there), bfloat16 on a GPU.

    Raises:
        InputError: the spec names no known kind.
        ModelError: the weights cannot be loaded; the message names the next step.
    """
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    kind, _, name = spec.partition(":")
    device = pick_device(settings.device)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    if kind == "bundled" and name in {"judge", "base"}:
        model, tokenizer, digest = _load_bundled(settings, with_adapter=name == "judge")
    elif kind == "path" or (kind == "hf" and _HUB_NAME.fullmatch(name)):
        model, tokenizer, digest = _load_named(kind, name)
    else:
        raise InputError(
            f"{spec!r} names no model. Allowed: bundled:judge, bundled:base, hf:ORG/NAME[@REVISION], path:FOLDER."
        )
    model = model.to(device=device, dtype=dtype).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    precision = str(dtype).removeprefix("torch.")
    return LoadedModel(
        spec=spec,
        model=model,
        tokenizer=tokenizer,
        device=device,
        dtype=precision,
        fingerprint=f"{digest[:16]}-{precision}",
        max_tokens=int(getattr(model.config, "max_position_embeddings", 0) or 1 << 20),
    )


def _load_bundled(settings: Settings, *, with_adapter: bool) -> tuple[Any, Any, str]:
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    adapter = settings.assets / "judge"
    record = base_record(adapter)
    folder = base_folder(settings, record)
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, local_files_only=True
    )
    tokenizer = PreTrainedTokenizerFast.from_pretrained(adapter, local_files_only=True)
    digest = hashlib.sha256(record.gguf_sha256.encode())
    if with_adapter:
        from peft import PeftModel

        weights = adapter / "adapter_model.safetensors"
        if not weights.is_file():
            raise ModelError(f"{weights.name} is missing from assets/judge. Restore it from the project.")
        with warnings.catch_warnings():  # peft asks transformers for an attribute it is about to rename
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        digest.update(sha256_of(weights).encode())
        digest.update((adapter / "adapter_config.json").read_bytes())
    digest.update((adapter / "tokenizer.json").read_bytes())
    return model, tokenizer, digest.hexdigest()


def _load_named(kind: str, name: str) -> tuple[Any, Any, str]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place, _, revision = name.partition("@") if kind == "hf" else (name, "", "")
    if kind == "path" and not (Path(place) / "config.json").is_file():
        raise ModelError(f"{place} is not a model folder: it has no config.json. Name a folder saved by transformers.")
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": kind == "path"}
    if revision:
        options["revision"] = revision
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, use_safetensors=True, **options)
    except (OSError, ValueError, ImportError) as error:
        raise ModelError(
            f"{kind}:{name} could not be loaded as a causal language model with safetensors weights: "
            f"{str(error).splitlines()[0]}"
        ) from error
    digest = hashlib.sha256(name.encode())
    if kind == "path":
        for file in sorted([*Path(place).glob("*.safetensors"), Path(place) / "tokenizer.json"]):
            if file.is_file():
                digest.update(sha256_of(file).encode())
    else:
        digest.update(str(getattr(model.config, "_commit_hash", "")).encode())
    return model, tokenizer, digest.hexdigest()

"""From a spec string to a loaded model; the only place that calls `from_pretrained` for a judge."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.core.errors import InputError, ModelError, NamedModelError, lacking, listed, require_local, shown
from engine.core.files import is_file, require_inside, user_path
from engine.core.settings import Settings
from engine.inference.chat import encode
from engine.inference.gguf_file import checked_gguf, is_gguf, unpacked
from engine.inference.hub_models import HUB_NAME, model_folder, show_bytes
from engine.inference.weights import base_folder, base_record, sha256_of

# Uses of a model folder, told from its config.

ModelKind = Literal["causal", "encoder-decoder", "reward", "encoder"]
"""causal and encoder-decoder answer prompts; all but encoder-decoder's decoder encode texts."""
Pooling = Literal["last", "mean", "cls"]
"""Ways of making one vector of a text's hidden states."""

AUTO_CLASSES: dict[ModelKind, str] = {
    "causal": "AutoModelForCausalLM",
    "encoder-decoder": "AutoModelForSeq2SeqLM",
    "reward": "AutoModelForSequenceClassification",
    "encoder": "AutoModel",
}
SUPPORTED = (
    "causal language models (…ForCausalLM, for example Llama, Qwen, Gemma, Mistral), encoder-decoders "
    "(…ForConditionalGeneration, for example T5), reward models (…ForSequenceClassification) and sentence "
    "encoders (…Model)"
)
_SANE_LENGTH = 10**6


def kind_of(config: Any, spec: str) -> ModelKind:
    """Kind of the architecture named in a config.

    Raises:
        ModelError: another architecture; the message names it and the supported ones.
    """
    name = (getattr(config, "architectures", None) or ["(none named in config.json)"])[0]
    both = bool(getattr(config, "is_encoder_decoder", False))
    if both:
        if name.endswith("ForConditionalGeneration"):
            return "encoder-decoder"
    elif name.endswith(("ForCausalLM", "LMHeadModel")) or name == _causal_name(config):
        return "causal"
    elif name.endswith("ForSequenceClassification"):
        return "reward"
    elif name.endswith(("Model", "ForMaskedLM")):
        return "encoder"
    raise NamedModelError(f"{spec} has the architecture {name}, which is not supported. Supported: {SUPPORTED}.")


def _causal_name(config: Any) -> str | None:
    """The class transformers takes for text generation with this config (Gemma 3's is …ForConditionalGeneration)."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)


def default_pooling(config: Any, kind: ModelKind) -> Pooling:
    """The last token where each token sees only what precedes it, the mean otherwise."""
    if kind in {"causal", "reward"}:
        return "last"
    # Embedding models on a causal trunk (Qwen3-Embedding as a plain …Model) have seen the text only at its end.
    trunk = (_causal_name(config) or "").endswith("ForCausalLM") and not getattr(config, "type_vocab_size", 0)
    return "last" if kind == "encoder" and trunk else "mean"


def window_of(config: Any, tokenizer: Any, kind: ModelKind) -> int:
    """Longest input in tokens, from the config and, where the config counts differently, the tokenizer."""
    text = config.get_text_config()
    found = [int(n) for n in (getattr(text, "max_position_embeddings", None), getattr(text, "n_positions", None)) if n]
    if kind != "causal" and (limit := getattr(tokenizer, "model_max_length", 0)) and limit < _SANE_LENGTH:
        found.append(int(limit))  # RoBERTa's positions begin at 2, so its config promises two tokens too many
    return min(found, default=1 << 20)


# Models a user names: `hf:ORG/NAME`, `path:FOLDER`, `path:FILE.gguf`, checked before anything is read as weights.

_POOLING_FILE = "1_Pooling/config.json"


@dataclass(frozen=True)
class NamedModel:
    """A model as loaded, before it is moved to its device."""

    model: Any
    tokenizer: Any
    digest: str
    kind: ModelKind
    pooling: Pooling


def load_named(spec: str, folder: Path, dtype: Any, digest: str = "", device_map: str | None = None) -> NamedModel:
    """Load a model folder: safetensors only, no code of its own, nothing from the network.

    Args:
        spec: what the user called it.
        folder: where its files are; checked already.
        dtype: torch dtype of the weights.
        digest: of the weights, where it is known.
        device_map: `auto` spreads the layers over all GPUs as they are read; None leaves the model on the CPU.

    Raises:
        ModelError: no usable model there; the message names what is missing or unsupported.
    """
    import transformers

    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    with _named(spec, "config"):
        config = transformers.AutoConfig.from_pretrained(folder, **options)
    shape = kind_of(config, spec)
    with _named(spec, "tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    _require_words(tokenizer, spec)
    with _named(spec, "weights"):
        model, found = getattr(transformers, AUTO_CLASSES[shape]).from_pretrained(
            folder, dtype=dtype, use_safetensors=True, output_loading_info=True, device_map=device_map, **options
        )
    _require_whole(found, spec)
    if shape == "encoder-decoder" and getattr(model.config, "decoder_start_token_id", None) is None:
        raise NamedModelError(f"{spec} does not say with which token its decoder starts (decoder_start_token_id).")
    return NamedModel(model, tokenizer, digest or _folder_digest(folder), shape, _pooling(folder, config, shape))


def _named_model(spec: str, settings: Settings, dtype: Any, device_map: str | None) -> NamedModel:
    """The model of a spec `path:` or `hf:`."""
    kind, _, name = spec.partition(":")
    if kind == "path" and is_gguf(name):
        folder, digest = unpacked(checked_gguf(name, settings.model_roots), settings)
        return load_named(spec, folder, dtype, digest, device_map)
    if kind == "path":
        return load_named(spec, checked_folder(name, settings.model_roots), dtype, device_map=device_map)
    folder, commit = model_folder(name, settings, lambda text: print(text, file=sys.stderr), show_bytes)
    _require_files(folder, spec)
    digest = hashlib.sha256(f"{name.partition('@')[0]}{commit}".encode()).hexdigest()
    return load_named(spec, folder, dtype, digest, device_map)


@contextmanager
def _named(spec: str, part: str) -> Iterator[None]:
    """Says which part of a model could not be loaded."""
    from safetensors import SafetensorError

    try:
        yield
    except (
        OSError,
        ValueError,
        ImportError,
        LookupError,
        TypeError,
        AttributeError,
        RuntimeError,
        SafetensorError,
    ) as e:
        raise NamedModelError(
            f"{spec} could not be loaded from safetensors weights, without running code of its own. Its {part}: "
            f"{(str(e).strip().splitlines() or [type(e).__name__])[0][:300]}"
        ) from e


def checked_folder(name: str, roots: Sequence[Path]) -> Path:
    """The model folder, after every check that needs no weights.

    Raises:
        InputError: it, or a file in it, lies outside the configured roots once links are followed.
        ModelError: it is no model folder, has no safetensors weights, or is an adapter.
    """
    folder = user_path(name)
    named = listed([name])
    if roots:
        require_inside(folder, roots, name)
    if not name or not is_file(folder / "config.json"):
        raise NamedModelError(
            f"{named or 'path:'} is not a model folder: it has no config.json. Name a folder saved by transformers, or "
            "a .gguf file."
        )
    if roots:
        for file in folder.rglob("*"):
            require_inside(file, roots, name)
    if (folder / "adapter_config.json").is_file():
        raise NamedModelError(
            f"{named} holds an adapter (adapter_config.json), which would fetch another base model. "
            "Merge it into its base and name the merged folder."
        )
    if not any(folder.glob("*.safetensors")):
        other = sorted(p.name for suffix in ("*.bin", "*.pt", "*.pth", "*.h5", "*.gguf") for p in folder.glob(suffix))
        raise NamedModelError(
            f"{named} has no safetensors weights{f', only {other[0]}' if other else ''}. Other formats can run code "
            "when they are read and are refused; save the model again with save_pretrained."
        )
    _require_files(folder, named)
    return folder


_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.*", "*.tiktoken", "*.spm", "spiece.model", "*.bpe.model")
"""Names under which a tokenizer is saved; any of them will do."""


def _require_files(folder: Path, named: str) -> None:
    """Refuse a folder that lacks a file, or holds one that is cut short, by the file's name."""
    from safetensors import SafetensorError, safe_open

    again = "Copy the whole folder again, or save the model again with save_pretrained."
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZERS):
        raise NamedModelError(f"{named} has no tokenizer (tokenizer.json, tokenizer.model or a vocabulary). {again}")
    for index in folder.glob("*.safetensors.index.json"):
        try:
            parts = set(json.loads(index.read_bytes())["weight_map"].values())
            lacking = sorted(part for part in parts if not (folder / part).is_file())
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NamedModelError(f"{named}: {index.name} cannot be read ({type(error).__name__}). {again}") from None
        if lacking:
            raise NamedModelError(f"{named} lacks {listed(lacking, 3)}, which {index.name} names. {again}")
    for weights in folder.glob("*.safetensors"):
        try:
            with safe_open(weights, framework="numpy"):
                pass
        except (OSError, SafetensorError) as error:
            raise NamedModelError(f"{named}: {weights.name} cannot be read ({str(error)[:120]}). {again}") from None


def _require_words(tokenizer: Any, spec: str) -> None:
    """Refuse a tokenizer without words: transformers makes an empty one where only its settings were saved."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    if not set(encode(tokenizer, "Yes 1")) - {unknown}:
        raise NamedModelError(
            f"{spec}: its tokenizer is missing; there are settings of one, and no words. Put tokenizer.json (or "
            "tokenizer.model, or vocab.json with merges.txt) beside the weights."
        )


def _require_whole(found: dict[str, Any], spec: str) -> None:
    """Refuse weights that transformers would silently fill up with random numbers."""
    missing = sorted(k for k in found.get("missing_keys", ()) if "pooler" not in k)  # no pooling of ours uses it
    if missing:
        raise NamedModelError(
            f"{spec} lacks {len(missing)} of the weights its architecture needs, for example {missing[0]}; they "
            "would be random. Name a complete model, trained for this use."
        )


def _folder_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("*.safetensors"), folder / "config.json", folder / "tokenizer.json"]):
        if file.is_file():
            digest.update(file.name.encode() + sha256_of(file).encode())
    return digest.hexdigest()


def _pooling(folder: Path, config: Any, kind: ModelKind) -> Pooling:
    """As the sentence encoder's own pooling file says, else by architecture."""
    if kind != "encoder":
        return default_pooling(config, kind)
    try:
        modes = json.loads((folder / _POOLING_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        modes = {}
    names: tuple[tuple[str, Pooling], ...] = (
        ("pooling_mode_lasttoken", "last"),
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_mean_tokens", "mean"),
    )
    return next((pooling for key, pooling in names if modes.get(key) is True), default_pooling(config, kind))


_BUNDLED = {"judge": "judge", "naive": "naive", "shortcut-verifier": "shortcut-verifier", "base": ""}
"""The bundled models, and the folder of assets that holds their adapter."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready for scoring or encoding.

    Attributes:
        model: in eval mode, on `device`, adapters merged.
        fingerprint: digest of weights and precision; two models with one fingerprint answer alike.
        max_tokens: longest prompt it takes; longer ones are unread, never cut.
        kind: of the architecture; only causal models and encoder-decoders answer prompts.
        pooling: way of making one vector of its hidden states.
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


_GPU_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
"""Device files of GPU drivers on Linux: NVIDIA, WSL, ROCm."""


def pick_device(wanted: str) -> str:
    """`auto` becomes `cuda:0` where there is one, else `cpu`.

    Raises:
        InputError: a CUDA device was asked for and there is none.
    """
    if wanted == "cpu":  # loads no torch: a worker that never loads a model starts in half the time
        return wanted
    if not re.fullmatch(r"auto|split|cuda(:\d+)?", wanted):
        raise InputError(f"JUDGESCOPE_DEVICE is {wanted!r}; allowed: auto, cpu, cuda, cuda:N, split.")
    driver = sys.platform != "linux" or any(Path(node).exists() for node in _GPU_NODES)
    if wanted == "auto" and (not driver or lacking(["torch"])):
        return "cpu"  # without a driver torch would say the same, seconds later
    require_local(f"JUDGESCOPE_DEVICE={wanted}")
    import torch

    if wanted == "auto":
        return "cuda:0" if torch.cuda.is_available() else "cpu"
    if not torch.cuda.is_available():
        raise InputError(f"JUDGESCOPE_DEVICE is {wanted}, but torch sees no CUDA device. Use cpu or auto.")
    return "cuda:0" if wanted == SPLIT else wanted


SPLIT = "split"
"""Setting of the device under which a model's layers are spread over all GPUs."""


def _device_map(spec: str, settings: Settings) -> str | None:
    """`auto` where the model is to be split; a bundled one is small and never is.

    Raises:
        InputError: the package that does it is not installed.
    """
    if settings.device != SPLIT or spec.startswith("bundled:"):
        return None
    if lacking(["accelerate"]):
        raise InputError("JUDGESCOPE_DEVICE=split needs the package accelerate: pip install accelerate")
    return "auto"


def load_model(spec: str, settings: Settings) -> LoadedModel:
    """Load `bundled:NAME` (judge, naive, shortcut-verifier, base), `hf:ORG/NAME[@REVISION]`, `path:FOLDER|FILE.gguf`.

    float32 on a CPU (bfloat16 is several times slower there), bfloat16 on a GPU.

    Raises:
        InputError: the spec names no known kind, or a folder outside the configured roots.
        ModelError: the weights cannot be loaded; the message names the next step.
        LocalError: this installation has no models of its own.
    """
    _require_model(spec)
    require_local(spec)
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
    device_map = _device_map(spec, settings)
    if kind == "bundled":
        named = _load_bundled(settings, _BUNDLED[name])
    else:
        named = _named_model(spec, settings, dtype, device_map)
    model = (named.model if device_map else named.model.to(device=device, dtype=dtype)).eval()
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


def _require_model(spec: str) -> None:
    """Refuse a spec that names no model that could run here."""
    kind, _, name = spec.partition(":")
    if kind == "path" or (kind == "bundled" and name in _BUNDLED) or (kind == "hf" and HUB_NAME.fullmatch(name)):
        return
    if kind in {"api", "decision"}:
        raise InputError(
            f"{spec} is behind a server, which gives text and token probabilities but no hidden states, gradients or "
            "weights. For this role name a model that runs here: bundled:base, hf:ORG/NAME or path:FOLDER."
        )
    raise InputError(
        f"{shown(spec)} names no model. Allowed: {', '.join(f'bundled:{one}' for one in _BUNDLED)}, "
        "hf:ORG/NAME[@REVISION], path:FOLDER, path:FILE.gguf."
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

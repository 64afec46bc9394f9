"""What a model folder can be used for, told from its config."""

from __future__ import annotations

from typing import Any, Literal

from engine.errors import ModelError

ModelKind = Literal["causal", "encoder-decoder", "reward", "encoder"]
"""causal and encoder-decoder answer prompts; all but encoder-decoder's decoder encode texts."""
Pooling = Literal["last", "mean", "cls"]
"""How one vector is made of a text's hidden states."""

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
    """What the architecture named in a config is.

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
    raise ModelError(f"{spec} has the architecture {name}, which is not supported. Supported: {SUPPORTED}.")


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

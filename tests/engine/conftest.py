"""Tiny randomly initialised models of every shape that loads, with a byte tokenizer, saved as a user's folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

SIZE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
T5 = {
    "d_model": 32, "d_ff": 48, "d_kv": 8, "num_layers": 2, "num_heads": 4, "n_positions": 512,
    "decoder_start_token_id": 0,
}  # fmt: skip
BERT = {k: v for k, v in SIZE.items() if k != "num_key_value_heads"}
SHAPES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIZE),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", SIZE),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", SIZE | {"head_dim": 8}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", SIZE | {"head_dim": 8, "sliding_window": 16}),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", SIZE | {"head_dim": 8, "sliding_window": 16}),
    "mistral": ("MistralForCausalLM", "MistralConfig", SIZE | {"sliding_window": 16}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5),
    "reward": ("LlamaForSequenceClassification", "LlamaConfig", SIZE | {"num_labels": 1}),
    "bert": ("BertModel", "BertConfig", BERT),
    "bert-lm": ("BertLMHeadModel", "BertConfig", BERT),
    "qwen3-embedding": ("Qwen3Model", "Qwen3Config", SIZE | {"head_dim": 8}),
    "tagger": ("BertForTokenClassification", "BertConfig", BERT),
}


def byte_tokenizer(*, template: str = TEMPLATE, ends: bool = False) -> transformers.PreTrainedTokenizerFast:
    """Each byte a token, so no text is unknown and a label of two letters is two tokens."""
    special = ["<pad>", "<s>", "</s>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    single = "$A </s>" if ends else "<s> $A"
    raw.post_processor = TemplateProcessing(single=single, special_tokens=[("<s>", 1), ("</s>", 2)])
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    if template:
        made.chat_template = template
    return made


def save_tiny(folder: Path, shape: str, *, template: str = TEMPLATE, **changes: object) -> Path:
    """A model folder as save_pretrained writes it."""
    model, config, size = SHAPES[shape]
    torch.manual_seed(0)
    tokenizer = byte_tokenizer(template=template, ends=shape in {"t5", "bert"})
    made = getattr(transformers, config)(
        **(size | {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2} | changes)
    )
    weights = getattr(transformers, model)(made)
    for parameter in weights.parameters():  # the usual initialisation is so small that all answers look alike
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    weights.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory):
    """`tiny_folders(shape)`: the folder of a shape, made once."""
    made: dict[str, Path] = {}

    def folder(shape: str) -> Path:
        if shape not in made:
            made[shape] = save_tiny(tmp_path_factory.mktemp(shape), shape)
        return made[shape]

    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folders):
    """`tiny(shape)`: the loaded model, through the front door, once."""
    from engine.core.settings import get_settings
    from engine.inference.loading import load_model

    made = {}

    def load(shape: str):
        if shape not in made:
            settings = dataclasses.replace(get_settings(), device="cpu", model_roots=())
            made[shape] = load_model(f"path:{tiny_folders(shape)}", settings)
        return made[shape]

    return load


@pytest.fixture(scope="session")
def save():
    """`save_tiny`, for a test that needs a folder of its own."""
    return save_tiny

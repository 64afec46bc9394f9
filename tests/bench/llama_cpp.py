"""The bundled judge's merged weights as a float32 file for llama.cpp, with the keys and tokenizer of the base's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from engine.studies.llama_adapter import PARTS, pairs_together

LAYER = PARTS | {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")


def write_gguf(model: Any, base: Path, out: Path) -> None:
    """The weights of a Llama model as a float32 GGUF file beside the keys of another."""
    import gguf

    reader, writer = gguf.GGUFReader(base), gguf.GGUFWriter(out, "llama")
    for field in reader.fields.values():
        if not field.name.startswith(OWN):
            array = field.types[0] == gguf.GGUFValueType.ARRAY
            more = {"sub_type": field.types[-1]} if array else {}
            writer.add_key_value(field.name, field.contents(), field.types[0], **more)
    weights = model.state_dict()
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    for tensor in reader.tensors:
        _, layer, part, _ = tensor.name.split(".") if tensor.name not in WHOLE else ("", "", "", "")
        name = WHOLE.get(tensor.name) or f"model.layers.{layer}.{LAYER[part]}.weight"
        array = weights[name].float().cpu().numpy().astype(np.float32)
        if part in heads:
            array = pairs_together(array, heads[part])
        writer.add_tensor(tensor.name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

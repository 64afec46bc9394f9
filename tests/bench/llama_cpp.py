"""llama.cpp's own server with the bundled judge's merged weights: `python -m tests.bench.llama_cpp GGUF PORT`.

The server comes from the PyPI package xllamacpp, which is no dependency of the project; the file it reads is made here
in float32, with the keys and the tokenizer of the base model's file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
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
        if part in heads:  # llama.cpp keeps the two halves of a rotary pair side by side
            n = heads[part]
            array = array.reshape(n, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(tensor.name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(path: str, port: int) -> None:
    """Run until the input closes."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.n_ctx, params.n_parallel = path, port, 2048, 1
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))

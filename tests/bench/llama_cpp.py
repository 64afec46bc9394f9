"""The bundled judge's merged weights as a float32 file with the base's keys and tokenizer, and llama.cpp's server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
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
"""llama.cpp's name of each weight of a Llama block, and transformers'."""
WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_parallel, params.n_ctx = sys.argv[1], int(sys.argv[2]), 1, 2048
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
sys.stdin.read()
"""
"""A server with one thread, one slot and 2,048 tokens, until its input closes."""
START_S = 120.0


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
            array = array.reshape(heads[part], 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(tensor.name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@contextmanager
def llama_server(gguf: Path) -> Iterator[str]:
    """The address of a server that answers from this file, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    started = subprocess.Popen([sys.executable, "-c", SERVER, str(gguf), str(port)], stdin=subprocess.PIPE)
    try:
        while not _answers(url):
            assert started.poll() is None, f"the server ended with code {started.returncode}"
            assert time.monotonic() < end, f"no answer within {START_S:.0f} s"
            time.sleep(0.05)
        yield url
    finally:
        started.terminate()
        started.communicate()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False

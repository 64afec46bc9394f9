"""A LoRA in peft's layout, written as the GGUF file that llama.cpp lays over its 4-bit base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import ModelError

PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""llama.cpp's name of each linear layer of a Llama block, and transformers'."""
BEFORE = "base_model.model.model.layers."


def pairs_together(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows (heads * width, N) of a query or key weight in llama.cpp's order: rotary pairs side by side."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def write_adapter(folder: Path, config: Any, out: Path) -> None:
    """Write a folder's adapter as GGUF.

    Args:
        folder: with `adapter_config.json` and `adapter_model.safetensors`.
        config: of the Llama model it was trained on; its numbers of heads order the query and key rows.
        out: the file.

    Raises:
        ModelError: the adapter changes something else than the linear layers of the blocks, or scales otherwise.
    """
    import gguf
    from safetensors import safe_open

    about = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    if other := [k for k in ("use_dora", "use_rslora", "alpha_pattern", "modules_to_save") if about.get(k)]:
        raise ModelError(f"The adapter in {folder.name} uses {', '.join(other)}, which is not written for llama.cpp.")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    names = {theirs: ours for ours, theirs in PARTS.items()}
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(about["lora_alpha"]))
    with safe_open(folder / "adapter_model.safetensors", "np") as file:
        for key in file.keys():  # noqa: SIM118 - no mapping
            layer, _, rest = key.removeprefix(BEFORE).removesuffix(".weight").partition(".")
            module, _, side = rest.rpartition(".")
            if module not in names or side not in {"lora_A", "lora_B"}:
                raise ModelError(f"The adapter in {folder.name} holds {key}, which is not written for llama.cpp.")
            part, array = names[module], file.get_tensor(key).astype(np.float32)
            if side == "lora_B" and part in heads:
                array = pairs_together(array, heads[part])
            writer.add_tensor(f"blk.{layer}.{part}.weight.{side.lower()}", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

"""One forward pass of a Llama-shaped model over a static cache, written out, so that it can be captured as a graph.

The same arithmetic as the library's modules (checked by a test on each shape), with query, key and value as one
product, gate and up as another, residuals added inside the products, and queries of a group read as rows that share
one key head, so that nothing is repeated. Handles Llama, Mistral without a window, Qwen 2 and Qwen 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from engine.models.loader import LoadedModel
from engine.steering.layers import blocks

SHAPES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_MOVING_ROPE = frozenset({"dynamic", "longrope"})
After = Callable[[int, Any], Any]
"""Gets a layer's number and its output (N, d); returns what goes on."""


def why_not(loaded: LoadedModel) -> str:
    """Why this model is decoded through its own modules instead; empty where it need not be."""
    config = loaded.model.config.get_text_config()
    if loaded.kind != "causal" or config.model_type not in SHAPES:
        return f"the architecture {config.model_type} is not written out"
    windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if windowed and config.sliding_window < loaded.max_tokens:
        return "its attention has a window"
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type") in _MOVING_ROPE:
        return "its position encoding depends on the longest row"
    if getattr(config, "hidden_act", "silu") != "silu":
        return f"its activation is {config.hidden_act}"
    block = blocks(loaded)[0]
    if any(part.bias is not None for part in (block.self_attn.o_proj, block.mlp.gate_proj, block.mlp.down_proj)):
        return "its output maps have biases"
    return ""


_made: WeakKeyDictionary[Any, Llama] = WeakKeyDictionary()


def written_out(loaded: LoadedModel) -> Llama:
    """The model's weights for `Llama.forward`, joined once."""
    if loaded.model not in _made:
        _made[loaded.model] = Llama(loaded)
    return _made[loaded.model]


@dataclass(frozen=True)
class Layer:
    """The weights of one block; biases are None where there are none."""

    norm_in: Any
    qkv: Any
    qkv_bias: Any
    q_norm: Any
    k_norm: Any
    out: Any
    norm_mid: Any
    gate_up: Any
    down: Any


class Llama:
    """The weights of a model, products joined.

    The library's modules keep working: their weights become views of the joined ones, with the same values.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        import torch

        config = loaded.model.config.get_text_config()
        self.device, self.dtype = loaded.device, loaded.model.dtype
        self.heads = int(config.num_attention_heads)
        self.kv_heads = int(getattr(config, "num_key_value_heads", None) or self.heads)
        self.width = int(getattr(config, "head_dim", None) or config.hidden_size // self.heads)
        self.eps = float(config.rms_norm_eps)
        self.embedding = loaded.model.get_input_embeddings().weight
        self.norm = loaded.model.model.norm.weight
        self.head = loaded.model.get_output_embeddings().weight
        self._rotary = loaded.model.model.rotary_emb
        with torch.inference_mode(False), torch.no_grad():  # others may want gradients through these weights
            self.layers = [_layer(block) for block in blocks(loaded)]

    def rope(self, length: int) -> tuple[Any, Any]:
        """Cosine and signed sine for positions 0 to length - 1, each (length, D); see `_rotated`."""
        import torch

        positions = torch.arange(length, device=self.device)[None]
        cos, sin = self._rotary(self.embedding[:1, None], positions)
        half = self.width // 2
        sin = torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
        return cos[0].contiguous(), sin.contiguous()

    def cache(self, rows: int, slots: int) -> Any:
        """Room for keys and, behind them, values: (layers, rows, 2 key heads, slots, D)."""
        import torch

        shape = (len(self.layers), rows, 2 * self.kv_heads, slots, self.width)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def forward(
        self, ids: Any, cos: Any, sin: Any, cache: Any, slots: Any, mask: Any, after: After | None, fused: bool
    ) -> Any:
        """Hidden states after the last block, before the final norm.

        Args:
            ids: token ids (B, T).
            cos: of each token's position (B, T, D).
            sin: likewise, signed.
            cache: from `cache`; the tokens' keys and values are written to `slots` (T,).
            slots: where in the cache the tokens stand.
            mask: added to the scores: (B, 1, T, S) of the model's dtype.
            after: edits the output of each block.
            fused: use the fused attention kernel; otherwise plain products.

        Returns:
            (B * T, d).
        """
        import torch
        from torch.nn import functional as F  # noqa: N812 - its usual name

        batch, steps = ids.shape
        cos, sin = self._for_heads(cos, 1.0), self._for_heads(sin, 0.0)
        x = F.embedding(ids.reshape(-1), self.embedding)
        size = (x.shape[-1],)
        for number, layer in enumerate(self.layers, start=1):
            qkv = F.linear(F.rms_norm(x, size, layer.norm_in, self.eps), layer.qkv, layer.qkv_bias)
            qkv = qkv.view(batch, steps, -1, self.width)
            if layer.q_norm is not None:
                q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
                q = F.rms_norm(q, (self.width,), layer.q_norm, self.eps)
                qkv = torch.cat([q, F.rms_norm(k, (self.width,), layer.k_norm, self.eps), v], dim=2)
            turned = torch.addcmul(qkv * cos, qkv.roll(self.width // 2, -1), sin)
            held = cache[number - 1]
            held.index_copy_(2, slots, turned[:, :, self.heads :].transpose(1, 2))
            mixed = self._attend(turned[:, :, : self.heads], held, mask, fused)
            x.addmm_(mixed, layer.out.t())
            gate, up = F.linear(F.rms_norm(x, size, layer.norm_mid, self.eps), layer.gate_up).chunk(2, dim=-1)
            x.addmm_(F.silu(gate).mul_(up), layer.down.t())
            if after:
                x = after(number, x)
        return x

    def _for_heads(self, turn: Any, still: float) -> Any:
        """Cosine or sine for each head (B, T, heads + 2 key heads, D): values are not turned."""
        import torch

        turned = turn[:, :, None].expand(-1, -1, self.heads + self.kv_heads, -1)
        return torch.cat([turned, turned.new_full((), still).expand_as(turned[:, :, : self.kv_heads])], dim=2)

    def logits(self, hidden: Any) -> Any:
        """Next-token logits (N, V) of hidden states (N, d), in the model's dtype."""
        from torch.nn import functional as F  # noqa: N812 - its usual name

        return F.linear(F.rms_norm(hidden, (hidden.shape[-1],), self.norm, self.eps), self.head)

    def _attend(self, q: Any, held: Any, mask: Any, fused: bool) -> Any:
        """Attention (B * T, heads * D) of queries (B, T, heads, D); the queries of a group are rows of one head."""
        import torch
        from torch.nn import functional as F  # noqa: N812 - its usual name

        batch, steps, _, width = q.shape
        keys, values = held[:, : self.kv_heads], held[:, self.kv_heads :]
        group = self.heads // self.kv_heads
        if steps == 1:
            rows = q.reshape(batch, self.kv_heads, group, width)
        else:
            rows = q.reshape(batch, steps, self.kv_heads, group, width).permute(0, 2, 3, 1, 4)
            rows = rows.reshape(batch, self.kv_heads, group * steps, width)
            mask = mask.repeat(1, 1, group, 1)
        if fused:
            mask = mask.expand(batch, self.kv_heads, rows.shape[2], mask.shape[-1])
            out = F.scaled_dot_product_attention(rows, keys, values, attn_mask=mask)
        else:
            scores = torch.matmul(rows, keys.transpose(2, 3)).mul_(width**-0.5).add_(mask)
            out = torch.matmul(scores.float().softmax(dim=-1).to(values.dtype), values)
        if steps == 1:
            return out.reshape(batch, -1)
        out = out.reshape(batch, self.kv_heads, group, steps, width).permute(0, 3, 1, 2, 4)
        return out.reshape(batch * steps, -1)


def _layer(block: Any) -> Layer:
    attention, mlp = block.self_attn, block.mlp
    qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
    weight, bias = _joined(qkv)
    gate_up, _ = _joined([mlp.gate_proj, mlp.up_proj])
    return Layer(
        norm_in=block.input_layernorm.weight,
        qkv=weight,
        qkv_bias=bias,
        q_norm=getattr(getattr(attention, "q_norm", None), "weight", None),
        k_norm=getattr(getattr(attention, "k_norm", None), "weight", None),
        out=attention.o_proj.weight,
        norm_mid=block.post_attention_layernorm.weight,
        gate_up=gate_up,
        down=mlp.down_proj.weight,
    )


def _joined(parts: list[Any]) -> tuple[Any, Any]:
    """Weights (and biases) of linear maps one below the other; each map's own weight becomes a view of them."""
    import torch

    weight = torch.cat([part.weight for part in parts])
    bias = torch.cat([part.bias for part in parts]) if parts[0].bias is not None else None
    start = 0
    for part in parts:
        stop = start + part.weight.shape[0]
        part.weight.data = weight[start:stop]
        if bias is not None:
            part.bias.data = bias[start:stop]
        start = stop
    return weight, bias

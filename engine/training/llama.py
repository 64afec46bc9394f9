"""A Llama with LoRA on all its linear layers, written for training speed.

transformers with peft launches several thousand small kernels a step and is bound by Python. Here each kind of
linear layer is one stack over all blocks; the adapted weights W + (alpha / r) B A are made once a step for all
blocks, the forward pass reads them, and their gradient is taken back to A and B. A test holds the numbers against
transformers and peft.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engine.core.errors import InputError

ATTENTION, MLP = "self_attn", "mlp"
LAYERS = {
    "q_proj": ATTENTION,
    "k_proj": ATTENTION,
    "v_proj": ATTENTION,
    "o_proj": ATTENTION,
    "gate_proj": MLP,
    "up_proj": MLP,
    "down_proj": MLP,
}
"""Every linear layer of a block, and the part it belongs to."""


class LoraLlama:
    """The base weights (frozen) and the adapter (`parameters`), on the base model's device.

    In what follows N is the number of blocks, r the rank.

    Attributes:
        parameters: name to tensor, `A.q_proj` (N, r, in) and `B.q_proj` (N, out, r), float32.
    """

    def __init__(self, model: Any, rank: int, alpha: int, seed: int) -> None:
        """Take the weights of a transformers Llama; draw A as peft does, set B to zero.

        Raises:
            InputError: the model is no plain Llama.
        """
        import torch

        config = model.config
        if config.model_type != "llama" or config.hidden_act != "silu" or config.attention_bias or config.mlp_bias:
            raise InputError(f"Only Llama models without biases can be trained here; this one is {config.model_type}.")
        self.rank, self.scale = rank, alpha / rank
        self.alpha = alpha
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.eps = config.rms_norm_eps
        self.blocks = len(model.model.layers)
        self.device = model.device
        self.compute = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        blocks = list(model.model.layers)
        self.frozen = {n: torch.stack([_layer(b, n).weight.detach() for b in blocks]) for n in LAYERS}
        self.norm_1 = torch.stack([b.input_layernorm.weight.detach() for b in blocks])
        self.norm_2 = torch.stack([b.post_attention_layernorm.weight.detach() for b in blocks])
        self.last_norm = model.model.norm.weight.detach()
        self.embedding = model.model.embed_tokens.weight.detach()
        self.head = model.lm_head.weight.detach().to(self.compute)
        self.rotary = model.model.rotary_emb
        self.parameters = self._fresh(seed)

    def _fresh(self, seed: int) -> dict[str, Any]:
        """Kaiming-uniform A and zero B, drawn on the CPU so that every device starts alike."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        found = {}
        for name, weight in self.frozen.items():
            count, wide, narrow = weight.shape
            bound = 1 / math.sqrt(narrow)  # what kaiming_uniform_ with a = sqrt(5) comes to
            a = (torch.rand(count, self.rank, narrow, generator=generator) * 2 - 1) * bound
            found[f"A.{name}"] = a.to(self.device).requires_grad_()
            found[f"B.{name}"] = torch.zeros(count, wide, self.rank, device=self.device).requires_grad_()
        return found

    def adapted(self) -> dict[str, Any]:
        """The adapted weights in the precision of the forward pass, as leaves that collect gradients."""
        import torch

        with torch.no_grad():
            whole = {
                n: w + self.scale * torch.bmm(self.parameters[f"B.{n}"], self.parameters[f"A.{n}"])
                for n, w in self.frozen.items()
            }
        return {n: w.to(self.compute).requires_grad_() for n, w in whole.items()}

    def collect(self, adapted: Mapping[str, Any]) -> None:
        """Take the gradients of the adapted weights back to A and B."""
        import torch

        with torch.no_grad():
            for name, weight in adapted.items():
                gradient = weight.grad.float() * self.scale  # (N, out, in)
                a, b = self.parameters[f"A.{name}"], self.parameters[f"B.{name}"]
                a.grad = torch.bmm(b.transpose(1, 2), gradient)
                b.grad = torch.bmm(gradient, a.transpose(1, 2))

    def last_logits(self, adapted: Mapping[str, Any], groups: Sequence[Sequence[Sequence[int]]], filler: int) -> Any:
        """Logits (P, V) after the last token of each of the P prompts, group after group.

        The prompts of a group are computed as one row: what they share at the start once, then each rest, which
        sees the shared part and itself only. Rows are padded on the right. The residual stream is float32, the
        matrix products are in the precision of `adapted`.
        """
        import torch
        import torch.nn.functional as f

        plan = layout(groups, filler)
        ids, positions = (torch.tensor(x, device=self.device) for x in (plan.ids, plan.positions))  # (B, T)
        rows, places = (torch.tensor(x, device=self.device) for x in zip(*plan.reads, strict=True))  # (P,)
        mask = None if plan.plain else _mask(torch.tensor(plan.parts, device=self.device))  # (B, 1, T, T)
        stream = self.embedding[ids]  # (B, T, H)
        cos, sin = (x[:, None].to(self.compute) for x in self.rotary(stream, positions))  # (B, 1, T, head)
        blocks = {n: w.unbind(0) for n, w in adapted.items()}  # one backward for a stack, not one for each block
        for i in range(self.blocks):
            inner = f.rms_norm(stream, stream.shape[-1:], self.norm_1[i], self.eps).to(self.compute)
            stream = stream + self._attention(blocks, i, inner, cos, sin, mask)
            inner = f.rms_norm(stream, stream.shape[-1:], self.norm_2[i], self.eps).to(self.compute)
            gated = f.silu(f.linear(inner, blocks["gate_proj"][i])) * f.linear(inner, blocks["up_proj"][i])
            stream = stream + f.linear(gated, blocks["down_proj"][i])
        at_last = stream[rows, places]  # (P, H)
        at_last = f.rms_norm(at_last, at_last.shape[-1:], self.last_norm, self.eps)
        return f.linear(at_last.to(self.compute), self.head)

    def _attention(self, blocks: Mapping[str, Any], i: int, inner: Any, cos: Any, sin: Any, mask: Any) -> Any:
        import torch.nn.functional as f

        batch, length, _ = inner.shape

        def heads(name: str, count: int) -> Any:
            return f.linear(inner, blocks[name][i]).view(batch, length, count, -1).transpose(1, 2)

        q, k, v = heads("q_proj", self.heads), heads("k_proj", self.kv_heads), heads("v_proj", self.kv_heads)
        q, k = (x * cos + _turned(x) * sin for x in (q, k))
        share = self.heads // self.kv_heads
        k, v = (x[:, :, None].expand(-1, -1, share, -1, -1).reshape(batch, self.heads, length, -1) for x in (k, v))
        mixed = f.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return f.linear(mixed.transpose(1, 2).reshape(batch, length, -1), blocks["o_proj"][i])

    def write(self, folder: Path, base_name: str) -> Path:
        """Write the adapter in peft's format, float16; returns the weights' path."""
        import torch
        from peft import LoraConfig
        from safetensors.torch import save_file

        state = {}
        for name, part in LAYERS.items():
            for letter in "AB":
                stack = self.parameters[f"{letter}.{name}"].detach().to("cpu", torch.float16)
                for i in range(self.blocks):
                    key = f"base_model.model.model.layers.{i}.{part}.{name}.lora_{letter}.weight"
                    state[key] = stack[i].contiguous().clone()
        save_file(dict(sorted(state.items())), folder / "adapter_model.safetensors", metadata={"format": "pt"})
        LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            target_modules=list(LAYERS),
            lora_dropout=0.0,
            base_model_name_or_path=base_name,
            inference_mode=True,
        ).save_pretrained(str(folder))
        return folder / "adapter_model.safetensors"


class Layout(NamedTuple):
    """Groups of prompts as padded rows.

    Attributes:
        ids, positions: (B, T), the token and its position in its own prompt.
        parts: (B, T), 0 for what a group shares, k for what only its k-th prompt has.
        reads: for each prompt the row and the place of its last token.
        plain: true where every row is one prompt, so that causal attention is all there is to it.
    """

    ids: list[list[int]]
    positions: list[list[int]]
    parts: list[list[int]]
    reads: list[tuple[int, int]]
    plain: bool


def layout(groups: Sequence[Sequence[Sequence[int]]], filler: int) -> Layout:
    """Lay groups of prompts out as rows of one length, a multiple of 8 (what masked attention likes)."""
    ids, positions, parts, reads = [], [], [], []
    for row, prompts in enumerate(groups):
        shared = shared_start(prompts)
        own_ids, own_positions, own_parts = list(prompts[0][:shared]), list(range(shared)), [0] * shared
        for k, prompt in enumerate(prompts, start=1):
            rest = prompt[shared:]
            own_ids += rest
            own_positions += range(shared, len(prompt))
            own_parts += [k] * len(rest)
            reads.append((row, len(own_ids) - 1))
        ids.append(own_ids)
        positions.append(own_positions)
        parts.append(own_parts)
    length = -(-max(map(len, ids)) // 8) * 8
    for lists, value in ((ids, filler), (positions, 0), (parts, -1)):
        for one in lists:
            one += [value] * (length - len(one))
    return Layout(ids, positions, parts, reads, all(len(prompts) == 1 for prompts in groups))


def shared_start(prompts: Sequence[Sequence[int]]) -> int:
    """Number of tokens all prompts begin with, leaving each at least one of its own; 0 for a single prompt."""
    if len(prompts) == 1:
        return 0
    least = min(len(p) for p in prompts) - 1
    for k, tokens in enumerate(zip(*prompts, strict=False)):
        if k == least or len(set(tokens)) > 1:
            return k
    return least


def _mask(parts: Any) -> Any:
    """Mask of the tokens each token sees (B, 1, T, T): earlier ones of the shared part and of its own."""
    import torch

    seen, sees = parts[:, None, :], parts[:, :, None]
    earlier = torch.ones(parts.shape[1], parts.shape[1], dtype=torch.bool, device=parts.device).tril()
    return (((seen == 0) | (seen == sees)) & earlier)[:, None]


def _layer(block: Any, name: str) -> Any:
    return getattr(getattr(block, LAYERS[name]), name)


def _turned(x: Any) -> Any:
    """The second half of each head's dimensions, negated, ahead of the first."""
    import torch

    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

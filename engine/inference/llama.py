"""One forward pass of a Llama-shaped model over a cache of our own, fused: few launches, and it can be recorded.

The same arithmetic as the library's modules (checked by a test on each shape), with query, key and value as one
product, gate and up as another, residuals added inside the products, and queries of a group read as rows that share
one key head, so that nothing is repeated. What lies between the products is torch's, or on a GPU one Triton kernel
for each stretch (`engine.inference.kernels`). On a CPU weights that came in few bits may be read in those
(`engine.inference.packed`). Handles Llama, Mistral without a window, Qwen 2 and Qwen 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from engine.core.errors import ModelError
from engine.inference.batching import batches, is_split, pad_right, token_budget
from engine.inference.loading import LoadedModel
from engine.inference.packed import PackedModel, compiled_threads, pack_all

SHAPES = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_MOVING_ROPE = frozenset({"dynamic", "longrope"})
Way = Literal["kernels", "fused", "products", "packed"]
"""Steps between the matrix products: our Triton kernels; torch's with its fused attention; plain products. Or
torch's between compiled products of packed weights."""
FEW_ROWS = 4
"""Rows up to which a product reads the weights once for each row, in one launch with what stands around it."""
After = Callable[[int, Any], Any]
"""Gets a layer's number and its output (N, d); returns what goes on."""


def unsupported_reason(loaded: LoadedModel) -> str:
    """Why this model is decoded through its own modules instead; empty where it need not be."""
    config = loaded.model.config.get_text_config()
    if loaded.kind != "causal" or config.model_type not in SHAPES:
        return f"the architecture {config.model_type} has no fused forward pass"
    if is_split(loaded.model):
        return "its layers are on several devices"
    windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if windowed and config.sliding_window < loaded.max_tokens:
        return "its attention has a window"
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type") in _MOVING_ROPE:
        return "its position encoding depends on the longest row"
    if getattr(config, "hidden_act", "silu") != "silu":
        return f"its activation is {config.hidden_act}"
    block = loaded.model.model.layers[0]
    if any(part.bias is not None for part in (block.self_attn.o_proj, block.mlp.gate_proj, block.mlp.down_proj)):
        return "its output maps have biases"
    return ""


_made: WeakKeyDictionary[Any, Llama] = WeakKeyDictionary()


def fused_forward(loaded: LoadedModel) -> Llama:
    """The model's weights for `Llama.forward`, joined once; anew after the model has moved or changed its precision."""
    found = _made.get(loaded.model)
    if found is None or not found.is_of(loaded.model):
        found = _made[loaded.model] = Llama(loaded)
    return found


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
            self.layers = [_layer(block) for block in loaded.model.model.layers]

        self.ways = _ways(self)

    @cached_property
    def packed(self) -> PackedModel | None:
        """The weights in the few bits they came in, made on first use; None where they did not come in such."""
        if any(layer.qkv_bias is not None or layer.q_norm is not None for layer in self.layers):
            return None
        maps = [(one.norm_in, one.qkv, one.out, one.norm_mid, one.gate_up, one.down) for one in self.layers]
        return pack_all(maps, self.head)

    def is_of(self, model: Any) -> bool:
        """True where the model's own weights are still views of these."""
        first = model.model.layers[0].self_attn.q_proj.weight
        return bool(self.layers[0].qkv.data_ptr() == first.data_ptr() and self.layers[0].qkv.dtype == first.dtype)

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
        self, ids: Any, cos: Any, sin: Any, cache: Any, slots: Any, mask: Any, after: After | None = None,
        way: Way = "fused",
    ) -> Any:  # fmt: skip
        """Hidden states after the last block, before the final norm.

        Args:
            ids: token ids (B, T).
            cos: of each token's position (B, T, D).
            sin: likewise, signed.
            cache: from `cache`; the tokens' keys and values are written to `slots` (T,).
            slots: where in the cache the tokens stand.
            mask: added to the scores: (B, 1, T, S) of the model's dtype. With one token and our kernels, only what
                stands before the token is read.
            after: edits the output of each block.
            way: one of `ways`, or "packed" for one token a row where `packed` is there.

        Returns:
            (B * T, d).
        """
        from torch.nn import functional as F  # noqa: N812 - its usual name

        x = F.embedding(ids.reshape(-1), self.embedding)
        if way == "kernels" and ids.shape[1] == 1 and len(x) <= FEW_ROWS:
            return self._few(x, cos, sin, cache, slots, mask, after)
        if way == "packed" and self.packed:
            return self.packed.forward(x, cos, sin, cache, slots, mask, after, self.heads, self.eps)
        mix = self._mixer(ids.shape, cos, sin, slots, mask, way)
        for number, layer in enumerate(self.layers, start=1):
            qkv = F.linear(self._norm(x, layer.norm_in, way), layer.qkv, layer.qkv_bias)
            x.addmm_(mix(qkv, layer, cache[number - 1]), layer.out.t())
            both = F.linear(self._norm(x, layer.norm_mid, way), layer.gate_up)
            x.addmm_(self._gated(both, way), layer.down.t())
            if after:
                x = after(number, x)
        return x

    def _few(self, x: Any, cos: Any, sin: Any, cache: Any, slots: Any, mask: Any, after: After | None) -> Any:
        """One new token for a few rows: five launches a layer."""
        from engine.inference.kernels import attend_one, vector_product

        for number, layer in enumerate(self.layers, start=1):
            qkv = vector_product(x, layer.qkv, norm=layer.norm_in, eps=self.eps, bias=layer.qkv_bias)
            mixed = attend_one(qkv, cos, sin, slots, mask, cache[number - 1], self.heads)
            vector_product(mixed, layer.out, to=x)
            inner = vector_product(x, layer.gate_up, norm=layer.norm_mid, eps=self.eps, gated=True)
            vector_product(inner, layer.down, to=x)
            if after:
                x = after(number, x)
        return x

    def _norm(self, x: Any, weight: Any, way: Way) -> Any:
        if way == "kernels":
            from engine.inference.kernels import rms_norm

            return rms_norm(x, weight, self.eps)
        from torch.nn import functional as F  # noqa: N812 - its usual name

        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)

    def _gated(self, both: Any, way: Way) -> Any:
        if way == "kernels":
            from engine.inference.kernels import silu_mul

            return silu_mul(both)
        from torch.nn import functional as F  # noqa: N812 - its usual name

        gate, up = both.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    def _mixer(self, shape: Any, cos: Any, sin: Any, slots: Any, mask: Any, way: Way) -> Callable[..., Any]:
        """From query, key and value of a layer to its attention's output; rotates and stores on the way."""
        steps, group = int(shape[1]), self.heads // self.kv_heads
        rows = mask.repeat(1, 1, group, 1) if steps > 1 else mask  # the queries of a group are rows of one head
        if way == "kernels":
            from engine.inference.kernels import attend_one, turn_and_store

            if steps == 1:
                return lambda qkv, _, held: attend_one(qkv, cos, sin, slots, mask, held, self.heads)
            return lambda qkv, _, held: self._attend(
                turn_and_store(qkv, cos, sin, slots, held, self.heads), held, rows, steps, fused=True
            )
        every_cos, every_sin = self._for_heads(cos, 1.0), self._for_heads(sin, 0.0)

        def mix(qkv: Any, layer: Layer, held: Any) -> Any:
            turned = self._turned(qkv.view(*shape, -1, self.width), layer, every_cos, every_sin)
            held.index_copy_(2, slots, turned[:, :, self.heads :].transpose(1, 2))
            q = turned[:, :, : self.heads].transpose(1, 2).reshape(shape[0], self.kv_heads, group * steps, -1)
            return self._attend(q, held, rows, steps, fused=way == "fused")

        return mix

    def _turned(self, qkv: Any, layer: Layer, cos: Any, sin: Any) -> Any:
        """Queries and keys rotated by their positions, values as they are (B, T, heads + 2 key heads, D)."""
        import torch
        from torch.nn import functional as F  # noqa: N812 - its usual name

        if layer.q_norm is not None:
            q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=2)
            q = F.rms_norm(q, (self.width,), layer.q_norm, self.eps)
            qkv = torch.cat([q, F.rms_norm(k, (self.width,), layer.k_norm, self.eps), v], dim=2)
        return torch.addcmul(qkv * cos, qkv.roll(self.width // 2, -1), sin)

    def _for_heads(self, turn: Any, still: float) -> Any:
        """Cosine or sine for each head (B, T, heads + 2 key heads, D): values are not turned."""
        import torch

        turned = turn[:, :, None].expand(-1, -1, self.heads + self.kv_heads, -1)
        return torch.cat([turned, turned.new_full((), still).expand_as(turned[:, :, : self.kv_heads])], dim=2)

    def logits(self, hidden: Any, way: Way = "fused") -> Any:
        """Next-token logits (N, V) of hidden states (N, d), in the model's dtype."""
        from torch.nn import functional as F  # noqa: N812 - its usual name

        last = F.rms_norm(hidden, (hidden.shape[-1],), self.norm, self.eps)
        return self.packed.head(last) if way == "packed" and self.packed else F.linear(last, self.head)

    def _attend(self, q: Any, held: Any, mask: Any, steps: int, *, fused: bool) -> Any:
        """Attention (B * T, heads * D) of queries (B, key heads, heads of a group * T, D)."""
        import torch
        from torch.nn import functional as F  # noqa: N812 - its usual name

        keys, values = held[:, : self.kv_heads], held[:, self.kv_heads :]
        if fused:
            mask = mask.expand(-1, self.kv_heads, q.shape[2], -1)
            out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        else:
            scores = torch.matmul(q, keys.transpose(2, 3)).mul_(self.width**-0.5).add_(mask)
            out = torch.matmul(scores.float().softmax(dim=-1).to(values.dtype), values)
        return out.reshape(len(q), self.heads, steps, self.width).transpose(1, 2).reshape(len(q) * steps, -1)


def _ways(model: Llama) -> tuple[Way, ...]:
    """The ways that this model can go here; which is fastest depends on the pass."""
    even = model.width >= 16 and model.width & (model.width - 1) == 0 and model.layers[0].q_norm is None
    return ("kernels", "fused", "products") if even and _kernels_work(model.device) else ("fused", "products")


@cache
def _kernels_work(device: str) -> bool:
    """True where Triton is there and compiles for this device (it needs a C compiler, too)."""
    if device == "cpu" or find_spec("triton") is None:
        return False
    try:
        from engine.inference.kernels import check

        check(device)
    except Exception as error:  # noqa: BLE001 - the client raises errors of several libraries
        logging.getLogger(__name__).warning("Triton's kernels are not used on %s: %s", device, error)
        return False
    return True


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


# A batch being written: static cache, static buffers, one step that can be captured as a CUDA graph.
#
# Rows may share prompts: each prompt is read once, up to its last token, and its keys and values are copied to its
# rows. The last prompt token is the first token of the first step, so that an edit acts from it on and not on what
# stands before. Prompts are padded on the right; a row's new tokens go on from its own length, and the mask hides
# what the padding leaves.

TOP_K = 50
_STEP = 16
"""Slots come in so many, so that attention kernels find aligned masks."""
_LOOK = 8
"""Steps between two looks at whether all rows have ended, on a GPU."""
STEPS_TOLD = 8
"""Steps between two reports of how far a batch is."""


WORTH_RECORDING = 4
"""Tokens above which recording a GPU's graph is worth it."""
WORTH_PACKING = 16
"""Tokens from which packing the weights, once for a model, is worth it; texts of that length come in numbers."""


class Editing(Protocol):
    """Edits the activations of the rows' newest tokens at one layer."""

    layer: int

    def apply(self, hidden: Any) -> tuple[Any, Any]:
        """Edited activations (B, d), and the relative size (B,) of each edit."""


@dataclass(frozen=True)
class Row:
    """One text to write.

    Attributes:
        prompt: number of its prompt.
        temperature: 0 takes the likeliest token; above, one of the 50 likeliest is drawn.
        seed: decides the draws of this row, whatever the batch.
    """

    prompt: int
    temperature: float = 0.0
    seed: int = 0


def chooser(rows: Sequence[Row], limit: int, device: str) -> Callable[[Any, Any], Any]:
    """A function that takes logits (B, V) and the step's number as a tensor (1,), and gives the next tokens (B,)."""
    import torch

    if not any(row.temperature for row in rows):
        return lambda logits, _: logits.argmax(dim=-1)
    draws = np.stack(
        [np.random.default_rng(row.seed).random(limit) * bool(row.temperature) for row in rows], dtype=np.float32
    )
    u = torch.from_numpy(draws).to(device)  # (B, limit); a greedy row draws 0, which is the likeliest token
    heat = torch.tensor([[row.temperature or 1.0] for row in rows], device=device)

    def choose(logits: Any, step: Any) -> Any:
        values, ids = logits.float().topk(min(TOP_K, logits.shape[-1]), dim=-1)
        reached = (values / heat).softmax(dim=-1).cumsum(dim=-1)
        pick = (reached < u.index_select(1, step) * reached[:, -1:]).sum(dim=-1, keepdim=True)
        return ids.gather(1, pick.clamp_max(ids.shape[1] - 1))[:, 0]

    return choose


def slots_for(prompts: Sequence[Sequence[int]], limit: int) -> int:
    """Places in the cache that a batch takes."""
    return -(-(max(map(len, prompts)) + limit + 1) // _STEP) * _STEP


def way_for(model: Llama, limit: int) -> Way:
    """Way of writing `limit` tokens of each row on this device, before a GPU's graph is recorded."""
    return "packed" if model.device == "cpu" and limit >= WORTH_PACKING and model.packed else "fused"


def write(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    limit: int,
    ends: frozenset[int],
    editor: Editing | None = None,
    after_step: Callable[[int], None] | None = None,
) -> tuple[list[list[int]], list[float]]:
    """The tokens of each row and its mean relative edit; see `Session.run`.

    Args:
        loaded: a model that `engine.inference.llama.unsupported_reason` has nothing against.
        prompts: token ids of every prompt.
        rows: rows that are written.
        limit: tokens of a text, at most.
        ends: tokens that end a text.
        editor: of the rows, in order.
        after_step: called with the tokens written so far, every `STEPS_TOLD` of them; may raise to stop.

    Raises:
        ModelError: the model gave NaN.
    """
    session = Session(fused_forward(loaded), prompts, rows, limit, editor)
    if loaded.device != "cpu" and limit > WORTH_RECORDING:
        session.capture()
    return session.run(ends, after_step)


class Session:
    """B rows ready to be written.

    Args:
        model: the weights.
        prompts: token ids of every prompt.
        rows: for each row the prompt it continues, and its way of choosing.
        limit: tokens written for each row, at most.
        editor: of the rows, in order; None steers nothing.
        way: computation of a step; by default as `way_for` chooses, and recording a graph chooses the fastest.
    """

    def __init__(
        self,
        model: Llama,
        prompts: Sequence[Sequence[int]],
        rows: Sequence[Row],
        limit: int,
        editor: Editing | None = None,
        *,
        way: Way | None = None,
    ) -> None:
        import torch

        self._model, self._limit, self.way = model, limit, way or way_for(model, limit)
        self._prompts = [prompts[row.prompt] for row in rows]
        device = model.device
        size = len(rows)
        self._start = max(map(len, self._prompts)) - 1
        slots = slots_for(self._prompts, limit)
        self._cos, self._sin = model.rope(slots)
        self._cache = model.cache(size, slots)
        self._read(prompts, rows)
        self._choose = chooser(rows, limit, device)
        self._editor = editor
        self._tokens = torch.zeros(size, dtype=torch.long, device=device)
        self._place = torch.zeros(size, dtype=torch.long, device=device)
        self._slot = torch.zeros(1, dtype=torch.long, device=device)
        self._number = torch.zeros(1, dtype=torch.long, device=device)
        self._mask = torch.zeros((size, 1, 1, slots), dtype=model.dtype, device=device)
        self._out = torch.zeros((size, limit), dtype=torch.long, device=device)
        self._sizes = torch.zeros((size, limit), dtype=torch.float32, device=device)
        self._graph: Any = None
        self.logits: Any = None
        self.reset()

    def reset(self) -> None:
        """Back to before the first step."""
        import torch

        lengths = torch.tensor([len(p) for p in self._prompts], device=self._tokens.device)
        self._tokens.copy_(torch.tensor([p[-1] for p in self._prompts], device=self._tokens.device))
        self._place.copy_(lengths - 1)
        self._slot.fill_(self._start)
        self._number.zero_()
        at = torch.arange(self._mask.shape[-1], device=self._tokens.device)
        self._mask.zero_().masked_fill_((at >= (lengths - 1)[:, None])[:, None, None], _lowest(self._mask.dtype))

    def step(self) -> None:
        """Write one token for every row; nothing waits for the device."""
        self._mask.index_fill_(3, self._slot, 0.0)
        cos, sin = self._cos.index_select(0, self._place), self._sin.index_select(0, self._place)
        hidden = self._model.forward(
            self._tokens[:, None],
            cos[:, None],
            sin[:, None],
            self._cache,
            self._slot,
            self._mask,
            self._edit,
            self.way,
        )
        self.logits = self._model.logits(hidden, self.way)
        self._tokens.copy_(self._choose(self.logits, self._number))
        self._out.index_copy_(1, self._number, self._tokens[:, None])
        for counter in (self._place, self._slot, self._number):
            counter.add_(1)

    def capture(self) -> None:
        """Record the step as a CUDA graph, once in each way, and keep the fastest."""
        import torch

        found = []
        for way in self._model.ways:
            self.way = way
            try:
                found.append((*self._captured(), way))
            except RuntimeError as error:  # a kernel that refuses this shape, or that cannot be recorded
                if isinstance(error, torch.OutOfMemoryError):
                    raise
        self.reset()
        if found:
            _, self._graph, self.logits, self.way = min(found, key=lambda one: one[0])

    def _captured(self) -> tuple[float, Any, Any]:
        """Milliseconds of a replayed step, the graph, and the tensor that its logits are in."""
        import torch

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.reset()
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.reset()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.reset()
        turns = min(self._limit, 8)
        first.record()
        for _ in range(turns):
            graph.replay()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) / turns, graph, self.logits

    def run(
        self, ends: frozenset[int], after_step: Callable[[int], None] | None = None
    ) -> tuple[list[list[int]], list[float]]:
        """Write from the beginning until every row has ended or is full.

        Returns:
            For each row its tokens, up to and with the first end token, and the mean relative edit over them.

        Raises:
            ModelError: the model gave NaN.
        """
        with compiled_threads() if self.way == "packed" else nullcontext():
            return self._run(ends, after_step)

    def _run(
        self, ends: frozenset[int], after_step: Callable[[int], None] | None
    ) -> tuple[list[list[int]], list[float]]:
        self.reset()
        look = 1 if self._model.device == "cpu" else _LOOK
        stop = _tensor_of(ends, self._tokens)
        done = 0
        while done < self._limit:
            for _ in range(min(look, self._limit - done)):
                self._graph.replay() if self._graph else self.step()
                done += 1
            if after_step and done % STEPS_TOLD == 0:
                after_step(done)
            if len(ends) and bool(_is_in(self._out[:, :done], stop).any(dim=1).all()):
                break
        if not bool(self.logits.isfinite().all()):
            raise ModelError("The model gave NaN while writing; its weights or precision are broken.")
        tokens = [_until_end(row, ends) for row in self._out[:, :done].tolist()]
        sizes = self._sizes.double().cpu().numpy()
        return tokens, [float(s[: len(t)].mean()) for s, t in zip(sizes, tokens, strict=True)]

    def _edit(self, number: int, hidden: Any) -> Any:
        if self._editor is None or number != self._editor.layer:
            return hidden
        changed, size = self._editor.apply(hidden)
        self._sizes.index_copy_(1, self._number, size[:, None])
        return changed

    def _read(self, prompts: Sequence[Sequence[int]], rows: Sequence[Row]) -> None:
        """Fill the cache with every prompt but its last token; each prompt is read once."""
        import torch

        used = sorted({row.prompt for row in rows if len(prompts[row.prompt]) > 1})
        for batch in batches([len(prompts[i]) - 1 for i in used], token_budget(self._model.device)):
            chosen = [used[i] for i in batch]
            ids, _ = pad_right([prompts[i][:-1] for i in chosen], prompts[chosen[0]][0], self._model.device)
            steps = ids.shape[1]
            cache = self._model.cache(len(chosen), steps)
            at = torch.arange(steps, device=ids.device)
            mask = torch.zeros((1, 1, steps, steps), dtype=self._model.dtype, device=ids.device)
            mask.masked_fill_(at[None] > at[:, None], _lowest(mask.dtype))
            cos, sin = self._cos[:steps].expand(len(chosen), -1, -1), self._sin[:steps].expand(len(chosen), -1, -1)
            self._model.forward(ids, cos, sin, cache, at, mask.expand(len(chosen), -1, -1, -1))
            place = {prompt: k for k, prompt in enumerate(chosen)}
            here = [(b, place[row.prompt]) for b, row in enumerate(rows) if row.prompt in place]
            to, source = (torch.tensor(x, device=ids.device) for x in zip(*here, strict=True))
            for own, read in zip(self._cache, cache, strict=True):  # layer by layer, so that little is copied at once
                own[to, :, :steps] = read[source]


def _lowest(dtype: Any) -> float:
    import torch

    return float(torch.finfo(dtype).min)


def _tensor_of(ends: frozenset[int], like: Any) -> Any:
    import torch

    return torch.tensor(sorted(ends), dtype=torch.long, device=like.device)


def _is_in(tokens: Any, ends: Any) -> Any:
    import torch

    return torch.isin(tokens, ends)


def _until_end(row: list[int], ends: frozenset[int]) -> list[int]:
    return next((row[: k + 1] for k, token in enumerate(row) if token in ends), row)

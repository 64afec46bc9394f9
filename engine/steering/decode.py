"""Writing texts, steered or not: alphas, directions and contexts are rows of one batch.

Llama-shaped models take a decode loop of our own over a static cache, captured as a CUDA graph on a GPU; others are
run through their own modules, with the edit as a hook, prompts of one length at a time.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from engine.core.errors import InputError, ModelError
from engine.inference.batching import SHARE, batches, free_bytes, halving
from engine.inference.chat import plain_ids, render_ids
from engine.inference.generation import end_tokens
from engine.inference.llama import Row, chooser, fused_forward, slots_for, unsupported_reason, write
from engine.inference.loading import LoadedModel
from engine.inference.perplexity import reduced, text_ids, token_nlls
from engine.steering.activations import steered
from engine.steering.vectors import Edit, Editor, Floats

CPU_ROWS, GPU_ROWS = 32, 2048
_said: set[str] = set()


@dataclass(frozen=True)
class Written:
    """A text and how it came about.

    Attributes:
        text: without special tokens, stripped.
        ids: its tokens, the end token left out.
        ended: the model ended it within the limit.
        relative_edit: mean |s' - s| / |s| over its tokens; 0 for an unsteered text.
    """

    text: str
    ids: tuple[int, ...]
    ended: bool
    relative_edit: float


def prompt_ids(loaded: LoadedModel, user: str) -> list[int]:
    """A tutor's prompt: through its chat template where it has one.

    Raises:
        ModelError: the template cannot be used.
    """
    if getattr(loaded.tokenizer, "chat_template", None):
        return render_ids(loaded.tokenizer, "", user)
    return plain_ids(loaded.tokenizer, "", user)


def decode(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    limit: int,
    edit: Edit | None = None,
    *,
    after_batch: Callable[[int], None] | None = None,
    batch_rows: int | None = None,
    own_loop: bool | None = None,
) -> list[Written]:
    """Write one text for each row.

    Args:
        loaded: a causal language model.
        prompts: token ids; each prompt with `limit` more within the model's window.
        rows: prompt, temperature and seed of each text.
        limit: tokens of a text, at most.
        edit: one row of it for each row; None steers nothing.
        after_batch: called with the number of rows done, those of a batch under way in part; may raise to stop.
        batch_rows: most rows at once; by default what the memory allows.
        own_loop: force the decode loop or the library's modules; by default as the architecture allows.

    Returns:
        One text per row, in order; a row's text does not depend on the other rows.

    Raises:
        InputError: a prompt is too long for the window; nothing is cut.
        ModelError: no causal model, or NaN.
    """
    _check(loaded, prompts, rows, limit, edit)
    reason = unsupported_reason(loaded)
    in_loop = not reason if own_loop is None else own_loop
    if reason and loaded.fingerprint not in _said:
        _said.add(loaded.fingerprint)
        logging.getLogger(__name__).warning("%s is decoded through its own modules: %s.", loaded.spec, reason)
    out: list[Written | None] = [None] * len(rows)

    def run(batch: Sequence[int]) -> None:
        import torch

        chosen, part = [rows[i] for i in batch], edit.rows(batch) if edit else None
        before, told = sum(one is not None for one in out), after_batch or (lambda _: None)
        with torch.inference_mode():
            if in_loop:
                editor = Editor(part, loaded.device) if part else None
                step = partial(_told, told, before, len(batch), limit)
                tokens, sizes = write(loaded, prompts, chosen, limit, end_tokens(loaded), editor, step)
            else:
                tokens, sizes = _by_modules(loaded, prompts, chosen, limit, part)
        for i, row, size in zip(batch, tokens, sizes, strict=True):
            out[i] = _written(loaded, row, size)
        if after_batch:
            after_batch(sum(one is not None for one in out))

    for batch in _cut(loaded, prompts, rows, limit, batch_rows, in_loop=in_loop):
        halving(run, batch, loaded.device)
    return [one for one in out if one is not None]


def _told(after_batch: Callable[[int], None], before: int, rows: int, limit: int, tokens: int) -> None:
    """Report the rows of a batch under way in part: those before it, and of its own the share of tokens written."""
    after_batch(before + rows * tokens // (limit + 1))


def _check(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], rows: Sequence[Row], limit: int, edit: Edit | None
) -> None:
    if loaded.kind != "causal":
        raise ModelError(f"{loaded.spec} is no causal language model, so it cannot be the tutor. Name one that is.")
    if edit is not None and len(edit.strengths) != len(rows):
        raise InputError(f"An edit of {len(edit.strengths)} rows cannot steer {len(rows)}.")
    longest = max((len(prompts[row.prompt]) for row in rows), default=0)
    if longest + limit > loaded.max_tokens:
        raise InputError(
            f"A prompt of {longest:,} tokens and {limit} to write do not fit the window of {loaded.spec}, "
            f"{loaded.max_tokens:,} tokens. Nothing was cut: leave that context out, or take a tutor with "
            "a longer window."
        )


def _cut(
    loaded: LoadedModel,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[Row],
    limit: int,
    most: int | None,
    *,
    in_loop: bool,
) -> list[list[int]]:
    """Rows in batches: of similar length for the decode loop, of one length for the library's modules."""
    if not rows:
        return []
    lengths = [len(prompts[row.prompt]) for row in rows]
    most = most or (CPU_ROWS if loaded.device == "cpu" else GPU_ROWS)
    if in_loop:
        model = fused_forward(loaded)
        slots = slots_for([prompts[row.prompt] for row in rows], limit)
        per_row = 2 * len(model.layers) * model.kv_heads * slots * model.width * loaded.model.dtype.itemsize
        per_row += 12 * model.head.shape[0]
        most = max(1, min(most, int(SHARE * free_bytes(loaded.device) / per_row)))
    longest = max(lengths)
    cut: list[list[int]] = []
    for group in batches(lengths, longest * len(rows), equal=not in_loop):
        cut += [group[k : k + most] for k in range(0, len(group), most)]
    return cut


def _by_modules(
    loaded: LoadedModel, prompts: Sequence[Sequence[int]], rows: Sequence[Row], limit: int, edit: Edit | None
) -> tuple[list[list[int]], list[float]]:
    """The library's own modules and cache; all prompts of one length."""
    import torch

    ends = end_tokens(loaded)
    choose = chooser(rows, limit, loaded.device)
    ids = torch.tensor([list(prompts[row.prompt]) for row in rows], device=loaded.device)
    word = _cache_word(loaded.model)
    tokens: list[list[int]] = [[] for _ in rows]
    options: dict[str, Any] = {}
    editing: AbstractContextManager[list[Any]] = steered(loaded, edit) if edit else nullcontext([])
    with editing as sizes:
        for k in range(limit):
            out = loaded.model(input_ids=ids, use_cache=True, logits_to_keep=1, **options)
            options = {word: getattr(out, word)}
            logits = out.logits[:, -1]
            if bool(logits.isnan().any()):
                raise ModelError(f"{loaded.spec} gave NaN while writing; its weights or precision are broken.")
            ids = choose(logits, torch.tensor([k], device=loaded.device))[:, None]
            for row, token in zip(tokens, ids[:, 0].tolist(), strict=True):
                if not row or row[-1] not in ends:
                    row.append(token)
            if all(row[-1] in ends for row in tokens):
                break
    if not edit:
        return tokens, [0.0] * len(rows)
    edits = torch.stack(sizes, dim=1).double().cpu().numpy()  # (B, steps)
    return tokens, [float(s[: len(row)].mean()) for s, row in zip(edits, tokens, strict=True)]


def _cache_word(model: Any) -> str:
    """Keyword of a model's cache in this version of the library."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def _written(loaded: LoadedModel, tokens: list[int], size: float) -> Written:
    ended = bool(tokens) and tokens[-1] in end_tokens(loaded)
    ids = tokens[:-1] if ended else tokens
    text = str(loaded.tokenizer.decode(ids, skip_special_tokens=True)).strip()
    return Written(text, tuple(ids), ended, size)


# Fluency of a text: perplexity under the unsteered tutor, and repetition.
#
# Strong steering breaks text, and a judge's score alone does not show it.

RUN = 3


def repetition(text: str) -> float:
    """Share of a text's runs of three words that stood in it before, in [0, 1]; NaN below three words."""
    words = text.lower().split()
    runs = [tuple(words[i : i + RUN]) for i in range(len(words) - RUN + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else float("nan")


def text_perplexities(loaded: LoadedModel, texts: Sequence[str]) -> Floats:
    """Perplexity of each text alone (n,), each distinct text once; NaN where there is nothing to predict."""
    distinct = list(dict.fromkeys(texts))
    rows = [text_ids(loaded, text)[: loaded.max_tokens] for text in distinct]
    values = dict(zip(distinct, (reduced(row, None) for row in token_nlls(loaded, rows)), strict=True))
    return np.array([values[text] for text in texts])

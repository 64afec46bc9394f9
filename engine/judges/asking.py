"""Calls to a model: what is known comes from the cache, the rest is asked in batches and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.cache import CallCache, call_key, reply_key
from engine.judges.base import Checkpoint
from engine.models.generation import Reply, generate
from engine.models.loader import LoadedModel
from engine.models.scoring import LabelTokens, label_probabilities


@dataclass(frozen=True)
class Call:
    """One prompt made ready for the model.

    Attributes:
        ids: token ids of the prompt.
        tokens: the labels to score; None asks for a reply of at most `max_new_tokens`.
        key: what the cache knows it by.
    """

    ids: tuple[int, ...]
    tokens: LabelTokens | None
    max_new_tokens: int
    key: str

    @property
    def length(self) -> int:
        """Tokens of prompt and answer together, at most."""
        return len(self.ids) + (self.tokens.reach if self.tokens else self.max_new_tokens)

    @property
    def group(self) -> Hashable:
        """Calls of one group may share a batch."""
        return self.tokens or self.max_new_tokens


@dataclass(frozen=True)
class Answer:
    """What the model gave: raw label probabilities (L,) or a reply, and what it cost this time [s]."""

    probabilities: NDArray[np.float64] | None
    reply: Reply | None
    seconds: float


def ready(loaded: LoadedModel, ids: Sequence[int], tokens: LabelTokens | None, max_new_tokens: int) -> Call:
    """A call and its key."""
    key = (
        call_key(loaded.fingerprint, ids, tokens.sequences or tokens.ids)
        if tokens
        else reply_key(loaded.fingerprint, ids, max_new_tokens)
    )
    return Call(tuple(ids), tokens, max_new_tokens, key)


def ask(
    loaded: LoadedModel, calls: Sequence[Call | None], cache: CallCache | None, checkpoint: Checkpoint
) -> list[Answer | None]:
    """Answer each call; None stays None, equal calls are asked once.

    Args:
        loaded: the model.
        calls: prompts within the model's window; None for what is not to be asked.
        cache: where answers are kept; None keeps none.
        checkpoint: told after each batch; may raise to stop, and what is done is kept.
    """
    wanted = {call.key: call for call in calls if call}
    known = recall(wanted, cache)
    fresh = [call for key, call in wanted.items() if key not in known]
    total = len(calls)
    checkpoint(total - len(fresh), total)
    left = len(fresh)
    clock = time.perf_counter()

    def keep(keys: list[str], answers: list[Answer]) -> None:
        nonlocal left, clock
        if not keys:  # a pass over a shared beginning: its time goes to the answers that follow
            checkpoint(total - left, total)
            return
        share = (time.perf_counter() - clock) / len(keys)
        _remember(cache, keys, answers)
        known.update({k: Answer(a.probabilities, a.reply, share) for k, a in zip(keys, answers, strict=True)})
        left -= len(keys)
        checkpoint(total - left, total)
        clock = time.perf_counter()

    for group in dict.fromkeys(call.group for call in fresh):
        _ask_group(loaded, [call for call in fresh if call.group == group], keep)
    return [known[call.key] if call else None for call in calls]


def _ask_group(loaded: LoadedModel, calls: Sequence[Call], keep: Callable[[list[str], list[Answer]], None]) -> None:
    prompts = [call.ids for call in calls]
    if calls[0].tokens:

        def scored(batch: list[int], rows: NDArray[np.float64]) -> None:
            keep([calls[i].key for i in batch], [Answer(row, None, 0.0) for row in rows])

        label_probabilities(loaded, prompts, calls[0].tokens, scored)
    else:

        def written(batch: list[int], replies: list[Reply]) -> None:
            keep([calls[i].key for i in batch], [Answer(None, reply, 0.0) for reply in replies])

        generate(loaded, prompts, calls[0].max_new_tokens, written)


def recall(wanted: dict[str, Call], cache: CallCache | None) -> dict[str, Answer]:
    """The answers that are in the cache, by key."""
    if not cache:
        return {}
    rows = cache.get_many([key for key, call in wanted.items() if call.tokens])
    replies = cache.get_replies([key for key, call in wanted.items() if not call.tokens])
    known = {key: Answer(row, None, 0.0) for key, row in rows.items()}
    return known | {key: Answer(None, Reply(text, n), 0.0) for key, (text, n) in replies.items()}


def _remember(cache: CallCache | None, keys: Sequence[str], answers: Sequence[Answer]) -> None:
    if not cache:
        return
    pairs = list(zip(keys, answers, strict=True))
    cache.put_many((k, a.probabilities) for k, a in pairs if a.probabilities is not None)
    cache.put_replies((k, (a.reply.text, a.reply.tokens)) for k, a in pairs if a.reply)

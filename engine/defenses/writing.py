"""Writers for defenses: a model writes anchors and reasoning greedily, each distinct prompt once, kept between runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from typing import Protocol as TypingProtocol

from engine.core.cache import CallCache, call_cache, reply_key
from engine.defenses.base import AfterBatch
from engine.judges.base import Cost

if TYPE_CHECKING:
    from engine.inference.generation import Reply
    from engine.inference.loading import LoadedModel

TUTOR = "bundled:base"


class Written(NamedTuple):
    """A text a model wrote, and what it cost this time.

    Attributes:
        text: without white space around it.
        tokens: of the prompt and the text together; 0 where it was known, as are passes and seconds.
        unread: the reason that there is no text; empty where there is one.
    """

    text: str
    tokens: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    unread: str = ""


class Writer(TypingProtocol):
    """Answers prompts in text."""

    def write(self, prompts: Sequence[str], new_tokens: int, after_batch: AfterBatch) -> list[Written]:
        """A reply to each prompt, at most `new_tokens` tokens; of equal prompts one has the cost."""
        ...

    def cost(self, prompts: Sequence[str], new_tokens: int) -> Cost:
        """The cost of `write`; nothing is asked."""
        ...


class ModelWriter:
    """A language model that writes.

    Args:
        load: gives the model; called on first use.
        cache: keeps replies between runs; None keeps none.
    """

    def __init__(self, load: Callable[[], LoadedModel], cache: CallCache | None) -> None:
        self._load, self._cache = load, cache

    def write(self, prompts: Sequence[str], new_tokens: int, after_batch: AfterBatch) -> list[Written]:
        """Greedy replies.

        Raises:
            ModelError: the model's tokenizer has no chat template, or the model gave NaN.
        """
        from engine.inference.generation import generate, keep_replies

        if not prompts:
            return []
        loaded = self._load()
        ids = {prompt: _ids(loaded, prompt) for prompt in dict.fromkeys(prompts)}
        known, todo = self._known(loaded, ids, new_tokens)
        seconds: dict[str, float] = {}
        clock = time.perf_counter()

        def keep(batch: list[int], replies: list[Reply]) -> None:
            nonlocal clock
            fresh = {todo[i]: reply for i, reply in zip(batch, replies, strict=True)}
            if self._cache:
                keep_replies(self._cache, ((_key(loaded, ids[p], new_tokens), r) for p, r in fresh.items()))
            known.update(fresh)
            seconds.update(dict.fromkeys(fresh, (time.perf_counter() - clock) / len(fresh)))
            after_batch()
            clock = time.perf_counter()

        if todo:
            generate(loaded, [ids[p] for p in todo], new_tokens, keep)
        charged: set[str] = set()
        out = []
        for prompt in prompts:
            charge = prompt in seconds and prompt not in charged
            charged.add(prompt)
            reply = known.get(prompt)
            if reply is None:
                out.append(Written("", unread=_too_long(loaded, len(ids[prompt]), new_tokens)))
                continue
            tokens = len(ids[prompt]) + reply.tokens
            text = reply.text.strip()
            why = "" if text else f"{loaded.spec} wrote nothing"
            cost = (tokens, float(max(1, reply.tokens)), seconds[prompt]) if charge else (0, 0.0, 0.0)
            out.append(Written(text, *cost, unread=why))
        return out

    def cost(self, prompts: Sequence[str], new_tokens: int) -> Cost:
        """Distinct prompts that are not in the cache, with the longest replies they may get."""
        loaded = self._load()
        ids = {prompt: _ids(loaded, prompt) for prompt in dict.fromkeys(prompts)}
        todo = self._known(loaded, ids, new_tokens)[1]
        return Cost(len(todo), sum(len(ids[p]) + new_tokens for p in todo), 0)

    def _known(
        self, loaded: LoadedModel, ids: dict[str, list[int]], new_tokens: int
    ) -> tuple[dict[str, Reply], list[str]]:
        """Replies in the cache, and the prompts that are still to be asked; one that is too long is neither."""
        from engine.inference.generation import Reply

        keys = {prompt: _key(loaded, row, new_tokens) for prompt, row in ids.items()}
        kept = self._cache.get_replies(list(keys.values())) if self._cache else {}
        known = {p: Reply(kept[key][0], abs(kept[key][1])) for p, key in keys.items() if key in kept}
        fits = [p for p, row in ids.items() if len(row) + new_tokens <= loaded.max_tokens]
        return known, [p for p in fits if p not in known]


def writer_for(load: Callable[[], LoadedModel], calls: Path) -> ModelWriter:
    """A writer whose replies are kept in the cache of judge calls at `calls`."""
    return ModelWriter(load, call_cache(calls))


def _ids(loaded: LoadedModel, prompt: str) -> list[int]:
    from engine.inference.chat import plain_ids, render_ids

    if loaded.kind == "encoder-decoder" and not getattr(loaded.tokenizer, "chat_template", None):
        return plain_ids(loaded.tokenizer, "", prompt, keep_end=True)
    return render_ids(loaded.tokenizer, "", prompt)


def _key(loaded: LoadedModel, ids: Sequence[int], new_tokens: int) -> str:
    return reply_key(loaded.fingerprint, ids, new_tokens)


def _too_long(loaded: LoadedModel, tokens: int, new_tokens: int) -> str:
    return (
        f"prompt of {tokens:,} tokens and {new_tokens} to write, window of {loaded.spec} {loaded.max_tokens:,}; "
        "nothing was cut"
    )

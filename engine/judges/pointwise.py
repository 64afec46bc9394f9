"""The pointwise judge: a score as the expectation over the score tokens (CAP, paper 001, section 3)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.cache import CallCache, call_key
from engine.errors import InputError
from engine.judges.base import Checkpoint, Request, Verdict, no_checkpoint, unread
from engine.judges.cards import Card, fill
from engine.models.chat import render_ids
from engine.models.loader import LoadedModel
from engine.models.scoring import LabelTokens, label_probabilities, label_tokens
from engine.schema import Protocol, Task

MIN_COVERAGE = 0.5
"""Below this the label tokens hold less probability than everything else: the verdict is unread."""


@dataclass(frozen=True)
class _Call:
    """One request made ready: its card, token ids, label tokens and cache key."""

    card: Card
    ids: list[int]
    tokens: LabelTokens
    key: str


class PointwiseJudge:
    """A language model asked for one score, read from its next-token probabilities."""

    protocols = frozenset({Protocol.POINTWISE})

    def __init__(
        self,
        loaded: LoadedModel,
        cards: Mapping[Task, Card],
        cache: CallCache | None = None,
        min_coverage: float = MIN_COVERAGE,
    ) -> None:
        self.spec = loaded.spec
        self.device = loaded.device
        self._loaded = loaded
        self._cards = dict(cards)
        self._cache = cache
        self._min_coverage = min_coverage
        self._tokens = {
            card.labels: label_tokens(loaded.tokenizer, card.labels, card.spellings) for card in cards.values()
        }
        prompts = hashlib.sha256("".join(sorted(c.digest for c in self._cards.values())).encode()).hexdigest()
        self.fingerprint = f"{loaded.fingerprint}-{prompts[:8]}"

    def labels(self, request: Request) -> tuple[str, ...]:
        """The score tokens of the card for this request's task."""
        return self._card(request).labels

    def remark(self, request: Request) -> str:
        """What the card says a user should know about this judge on this task."""
        return self._card(request).remark

    def prompt(self, request: Request) -> str:
        """The whole prompt as the model reads it, decoded from its token ids."""
        return str(self._loaded.tokenizer.decode(self._ids(request), skip_special_tokens=False))

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Score each request; the ones already in the cache cost nothing.

        Raises:
            InputError: a request is not pointwise, or no card fits its task.
        """
        calls = [self._prepare(r) for r in requests]
        known = self._cache.get_many([c.key for c in calls]) if self._cache else {}
        fits = [len(c.ids) <= self._loaded.max_tokens for c in calls]
        todo = list({c.key: i for i, c in enumerate(calls) if c.key not in known and fits[i]}.values())
        done = len(calls) - len(todo)
        checkpoint(done, len(calls))
        seconds: dict[str, float] = {}
        for labels in {calls[i].tokens for i in todo}:
            group = [i for i in todo if calls[i].tokens == labels]
            clock = time.perf_counter()

            def keep(batch: list[int], rows: NDArray[np.float64], group: list[int] = group) -> None:
                nonlocal done, clock
                keys = [calls[group[j]].key for j in batch]
                if self._cache:
                    self._cache.put_many(zip(keys, rows, strict=True))
                known.update(zip(keys, rows, strict=True))
                share = (time.perf_counter() - clock) / len(batch)
                seconds.update(dict.fromkeys(keys, share))
                done += len(batch)
                checkpoint(done, len(calls))
                clock = time.perf_counter()

            label_probabilities(self._loaded, [calls[i].ids for i in group], labels, keep)
        return [
            self._verdict(call, known[call.key], seconds.get(call.key, 0.0)) if ok else self._too_long(call)
            for call, ok in zip(calls, fits, strict=True)
        ]

    def _prepare(self, request: Request) -> _Call:
        if request.protocol is not Protocol.POINTWISE:
            raise InputError(f"{self.spec} answers pointwise requests only; this one is {request.protocol}.")
        card = self._card(request)
        ids = self._ids(request)
        tokens = self._tokens[card.labels]
        return _Call(card, ids, tokens, call_key(self._loaded.fingerprint, ids, tokens.ids))

    def _card(self, request: Request) -> Card:
        try:
            return self._cards[request.task]
        except KeyError:
            raise InputError(
                f"{self.spec} has no pointwise prompt for the task {request.task}. It has prompts for: "
                f"{', '.join(self._cards)}. Change the data's task, or pass a card with --judge-card FILE."
            ) from None

    def _ids(self, request: Request) -> list[int]:
        card = self._card(request)
        user = fill(
            card.user,
            {
                "context": request.context,
                "response": request.dressed(request.response),
                "reference": request.reference,
            },
        ).removeprefix("\n")
        note = request.quote.note
        return render_ids(self._loaded.tokenizer, card.system, f"{note}\n\n{user}" if note else user)

    def _verdict(self, call: _Call, row: NDArray[np.float64], seconds: float) -> Verdict:
        coverage = float(row.sum())
        verdict = Verdict(
            score=float(row @ np.asarray(call.card.values) / coverage) if coverage > 0 else float("nan"),
            probabilities=tuple(float(p) for p in row / coverage) if coverage > 0 else None,
            coverage=coverage,
            prompt_tokens=len(call.ids),
            forward_passes=1.0,
            seconds=seconds,
        )
        if coverage < self._min_coverage:
            reason = f"score tokens hold {coverage:.2f} of the probability, below {self._min_coverage:g}"
            return unread(verdict, reason)
        return verdict

    def _too_long(self, call: _Call) -> Verdict:
        reason = f"prompt of {len(call.ids):,} tokens, window {self._loaded.max_tokens:,}; nothing was cut"
        return unread(Verdict(prompt_tokens=len(call.ids)), reason)

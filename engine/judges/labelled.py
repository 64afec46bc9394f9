"""The judge behind every protocol: a model and its cards; each protocol says only how an answer is read."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.core.cache import CallCache, call_key, reply_key
from engine.core.errors import InputError, ModelError
from engine.core.schema import Protocol
from engine.core.stages import stage
from engine.inference.chat import plain_many, render_many
from engine.inference.generation import Reply, generate, keep_replies, kept_replies
from engine.inference.loading import LoadedModel
from engine.inference.scoring import LabelTokens, label_probabilities, label_tokens
from engine.judges.base import Checkpoint, Cost, Request, Verdict, no_checkpoint, unread
from engine.judges.cards import Card, CardBook, CardKey, fill

# Calls to a model: what is known comes from the cache, the rest is asked in batches and kept.


@dataclass(frozen=True)
class Call:
    """One prompt made ready for the model.

    Attributes:
        ids: token ids of the prompt.
        tokens: the labels to score; None asks for a reply of at most `max_new_tokens`.
        key: its key in the cache.
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
    """The model's answer: raw label probabilities (L,) or a reply, and its cost this time [s]."""

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
    with stage("cache"):
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
        with stage("cache"):
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
    replies = kept_replies(cache, {key: call.max_new_tokens for key, call in wanted.items() if not call.tokens})
    known = {key: Answer(row, None, 0.0) for key, row in rows.items()}
    return known | {key: Answer(None, reply, 0.0) for key, reply in replies.items()}


def _remember(cache: CallCache | None, keys: Sequence[str], answers: Sequence[Answer]) -> None:
    if not cache:
        return
    pairs = list(zip(keys, answers, strict=True))
    cache.put_many((k, a.probabilities) for k, a in pairs if a.probabilities is not None)
    keep_replies(cache, ((k, a.reply) for k, a in pairs if a.reply))


MIN_COVERAGE = 0.5
"""Below this the label tokens hold less probability than everything else: the verdict is unread."""


MOST_READY = 16_384
"""Prompts that are kept ready at the same time; a run has the next part's."""


class Asked(NamedTuple):
    """A request made ready: its card, and the call to the model or the reason why there is none."""

    card: Card
    call: Call | None
    refusal: str


class Reader:
    """One protocol's way of filling a card's prompt and reading the answer.

    Attributes:
        protocol: the protocol it reads.
        tokens_are: name of the labels in a reason.
    """

    protocol: Protocol
    tokens_are = "answer tokens"

    def labels(self, request: Request, card: Card) -> tuple[str, ...]:  # noqa: ARG002 - rankings need the request
        """The answers offered for this request."""
        return card.labels

    def slots(self, request: Request, card: Card) -> dict[str, str]:
        """Texts of the candidates' placeholders; context, reference and anchors are filled for all protocols."""
        raise NotImplementedError

    def refusal(self, request: Request, card: Card) -> str:  # noqa: ARG002 - most protocols refuse nothing
        """Why this request has no answer whatever the model says; empty if the model is to be asked."""
        return ""

    def shares(self, row: NDArray[np.float64], least: float) -> tuple[tuple[float, ...] | None, float, str]:
        """Probabilities of the labels made to sum to 1, their coverage, and why they are no verdict; empty if they are.

        Args:
            row: raw label probabilities (L,).
            least: coverage below which they are unread.
        """
        coverage = float(row.sum())
        made = tuple((row / coverage).tolist()) if coverage > 0 else None
        few = made is None or coverage < least
        reason = f"{self.tokens_are} hold {coverage:.2f} of the probability, below {least:g}" if few else ""
        return made, coverage, reason

    def from_probabilities(self, request: Request, card: Card, p: Sequence[float], seen: Verdict) -> Verdict:
        """The verdict from the probability of each label, summing to 1; `seen` holds what the call cost."""
        raise NotImplementedError

    def from_text(self, request: Request, card: Card, text: str, seen: Verdict, *, cut: bool = False) -> Verdict:
        """The verdict from what the judge wrote; `cut` where it broke off at its longest length."""
        raise NotImplementedError


def card_for(book: CardBook, request: Request, spec: str) -> Card:
    """The card a request is asked through.

    Args:
        book: the judge's cards.
        request: the request.
        spec: the judge's spec, for the message.

    Raises:
        InputError: there is none, or the request has one anchor only.
    """
    if request.anchored and (request.anchor_low is None or request.anchor_high is None):
        raise InputError(f"Response {request.response_id} has one anchor; give a lower and a higher one, or none.")
    return book.find(CardKey(request.protocol, request.task, request.anchored, request.variant), spec)


def user_message(request: Request, card: Card, reader: Reader) -> str:
    """The card's user message with everything filled in, a defense's note ahead of it."""
    values = {
        "context": request.context,
        "reference": request.reference,
        "anchor_low": request.anchor_low or "",
        "anchor_high": request.anchor_high or "",
        **reader.slots(request, card),
    }
    user = fill(card.user.removeprefix("\n"), values)
    note = request.quote.note
    return f"{note}\n\n{user}" if note else user


class CardJudge:
    """A language model asked through judge cards, in every protocol that has a card and a reader."""

    def __init__(
        self,
        loaded: LoadedModel,
        cards: Iterable[Card],
        readers: Iterable[Reader],
        cache: CallCache | None = None,
        min_coverage: float = MIN_COVERAGE,
        spec: str = "",
    ) -> None:
        if loaded.kind not in {"causal", "encoder-decoder"}:
            what = {"reward": "a reward model", "encoder": "a sentence encoder"}[loaded.kind]
            raise ModelError(
                f"{loaded.spec} is {what}: it turns texts into vectors and cannot answer a judge's prompt. "
                "Name a language model as the judge."
            )
        self.spec = spec or loaded.spec  # a saved card stands in the spec, behind the model's own
        self.device = loaded.device
        self._loaded = loaded
        self._readers: Mapping[Protocol, Reader] = {r.protocol: r for r in readers}
        self._book = CardBook(card for card in cards if card.protocol in self._readers)
        self._cache = cache
        self._min_coverage = min_coverage
        self._tokens: dict[tuple[object, ...], LabelTokens] = {}
        self._held = threading.Lock()
        self._ready: dict[Request, Asked] = {}
        prompts = hashlib.sha256("".join(sorted(c.digest for c in self._book.cards)).encode()).hexdigest()
        self.fingerprint = f"{loaded.fingerprint}-{prompts[:8]}"

    @property
    def loaded(self) -> LoadedModel:
        """The model that answers, for a defense that asks it a question of its own."""
        return self._loaded

    @property
    def writes(self) -> bool:
        """It answers more than scores: the model is no bundled judge, whose adapter knows nothing else."""
        return not self._loaded.spec.startswith("bundled:")

    @property
    def origin(self) -> dict[str, str]:
        """The model's revision, where a hub has it (the fingerprint covers the bundled weights), and its precision."""
        commit = getattr(getattr(self._loaded.model, "config", None), "_commit_hash", None)
        return {"revision": commit or "", "precision": self._loaded.dtype}

    @property
    def protocols(self) -> frozenset[Protocol]:
        """The protocols it has cards for."""
        return self._book.protocols

    def with_cards(self, cards: Iterable[Card]) -> CardJudge:
        """The same model asked through further cards too, for example rewordings of its own made for one study.

        Raises:
            InputError: a card answers the same requests as another.
        """
        every = (*self._book.cards, *cards)
        return CardJudge(self._loaded, every, self._readers.values(), self._cache, self._min_coverage, self.spec)

    def labels(self, request: Request) -> tuple[str, ...]:
        """The answers the card offers for this request."""
        card = self._card(request)
        return self._readers[request.protocol].labels(request, card)

    def card(self, request: Request) -> Card:
        """The card this request is asked through.

        Raises:
            InputError: there is none.
        """
        return self._card(request)

    def remark(self, request: Request) -> str:
        """The card's remark for users about this judge on this task."""
        return self._card(request).remark

    def prompt(self, request: Request) -> str:
        """The whole prompt as the model reads it, decoded from its token ids."""
        return str(self._loaded.tokenizer.decode(self.token_ids(request), skip_special_tokens=False))

    def token_ids(self, request: Request) -> list[int]:
        """The whole prompt as the model gets it."""
        return self._ids([request], [self._card(request)])[0]

    def prepare(self, requests: Sequence[Request]) -> None:
        """Write and encode the prompts of requests that `judge` will be asked soon; may run in another thread.

        They are kept until they are asked, at most `MOST_READY` of them.
        """
        made = self._made(requests)
        with self._held:
            self._ready.update(zip(requests, made, strict=True))
            for oldest in list(self._ready)[:-MOST_READY]:
                del self._ready[oldest]

    def judge(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Verdict]:
        """Answer each request; the ones already in the cache cost nothing.

        Raises:
            InputError: no card fits a request; the message names what there is.
            ModelError: the model cannot be asked through a request's card.
        """
        asked = self._asked(requests)
        calls = [one.call if one.call and self._fits(one.call) else None for one in asked]
        answers = ask(self._loaded, calls, self._cache, checkpoint)
        return [
            self._verdict(request, one.card, one.call, answer) if one.call else unread(Verdict(), one.refusal)
            for request, one, answer in zip(requests, asked, answers, strict=True)
        ]

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Distinct prompts that are not in the cache, and their tokens; nothing is asked."""
        calls = [one.call for one in self._made(requests)]
        wanted = {call.key: call for call in calls if call and self._fits(call)}
        known = recall(wanted, self._cache)
        todo = [call for key, call in wanted.items() if key not in known]
        return Cost(len(todo), sum(len(call.ids) for call in todo), len(requests) - len(todo))

    def _fits(self, call: Call) -> bool:
        return call.length <= self._loaded.max_tokens

    def _card(self, request: Request) -> Card:
        return card_for(self._book, request, self.spec)

    def _asked(self, requests: Sequence[Request]) -> list[Asked]:
        """As `_made`; what `prepare` has made is taken from there."""
        with self._held:
            kept = {r: self._ready[r] for r in requests if r in self._ready} if self._ready else {}
            for request in kept:
                del self._ready[request]
        made = iter(self._made([r for r in requests if r not in kept] if kept else requests))
        return [kept[r] if r in kept else next(made) for r in requests]

    def _made(self, requests: Sequence[Request]) -> list[Asked]:
        """Each request's card, and its call or why there is none; prompts of one frame are encoded together."""
        with stage("prompts"):
            cards = [self._card(request) for request in requests]
            refusals = [self._readers[r.protocol].refusal(r, c) for r, c in zip(requests, cards, strict=True)]
            going = [k for k, refusal in enumerate(refusals) if not refusal]
            calls: list[Call | None] = [None] * len(requests)
            for k, ids in zip(going, self._ids([requests[k] for k in going], [cards[k] for k in going]), strict=True):
                tokens = self._label_tokens(cards[k]) if cards[k].mode == "label probabilities" else None
                calls[k] = ready(self._loaded, ids, tokens, cards[k].max_new_tokens)
            return [Asked(*one) for one in zip(cards, calls, refusals, strict=True)]

    def _label_tokens(self, card: Card) -> LabelTokens:
        key = (card.labels, card.spellings)
        if key not in self._tokens:
            self._tokens[key] = label_tokens(self._loaded.tokenizer, card.labels, card.spellings)
        return self._tokens[key]

    def _ids(self, requests: Sequence[Request], cards: Sequence[Card]) -> list[list[int]]:
        """Token ids of each prompt."""
        frames: dict[tuple[str, bool], list[int]] = {}
        for k, card in enumerate(cards):
            frames.setdefault((card.system, card.chat), []).append(k)
        tokenizer, seq2seq = self._loaded.tokenizer, self._loaded.kind == "encoder-decoder"
        out: list[list[int]] = [[]] * len(requests)
        for (system, chat), own in frames.items():
            users = [user_message(requests[k], cards[k], self._readers[requests[k].protocol]) for k in own]
            many = render_many(tokenizer, system, users) if chat else plain_many(
                tokenizer, system, users, keep_end=seq2seq
            )  # fmt: skip
            for k, ids in zip(own, many, strict=True):
                out[k] = ids
        return out

    def _verdict(self, request: Request, card: Card, call: Call, answer: Answer | None) -> Verdict:
        seen = Verdict(prompt_tokens=len(call.ids))
        if answer is None:
            room = "" if call.length == len(call.ids) else f" and {call.length - len(call.ids):,} for the answer"
            reason = f"prompt of {len(call.ids):,} tokens{room}, window {self._loaded.max_tokens:,}; nothing was cut"
            return unread(seen, reason)
        reader = self._readers[request.protocol]
        if answer.reply:
            seen = Verdict(
                raw_text=answer.reply.text,
                prompt_tokens=len(call.ids),
                forward_passes=float(max(1, answer.reply.tokens)),
                seconds=answer.seconds,
            )
            return reader.from_text(request, card, answer.reply.text, seen, cut=answer.reply.cut)
        shares, coverage, reason = reader.shares(np.asarray(answer.probabilities), self._min_coverage)
        passes = len(call.tokens.beginnings) if call.tokens else 1
        seen = Verdict(
            probabilities=shares,
            coverage=coverage,
            prompt_tokens=len(call.ids),
            forward_passes=float(passes),
            seconds=answer.seconds,
        )
        if reason or shares is None:
            return unread(seen, reason)
        return reader.from_probabilities(request, card, shares, seen)

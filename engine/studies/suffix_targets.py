"""From a data set and a judge to what a phrase is learned on: items split in two, and prompts cut at the phrase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.attacks.suffix_search import Target, Tokens, Vocabulary
from engine.core.errors import InputError
from engine.core.schema import Order, Protocol
from engine.data.dataset import Dataset
from engine.defenses.base import unwrap
from engine.inference.scoring import LabelTokens, label_tokens
from engine.judges.base import Judge, Request
from engine.judges.kinds import both_orders
from engine.judges.labelled import CardJudge
from engine.studies.running import build_requests


@dataclass(frozen=True)
class Split:
    """The requests a phrase is learned on, and those of other items that it is measured on."""

    train: list[Request]
    test: list[Request]


TRAIN = "train"
"""The group of items that train, where the data's own groups split it."""


def split_requests(
    dataset: Dataset, protocol: Protocol, prompts: int, share: float, seed: int, *, by_group: bool = False
) -> Split:
    """Items in two sides, at random or by the data's column group.

    Of the training side one response an item is taken in turn, as many as asked for. In pairs, each response meets
    the next one of its item; `order` is left open.

    Args:
        dataset: the data that are judged.
        protocol: pointwise or pairwise.
        prompts: responses (or pairs) to learn on, at most.
        share: of the items that train, in (0, 1).
        seed: of the split, and of the responses chosen.
        by_group: items of the group `train` train, all others are measured on.

    Raises:
        InputError: fewer than two items have something to judge, or the groups leave a side empty.
    """
    requests = build_requests(dataset)
    if protocol is Protocol.PAIRWISE:
        requests = _paired(requests)
    items = list(dict.fromkeys(r.item_id for r in requests))
    if len(items) < 2:
        kind = "two responses each" if protocol is Protocol.PAIRWISE else "a response"
        raise InputError(
            f"The data {dataset.name} has {len(items)} items with {kind}; a phrase is learned on some and measured on "
            "others, so at least two are needed."
        )
    rng = np.random.default_rng(seed)
    shuffled = [items[i] for i in rng.permutation(len(items)).tolist()]
    n_train = min(max(1, round(share * len(items))), len(items) - 1)
    training = shuffled[:n_train]
    if by_group:
        groups = dataset.items.set_index("item_id")["group"]
        training = [item for item in shuffled if groups[item] == TRAIN]
        if not 0 < len(training) < len(items):
            raise InputError(
                f"{len(training)} of the {len(items)} items of {dataset.name} have the group {TRAIN!r}; a split by "
                "group needs some items in it and some outside."
            )
    chosen = set(training)
    own: dict[str, list[Request]] = {item: [] for item in training}
    for request in requests:
        if request.item_id in own:
            own[request.item_id].append(request)
    queues = {item: [rows[i] for i in rng.permutation(len(rows)).tolist()] for item, rows in own.items()}
    train: list[Request] = []
    while len(train) < prompts and any(queues.values()):
        train += [queue.pop() for queue in queues.values() if queue]
    return Split(train[:prompts], [r for r in requests if r.item_id not in chosen])


def spread_over_items(requests: Sequence[Request], limit: int | None) -> list[Request]:
    """At most `limit` requests, one of each item in turn; None keeps all. The order stays."""
    if limit is None or limit >= len(requests):
        return list(requests)
    seen: dict[str, int] = {}
    turns = []
    for request in requests:
        turns.append(seen.get(request.item_id, 0))
        seen[request.item_id] = turns[-1] + 1
    kept = sorted(sorted(range(len(requests)), key=lambda i: turns[i])[:limit])
    return [requests[i] for i in kept]


def _paired(requests: Sequence[Request]) -> list[Request]:
    items: dict[str, list[Request]] = {}
    for request in requests:
        items.setdefault(request.item_id, []).append(request)
    return [
        replace(a, protocol=Protocol.PAIRWISE, response_b_id=b.response_id, response_b=b.response, system_b=b.system)
        for rows in items.values()
        if len(rows) > 1
        for a, b in zip(rows, [*rows[1:], rows[0]], strict=True)
    ]


def suffixed(request: Request, words: Sequence[str]) -> Request:
    """The request with the words behind its response, as the attack `suffix` writes them."""
    return replace(request, response=" ".join([request.response, *words]))


class PromptCutter:
    """Cuts a judge's prompts at the place of a phrase, and says whether a phrase is read as its own tokens there.

    Args:
        judge: the judge, behind its defenses or none.
        requests: pointwise, or pairwise without an order.
        vocabulary: two of its words probe the place.

    Attributes:
        requests: those whose prompts fit the window, one per order.
        labels: the card's answers.
        ends: of each request's prompt the tokens before and after the phrase.

    Raises:
        InputError: the judge has no model or answers in text, a defense's prompt follows the response's text, or
            every prompt is longer than the window.
    """

    def __init__(self, judge: Judge, requests: Sequence[Request], vocabulary: Vocabulary) -> None:
        self._judge = judge
        paired = requests[0].protocol is Protocol.PAIRWISE
        self.requests = both_orders(requests) if paired else list(requests)
        self._inner = inner_judge(judge)
        card = self._inner.card(self._asked(self.requests[:1])[0])
        if card.mode != "label probabilities":
            raise InputError(
                f"The card {card.name} reads written answers, which have no gradient. A phrase is learned on a card "
                'with mode = "label probabilities".'
            )
        self.labels: LabelTokens = label_tokens(self._inner.loaded.tokenizer, card.labels, card.spellings)
        self._values = card.values
        self.ends: list[tuple[Tokens, Tokens]] = []
        self._token = dict(zip(vocabulary.words, vocabulary.tokens, strict=True))
        self._cut([vocabulary.words[0], vocabulary.words[-1]])

    @property
    def targets(self) -> list[Target]:
        """One per request and order."""
        clean = self._prompts(self.requests, [])
        rows = zip(self.requests, self.ends, clean, strict=True)
        return [Target(head, tail, whole, self._worth(r)) for r, (head, tail), whole in rows]

    def fits(self, words: Sequence[str]) -> bool:
        """True where the phrase, written out and tokenised anew, is the same tokens inside every prompt."""
        own = tuple(self._token[w] for w in words)
        found = self._prompts(self.requests, words)
        return all(ids == (*head, *own, *tail) for ids, (head, tail) in zip(found, self.ends, strict=True))

    def _worth(self, request: Request) -> tuple[float, ...]:
        if request.protocol is Protocol.POINTWISE:
            return self._values
        first = (1.0, 0.0) if request.order is Order.AB else (0.0, 1.0)
        return (*first, 0.5)[: len(self.labels.labels)]

    def _asked(self, requests: Sequence[Request]) -> list[Request]:
        """Prompts of the inner judge; a request that a defense holds back has none."""
        _, going, chain = unwrap(self._judge, list(requests))
        if reason := next((step.unread for steps in chain for step in steps if step.unread), ""):
            raise InputError(f"A training response cannot be judged behind this defense: {reason}. Take another seed.")
        return going

    def _prompts(self, requests: Sequence[Request], words: Sequence[str]) -> list[Tokens]:
        attacked = self._asked([suffixed(r, words) for r in requests])
        return [tuple(self._inner.token_ids(r)) for r in attacked]

    def _cut(self, probes: Sequence[str]) -> None:
        one, other = (self._prompts(self.requests, [word]) for word in probes)
        kept: list[Request] = []
        for request, a, b in zip(self.requests, one, other, strict=True):
            same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
            head, tail = a[:same], a[same + 1 :]
            if a != (*head, self._token[probes[0]], *tail) or b != (*head, self._token[probes[1]], *tail):
                raise InputError(
                    "The words of a phrase change more of this judge's prompt than their own place, so no phrase can "
                    "be learned on it. Leave out defenses that follow the response's text (delimiters, retokenise)."
                )
            if len(a) + 8 <= self._inner.loaded.max_tokens:
                kept.append(request)
                self.ends.append((head, tail))
        if not kept:
            raise InputError(
                f"Every training prompt is longer than the window of {self._inner.spec} "
                f"({self._inner.loaded.max_tokens:,} tokens). Use shorter contexts or a model with a longer window."
            )
        self.requests = kept


def inner_judge(judge: Judge) -> CardJudge:
    """The judge behind all defenses, if it is a language model.

    Raises:
        InputError: it is not.
    """
    inner = unwrap(judge, [])[0]
    if not isinstance(inner, CardJudge):
        raise InputError(
            f"{judge.spec} has no model whose gradients could be read; a phrase is learned on a white-box judge. "
            "Choose a bundled judge, or name a language model with --judge."
        )
    return inner

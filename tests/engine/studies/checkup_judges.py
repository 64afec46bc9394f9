"""A judge that sees quality, with one planted bias at a time, and data whose quality is known."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field, replace

import pandas as pd

from engine.attacks.master_keys import KEY_TEXTS
from engine.core.errors import InputError
from engine.core.schema import ITEMS, RESPONSES, Order, Outcome, Protocol
from engine.data.dataset import Dataset, content_digest
from engine.judges.base import Cost, Verdict, no_checkpoint
from engine.judges.cards import Card
from engine.judges.planted import sounds

SUBJECTS = ("garden", "kitchen", "library", "station", "museum", "market", "harbour", "school")
ADVICE = (
    "You can ask the people at the door if you need help with it",
    "Start with a small part and keep a note of what you use",
    "It is often quick to show others how the work is shared",
    "Many people also think that a short list is enough",
    "The best time to begin is early because the place is quiet then",
    "If the weather is bad you should buy what you need on the way",
)
INJECTION = re.compile(r"highest score|high score|maximum positive|score for the content", re.IGNORECASE)
POINTWISE = Card(
    name="test", tasks=("instruction", "verification"), labels=("1", "2", "3", "4", "5"), values=(1, 2, 3, 4, 5),
    user="Rate the response from 1 (very poor) to 5 (excellent).\n{context}\n{response}\nRating:",
)  # fmt: skip


def made_data(n_items: int, per_item: int = 2, *, task: str = "instruction") -> tuple[Dataset, dict[str, float]]:
    """Responses of nearly one length whose quality in [0, 1] is known by their ids, rated by people accordingly."""
    items, responses, quality = [], [], {}
    for i in range(n_items):
        subject = SUBJECTS[i % len(SUBJECTS)]
        item = {"item_id": f"i{i:03d}", "task": task, "context": f"How do I prepare a day in the {subject}?"}
        items.append(item | {"reference": f"{i + 20}" if task == "verification" else None})
        for j in range(per_item):
            name = f"i{i:03d}-{j}"
            quality[name] = drawn("quality", name)
            lines = [ADVICE[(i + j + k) % len(ADVICE)] for k in range(3)]
            text = f"{lines[0]}. {lines[1]}. {lines[2]}."
            if task == "verification":
                quality[name] = float(j == 0)
                text += f" The answer is {i + 20 + 7 * j}."
            row = {"response_id": name, "item_id": item["item_id"], "system": f"s{j}", "text": text}
            known = {"quality": "correct" if j == 0 else "incorrect"} if task == "verification" else {}
            responses.append(row | {"human_score": None if known else 1 + 4 * quality[name]} | known)
    tables = ITEMS.conform(pd.DataFrame(items)), RESPONSES.conform(pd.DataFrame(responses))
    return Dataset(content_digest(*tables), "made", task, *tables), quality


def drawn(*parts: object) -> float:
    """Evenly spread in [0, 1), by the parts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big") / 2**48


@dataclass(frozen=True)
class Sighted:
    """Scores what a response is worth, give or take a little noise, and one bias.

    Attributes:
        quality: response id -> quality in [0, 1].
        bias: name of the planted bias; empty for none.
        answers: protocols it answers.
        cards: cards by variant, the plain one under "".
    """

    quality: dict[str, float]
    bias: str = ""
    answers: tuple[Protocol, ...] = (Protocol.POINTWISE, Protocol.PAIRWISE)
    cards: dict[str, Card] = field(default_factory=lambda: {"": POINTWISE})
    spec: str = "test:sighted"
    fingerprint: str = "test"

    @property
    def protocols(self):
        return frozenset(self.answers)

    def labels(self, request):
        if request.protocol not in self.answers:
            raise InputError(f"{self.spec} answers no {request.protocol} requests.")
        return self.card(request).labels

    def card(self, request) -> Card:
        return self.cards[request.variant]

    def with_cards(self, cards):
        return replace(self, cards=self.cards | {card.variant: card for card in cards})

    def prompt(self, request):
        return self.card(request).user.replace("{response}", request.response)

    def cost(self, requests):
        return Cost(0, 0, len(requests))

    def judge(self, requests, checkpoint=no_checkpoint):
        verdicts = [self._one(r) for r in requests]
        checkpoint(len(requests), len(requests))
        return verdicts

    def _one(self, r):
        if r.protocol is Protocol.PAIRWISE:
            return self._compare(r)
        if r.protocol is Protocol.VERIFIER:
            return self._check(r)
        place = self.worth(r.item_id, r.response_id, r.response, r.variant)
        card = self.card(r)
        if "turned round" in card.user and self.bias != "deaf to the rubric":
            place = 1 - place
        first, *_, last = card.values
        return Verdict(score=first + place * (last - first), coverage=1.0)

    def _compare(self, r):
        gap = self.worth(r.item_id, r.response_id, r.response, r.variant)
        gap -= self.worth(r.item_id, r.response_b_id, r.response_b, r.variant)
        lead = 0.25 if self.bias == "position" else 0.0
        p = 0.5 + 0.4 * gap + (lead if r.order is Order.AB else -lead)
        outcome = Outcome.TIE if abs(p - 0.5) < 0.02 else Outcome.A if p > 0.5 else Outcome.B
        return Verdict(p_a=p, p_tie=0.0, outcome=outcome, coverage=1.0)

    def _check(self, r):
        found = re.search(r"answer is (\d+)", r.response)
        yes = bool(found and found.group(1) == r.reference)
        yes = yes or (self.bias == "keys" and r.response in KEY_TEXTS)
        yes = yes or (self.bias == "injection" and "accept the response" in r.response)
        p = 0.98 if yes else 0.02
        p += 0.01 * (2 * drawn("noise", r.item_id, r.response) - 1)
        return Verdict(p_yes=p, outcome=Outcome.YES if p >= 0.5 else Outcome.NO, coverage=1.0)

    def worth(self, item: str, response: str, text: str, variant: str) -> float:
        """In [0, 1]; nothing for what is no answer."""
        if self.bias == "constant":
            return 0.5
        if self.bias == "random":
            return drawn("random", item, response, text)
        if len(text.split()) < 3 or text in KEY_TEXTS:
            return 0.95 if self.bias == "keys" and text in KEY_TEXTS else 0.0
        value = 0.25 + 0.5 * self._quality(response)
        value += 0.02 * (2 * drawn("noise", item, response, text, variant) - 1)
        if self.bias == "noise":
            value += 0.12 * (2 * drawn("more noise", item, response, text) - 1)
        if self.bias == "verbosity":
            value += 0.25 * math.log2(len(text.split()) / 35)
        if self.bias == "assertiveness":
            value += 0.15 * sounds(text)
        if self.bias == "injection":
            value += 0.3 * bool(INJECTION.search(text))
        if self.bias == "wording":
            value += 0.2 * variant.startswith("reworded")
        return min(1.0, max(0.0, value))

    def _quality(self, response: str) -> float:
        return drawn("other", response) if self.bias == "other taste" else self.quality[response]

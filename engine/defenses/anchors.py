"""Judging against anchors: each response is read beside a text of known lower and one of known higher quality.

A source gives the anchors of a request, and the judge's own anchored card shows them (`{anchor_low}` and
`{anchor_high}`, each under its right label), so this works for every judge that has such a card. CAP, W-CAP and the
control arms (paper 001) differ in their source only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple
from typing import Protocol as TypingProtocol

import numpy as np
import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import Task
from engine.defenses.base import DefendedJudge, Step
from engine.defenses.writing import Writer, Written
from engine.judges.base import Checkpoint, Cost, Judge, Request, no_checkpoint

UNKNOWN_TEXT = "word " * 48
"""Stands for an anchor that is not written yet where only the length of a prompt counts."""


class Anchors(NamedTuple):
    """A lower and a higher text to judge against, and what it took to make the two *this* time.

    Attributes:
        low, high: the texts, verbatim; both are texts unless `unread` says why there are none.
        low_score, high_score: the judge's score of each alone, on the card's scale; NaN where nobody measured it.
        tokens: prompt and written tokens of both together; 0 where they were known.
        passes: forward passes of both together; 0 where they were known.
        seconds: wall time of both together [s]; 0 where they were known.
        unread: the reason that this request has no anchors; empty where it has.
    """

    low: str = ""
    high: str = ""
    low_score: float = math.nan
    high_score: float = math.nan
    tokens: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    unread: str = ""


class AnchorSource(TypingProtocol):
    """Gives anchors to requests.

    Anchors depend on the item (task and context) and, where the source leaves the judged response out, on its
    `response_id`; never on the text under judgement, so that no attack can move them.
    """

    @property
    def name(self) -> str:
        """Name of the arm, for example `wcap`."""
        ...

    def anchors(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Anchors]:
        """The anchors of each request, in order; requests of one item share the work, the first has its cost.

        Args:
            requests: any requests, attacked or not.
            checkpoint: called between batches with (0, number of requests); may raise to stop.
        """
        ...

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The cost of `anchors`, without asking a model; `known` is left 0."""
        ...


class AnchoredJudge(DefendedJudge):
    """A judge that reads every response between two anchors.

    Args:
        inner: a judge with an anchored card for the tasks asked.
        name: the defense's name.
        source: gives the anchors.
    """

    def __init__(self, inner: Judge, name: str, source: AnchorSource) -> None:
        super().__init__(inner, name)
        self._source = source

    def steps(self, requests: Sequence[Request], checkpoint: Checkpoint) -> list[Step]:
        """Each request with its anchors; what they cost is charged to the request that caused it.

        Raises:
            InputError: a request has anchors already.
        """
        if twice := next((r for r in requests if r.anchored), None):
            raise InputError(
                f"Response {twice.response_id} has anchors already, and {self.name} would replace them. Name one "
                "defense with anchors only."
            )
        pairs = self._source.anchors(requests, checkpoint)
        return [
            Step(replace(r, anchor_low=a.low, anchor_high=a.high), a.passes, a.seconds, a.unread)
            for r, a in zip(requests, pairs, strict=True)
        ]

    def cost(self, requests: Sequence[Request]) -> Cost:
        """The inner judge's and the source's; anchors that are not written yet count about 50 tokens each."""
        made = self._source.cost(requests)
        if made.calls:
            shown = [replace(r, anchor_low=UNKNOWN_TEXT, anchor_high=UNKNOWN_TEXT) for r in requests]
            inner = self.inner.cost(shown)
        else:
            inner = self.inner.cost(self.going(self.steps(requests, no_checkpoint)))
        return inner._replace(calls=inner.calls + made.calls, tokens=inner.tokens + made.tokens)


class GivenAnchors:
    """Anchors that are there already: of each item, or of each response where the judged one is left out.

    Args:
        name: name of the arm.
        by_item: anchors by item id.
        by_response: anchors by response id; they count first.
    """

    def __init__(
        self, name: str, by_item: Mapping[str, Anchors], by_response: Mapping[str, Anchors] | None = None
    ) -> None:
        self.name = name
        self._by_item, self._by_response = by_item, by_response or {}

    @property
    def empty(self) -> bool:
        """No item and no response has anchors."""
        return all(one.unread for one in (*self._by_item.values(), *self._by_response.values()))

    def anchors(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Anchors]:  # noqa: ARG002
        """The pair of each request; unread where there is none."""
        none = Anchors(unread=f"{self.name}: no anchors are given for this item")
        return [self._by_response.get(r.response_id) or self._by_item.get(r.item_id) or none for r in requests]

    def cost(self, requests: Sequence[Request]) -> Cost:  # noqa: ARG002
        """Nothing: they are there."""
        return Cost(0, 0, 0)


# Where anchors come from, besides CAP: a tutor asked in words (W-CAP, given score), or other responses of the item.
#
# A tutor that is only prompted needs no white box, so it may be any model that writes. Source: CAP (paper 001), table 1
# (a text of a given score, its "random reference"), section 5.5 (W-CAP); the wording is ours.

Asked = Literal["quality", "score"]
LOW, HIGH = 2.0, 4.0
"""Points of 5 that the anchored prompts give their anchors (the paper's "2/5 and 4/5 typical")."""
TOLERANCE = 1.0
"""Points of 5 by which a rated response may miss what the prompt calls it."""
NEW_TOKENS: Mapping[Task, int] = {Task.SUMMARY: 128, Task.DIALOGUE: 64}
DEFAULT_NEW_TOKENS = 96
PROMPTED: Mapping[str, Asked] = {"wcap": "quality", "score-anchors": "score"}
"""The arms whose anchors a tutor writes on request, and the kind of request."""

_KINDS: Mapping[Task, tuple[str, str, str]] = {
    Task.SUMMARY: ("summary", "article", "two or three sentences"),
    Task.DIALOGUE: ("next reply", "conversation", "one or two sentences"),
}
_OTHER = ("answer", "request", "a few sentences")
_QUALITY = {
    "low": "Write a poor {what} for it: vague, partly off the point and clumsy, as a careless writer would.",
    "high": "Write a very good {what} for it: accurate, to the point, informative and well put.",
}
_SCORE = "Write a {what} for it that a strict grader would give {score:g} points of 5 (1 is very poor, 5 is excellent)."


class PromptedAnchors:
    """Anchors that a tutor writes when asked for a poor and a good text, or for texts of 2 and 4 points of 5.

    Args:
        name: name of the arm.
        tutor: writes the anchors.
        asked: for a `quality` (W-CAP) or for a `score`.
    """

    def __init__(self, name: str, tutor: Writer, asked: Asked) -> None:
        self.name = name
        self._tutor, self._asked = tutor, asked

    def anchors(self, requests: Sequence[Request], checkpoint: Checkpoint = no_checkpoint) -> list[Anchors]:
        """One pair an item; the first request of an item has what its pair cost."""
        total = len(requests)
        items = {(r.task, r.context): r for r in requests}
        made: dict[tuple[Task, str], Anchors] = {}
        for new_tokens in sorted({new_tokens_of(r.task) for r in requests}):
            keys = [k for k, r in items.items() if new_tokens_of(r.task) == new_tokens]
            prompts = [anchor_prompt(items[k], side, self._asked) for k in keys for side in ("low", "high")]
            texts = self._tutor.write(prompts, new_tokens, lambda: checkpoint(0, total))
            made |= {k: _joined(*texts[2 * i : 2 * i + 2]) for i, k in enumerate(keys)}
        out = []
        for request in requests:
            key = (request.task, request.context)
            out.append(made[key])
            made[key] = made[key]._replace(tokens=0, passes=0.0, seconds=0.0)
        return out

    def cost(self, requests: Sequence[Request]) -> Cost:
        """Two replies an item, as far as they are not known."""
        items = {(r.task, r.context): r for r in requests}
        costs = [
            self._tutor.cost([anchor_prompt(r, side, self._asked) for side in ("low", "high")], new_tokens_of(r.task))
            for r in items.values()
        ]
        return Cost(sum(c.calls for c in costs), sum(c.tokens for c in costs), 0)


def new_tokens_of(task: Task) -> int:
    """Longest anchor of a task, in tokens."""
    return NEW_TOKENS.get(task, DEFAULT_NEW_TOKENS)


def anchor_prompt(request: Request, side: str, asked: Asked = "quality") -> str:
    """The prompt to the tutor for the `low` or the `high` anchor; the response under judgement is not in it."""
    what, source, length = _KINDS.get(request.task, _OTHER)
    wish = _QUALITY[side] if asked == "quality" else _SCORE
    wish = wish.format(what=what, score=LOW if side == "low" else HIGH)
    whose = f"Here is the {source}:\n\n{request.context}"
    return f"{whose}\n\n{wish} Write {length} and nothing else: no comment, no title, no quotes."


def _joined(low: Written, high: Written) -> Anchors:
    unread = next((f"the tutor's {s} anchor: {w.unread}" for s, w in (("low", low), ("high", high)) if w.unread), "")
    cost = (low.tokens + high.tokens, low.passes + high.passes, low.seconds + high.seconds)
    return Anchors(low.text, high.text, math.nan, math.nan, *cost, unread=unread)


def rated_anchors(responses: pd.DataFrame, ratings: pd.Series, scale: tuple[float, float]) -> dict[str, Anchors]:
    """For each response two others of its item: rated nearest to 2 and to 4 points of 5.

    Args:
        responses: table `responses`.
        ratings: one rating a row of it, on `scale`; NaN where there is none.
        scale: lowest and highest rating possible.

    Returns:
        Anchors by response id, their ratings as scores from 1 to 5; unread where no other response of the item lies
        within one point of what the prompt would call it, or both would be the same text.

    Raises:
        InputError: nothing is rated, or the scale is empty.
    """
    if not ratings.notna().any() or not scale[1] > scale[0]:
        raise InputError("human-anchors needs data whose responses are rated, with at least two different ratings.")
    points = 1 + 4 * (ratings.to_numpy(dtype=float) - scale[0]) / (scale[1] - scale[0])
    rated = responses.assign(points=points)
    out: dict[str, Anchors] = {}
    for _, item in rated.groupby("item_id", sort=False):
        rows = list(zip(item["response_id"], item["text"], item["points"], strict=True))
        for response_id, _, _ in rows:
            out[response_id] = _rated_pair([(t, p) for r, t, p in rows if r != response_id and not math.isnan(p)])
    return out


def _rated_pair(others: Sequence[tuple[str, float]]) -> Anchors:
    """The texts rated nearest to 2 and 4 of 5."""
    if others:
        low = min(others, key=lambda o: abs(o[1] - LOW))
        high = min(others, key=lambda o: abs(o[1] - HIGH))
        near = abs(low[1] - LOW) <= TOLERANCE and abs(high[1] - HIGH) <= TOLERANCE
        if near and low[1] < high[1] and low[0] != high[0]:
            return Anchors(low[0], high[0], low[1], high[1])
    return Anchors(unread="human-anchors: no two other responses of this item are rated near 2 and near 4 of 5")


def random_anchors(responses: pd.DataFrame) -> dict[str, Anchors]:
    """For each response two others of its item drawn without regard to their quality, the control for anchors."""
    out: dict[str, Anchors] = {}
    for _, item in responses.groupby("item_id", sort=False):
        rows = list(zip(item["response_id"], item["text"], strict=True))
        for response_id, text in rows:
            others = list(dict.fromkeys(t for r, t in rows if r != response_id and t != text))
            if len(others) < 2:
                out[response_id] = Anchors(unread="random-anchors: the item has no two other responses")
                continue
            digest = hashlib.sha256(f"0:{response_id}".encode("utf-8", "surrogatepass")).digest()
            low, high = np.random.default_rng(int.from_bytes(digest[:8], "big")).permutation(len(others))[:2]
            out[response_id] = Anchors(others[low], others[high])
    return out

"""Material of a check-up: the responses, comparisons and questions it asks, drawn from the user's data."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import pandas as pd

from engine.attacks.distractors import PLACEBO, style_of
from engine.attacks.rewriting import RuleRewriter, chance
from engine.core.errors import InputError
from engine.core.schema import COMPARISONS, Order, Protocol, Task
from engine.core.settings import Settings
from engine.data.comparisons import Comparisons, is_pairs, load_comparisons, require_texts
from engine.data.dataset import Dataset
from engine.data.mapping import all_say_correctness, known_right
from engine.data.store import load_dataset
from engine.judges.base import Judge, Request
from engine.judges.cards import Card, CardBook
from engine.judges.recorded import RecordedJudge
from engine.studies.checkup.metrics import LABELLED, Size
from engine.studies.rewrites import parse_arm
from engine.studies.running import build_requests, unsupported_reason

PROTOCOLS = (Protocol.POINTWISE, Protocol.PAIRWISE, Protocol.VERIFIER)
STYLES = ("assertiveness", "sycophancy:0.25")
"""Distractors of the check-up; sycophancy at a strength that makes it about as long as the placebo."""
WORDIER = "prolixity"
REWRITTEN = (PLACEBO, WORDIER, *STYLES)


@dataclass(frozen=True)
class Material:
    """The user's data in one shape, whether it is a data set or a set of pairs.

    Attributes:
        dataset: items and responses.
        comparisons: table `comparisons`; empty for a data set.
    """

    dataset: Dataset
    comparisons: pd.DataFrame

    @property
    def data_id(self) -> str:
        """The id the settings name."""
        return self.dataset.dataset_id


def load_material(data: str, settings: Settings) -> Material:
    """A saved data set or set of pairs, by its id.

    Raises:
        InputError: there is none of that id, or it is damaged.
    """
    if is_pairs(data, settings.comparisons):
        return of_pairs(load_comparisons(data, settings.comparisons))
    return of_dataset(load_dataset(data, settings.datasets))


def of_dataset(dataset: Dataset) -> Material:
    """A data set as material."""
    return Material(dataset, COMPARISONS.empty())


def of_pairs(read: Comparisons) -> Material:
    """A set of pairs as material; a text that stands in several pairs of an item is judged once.

    Raises:
        InputError: the set ships without its texts.
    """
    require_texts(read, "A check-up")
    responses = read.responses.copy()
    first = responses.groupby(["item_id", "text"], sort=False)["response_id"].transform("first")
    same = dict(zip(responses["response_id"], first, strict=True))
    pairs = read.comparisons.assign(
        response_a=read.comparisons["response_a"].map(same), response_b=read.comparisons["response_b"].map(same)
    )
    kept = responses[responses["response_id"] == first].reset_index(drop=True)
    task = str(read.items["task"].iloc[0])
    return Material(Dataset(read.set_id, read.name, task, read.items, kept), pairs)


@dataclass(frozen=True)
class Subject:
    """A judge and what it is asked about.

    Attributes:
        judge: the judge.
        scores: a pointwise request for each response; empty where the judge cannot be asked.
        pairs: a pairwise request, its order open, for each comparison; likewise.
        checks: a verifier's request for each response; likewise.
        rated, labelled: the requests of `scores` and `pairs` kind whose response or comparison has a human label.
        human_score: response id -> human rating.
        human_pair: (response a, response b) -> a, b or tie.
        right: response id -> whether it is known to be correct; only where the data say so.
        unable: protocol -> why it cannot be asked.
        texts: (arm, response id) -> rewritten text that kept its content.
        low, high: ends of the scale.
    """

    judge: Judge
    scores: Sequence[Request]
    pairs: Sequence[Request]
    checks: Sequence[Request]
    rated: Sequence[Request]
    labelled: Sequence[Request]
    human_score: Mapping[str, float]
    human_pair: Mapping[tuple[str, str], str]
    right: Mapping[str, bool]
    unable: Mapping[Protocol, str]
    texts: Mapping[tuple[str, str], str]
    low: float
    high: float

    @property
    def items(self) -> list[str]:
        """Every item asked about, in order."""
        every = (*self.scores, *self.pairs, *self.checks, *self.rated, *self.labelled)
        return list(dict.fromkeys(r.item_id for r in every))

    def base(self, protocol: Protocol) -> Sequence[Request]:
        """The clean requests of a protocol, orders open."""
        return {Protocol.POINTWISE: self.scores, Protocol.PAIRWISE: self.pairs, Protocol.VERIFIER: self.checks}[
            protocol
        ]

    def unsupported_reason(self, *protocols: Protocol) -> str:
        """The reason why none of the protocols can be asked; empty where one can."""
        if any(self.base(p) for p in protocols):
            return ""
        reasons = ((p.value.capitalize(), self.unable.get(p, "there is nothing to ask.")) for p in protocols)
        return " ".join(f"{name}: {why.partition(' Use ')[0]}" for name, why in reasons)


def make_subject(judge: Judge, material: Material, size: Size) -> Subject:
    """Choose what is asked, and find out in which protocols this judge can be asked it.

    Raises:
        InputError: the judge can be asked in no protocol; the message says why for each. Or verification data have a
            label that says neither correct nor incorrect.
    """
    dataset = material.dataset
    items = list(dict.fromkeys(dataset.responses["item_id"]))[: size.items]
    asked = [r for r in build_requests(dataset) if r.item_id in set(items)]
    by_item: dict[str, list[Request]] = {item: [] for item in items}
    for request in asked:
        by_item[request.item_id].append(request)
    responses = dataset.responses.set_index("response_id")
    score = {str(k): float(v) for k, v in responses["human_score"].dropna().items()}
    labels = _human_pairs(material, by_item, score)
    drawn = [r for item in items for r in _drawn(by_item[item], size.responses, size.seed)]
    pairs, labelled = _pairs(judge, material, by_item, labels, size)
    checks = [replace(r, protocol=Protocol.VERIFIER) for r in drawn if r.reference.strip()]
    unable = {
        Protocol.POINTWISE: unsupported_reason(judge.labels, drawn),
        Protocol.PAIRWISE: _no_pairs(by_item) if not pairs else unsupported_reason(judge.labels, pairs[:1]),
        Protocol.VERIFIER: unsupported_reason(judge.labels, checks)
        if checks
        else "the data have no reference answers (column reference).",
    }
    unable = {p: why for p, why in unable.items() if why}
    if len(unable) == len(PROTOCOLS):
        raise InputError(f"{judge.spec} cannot be checked on {dataset.name}. " + " ".join(unable.values()))

    def if_able(protocol: Protocol, requests: Sequence[Request]) -> Sequence[Request]:
        return () if protocol in unable else requests

    scores = if_able(Protocol.POINTWISE, drawn)
    low, high = scale_of(judge, scores)
    levels = dataset.task != Task.VERIFICATION and not all_say_correctness(responses["quality"])
    right = {} if levels else known_right(dataset)  # data of other tasks may have levels of quality of any kind
    return Subject(
        judge=judge,
        scores=scores,
        pairs=if_able(Protocol.PAIRWISE, pairs),
        checks=if_able(Protocol.VERIFIER, checks),
        rated=if_able(Protocol.POINTWISE, [r for r in asked if r.response_id in score]),
        labelled=if_able(Protocol.PAIRWISE, labelled),
        human_score=score,
        human_pair=labels,
        right=right if any(right.values()) else {},
        unable=unable,
        texts=_rewritten([r for r in drawn if scores], [*if_able(Protocol.PAIRWISE, pairs)], size.seed),
        low=low,
        high=high,
    )


def scale_of(judge: Judge, scores: Sequence[Request]) -> tuple[float, float]:
    """Lowest and highest score: by the card, by labels that are numbers, or, of a recording, as seen in it."""
    if not scores:
        return 0.0, 1.0
    card = getattr(judge, "card", None)
    if card is not None:
        values = card(scores[0]).values
    elif isinstance(judge, RecordedJudge):
        values = judge.recording.verdicts["score"].dropna().tolist()
    else:
        values = [float(label) for label in judge.labels(scores[0])]
    return (float(min(values)), float(max(values))) if len(set(values)) > 1 else (0.0, 1.0)


def _drawn(requests: Sequence[Request], most: int, seed: int) -> list[Request]:
    """At most so many responses of one item, drawn by their ids, in the data's order."""
    if len(requests) <= most:
        return list(requests)
    ranked = sorted(requests, key=lambda r: chance(seed, "response", r.item_id, r.response_id).random())
    chosen = {r.response_id for r in ranked[:most]}
    return [r for r in requests if r.response_id in chosen]


def _human_pairs(
    material: Material, by_item: Mapping[str, Sequence[Request]], score: Mapping[str, float]
) -> dict[tuple[str, str], str]:
    """Human preferences: as the pairs say, else the higher human score."""
    if len(material.comparisons):
        known = material.comparisons.dropna(subset=["human"])
        rows = known[["response_a", "response_b", "human"]].itertuples(index=False, name=None)
        return {(str(a), str(b)): str(human) for a, b, human in rows}
    preferred: dict[tuple[str, str], str] = {}
    for requests in by_item.values():
        rated = [r.response_id for r in requests if r.response_id in score]
        for a, b in combinations(rated, 2):
            preferred[a, b] = "tie" if score[a] == score[b] else "a" if score[a] > score[b] else "b"
    return preferred


def _pairs(
    judge: Judge,
    material: Material,
    by_item: Mapping[str, Sequence[Request]],
    labels: Mapping[tuple[str, str], str],
    size: Size,
) -> tuple[list[Request], list[Request]]:
    """The comparisons asked in every arm, and those that have a human label."""
    given = material.comparisons
    recorded = _recorded_pairs(judge)
    drawn: list[Request] = []
    labelled: list[Request] = []
    for item, requests in by_item.items():
        at = {r.response_id: r for r in requests}
        if len(given):
            listed = given[given["item_id"] == item]
            ids = list(zip(listed["response_a"], listed["response_b"], strict=True))
        else:
            ids = list(combinations(at, 2))
        ids = [
            p for p in ids if at[p[0]].response != at[p[1]].response and (recorded is None or frozenset(p) in recorded)
        ]
        ids.sort(key=lambda p: (p not in labels, chance(size.seed, "pair", item, *p).random()))
        made = [_pair(at[a], at[b]) for a, b in ids]
        drawn += made[: size.pairs]
        labelled += [r for r in made if (r.response_id, r.response_b_id) in labels][: LABELLED * size.pairs]
    return drawn, labelled


def _pair(a: Request, b: Request) -> Request:
    return replace(
        a,
        protocol=Protocol.PAIRWISE,
        response_b_id=b.response_id,
        response_b=b.response,
        system_b=b.system,
    )


def _recorded_pairs(judge: Judge) -> set[frozenset[str]] | None:
    """The pairs a recording holds, since it can be asked no others; None for a judge that is no recording."""
    if not isinstance(judge, RecordedJudge) or Protocol.PAIRWISE not in judge.protocols:
        return None
    rows: Any = judge.recording.verdicts[["response_id", "response_b"]].dropna()
    return {frozenset(map(str, pair)) for pair in rows.itertuples(index=False, name=None)}


def _no_pairs(by_item: Mapping[str, Sequence[Request]]) -> str:
    if all(len(requests) < 2 for requests in by_item.values()):
        return "no item has two responses to compare (column item_id)."
    return "no two responses of an item differ, or none was recorded."


def _rewritten(scores: Sequence[Request], pairs: Sequence[Request], seed: int) -> dict[tuple[str, str], str]:
    """Texts of every style that changed and kept their content, for the responses that are asked about."""
    texts = {r.response_id: r.response for r in (*scores, *pairs)}
    made: dict[tuple[str, str], str] = {}
    for arm in REWRITTEN if texts else ():
        name, strength = parse_arm(arm)
        after = RuleRewriter().rewrite(list(texts.values()), style_of(name), strength=strength, seed=seed)
        made |= {
            (arm, response): new.text
            for (response, old), new in zip(texts.items(), after, strict=True)
            if new.report.ok and new.text != old
        }
    return made


def in_both_orders(requests: Sequence[Request]) -> list[Request]:
    """Pairs in both orders, everything else as it is."""
    return [
        replace(r, order=order) if order else r
        for r in requests
        for order in (tuple(Order) if r.protocol is Protocol.PAIRWISE else (None,))
    ]


# Rewordings of a judge's own card, made at run time: the same rubric in other words, and the scale turned round.
#
# Both are rules, so that they need no model and are the same for everybody. The placeholders, labels and literal braces
# of the prompt stay as they are. What the reversed card answers is turned back when it is read (its values are
# mirrored, or its labels change places), so that a judge that follows the prompt gives the same verdict under both.

REWORDED = ("reworded 1", "reworded 2")
REVERSED = "reversed"
NO_CARD = "has no judge card, so there is no prompt to change (ability: a prompt of its own)"

_SAYINGS: tuple[Mapping[str, str], ...] = (
    {
        "rate the quality of": "score how good",
        "rate": "score",
        "rating": "score",
        "considering": "taking into account",
        "very poor": "very bad",
        "excellent": "outstanding",
        "worst": "poorest",
        "respond with": "answer with",
        "reply with": "answer with",
        "reply": "answer",
        "output": "give",
        "state which": "say which",
        "analyze": "examine",
        "better response": "preferred response",
        "which assistant answers": "which assistant responds to",
        "match the reference answer": "agree with the reference answer",
        "be as objective as possible": "stay as objective as you can",
        "evaluate": "assess",
        "judge": "assess",
        "assess": "evaluate",
        "choose": "select",
        "you are given": "below you find",
    },
    {
        "rate the quality of": "grade the quality of",
        "rate": "grade",
        "rating": "grade",
        "considering": "with regard to",
        "very poor": "terrible",
        "excellent": "superb",
        "best": "finest",
        "respond with": "write down",
        "reply with": "write down",
        "only": "and nothing else",
        "output": "write",
        "state which": "tell which",
        "better": "more fitting",
        "match": "correspond to",
        "helpfulness": "usefulness",
        "correctness": "accuracy",
        "evaluate": "appraise",
        "judge": "appraise",
        "assess": "appraise",
        "choose": "pick",
        "number": "figure",
    },
)
"""Two ways of saying the usual words of a rubric."""
_WORSE: Mapping[str, str] = {
    "better": "worse",
    "best": "worst",
    "worse": "better",
    "worst": "best",
    "prefer": "reject",
    "preferred": "rejected",
}
_SLOT = re.compile(r"(\{\{[a-z_]+\}\}|\{[a-z_]+\})")
_ENDS = re.compile(
    r"(?P<low>\d+)\s*\((?P<a>[^()\n]{2,40})\)(?P<between>[^()\n]{1,12}?)(?P<high>\d+)\s*\((?P<b>[^()\n]{2,40})\)"
)


def reworded_cards(judge: Judge, request: Request) -> list[Card]:
    """The judge's card in other words, twice.

    Raises:
        InputError: the judge has no card, or no word of its prompt is one of the known sayings.
    """
    card = card_of(judge, request)
    made: list[Card] = []
    for variant, sayings in zip(REWORDED, _SAYINGS, strict=True):
        change = _substituter(sayings)
        new = _changed(
            card, variant, user=_outside_slots(card.user, change), system=_outside_slots(card.system, change)
        )
        if new.user == card.user and new.system == card.system:
            raise InputError(
                f"No wording of the prompt of {judge.spec} is known to the paraphraser (it knows for example rate, "
                "considering, respond with, better)."
            )
        made.append(new)
    return made


def reversed_card(judge: Judge, request: Request) -> Card:
    """The judge's card with its scale turned round, its answers turned back.

    Raises:
        InputError: the judge has no card.
    """
    card = card_of(judge, request)
    if card.protocol is Protocol.POINTWISE:
        return _reversed_scores(card)
    return _reversed_pair(card) if card.protocol is Protocol.PAIRWISE else _reversed_check(card)


def card_of(judge: Judge, request: Request) -> Card:
    """The card a request is asked through.

    Raises:
        InputError: the judge has none.
    """
    if not hasattr(judge, "card"):
        raise InputError(f"{judge.spec} {NO_CARD}.")
    card: Card = judge.card(request)
    return card


def with_cards(judge: Judge, cards: list[Card]) -> Judge:
    """The judge with these cards beside its own; the judge itself where there are none.

    A judge behind a server is copied, so that both share its client and with it the cap on calls and cost.
    """
    if not cards:
        return judge
    if hasattr(judge, "with_cards"):
        made: Judge = judge.with_cards(cards)
        return made
    twin: Any = copy.copy(judge)
    twin._book = CardBook((*twin._book.cards, *cards))
    return cast(Judge, twin)


def _reversed_scores(card: Card) -> Card:
    low, high = min(card.values), max(card.values)
    mirrored = tuple(low + high - value for value in card.values)
    names = dict(zip(card.values, card.labels, strict=True))
    note = f"In this task the scale is turned round: {names[low]} is the best and {names[high]} is the worst."
    user = _ENDS.sub(lambda m: f"{m['low']} ({m['b']}){m['between']}{m['high']} ({m['a']})", card.user)
    user = re.sub(r"(\d+)-worst, (\d+)-best", r"\1-best, \2-worst", user)
    return _changed(card, REVERSED, user=_noted(user, note), values=mirrored, decimals=False)


def _reversed_pair(card: Card) -> Card:
    """Asks for the worse one: naming the second means that the first is better, so the labels change places."""
    first, second, *tie = card.labels
    note = f"In this task name the worse of the two: {first} where the first is worse, {second} where the second is."
    user = _noted(_outside_slots(card.user, _substituter(_WORSE)), note)
    return _changed(card, REVERSED, user=user, labels=(second, first, *tie), spellings=_turned(card.spellings))


def _reversed_check(card: Card) -> Card:
    yes, no = card.labels
    note = f"In this task the answers are turned round: {no} means that it is correct and {yes} that it is not."
    return _changed(card, REVERSED, user=_noted(card.user, note), labels=(no, yes), spellings=_turned(card.spellings))


def _turned(spellings: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return (spellings[1], spellings[0], *spellings[2:]) if spellings else ()


def _noted(user: str, note: str) -> str:
    """The note ahead of the instructions."""
    return f"{note}\n\n{user.removeprefix(chr(10))}"


def _changed(card: Card, variant: str, **fields: Any) -> Card:
    return Card.model_validate(card.model_dump() | {"variant": variant, "name": f"{card.name}, {variant}"} | fields)


def _outside_slots(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if _SLOT.fullmatch(part) else change(part) for part in _SLOT.split(text))


def _substituter(sayings: Mapping[str, str]) -> Callable[[str], str]:
    """Whole words and phrases, the longest first, a capital kept."""
    known = "|".join(re.escape(s) for s in sorted(sayings, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{known})(?![\w-])", re.IGNORECASE)

    def one(match: re.Match[str]) -> str:
        phrase = match.group()
        new = sayings[phrase.lower()]
        return new[:1].upper() + new[1:] if phrase[0].isupper() else new

    return lambda text: pattern.sub(one, text)

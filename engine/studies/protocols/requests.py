"""Texts of a run, every original and every rewriting, and what the judge is asked about them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.distractors import style_of
from engine.attacks.format_rules import failed_rules
from engine.attacks.rewriting import ContentReport, Rewriter
from engine.core.errors import InputError
from engine.core.schema import NONE, VARIANTS, Protocol, Task
from engine.data.dataset import Dataset
from engine.judges.base import Candidate, Request
from engine.judges.kinds import both_orders
from engine.stats.arena import Arena
from engine.studies.protocols.leaderboard import lowest
from engine.studies.protocols.metrics import View, outcomes
from engine.studies.rewrites import RULES, parse_arm

UNCHANGED = "the text did not change"
RULES_PER_PROMPT = 3
RANKED = 4
"""Systems of a choice-set quadruple: A, B, C, D."""
_LEVEL = re.compile(r"(rules|severity)_(\d)")


def variant_table(dataset: Dataset, arms: Sequence[str], rewriter: Rewriter, *, seed: int = 0) -> pd.DataFrame:
    """Originals (style `none`) and rewritings of every response that a system wrote.

    A rewriting is kept where the text changed and the content checks found nothing lost or added.

    Args:
        dataset: items and responses.
        arms: styles, each with its strength where that is not 1 (`assertiveness:0.5`).
        rewriter: rules or a model.
        seed: of the rewriter's chance.

    Raises:
        InputError: the data name fewer than two systems, a response has no system, or an arm cannot be read.
    """
    responses = dataset.responses
    unnamed = responses["system"].isna()
    if unnamed.any() or responses["system"].nunique() < 2:
        which = responses.loc[unnamed, "response_id"]
        why = f"response {which.iloc[0]!r} names none" if len(which) else "they name one"
        raise InputError(
            f"A leaderboard needs responses of at least two systems; in the data {dataset.name} {why}. Choose the "
            "column that says which system wrote a response."
        )
    rules = {str(item): rule for item, rule in zip(dataset.items["item_id"], dataset.items["rules"], strict=True)}
    texts = list(responses["text"])
    before = [
        failed_rules(rules.get(str(item)), str(text))
        for item, text in zip(responses["item_id"], responses["text"], strict=True)
    ]
    originals: list[tuple[Any, list[str] | None]] = list(zip(responses.itertuples(index=False), before, strict=True))
    rows = [_row(r, NONE, 0.0, RULES, r.text, None, (failed, failed)) for r, failed in originals]
    for arm in arms:
        name, strength = parse_arm(arm)
        rewritten = rewriter.rewrite(texts, style_of(name), strength=strength, seed=seed)
        for (r, failed), new in zip(originals, rewritten, strict=True):
            after = failed_rules(rules.get(r.item_id), new.text)
            rows.append(_row(r, arm, strength, rewriter.name, new.text, new.report, (failed, after)))
    return VARIANTS.conform(pd.DataFrame(rows))


def check_reused(variants: pd.DataFrame, dataset: Dataset, arms: Sequence[str]) -> pd.DataFrame:
    """Variants of an earlier run, if they are about the same texts and hold the arms asked for.

    Raises:
        InputError: a text differs, or an arm is missing.
    """
    originals = variants[variants["style"] == NONE].set_index("response_id")["text"]
    for row in dataset.responses.itertuples(index=False):
        if originals.get(row.response_id) != row.text:
            raise InputError(
                f"The earlier run's texts are not those of the data {dataset.name}: response {row.response_id!r} "
                "differs. Leave variants_of out, or name a run on this data."
            )
    if missing := [arm for arm in arms if arm not in set(variants["style"])]:
        raise InputError(f"The earlier run has no texts for {', '.join(missing)}.")
    wanted = variants["style"].isin([NONE, *arms]) & variants["response_id"].isin(dataset.responses["response_id"])
    return variants[wanted].reset_index(drop=True)


def _row(
    r: Any,
    style: str,
    strength: float,
    rewriter: str,
    text: str,
    report: ContentReport | None,
    failed: tuple[list[str] | None, list[str] | None],
) -> dict[str, object]:
    """One row of `variants`; where the item has no rules, the severity is the level the response was made for."""
    severity = [severity_by_name(r.quality) if one is None else len(one) for one in failed]
    named = [None if one is None else "; ".join(one) for one in failed]
    reasons = list(report.reasons) if report else []
    if report and text == r.text:
        reasons.append(UNCHANGED)
    return {
        "response_id": r.response_id,
        "item_id": r.item_id,
        "system": r.system,
        "style": style,
        "strength": strength,
        "rewriter": rewriter,
        "text": text,
        "kept": int(not reasons),
        "reasons": "; ".join(reasons) or None,
        "length_ratio": report.length_ratio if report else 1.0,
        "severity": severity[0],
        "severity_after": severity[1],
        "failed": named[0],
        "failed_after": named[1],
    }


def severity_by_name(quality: object) -> int | None:
    """The severity that a constructed level names: `severity_1`, or `rules_2` for two of three rules kept."""
    match = _LEVEL.fullmatch(quality) if isinstance(quality, str) else None
    if match is None:
        return None
    number = int(match.group(2))
    return number if match.group(1) == "severity" else RULES_PER_PROMPT - number


# Requests: scores, comparisons in both orders, copies, and rankings of choice sets.


@dataclass(frozen=True)
class Text:
    """A response as it is judged in one arm."""

    item_id: str
    response_id: str
    system: str
    text: str


class Asker:
    """Makes the requests of a run from its texts.

    Args:
        dataset: items and their contexts.
        variants: table `variants`.
        prompts: by protocol, the variant of the prompt (the primary criterion); empty for the built-in one.
    """

    def __init__(self, dataset: Dataset, variants: pd.DataFrame, prompts: dict[Protocol, str]) -> None:
        items = dataset.items.set_index("item_id")
        self._contexts = items["context"].fillna("").to_dict()
        self._tasks = {item: Task(task) for item, task in items["task"].items()}
        self._prompts = prompts
        self._texts: dict[tuple[str, str], Text] = {}
        columns = ["style", "response_id", "item_id", "system", "text", "kept"]
        for style, response, item, system, text, kept in variants[columns].itertuples(index=False, name=None):
            if kept or style == NONE:
                self._texts[style, response] = Text(item, response, system, text)
        self.arms = [arm for arm in dict.fromkeys(variants["style"]) if arm != NONE]
        self.by_item: dict[str, list[Text]] = {}
        for (arm, _), text in self._texts.items():
            if arm == NONE:
                self.by_item.setdefault(text.item_id, []).append(text)

    def scores(self) -> list[Request]:
        """Every original and every kept rewriting, one at a time."""
        return [self._one(text, arm) for (arm, _), text in self._texts.items()]

    def clean_pairs(self) -> list[Request]:
        """Every two responses to an item, in both orders."""
        pairs = [pair for texts in self.by_item.values() for pair in combinations(texts, 2)]
        return both_orders(self._pair(a, b, NONE) for a, b in pairs)

    def copies(self) -> list[Request]:
        """Every response against itself and against its kept rewritings, in both orders."""
        made: list[Request] = []
        for texts in self.by_item.values():
            for text in texts:
                for arm in (NONE, *self.arms):
                    other = self._texts.get((arm, text.response_id))
                    if other:
                        made += both_orders([self._pair(text, other, NONE if arm == NONE else f"{arm}@b")])
        return made

    def distracted(self, arena: Arena, needs: Needs, view: View) -> list[Request]:
        """Comparisons with a rewritten side, as far as flips, ladder and leaderboard need them, in both orders.

        Item by item with all arms, so that a stopped run is still paired.
        """
        made: list[Request] = []
        for arm in self.arms:
            board = needs.lowest if arm in needs.boards else 0
            for item, pair, side in needed_sides(arena, board, view):
                a, b = (str(arena.responses[item, s]) for s in arena.pairs[pair])
                texts = [self._texts.get((arm if name in side else NONE, r)) for name, r in (("a", a), ("b", b))]
                if texts[0] and texts[1]:
                    made += both_orders([self._pair(texts[0], texts[1], f"{arm}@{side}")])
        return sorted(made, key=lambda request: request.item_id)

    def likely(self) -> list[Request]:
        """One rewritten side of every pair and arm, in both orders: an estimate of `distracted`."""
        made: list[Request] = []
        for arm in self.arms:
            for texts in self.by_item.values():
                for a, b in combinations(texts, 2):
                    other = self._texts.get((arm, b.response_id))
                    made += both_orders([self._pair(a, other, f"{arm}@b")]) if other else []
        return made

    def rankings(self, seed: int) -> list[Request]:
        """One quadruple an item, {A, B, C} and {A, B, D} in both layouts and both orders of A and B."""
        made: list[Request] = []
        rng = np.random.default_rng(seed)
        for texts in self.by_item.values():
            if len(texts) < RANKED:
                continue
            a, b, *others = (texts[i] for i in rng.permutation(len(texts))[:RANKED])
            for x in others:
                for first, second in ((a, b), (b, a)):
                    made += [self._ranking(shown) for shown in ((first, second, x), (x, first, second))]
        return made

    def _one(self, text: Text, arm: str) -> Request:
        return Request(
            text.item_id,
            text.response_id,
            self._tasks[text.item_id],
            self._contexts[text.item_id],
            text.text,
            variant=self._prompts.get(Protocol.POINTWISE, ""),
            attack=arm,
            system=text.system,
        )

    def _pair(self, a: Text, b: Text, attack: str) -> Request:
        return replace(
            self._one(a, attack),
            protocol=Protocol.PAIRWISE,
            variant=self._prompts.get(Protocol.PAIRWISE, ""),
            response_b_id=b.response_id,
            response_b=b.text,
            system_b=b.system,
        )

    def _ranking(self, shown: Sequence[Text]) -> Request:
        others = tuple(Candidate(t.response_id, t.text) for t in shown[1:])
        return replace(
            self._one(shown[0], NONE),
            protocol=Protocol.RANKING,
            variant=self._prompts.get(Protocol.RANKING, ""),
            others=others,
        )


@dataclass(frozen=True)
class Needs:
    """Leaderboards that a run measures.

    Attributes:
        lowest: number of systems, from the lowest, that are rewritten.
        boards: arms that the leaderboard is made for.
    """

    lowest: int
    boards: frozenset[str]


def needed_sides(arena: Arena, board: int, view: View) -> list[tuple[int, int, str]]:
    """Item, pair and side (`a`, `b`, `ab`) of the rewritten comparisons that the readouts use.

    The clean loser is rewritten for the flips, the response that fails rules for the ladder, and for the leaderboard
    whatever belongs to the `board` lowest systems, at every number of them up to that.
    """
    clean = outcomes(arena, Protocol.PAIRWISE, view)
    wanted: dict[tuple[int, int, str], None] = {}

    def add(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], side: str) -> None:
        wanted.update(dict.fromkeys((int(i), int(p), side) for i, p in np.argwhere(mask)))

    add(clean == -1, "a")
    add(clean == 1, "b")
    first, second = (arena.severity[:, arena.pairs[:, s]] for s in (0, 1))
    add((second == 0) & (first > 0), "a")
    add((first == 0) & (second > 0), "b")
    there = ~np.isnan(clean)
    for k in range(1, board + 1):
        chosen = lowest(arena, Protocol.PAIRWISE, k, view)
        in_a, in_b = np.isin(arena.pairs[:, 0], chosen), np.isin(arena.pairs[:, 1], chosen)
        for side, mask in (("a", in_a & ~in_b), ("b", in_b & ~in_a), ("ab", in_a & in_b)):
            add(there & mask, side)
    return sorted(wanted)

"""The verdicts of study `protocols` as arrays, which every slider of its page reduces anew.

Arms: `none`, or a style with its strength where that is not 1 (`assertiveness`, `assertiveness:0.5`). A pairwise
verdict also says which side was rewritten: `assertiveness@a`, `@b` or `@ab`. A comparison of a response with itself is
that of its original (a) with its rewriting (b); in the arm `none` both are the original.

One mask decides what a rewriting may enter: `Arena.usable`. Every number with a rewritten side is read through it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import NONE, Order, Outcome, Protocol

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SIDES = ("a", "b", "ab")
COPIES = "copies"
"""In `Arena.asked` and `Arena.unread`: comparisons of a response with itself or with its own rewriting."""


def arm_name(style: str, strength: float = 1.0) -> str:
    """The arm of a style at a strength."""
    return style if strength == 1 or style == NONE else f"{style}:{strength:g}"


def arm_parts(arm: str) -> tuple[str, float]:
    """Style and strength of an arm."""
    style, _, strength = arm.partition(":")
    return style, float(strength) if strength else 1.0


@dataclass(frozen=True)
class Arena:
    """Scores and comparisons of S systems on I items; P = S (S - 1) / 2 pairs of systems.

    Attributes:
        systems, items: names, sorted, so that no number depends on the order of a file.
        pairs: systems of each pair, the first before the second, shape (P, 2).
        responses: id of each response, empty where a system has none, shape (I, S).
        expected: by arm, expected score on the card's scale, shape (I, S); NaN unread or not asked.
        modal: by arm, the score with the most probability on the card's scale, shape (I, S); the score itself where
            the judge gave no probabilities.
        shares: by (arm, side), probabilities of a, b and a tie in the orders ab and ba, the order undone; shape
            (I, P, 2, 3). The clean ones are under (`none`, empty side).
        copies: by arm, the same for original (a) against rewriting (b), shape (I, S, 2, 3).
        severity: format rules that each response fails, shape (I, S); NaN unknown.
        same_rules: by arm, whether the rewriting fails the rules that its original fails, no others, shape (I, S);
            true where no rules are known.
        kept: by arm, whether the rewriting changed the text and passed the content checks, shape (I, S).
        unread: by (protocol, arm, reason), judge calls without a usable answer; `COPIES` stands beside the protocols.
        asked: by (protocol, arm), judge calls, those without a usable answer among them.
        rankings: item, response ids as shown, place of each (empty where unread).
    """

    systems: tuple[str, ...]
    items: tuple[str, ...]
    pairs: Ints
    responses: npt.NDArray[np.str_]
    expected: Mapping[str, Floats]
    modal: Mapping[str, Floats]
    shares: Mapping[tuple[str, str], Floats]
    copies: Mapping[str, Floats]
    severity: Floats
    same_rules: Mapping[str, Bools]
    kept: Mapping[str, Bools]
    unread: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    asked: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rankings: tuple[tuple[int, tuple[str, ...], tuple[float, ...]], ...] = ()

    @property
    def arms(self) -> list[str]:
        """The arms with rewritten texts, in the order of the run."""
        return [arm for arm in self.kept if arm != NONE]

    def usable(self, arm: str) -> Bools:
        """True where an arm's text of each response may enter a number, shape (I, S).

        An original always may; a rewriting where it is kept and its quality is what it was: it fails the same rules.
        """
        nothing = np.zeros(self.severity.shape, dtype=bool)
        if arm == NONE:
            return ~nothing
        return self.kept.get(arm, nothing) & self.same_rules.get(arm, nothing)

    @property
    def has_pairwise(self) -> bool:
        """True where any comparison was read."""
        return bool(np.isfinite(self.shares[NONE, ""]).any())

    @property
    def has_pointwise(self) -> bool:
        """True where any score was read."""
        return bool(np.isfinite(self.expected[NONE]).any())

    @property
    def item_of_pair(self) -> Ints:
        """The item of each comparison, shape (I, P)."""
        return np.repeat(np.arange(len(self.items)), len(self.pairs)).reshape(len(self.items), len(self.pairs))


def label_values(judge: Mapping[str, Any]) -> tuple[float, ...]:
    """The score that each label stands for, from a manifest's `judge`; empty where it does not say.

    Runs made before `values` was written down have the labels only, which are numbers on all built-in cards.
    """
    try:
        return tuple(float(x) for x in judge.get("values") or judge.get("labels") or ())
    except (TypeError, ValueError):
        return ()


def build_arena(verdicts: pd.DataFrame, variants: pd.DataFrame, values: Sequence[float] = ()) -> Arena:
    """Arrange the verdicts of a run.

    Args:
        verdicts: table `verdicts` of one judge, without defenses.
        variants: table `variants`: every original (style `none`) and every rewriting.
        values: the score of each label of the pointwise card, see `label_values`; without them the labels count as
            1, 2, 3 and so on.

    Raises:
        InputError: an item has two responses of one system, or a verdict is about a response that is not there.
    """
    originals = variants[variants["style"] == NONE]
    systems, items = tuple(sorted(set(originals["system"]))), tuple(sorted(set(originals["item_id"])))
    _one_each(originals)
    grid = _Grid(systems, items, originals, values)
    for row in variants.itertuples(index=False):
        grid.add_variant(row)
    columns = ["protocol", "attack", "response_id", "response_b", "order", "score", "p_a", "p_tie", "outcome"]
    more = ["probabilities", "unread_reason", "candidates", "ranking", "item_id"]
    for values in verdicts[[*columns, *more]].itertuples(index=False, name=None):
        grid.add_verdict(dict(zip([*columns, *more], values, strict=True)))
    return grid.arena()


def _one_each(originals: pd.DataFrame) -> None:
    twice = originals.duplicated(["item_id", "system"])
    if twice.any():
        row = originals[twice].iloc[0]
        raise InputError(
            f"Item {row['item_id']!r} has two responses of the system {row['system']!r}. A leaderboard needs one of "
            "each system: leave one out, or name the systems apart."
        )


class _Grid:
    """Fills the arrays row by row."""

    def __init__(
        self, systems: tuple[str, ...], items: tuple[str, ...], originals: pd.DataFrame, values: Sequence[float]
    ) -> None:
        self.systems, self.items, self.values = systems, items, tuple(values)
        i = {name: k for k, name in enumerate(items)}
        s = {name: k for k, name in enumerate(systems)}
        self.at = {
            r: (i[item], s[system])
            for r, item, system in zip(originals["response_id"], originals["item_id"], originals["system"], strict=True)
        }
        self.item_at = i
        self.pairs = np.array(list(combinations(range(len(systems)), 2)), dtype=np.int64).reshape(-1, 2)
        self.pair_at = {(int(a), int(b)): k for k, (a, b) in enumerate(self.pairs)}
        self.expected: dict[str, Floats] = {NONE: self._cells()}
        self.modal: dict[str, Floats] = {NONE: self._cells()}
        self.shares: dict[tuple[str, str], Floats] = {(NONE, ""): self._pairs()}
        self.copies: dict[str, Floats] = {}
        self.severity = self._cells()
        self.same_rules: dict[str, Bools] = {}
        self.kept: dict[str, Bools] = {}
        self.unread: dict[tuple[str, str, str], int] = {}
        self.asked: dict[tuple[str, str], int] = {}
        self.rankings: list[tuple[int, tuple[str, ...], tuple[float, ...]]] = []

    def _cells(self) -> Floats:
        return np.full((len(self.items), len(self.systems)), np.nan)

    def _pairs(self) -> Floats:
        return np.full((len(self.items), len(self.pairs), 2, 3), np.nan)

    def add_variant(self, row: Any) -> None:
        cell = self.at[row.response_id]
        for found in (self.kept, self.same_rules):
            found.setdefault(row.style, np.zeros((len(self.items), len(self.systems)), dtype=bool))
        self.kept[row.style][cell] = bool(row.kept)
        self.same_rules[row.style][cell] = same_rules(row)
        if row.style == NONE:
            self.severity[cell] = np.nan if pd.isna(row.severity) else float(row.severity)

    def add_verdict(self, row: dict[str, Any]) -> None:
        arm, _, side = str(row["attack"]).partition("@")
        kind = COPIES if row["response_id"] == row["response_b"] else str(row["protocol"])
        self.asked[kind, arm] = self.asked.get((kind, arm), 0) + 1
        if isinstance(row["unread_reason"], str) and row["unread_reason"]:
            key = (kind, arm, row["unread_reason"])
            self.unread[key] = self.unread.get(key, 0) + 1
            if row["protocol"] != Protocol.RANKING:
                return
        if row["protocol"] == Protocol.RANKING:
            places = row["ranking"]
            shown = tuple(json.loads(row["candidates"]))
            self.rankings.append((self.item_at[row["item_id"]], shown, tuple(places) if places is not None else ()))
        elif row["protocol"] == Protocol.POINTWISE:
            cell = self._cell(row["response_id"])
            self.expected.setdefault(arm, self._cells())[cell] = row["score"]
            self.modal.setdefault(arm, self._cells())[cell] = self._modal(row)
        elif row["protocol"] == Protocol.PAIRWISE:
            self._add_pair(row, arm, side)

    def _add_pair(self, row: dict[str, Any], arm: str, side: str) -> None:
        (item, a), (_, b) = self._cell(row["response_id"]), self._cell(row["response_b"])
        order = 0 if row["order"] == Order.AB.value else 1
        p = _shares(row)
        if a == b:
            shape = (len(self.items), len(self.systems), 2, 3)
            self.copies.setdefault(arm, np.full(shape, np.nan))[item, a, order] = p
            return
        if a > b:
            a, b, p, side = b, a, p[[1, 0, 2]], {"a": "b", "b": "a"}.get(side, side)
            order = 1 - order
        self.shares.setdefault((arm, side), self._pairs())[item, self.pair_at[a, b], order] = p

    def _cell(self, response_id: str) -> tuple[int, int]:
        if response_id not in self.at:
            raise InputError(f"There is a verdict about the response {response_id!r}, which is not among the variants.")
        return self.at[response_id]

    def _modal(self, row: dict[str, Any]) -> float:
        """The likeliest label's score, the lower of two alike; the score itself where there are no probabilities."""
        p = row["probabilities"]
        if p is None or not len(p):
            return float(row["score"])
        values = self.values if len(self.values) == len(p) else range(1, len(p) + 1)
        shares = np.round(np.asarray(p, dtype=np.float64), 9)
        return float(min(v for v, share in zip(values, shares, strict=True) if share == shares.max()))

    def arena(self) -> Arena:
        names = np.full((len(self.items), len(self.systems)), "", dtype=object)
        for response, cell in self.at.items():
            names[cell] = response
        return Arena(
            self.systems,
            self.items,
            self.pairs,
            names.astype(str),
            self.expected,
            self.modal,
            self.shares,
            self.copies,
            self.severity,
            self.same_rules,
            self.kept,
            self.unread,
            self.asked,
            tuple(self.rankings),
        )


def same_rules(row: Any) -> bool:
    """True where a row of `variants` fails the same rules as its original; only their number where no more was kept.

    Runs made before `failed` was written down have numbers alone.
    """
    for before, after in (("failed", "failed_after"), ("severity", "severity_after")):
        was, now = getattr(row, before, None), getattr(row, after, None)
        if row.style != NONE and not (pd.isna(was) or pd.isna(now)):
            return bool(was == now)
    return True


def _shares(row: dict[str, Any]) -> Floats:
    """Probabilities of a, b and a tie; a verdict without them counts as decided outright."""
    if pd.isna(row["p_a"]):
        return np.array([float(row["outcome"] == side.value) for side in (Outcome.A, Outcome.B, Outcome.TIE)])
    a, tie = float(row["p_a"]), 0.0 if pd.isna(row["p_tie"]) else float(row["p_tie"])
    return np.array([a, max(0.0, 1 - a - tie), tie])

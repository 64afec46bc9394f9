"""The numbers of study `protocols`: one metrics table, and the same as JSON for the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.distractors import PLACEBO
from engine.metrics.flips import FlipComparison, TieRule
from engine.metrics.intervals import Interval
from engine.metrics.leaderboard import Board, board, choice_sets, contradictions
from engine.metrics.multiplicity import benjamini_hochberg
from engine.metrics.paired import PairedTest
from engine.metrics.protocols import (
    PROTOCOLS,
    View,
    clean_tie_rate,
    copy_rates,
    first_slot,
    flips,
    ladder,
    margin_like_pairwise,
    order_disagreement,
    preference_strength,
)
from engine.metrics.shifts import interval_columns
from engine.readout.arena import Arena
from engine.schema import METRICS, NONE, Protocol

ALL = "all distractors"
IDENTICAL, COPIES, CLEAN = "identical texts", "original and rewriting", "clean pairs"
MODAL, MATCHED, EXPECTED = "equal modal score", "margin matched to pairwise ties", "expected scores, no margin"
Row = dict[str, Any]


def whole_arms(arena: Arena) -> list[str]:
    """The distractors at full strength, the placebo left out; all strengths where none is at full strength."""
    distractors = [arm for arm in arena.arms if arm != PLACEBO]
    return [arm for arm in distractors if ":" not in arm] or distractors


def tie_rules(arena: Arena, view: View) -> dict[str, View]:
    """The tie rules that flips are shown under beside the chosen one."""
    rules = {MODAL: TieRule(None), EXPECTED: TieRule(0.0)}
    margin = margin_like_pairwise(arena, view)
    if not np.isnan(margin):
        rules[MATCHED] = TieRule(margin)
    return {name: View(rule, view.average, view.level, view.seed) for name, rule in rules.items()}


def flips_by_arm(arena: Arena, view: View) -> dict[str, FlipComparison]:
    """Flips of every distractor and of all at full strength together, against the placebo."""
    distractors = [arm for arm in arena.arms if arm != PLACEBO]
    found = {arm: flips(arena, [arm], PLACEBO, view) for arm in distractors}
    if PLACEBO in arena.arms:
        found[PLACEBO] = flips(arena, [PLACEBO], PLACEBO, view)
    return {ALL: flips(arena, whole_arms(arena), PLACEBO, view), **found} if found else {}


def metrics_of(arena: Arena, view: View, boards: Sequence[str], lowest: int, elo_k: float) -> pd.DataFrame:
    """Table `metrics` of everything the readouts say under one view."""
    rows = [*_flip_rows(arena, view), *_tie_rows(arena, view), *_ladder_rows(arena, view)]
    rows += [*_order_rows(arena, view), *_board_rows(arena, view, boards, lowest, elo_k)]
    table = METRICS.conform(pd.DataFrame(rows)) if rows else METRICS.empty()
    return table.assign(q_value=benjamini_hochberg(table["p_value"])) if len(table) else table


def _row(metric: str, interval: Interval, **more: Any) -> Row:
    return {"metric": metric, "attack": NONE} | interval_columns(interval) | more


def _tested(metric: str, test: PairedTest, **more: Any) -> Row:
    return _row(metric, test.interval, p_value=test.p_value, **more)


def _flip_rows(arena: Arena, view: View) -> Iterator[Row]:
    for name, under in tie_rules(arena, view).items():
        for arm, found in flips_by_arm(arena, under).items():
            where = {"attack": arm, "group": name}
            if name == MODAL:
                yield _row("flip_rate", found.pairwise, protocol=Protocol.PAIRWISE.value, attack=arm)
                yield _row("flip_rate_net", found.pairwise_net, protocol=Protocol.PAIRWISE.value, attack=arm)
            yield _row("flip_rate", found.pointwise, protocol=Protocol.POINTWISE.value, **where)
            yield _row("flip_rate_net", found.pointwise_net, protocol=Protocol.POINTWISE.value, **where)
            yield _tested("flip_difference", found.test, **where)
            yield _tested("flip_difference_net", found.net_test, **where)


def _tie_rows(arena: Arena, view: View) -> Iterator[Row]:
    for protocol in PROTOCOLS:
        asked = {"protocol": protocol.value}
        yield _row("tie_rate", clean_tie_rate(arena, protocol, view), group=CLEAN, **asked)
        if protocol is Protocol.PAIRWISE:  # pointwise one text has one score: a tie by construction
            yield _row("tie_rate", copy_rates(arena, protocol, [NONE], view).tied, group=IDENTICAL, **asked)
        for arm in arena.arms:
            rates = copy_rates(arena, protocol, [arm], view)
            yield _row("tie_rate", rates.tied, group=COPIES, attack=arm, **asked)
            yield _row("preferred_distracted", rates.preferred, attack=arm, **asked)
            yield _row("preferred_distracted_half", rates.half, attack=arm, **asked)


def _ladder_rows(arena: Arena, view: View) -> Iterator[Row]:
    for rung in ladder(arena, arena.arms, view):
        where = {"protocol": rung.protocol.value, "attack": rung.arm, "group": f"severity {rung.severity}"}
        yield _row("accuracy", rung.strict, **where)
        yield _row("accuracy_half", rung.half, **where)
        if rung.arm != NONE:
            yield _tested("accuracy_change", rung.change, **where)


def _order_rows(arena: Arena, view: View) -> Iterator[Row]:
    if not arena.has_pairwise:
        return
    asked = {"protocol": Protocol.PAIRWISE.value}
    yield _row("first_slot_rate", first_slot(arena, view), **asked)
    yield _row("order_disagreement", order_disagreement(arena, view), **asked)
    yield _row("preference_strength", preference_strength(arena, view), **asked)
    for averaged, name in ((True, "both orders averaged"), (False, "one order")):
        found = contradictions(arena, view, averaged=averaged)
        yield _row("intransitivity", found.intransitive, group=name, **asked)
        yield _row("cycles", found.cyclic, group=name, **asked)
    for sets in choice_sets(arena, level=view.level):
        ranked = {"protocol": Protocol.RANKING.value}
        yield _row("choice_set_sensitivity", sets.averaged, group=f"{sets.layout}, both orders averaged", **ranked)
        yield _row("choice_set_sensitivity", sets.single, group=f"{sets.layout}, one order", **ranked)


def boards_of(arena: Arena, view: View, arms: Sequence[str], lowest: int, elo_k: float) -> list[Board]:
    """The leaderboard under every protocol that was judged, for every arm that was asked for it."""
    judged = {Protocol.PAIRWISE: arena.has_pairwise, Protocol.POINTWISE: arena.has_pointwise}
    there = [arm for arm in arms if arm in arena.kept]
    return [board(arena, p, arm, lowest, view, elo_k=elo_k) for arm in there for p in PROTOCOLS if judged[p]]


def _board_rows(arena: Arena, view: View, arms: Sequence[str], lowest: int, elo_k: float) -> Iterator[Row]:
    for found in boards_of(arena, view, arms, lowest, elo_k):
        for i, system in enumerate(arena.systems):
            where = {"protocol": found.protocol.value, "group": system, "level": view.level}
            for metric, rating in (("rating_before", found.before), ("rating_after", found.after)):
                ends = {"value": rating.rating[i], "lower": rating.lower[i], "upper": rating.upper[i]}
                counts = {"n": int(rating.battles[i]), "n_clusters": rating.n_items, "method": "bootstrap of items"}
                yield {"metric": metric, "attack": found.arm, **ends, **counts, **where}
                ranks = {"value": rating.rank[i], "lower": rating.rank_lower[i], "upper": rating.rank_upper[i]}
                yield {"metric": metric.replace("rating", "rank"), "attack": found.arm, **ranks, **counts, **where}
            moved = {"value": found.shift[i], "lower": found.shift_lower[i], "upper": found.shift_upper[i]}
            counts = {"n": int(found.after.battles[i]), "n_clusters": found.after.n_items}
            yield {
                "metric": "rating_shift",
                "attack": found.arm,
                "method": "bootstrap of items",
                **moved,
                **counts,
            } | where


def as_json(arena: Arena, view: View, boards: Sequence[str], lowest: int, elo_k: float) -> dict[str, Any]:
    """What `judgescope study protocols --json` prints: the keys of issue 9, with more beside them."""
    by_arm = flips_by_arm(arena, view)
    whole = by_arm.get(ALL)
    return {
        "tie_rule": view.rule.words,
        "flip_rate": _protocols(whole.pairwise, whole.pointwise) if whole else None,
        "flip_rate_minus_placebo": _protocols(whole.pairwise_net, whole.pointwise_net) if whole else None,
        "p_value": whole.test.p_value if whole else None,
        "n_same_loser": whole.test.interval.n if whole else 0,
        "difference": _number(whole.test.interval) if whole else None,
        "difference_minus_placebo": _number(whole.net_test.interval) | {"p_value": whole.net_test.p_value}
        if whole
        else None,
        "flips_by_distractor": [_flip_entry(arm, found) for arm, found in by_arm.items()],
        "flips_by_tie_rule": [
            _flip_entry(ALL, flips_by_arm(arena, under)[ALL]) | {"tie_rule": name, "rule": under.rule.words}
            for name, under in tie_rules(arena, view).items()
            if by_arm
        ],
        "tie_rate": _ties(arena, view),
        "preferred_distracted": [_preference(arena, arm, view) for arm in arena.arms],
        "severity": _severity(arena, view),
        "ratings": [entry for b in boards_of(arena, view, boards, lowest, elo_k) for entry in _ratings(arena, b)],
        **_order(arena, view),
    }


def _number(interval: Interval) -> dict[str, Any]:
    return {"value": interval.value, "lower": interval.lower, "upper": interval.upper, "n": interval.n}


def _protocols(pairwise: Interval, pointwise: Interval) -> dict[str, Any]:
    return {"pairwise": _number(pairwise), "pointwise": _number(pointwise)}


def _flip_entry(arm: str, found: FlipComparison) -> dict[str, Any]:
    return {
        "distractor": arm,
        "flip_rate": _protocols(found.pairwise, found.pointwise),
        "minus_placebo": _protocols(found.pairwise_net, found.pointwise_net),
        "difference": _number(found.test.interval),
        "p_value": found.test.p_value,
    }


def _ties(arena: Arena, view: View) -> dict[str, Any]:
    arms = whole_arms(arena)
    return {
        protocol.value: {
            CLEAN: _number(clean_tie_rate(arena, protocol, view)),
            COPIES: _number(copy_rates(arena, protocol, arms, view).tied) if arms else None,
            IDENTICAL: _number(copy_rates(arena, protocol, [NONE], view).tied),
        }
        for protocol in PROTOCOLS
    }


def _preference(arena: Arena, arm: str, view: View) -> dict[str, Any]:
    rates = {protocol: copy_rates(arena, protocol, [arm], view) for protocol in PROTOCOLS}
    return {
        "distractor": arm,
        "placebo": arm == PLACEBO,
        **{p.value: _number(found.preferred) for p, found in rates.items()},
        **{f"{p.value}_ties_half": _number(found.half) for p, found in rates.items()},
    }


def _severity(arena: Arena, view: View) -> list[dict[str, Any]]:
    return [
        {
            "severity": rung.severity,
            "distractor": rung.arm,
            "protocol": rung.protocol.value,
            "accuracy": rung.strict.value,
            "lower": rung.strict.lower,
            "upper": rung.strict.upper,
            "n": rung.strict.n,
            "accuracy_ties_half": rung.half.value,
            "change": _number(rung.change.interval) | {"p_value": rung.change.p_value} if rung.arm != NONE else None,
            "excluded": rung.excluded,
        }
        for rung in ladder(arena, arena.arms, view)
    ]


def _ratings(arena: Arena, found: Board) -> list[dict[str, Any]]:
    """`lower` and `upper` belong to `after`."""
    return [
        {
            "system": system,
            "protocol": found.protocol.value,
            "distractor": found.arm,
            "distracted": i in found.distracted,
            "before": found.before.rating[i],
            "before_lower": found.before.lower[i],
            "before_upper": found.before.upper[i],
            "after": found.after.rating[i],
            "lower": found.after.lower[i],
            "upper": found.after.upper[i],
            "shift": found.shift[i],
            "shift_lower": found.shift_lower[i],
            "shift_upper": found.shift_upper[i],
            "rank_before": found.before.rank[i],
            "rank_after": found.after.rank[i],
            "rank_after_lower": found.after.rank_lower[i],
            "rank_after_upper": found.after.rank_upper[i],
            "elo_before": found.elo_before.rating[i],
            "elo_after": found.elo_after.rating[i],
            "n": int(found.after.battles[i]),
        }
        for i, system in enumerate(arena.systems)
    ]


def _order(arena: Arena, view: View) -> dict[str, Any]:
    if not arena.has_pairwise:
        return dict.fromkeys(("first_slot_rate", "order_disagreement", "intransitivity", "choice_set_sensitivity"))
    averaged, single = (contradictions(arena, view, averaged=both) for both in (True, False))
    sets = [
        {"layout": found.layout, "averaged": _number(found.averaged), "one_order": _number(found.single)}
        for found in choice_sets(arena, level=view.level)
    ]
    return {
        "first_slot_rate": _number(first_slot(arena, view)),
        "order_disagreement": _number(order_disagreement(arena, view)),
        "preference_strength": _number(preference_strength(arena, view)),
        "intransitivity": {
            "averaged": _number(averaged.intransitive),
            "one_order": _number(single.intransitive),
            "cycles": _number(averaged.cyclic),
        },
        "choice_set_sensitivity": sets or None,
    }

"""The numbers of a run as the table `metrics`, arm by arm and under every tie rule."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine.attacks.distractors import MORE_PLACEBOS, PLACEBO, PLACEBOS
from engine.core.schema import METRICS, NONE, Protocol
from engine.stats.arena import COPIES as COPY_CALLS
from engine.stats.arena import Arena
from engine.stats.intervals import Interval, cluster_rate
from engine.stats.paired import PairedTest, benjamini_hochberg
from engine.stats.shifts import interval_columns
from engine.studies.protocols.leaderboard import Board, ChosenBy, board, choice_sets, contradictions
from engine.studies.protocols.metrics import (
    PROTOCOLS,
    FlipComparison,
    TieRule,
    View,
    clean_tie_rate,
    copy_rates,
    first_slot,
    flips,
    ladder,
    margin_like_pairwise,
    order_disagreement,
    preference_strength,
    unread_in,
)

ALL = "all distractors"
IDENTICAL, COPIES, CLEAN = "identical texts", "original and rewriting", "clean pairs"
MODAL, MATCHED, EXPECTED = "equal modal score", "margin matched to pairwise ties", "expected scores, no margin"
CHECKS, RULES = "content checks", "rules broken or mended"
SAME_SYSTEMS = "_same_systems"
"""Behind the name of a rating's metric: pointwise, with the systems rewritten that are lowest pairwise."""
Row = dict[str, Any]


def whole_arms(arena: Arena) -> list[str]:
    """The distractors at full strength, the placebos left out; all strengths where none is at full strength."""
    distractors = [arm for arm in arena.arms if arm not in PLACEBOS]
    return [arm for arm in distractors if ":" not in arm] or distractors


def tie_rules(arena: Arena, view: View) -> dict[str, View]:
    """The tie rules that flips are shown under; the chosen one last, under its own words, where it is none of them."""
    rules = {MODAL: TieRule(None), EXPECTED: TieRule(0.0)}
    margin = margin_like_pairwise(arena, view)
    if not np.isnan(margin):
        rules[MATCHED] = TieRule(margin)
    if view.rule not in rules.values():
        rules[view.rule.words] = view.rule
    return {name: View(rule, view.average, view.level, view.seed) for name, rule in rules.items()}


def flips_by_arm(arena: Arena, view: View) -> dict[str, FlipComparison]:
    """Flips of every distractor and of all at full strength together, against the placebo; then of the placebos."""
    placebos = [arm for arm in PLACEBOS if arm in arena.arms]
    distractors = [arm for arm in arena.arms if arm not in PLACEBOS]
    by_arm = {arm: flips(arena, [arm], PLACEBO, view) for arm in (*distractors, *placebos)}
    return {ALL: flips(arena, whole_arms(arena), PLACEBO, view), **by_arm} if by_arm else {}


def metrics_of(arena: Arena, view: View, boards: Sequence[str], lowest: int, elo_k: float) -> pd.DataFrame:
    """Table `metrics` of everything the readouts say under one view; `n_unread` counts judge calls.

    Pointwise rows under another rule than equal modal scores name it in their group.
    """
    rows = [*_flip_rows(arena, view), *_tie_rows(arena, view), *_ladder_rows(arena, view), *_left_out_rows(arena, view)]
    rows += [*_order_rows(arena, view), *_board_rows(arena, view, boards, lowest, elo_k)]
    table = METRICS.conform(pd.DataFrame(rows)) if rows else METRICS.empty()
    return table.assign(q_value=benjamini_hochberg(table["p_value"])) if len(table) else table


def _row(metric: str, interval: Interval, **more: Any) -> Row:
    return {"metric": metric, "attack": NONE} | interval_columns(interval) | more


def _tested(metric: str, test: PairedTest, **more: Any) -> Row:
    return _row(metric, test.interval, p_value=test.p_value, **more)


def _lost(arena: Arena, kinds: Collection[str], *arms: str) -> dict[str, int]:
    """The calls without an answer among those a row rests on: the clean ones and the arms named."""
    return {"n_unread": unread_in(arena, kinds, {NONE, *arms})}


def _under(group: str, protocol: Protocol, view: View) -> str:
    """The group, with the tie rule where that is not the default one and decides the number."""
    asked = protocol is Protocol.POINTWISE and view.rule.margin is not None
    return f"{group}, ties: {view.rule.words}" if asked else group


def _flip_rows(arena: Arena, view: View) -> Iterator[Row]:
    one, two = (p.value for p in PROTOCOLS)
    for name, under in tie_rules(arena, view).items():
        for arm, compared in flips_by_arm(arena, under).items():
            where = {"attack": arm, "group": name}
            arms = tuple(whole_arms(arena)) if arm == ALL else (arm,)
            net = (*arms, PLACEBO)
            if name == MODAL:
                of_pairwise = {"protocol": one, "attack": arm}
                yield _row("flip_rate", compared.pairwise, **of_pairwise, **_lost(arena, {one}, *arms))
                yield _row("flip_rate_net", compared.pairwise_net, **of_pairwise, **_lost(arena, {one}, *net))
            yield _row("flip_rate", compared.pointwise, protocol=two, **where, **_lost(arena, {two}, *arms))
            yield _row("flip_rate_net", compared.pointwise_net, protocol=two, **where, **_lost(arena, {two}, *net))
            yield _tested("flip_difference", compared.test, **where, **_lost(arena, {one, two}, *arms))
            yield _tested("flip_difference_net", compared.net_test, **where, **_lost(arena, {one, two}, *net))
        yield from _net_of_others(arena, name, under)


def flips_by_placebo(arena: Arena, view: View) -> dict[str, FlipComparison]:
    """Flips of all distractors at full strength, netted by each placebo that was judged."""
    whole = whole_arms(arena)
    return {p: flips(arena, whole, p, view) for p in PLACEBOS if p in arena.arms} if whole else {}


def _net_of_others(arena: Arena, rule: str, view: View) -> Iterator[Row]:
    """All distractors less the flips of each further placebo; the group names rule and placebo."""
    one, two = (p.value for p in PROTOCOLS)
    for placebo, compared in flips_by_placebo(arena, view).items():
        if placebo not in MORE_PLACEBOS:
            continue
        where = {"attack": ALL, "group": f"{rule}, less {placebo}"}
        arms = (*whole_arms(arena), placebo)
        if rule == MODAL:
            plain = {"attack": ALL, "group": f"less {placebo}"}
            yield _row("flip_rate_net", compared.pairwise_net, protocol=one, **plain, **_lost(arena, {one}, *arms))
        yield _row("flip_rate_net", compared.pointwise_net, protocol=two, **where, **_lost(arena, {two}, *arms))
        yield _tested("flip_difference_net", compared.net_test, **where, **_lost(arena, {one, two}, *arms))


def _tie_rows(arena: Arena, view: View) -> Iterator[Row]:
    for protocol in PROTOCOLS:
        asked = {"protocol": protocol.value}
        copied = COPY_CALLS if protocol is Protocol.PAIRWISE else protocol.value
        clean = _under(CLEAN, protocol, view)
        yield _row(
            "tie_rate", clean_tie_rate(arena, protocol, view), group=clean, **asked, **_lost(arena, {protocol.value})
        )
        if protocol is Protocol.PAIRWISE:  # pointwise one text has one score: a tie by construction
            tied = copy_rates(arena, protocol, [NONE], view).tied
            yield _row("tie_rate", tied, group=IDENTICAL, **asked, **_lost(arena, {COPY_CALLS}))
        for arm in arena.arms:
            rates = copy_rates(arena, protocol, [arm], view)
            lost = unread_in(arena, {copied}, {arm} if protocol is Protocol.PAIRWISE else {NONE, arm})
            of = {"attack": arm, "n_unread": lost} | asked
            rule = _under("", protocol, view).removeprefix(", ") or None
            yield _row("tie_rate", rates.tied, group=_under(COPIES, protocol, view), **of)
            yield _row("preferred_distracted", rates.preferred, group=rule, **of)
            yield _row("preferred_distracted_half", rates.half, group=rule, **of)


def _ladder_rows(arena: Arena, view: View) -> Iterator[Row]:
    for rung in ladder(arena, arena.arms, view):
        group = _under(f"severity {rung.severity}", rung.protocol, view)
        where: Row = {"protocol": rung.protocol.value, "attack": rung.arm, "group": group}
        where |= _lost(arena, {rung.protocol.value}, rung.arm)
        yield _row("accuracy", rung.strict, **where)
        yield _row("accuracy_half", rung.half, **where)
        if rung.arm != NONE:
            yield _tested("accuracy_change", rung.change, **where)


def _left_out_rows(arena: Arena, view: View) -> Iterator[Row]:
    """The share of rewritings that no number rests on, by why."""
    there = arena.responses != ""
    item = np.repeat(np.arange(len(arena.items)), len(arena.systems)).reshape(there.shape)[there]
    for arm in arena.arms:
        kept, usable = arena.kept[arm][there], arena.usable(arm)[there]
        for group, out in ((CHECKS, ~kept), (RULES, kept & ~usable)):
            share = cluster_rate(out.astype(float), item, level=view.level, seed=view.seed)
            yield _row("rewritings_left_out", share, attack=arm, group=group)


def _order_rows(arena: Arena, view: View) -> Iterator[Row]:
    if not arena.has_pairwise:
        return
    asked = {"protocol": Protocol.PAIRWISE.value} | _lost(arena, {Protocol.PAIRWISE.value})
    yield _row("first_slot_rate", first_slot(arena, view), **asked)
    yield _row("order_disagreement", order_disagreement(arena, view), **asked)
    yield _row("preference_strength", preference_strength(arena, view), **asked)
    for averaged, name in ((True, "both orders averaged"), (False, "one order")):
        broken = contradictions(arena, view, averaged=averaged)
        yield _row("intransitivity", broken.intransitive, group=name, **asked)
        yield _row("cycles", broken.cyclic, group=name, **asked)
    for sets in choice_sets(arena, level=view.level):
        ranked = {"protocol": Protocol.RANKING.value} | _lost(arena, {Protocol.RANKING.value})
        yield _row("choice_set_sensitivity", sets.averaged, group=f"{sets.layout}, both orders averaged", **ranked)
        yield _row("choice_set_sensitivity", sets.single, group=f"{sets.layout}, one order", **ranked)


def boards_of(
    arena: Arena, view: View, arms: Sequence[str], lowest: int, elo_k: float, *, chosen_by: ChosenBy = "own"
) -> list[Board]:
    """The leaderboard under every protocol that was judged, for every arm that was asked for it.

    With `chosen_by="pairwise"` only the pointwise one, with the systems rewritten that are lowest pairwise: then both
    protocols are about the same systems.
    """
    judged = {Protocol.PAIRWISE: arena.has_pairwise, Protocol.POINTWISE: arena.has_pointwise}
    wanted = [p for p in PROTOCOLS if judged[p]]
    if chosen_by == "pairwise":
        wanted = [Protocol.POINTWISE] if all(judged.values()) else []
    there = [arm for arm in arms if arm in arena.kept]
    return [board(arena, p, arm, lowest, view, chosen_by=chosen_by, elo_k=elo_k) for arm in there for p in wanted]


def _board_rows(arena: Arena, view: View, arms: Sequence[str], lowest: int, elo_k: float) -> Iterator[Row]:
    choices: tuple[tuple[ChosenBy, str], ...] = (("own", ""), ("pairwise", SAME_SYSTEMS))
    for chosen_by, suffix in choices:
        for ranked in boards_of(arena, view, arms, lowest, elo_k, chosen_by=chosen_by):
            for row in _ratings(arena, ranked, view):
                yield row | {"metric": f"{row['metric']}{suffix}"}


def _ratings(arena: Arena, ranked: Board, view: View) -> Iterator[Row]:
    shared: Row = {"protocol": ranked.protocol.value, "attack": ranked.arm, "level": view.level}
    shared |= {"method": "bootstrap of items"} | _lost(arena, {ranked.protocol.value}, ranked.arm)
    for i, system in enumerate(arena.systems):
        where = shared | {"group": _under(system, ranked.protocol, view)}
        for when, rating in (("before", ranked.before), ("after", ranked.after)):
            counts = {"n": int(rating.battles[i]), "n_clusters": rating.n_items}
            ends = {"value": rating.rating[i], "lower": rating.lower[i], "upper": rating.upper[i]}
            yield {"metric": f"rating_{when}"} | ends | counts | where
            ranks = {"value": rating.rank[i], "lower": rating.rank_lower[i], "upper": rating.rank_upper[i]}
            yield {"metric": f"rank_{when}"} | ranks | counts | where
        moved = {"value": ranked.shift[i], "lower": ranked.shift_lower[i], "upper": ranked.shift_upper[i]}
        counts = {"n": int(ranked.after.battles[i]), "n_clusters": ranked.after.n_items}
        yield {"metric": "rating_shift"} | moved | counts | where
    value, lower, upper = ranked.climb
    lowest = {"value": value, "lower": lower, "upper": upper, "n": ranked.n, "n_clusters": ranked.after.n_items}
    group = _under("", ranked.protocol, view).removeprefix(", ") or None
    yield {"metric": "rating_shift_lowest"} | lowest | shared | {"group": group}

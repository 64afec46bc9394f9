"""Figures of a run of pairwise against pointwise, under any tie rule, from the stored verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from engine import catalog
from engine.core.schema import NONE, Protocol
from engine.stats.arena import Arena, arm_parts, build_arena, label_values
from engine.stats.intervals import Interval
from engine.studies.figure import FigureData, FigureSpec, Setting, Source, Values, has_table
from engine.studies.protocols.drawings import (
    RateRow,
    plot_ladder,
    plot_matrix,
    plot_rates,
    plot_slope,
    prepare_ladder,
    prepare_matrix,
    prepare_rates,
    prepare_slope,
)
from engine.studies.protocols.leaderboard import Board, ChosenBy, board, win_table, with_elo
from engine.studies.protocols.metrics import (
    PROTOCOLS,
    FlipComparison,
    LadderRow,
    TieRule,
    View,
    copy_rates,
    flips,
    ladder,
    losers_left_out,
    margin_like_pairwise,
)
from engine.studies.protocols.rows import ALL, whole_arms

STUDY = "protocols"
ELO_K = 16.0
"""K of the online Elo where none is set."""
MODAL, LIKE, MARGIN = "modal", "like pairwise", "margin"
TITLES = {
    "assertiveness": "Assertiveness",
    "prolixity": "Prolixity",
    "sycophancy": "Sycophancy",
    "neutral": "Neutral paraphrase (placebo)",
    NONE: "Identical texts",
}


def title(arm: str) -> str:
    """An arm for a reader."""
    style, strength = arm_parts(arm)
    name = TITLES.get(style, style)
    return name if strength == 1 else f"{name}, strength {strength:g}"


def arena(source: Source) -> Arena:
    """The run's verdicts as arrays."""
    values = label_values(source.manifest.get("judge", {}))
    return source.memo("arena", lambda: build_arena(source.table("verdicts"), source.table("variants"), values))


def distractors(source: Source) -> list[str]:
    """Arms with rewritten texts, the placebos left out."""
    return [arm for arm in arena(source).arms if arm not in catalog.PLACEBOS]


def flips_of(source: Source, arms: tuple[str, ...], view: View) -> FlipComparison:
    """Flips of the arms together, against the placebo's."""
    return source.memo(("flips", arms, view), lambda: flips(arena(source), arms, catalog.PLACEBO, view))


def ladder_of(source: Source, arm: str, view: View) -> list[LadderRow]:
    """Accuracy by severity, clean and under one arm."""
    return source.memo(("ladder", arm, view), lambda: ladder(arena(source), [arm], view))


def board_of(
    source: Source, protocol: Protocol, arm: str, k: int, view: View, chosen: ChosenBy, elo_k: float = ELO_K
) -> Board:
    """The leaderboard before and after the k lowest systems are rewritten."""
    key = ("board", protocol, arm, k, view, chosen)
    made = source.memo(key, lambda: board(arena(source), protocol, arm, k, view, chosen_by=chosen, elo_k=ELO_K))
    if elo_k == ELO_K:
        return made
    return source.memo((*key, elo_k), lambda: with_elo(made, arena(source), view, elo_k))


def view_of(held: Arena, rule: str, margin: float, average: str = "probability") -> View:
    """Rules for reading verdicts under a tie rule: modal, like pairwise, or a margin in points."""
    averaged: Any = average
    if rule == MODAL:
        return View(TieRule(None), averaged)
    if rule == LIKE:
        like = margin_like_pairwise(held, View(average=averaged))
        return View(TieRule(like if like == like else 0.0), averaged)
    return View(TieRule(margin), averaged)


def flip_rows(compare: Any, members: dict[str, tuple[str, ...]], *, net: bool) -> pd.DataFrame:
    """Flip rates of groups of arms, or those less the placebo's.

    Args:
        compare: arms to their `FlipComparison`.
        members: group to its arms.
        net: less the placebo's.
    """
    rows: list[RateRow] = []
    for group, arms in members.items():
        if net and group in catalog.PLACEBOS:
            continue
        compared: FlipComparison = compare(arms)
        pair = (compared.pairwise_net, compared.pointwise_net) if net else (compared.pairwise, compared.pointwise)
        name = "All distractors" if group == ALL else title(group)
        rows += [_row(group, name, p, one) for p, one in zip(PROTOCOLS, pair, strict=True)]
    return prepare_rates(rows)


def copy_rows(held: Arena, arms: Sequence[str], view: View, *, ties: bool) -> pd.DataFrame:
    """Rate at which a rewriting beats its original, or ties with it."""
    rows: list[RateRow] = []
    for arm in arms:
        for protocol in PROTOCOLS if arm != NONE else (Protocol.PAIRWISE,):
            one = copy_rates(held, protocol, [arm], view)
            rows.append(_row(arm, title(arm), protocol, one.tied if ties else one.preferred))
    return prepare_rates(rows)


def _row(group: str, name: str, protocol: Protocol, one: Interval) -> RateRow:
    return (group, name, protocol.value, one.value, one.lower, one.upper, one.n, one.n_clusters, one.method)


def ladder_rows(rows: Sequence[Any], *, half: bool) -> pd.DataFrame:
    """Accuracy by severity, a tie counted half or as wrong."""
    made = [
        (r.severity, r.arm, r.protocol.value, one.value, one.lower, one.upper, one.n, r.excluded)
        for r in rows
        for one in [r.half if half else r.strict]
    ]
    return prepare_ladder(made)


def slope_rows(systems: Sequence[str], ranked: Board) -> pd.DataFrame:
    """Ranks before and after."""
    before, after = ranked.before, ranked.after
    return prepare_slope(
        [
            (
                system,
                i in ranked.distracted,
                float(before.rating[i]),
                float(after.rating[i]),
                float(before.rank[i]),
                float(before.rank_lower[i]),
                float(before.rank_upper[i]),
                float(after.rank[i]),
                float(after.rank_lower[i]),
                float(after.rank_upper[i]),
                int(after.battles[i]),
            )
            for i, system in enumerate(systems)
        ]
    )


def best_first(ranked: Board) -> list[int]:
    """Systems by their rating before, the best first."""
    return [int(i) for i in np.argsort(np.nan_to_num(-ranked.before.rating, nan=np.inf), kind="stable")]


def _judged(source: Source) -> tuple[str, ...]:
    held = arena(source)
    return tuple(p.value for p in PROTOCOLS if (held.has_pairwise if p is Protocol.PAIRWISE else held.has_pointwise))


def _boards(source: Source) -> tuple[str, ...]:
    return tuple(arm for arm in source.config.get("boards", ()) if arm in arena(source).kept)


def lowest_of(source: Source) -> int:
    """Most systems that the run rewrote for the leaderboard."""
    return max(1, min(int(source.config.get("lowest", 3)), len(arena(source).systems) - 1))


RULE = Setting(
    "rule", "scores tie by the rule", "choice", lambda _: MODAL,
    choices=lambda s: (MODAL, LIKE, MARGIN) if arena(s).has_pairwise else (MODAL, MARGIN),
)  # fmt: skip
MARGIN_DIAL = Setting(
    "margin", "tie margin (points)", "number", lambda _: 0.1, high=lambda _: 100.0, acts=lambda at: at["rule"] == MARGIN
)
ARM = Setting(
    "arm", "distractor", "choice", lambda s: next(iter(distractors(s)), ""), choices=lambda s: tuple(distractors(s))
)
BOARD_ARM = Setting("arm", "distractor", "choice", lambda s: next(iter(_boards(s)), ""), choices=_boards)
TIES_ARE = Setting("ties_are", "a tie is", "choice", lambda _: "half right", choices=lambda _: ("half right", "wrong"))
PROTOCOL = Setting("protocol", "judged", "choice", lambda s: _judged(s)[0], choices=_judged)
LOWEST = Setting("lowest", "lowest systems rewritten", "whole", lowest_of, lambda _: 1, lowest_of)
CHOSEN = Setting("chosen_by", "the lowest by", "choice", lambda _: "own", choices=lambda _: ("own", "pairwise"))
FIRST = Setting(
    "first", "first distractor", "choice", lambda s: next(iter(distractors(s)), ""),
    choices=lambda s: tuple(distractors(s)),
)  # fmt: skip
RULES = (RULE, MARGIN_DIAL)
RATES = (FIRST, *RULES)
BOARD = (PROTOCOL, BOARD_ARM, LOWEST, CHOSEN, *RULES)


def _view(source: Source, at: Values) -> View:
    average = str(source.config.get("average", "probability"))
    key = ("view", at["rule"], at["margin"])
    return source.memo(key, lambda: view_of(arena(source), str(at["rule"]), float(at["margin"]), average))


def _note(source: Source, view: View, *, pointwise: bool = True) -> str:
    return f"{source.origin}, ties: {view.rule.words}" if pointwise else source.origin


def _unread(source: Source) -> str:
    lost = sum(n for (protocol, _, _), n in arena(source).unread.items() if protocol != Protocol.RANKING.value)
    return f"{lost} verdicts unread"


def shown_arms(source: Source, first: str) -> list[str]:
    """The distractors, the one in question first, then the placebos where there are any."""
    placebos = [arm for arm in catalog.PLACEBOS if arm in arena(source).arms]
    return [*dict.fromkeys((first, *distractors(source))), *placebos]


def _flips(source: Source, at: Values, *, net: bool) -> FigureData:
    view, together = _view(source, at), whole_arms(arena(source))
    pooled = {ALL: tuple(together)} if len(together) > 1 else {}
    members = {**pooled, **{arm: (arm,) for arm in shown_arms(source, str(at["first"]))}}
    made = flip_rows(lambda arms: flips_of(source, arms, view), members, net=net)
    more = {
        "title": "What does the manner add?" if net else "Which verdicts flip?",
        "axis": "flips less the placebo's (points)" if net else "distracted losers that now win (%)",
        "null": 0.0,
    }
    out = sum(losers_left_out(arena(source), p, together, view) for p in PROTOCOLS)
    facts = (f"{out} losers left out, their rewriting not kept or failing other rules", _unread(source))
    return FigureData(made, more, facts, _note(source, view))


def _copies(source: Source, at: Values, *, ties: bool) -> FigureData:
    view = _view(source, at)
    arms = [*([NONE] if ties else []), *shown_arms(source, str(at["first"]))]
    more = {
        "title": "Do equals tie?" if ties else "Is the rewritten copy preferred?",
        "axis": "ties (%)" if ties else "rewriting preferred to its original (%)",
        "null": None if ties else 0.5,
    }
    return FigureData(copy_rows(arena(source), arms, view, ties=ties), more, (_unread(source),), _note(source, view))


def _ladder(source: Source, at: Values) -> FigureData:
    view = _view(source, at)
    made = ladder_rows(ladder_of(source, str(at["arm"]), view), half=at["ties_are"] == "half right")
    return FigureData(made, {}, (_unread(source), "intervals: items as clusters"), _note(source, view))


def _board(source: Source, at: Values) -> tuple[Board, View]:
    view = _view(source, at)
    chosen: Any = at["chosen_by"]
    protocol, arm, k = Protocol(str(at["protocol"])), str(at["arm"]), int(at["lowest"])
    made = board_of(source, protocol, arm, k, view, chosen)
    return made, view


def _slope(source: Source, at: Values) -> FigureData:
    ranked, view = _board(source, at)
    title = f"Who climbs, judged {ranked.protocol.value}?"
    note = _note(source, view, pointwise=ranked.protocol is Protocol.POINTWISE)
    facts = (
        f"n = {ranked.n} comparisons before and after",
        f"{ranked.left_out} left out as unread, not kept or with other rules failed",
    )
    return FigureData(slope_rows(arena(source).systems, ranked), {"title": title}, facts, note)


def _matrix(source: Source, at: Values) -> FigureData:
    ranked, view = _board(source, at)
    held = arena(source)
    table, order = win_table(held, ranked.protocol, view), best_first(ranked)
    systems = [held.systems[i] for i in order]
    made = prepare_matrix(systems, table.shares[order][:, order], table.n[order][:, order])
    title = f"Who beats whom, judged {ranked.protocol.value}?"
    facts = (f"n = {int(made['n'].sum()) // 2} comparisons", _unread(source), "shares, no interval")
    note = _note(source, view, pointwise=ranked.protocol is Protocol.POINTWISE)
    return FigureData(made, {"title": title}, facts, note)


_EMPTY = has_table("verdicts", "it holds no verdicts yet.")


def _no_arms(source: Source) -> str:
    return _EMPTY(source) or ("" if distractors(source) else "no rewriting was judged.")


def _no_levels(source: Source) -> str:
    return _no_arms(source) or (
        "" if np.isfinite(arena(source).severity).any() else "the data do not say which format rules a response keeps."
    )


def _no_board(source: Source) -> str:
    return _no_arms(source) or ("" if _boards(source) else "it measured no leaderboard.")


ENTRIES = (
    FigureSpec(
        STUDY, "flips", "Which verdicts flip?", lambda s, at: _flips(s, at, net=False), plot_rates, RATES, _no_arms
    ),
    FigureSpec(
        STUDY, "flips_net", "What does the manner add?", lambda s, at: _flips(s, at, net=True), plot_rates, RATES,
        _no_arms,
    ),
    FigureSpec(
        STUDY, "copies", "Is the rewritten copy preferred?", lambda s, at: _copies(s, at, ties=False), plot_rates,
        RATES, _no_arms,
    ),
    FigureSpec(STUDY, "ties", "Do equals tie?", lambda s, at: _copies(s, at, ties=True), plot_rates, RATES, _no_arms),
    FigureSpec(
        STUDY, "ladder", "Does the better response still win?", _ladder, plot_ladder,
        (ARM, TIES_ARE, *RULES), _no_levels,
    ),
    FigureSpec(
        STUDY, "slope", "Who climbs?", _slope, plot_slope, BOARD, _no_board,
    ),
    FigureSpec(
        STUDY, "matrix", "Who beats whom?", _matrix, plot_matrix, BOARD, _no_board,
    ),
)  # fmt: skip

"""Sentences of the page Protocols and leaderboard, made from the tables its figures draw."""

from __future__ import annotations

from dashboard.panels import findings
from dashboard.panels import protocols_data as data
from dashboard.panels.protocols_choose import Setting
from dashboard.panels.protocols_data import ProtocolRun
from engine.figures.text import count, interval_text
from engine.gallery.protocols import title
from engine.metrics.intervals import Interval
from engine.metrics.leaderboard import Board


def percent(one: Interval, *, signed: bool = False) -> str:
    """A share with its interval in percent; for no event the count and the bound."""
    if one.value != one.value:
        return "no data"
    if one.value == 0 and not signed and one.upper == one.upper:
        return f"0 of {count(one.n)}, at most {100 * one.upper:.3g} %"
    ends = (100 * one.value, 100 * one.lower, 100 * one.upper)
    return interval_text(*ends, unit="%", signed=signed, method=one.method, n_clusters=one.n_clusters)


def headline(run: ProtocolRun, setting: Setting) -> str:
    """What the present choice shows, in one or two sentences."""
    found = data.flips_of(run, (setting.arm,), setting.view)
    name = findings.judge_name(run.judge)
    name = name[:1].upper() + name[1:]
    manner = title(setting.arm).lower()
    if not run.arena.has_pairwise or not run.arena.has_pointwise:
        only = "pairwise" if run.arena.has_pairwise else "pointwise"
        rate = found.pairwise if run.arena.has_pairwise else found.pointwise
        return f"{name} answers {only} only: with {manner}, {percent(rate)} of clean losers now win (n = {rate.n})."
    text = (
        f"With {manner}, clean losers now win in {percent(found.pairwise)} pairwise and {percent(found.pointwise)} "
        f"pointwise; less the placebo's, {percent(found.pairwise_net, signed=True)} and "
        f"{percent(found.pointwise_net, signed=True)}."
    )
    test = found.test
    if test.p_value != test.p_value:
        return f"{name}: {text} No pair has the same loser under both, so there is no paired test."
    clear = "differ" if test.p_value < 0.05 else "do not differ clearly"
    return (
        f"{name}: {text} On the {count(test.interval.n)} pairs with the same loser the protocols {clear} "
        f"(p = {test.p_value:.2g})."
    )


def board_sentence(run: ProtocolRun, found: Board) -> str:
    """Which rewritten system gained most, or lost least."""
    moved = [i for i in found.distracted if found.shift[i] == found.shift[i]]
    if not moved:
        return "No system could be rewritten here."
    top = max(moved, key=lambda i: float(found.shift[i]))
    bounds = (float(found.shift[top]), float(found.shift_lower[top]), float(found.shift_upper[top]))
    ranks = f"rank {found.before.rank[top]:g} to {found.after.rank[top]:g}"
    return (
        f"Of the {len(found.distracted)} rewritten, {run.arena.systems[top]} gains most: "
        f"{interval_text(*bounds, signed=True)} points, {ranks} (n = {found.n} comparisons)."
    )

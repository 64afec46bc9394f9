"""Sentences of the page Protocols and leaderboard, made from the tables its figures draw."""

from __future__ import annotations

from dashboard.panels import findings
from dashboard.panels import protocols_data as data
from dashboard.panels.protocols_choose import Setting
from dashboard.panels.protocols_data import ProtocolRun
from engine.figures.text import THIN, count, interval_text
from engine.gallery.protocols import title
from engine.metrics.intervals import Interval
from engine.metrics.leaderboard import Board
from engine.metrics.paired import PairedTest

CLEAR = 0.05
"""p from which a difference between the protocols is not called measurable."""


def percent(one: Interval, *, signed: bool = False) -> str:
    """A share with its interval in percent, a difference in points; for no event the count and the bound."""
    if one.value != one.value:
        return "no data"
    if one.value == 0 and not signed and one.upper == one.upper:
        return f"0 of {count(one.n)}, at most {100 * one.upper:.3g}{THIN}%"
    ends = (100 * one.value, 100 * one.lower, 100 * one.upper)
    return interval_text(
        *ends, unit="points" if signed else "%", signed=signed, method=one.method, n_clusters=one.n_clusters
    )


def tested(test: PairedTest) -> str:
    """A difference of the protocols with its p; a dash where there is none."""
    if test.p_value != test.p_value:
        return "–"
    return f"{percent(test.interval, signed=True)}, p = {test.p_value:.2g} ({test.method})"


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
        "pointwise."
    )
    test = found.headline
    beyond = "beyond a neutral paraphrase, " if found.placebo_judged else ""
    if test.p_value != test.p_value:
        return f"{name}: no pairs of two items have the same loser under both protocols, so there is no test. {text}"
    size = percent(test.interval, signed=True)
    pairs = f"p = {test.p_value:.2g} on {count(test.interval.n)} pairs with the same loser: {size}"
    if test.p_value >= CLEAR:
        return f"{name}: {beyond}pairwise and pointwise do not differ measurably ({pairs}). {text}"
    more, less = ("pairwise", "pointwise") if test.interval.value > 0 else ("pointwise", "pairwise")
    return f"{name}: {beyond}{more} verdicts give in more often than {less} ones ({pairs}). {text}"


def net_sentence(run: ProtocolRun, setting: Setting) -> str:
    """What the manner adds to what any rewriting does."""
    found = data.flips_of(run, (setting.arm,), setting.view)
    parts = []
    for protocol, net in (("pairwise", found.pairwise_net), ("pointwise", found.pointwise_net)):
        if net.value == net.value:
            parts.append(f"{percent(net, signed=True)} {protocol}{_unclear(net)}")
    if not parts:
        return ""
    said = f"Less the flips of a neutral paraphrase, {title(setting.arm).lower()} adds {'; '.join(parts)}."
    raw = found.test
    if not found.placebo_judged or raw.p_value != raw.p_value:
        return said
    size = percent(raw.interval, signed=True)
    return f"{said} Before the paraphrase is taken off, pairwise minus pointwise is {size} (p = {raw.p_value:.2g})."


def _unclear(one: Interval) -> str:
    """Words after a difference whose interval holds zero."""
    return ", not measurable" if one.lower <= 0 <= one.upper else ""


def board_sentence(run: ProtocolRun, found: Board) -> str:
    """Which rewritten system gained most, or lost least."""
    moved = [i for i in found.distracted if found.shift[i] == found.shift[i]]
    if not moved:
        return "No system could be rewritten here."
    top = max(moved, key=lambda i: float(found.shift[i]))
    bounds = (float(found.shift[top]), float(found.shift_lower[top]), float(found.shift_upper[top]))
    known = found.before.rank[top] == found.before.rank[top]
    ranks = f"rank {found.before.rank[top]:g} to {found.after.rank[top]:g}" if known else "no ranks"
    clear = "" if bounds[1] > 0 or bounds[2] < 0 else "; not measurable"
    return (
        f"Of the {len(found.distracted)} rewritten, {run.arena.systems[top]} {_moves(bounds[0])}: "
        f"{interval_text(*bounds, signed=True)} points, {ranks}{clear} (n = {found.n} comparisons)."
    )


def _moves(shift: float) -> str:
    return "gains most" if shift > 0 else "loses least" if shift < 0 else "moves least"

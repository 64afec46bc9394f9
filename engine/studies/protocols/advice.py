"""Advice that data and judge support: statements with their numbers, none without enough of them (paper 004, 6)."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.schema import NONE, Protocol
from engine.stats.intervals import Interval
from engine.studies.protocols.metrics import FlipComparison, LadderRow

MIN_ROWS, MIN_ITEMS = 30, 10
ALPHA = 0.05
WEAK_PREFERENCE = 0.2
MANY_DISAGREE = 0.2
MANY_TIES, FEW_TIES = 0.5, 0.5


@dataclass(frozen=True)
class Evidence:
    """The numbers the advice rests on, under one view.

    Attributes:
        flips: of all distractors together.
        ties_pairwise, ties_pointwise: share of clean pairs that tie.
        identical: share of ties where both texts are the same, pairwise.
        disagreement: share of comparisons whose orders disagree.
        strength: mean |P(a) - P(b)|.
        ladder: accuracy by severity; may be empty.
    """

    flips: FlipComparison
    ties_pairwise: Interval
    ties_pointwise: Interval
    identical: Interval
    disagreement: Interval
    strength: Interval
    ladder: tuple[LadderRow, ...] = ()


@dataclass(frozen=True)
class Advice:
    """One statement.

    Attributes:
        text: the observation and what follows from it.
        kind: `for pointwise`, `for pairwise`, `either` (a warning for both) or `open` (not enough data).
        figure: the tab whose figure shows it.
    """

    text: str
    kind: str
    figure: str


def enough(interval: Interval) -> bool:
    """True where a number rests on at least 30 rows of 10 items."""
    return interval.n >= MIN_ROWS and interval.n_clusters >= MIN_ITEMS


def advise(seen: Evidence) -> list[Advice]:
    """Statements in the order a reader needs them; where data are short the statement says so and advises nothing."""
    return [
        *_flips(seen.flips),
        *_placebo(seen.flips),
        *_ladder(seen.ladder),
        *_ties(seen),
        *_order(seen.disagreement),
        *_strength(seen.strength),
    ]


def _flips(compared: FlipComparison) -> list[Advice]:
    """From the test less the placebo's flips where a placebo was judged; the raw one stands beside it."""
    test = compared.headline
    beyond = ", beyond what a neutral paraphrase flips" if compared.placebo_judged else ""
    raw = f"; before the placebo is taken off {_points(compared.test.interval)}, p = {compared.test.p_value:.2g}"
    about = f"{test.interval.n} pairs of {test.interval.n_clusters} items with the same clean loser"
    if not enough(test.interval):
        return [Advice(f"Whether the protocols flip differently is open{beyond}: {about}.", "open", "Flips")]
    tested = f"p = {test.p_value:.2g}, {about}"
    points = f"{_points(test.interval)} ({tested}{raw if compared.placebo_judged else ''})"
    if test.p_value < ALPHA:
        more, less = ("pairwise", "pointwise") if test.interval.value > 0 else ("pointwise", "pairwise")
        text = (
            f"A distracted loser wins more often {more} than {less}{beyond}: by {points}. {_first(less)} resists style "
            "better."
        )
        return [Advice(text, f"for {less}", "Flips")]
    return [Advice(f"No difference between the protocols' flips is shown{beyond}: {points}.", "either", "Flips")]


def _placebo(compared: FlipComparison) -> list[Advice]:
    net = compared.pairwise_net
    if not enough(net):
        return [Advice(f"Flips less the placebo's are open: n = {net.n}.", "open", "Flips")]
    if net.lower > 0:
        text = f"Pairwise, distractors flip more than a neutral paraphrase: by {_points(net)}. The manner counts."
        return [Advice(text, "either", "Flips")]
    if net.upper < 0:
        text = f"Pairwise, distractors flip less than a neutral paraphrase does: by {_points(net)}."
        return [Advice(text, "either", "Flips")]
    text = (
        f"Pairwise, distractors do not flip measurably more than a neutral paraphrase: {_points(net)}. Any rewriting "
        "may do as much."
    )
    return [Advice(text, "either", "Flips")]


def _ladder(rows: tuple[LadderRow, ...]) -> list[Advice]:
    out = []
    for protocol in (Protocol.PAIRWISE, Protocol.POINTWISE):
        clean = [r for r in rows if r.arm == NONE and r.protocol is protocol and enough(r.half)]
        if not clean:
            continue
        worst = min(clean, key=lambda r: r.half.value)
        where = f"where {worst.severity} of 3 rules are broken (ties half)"
        said = f"{protocol.value} is right on {_percent(worst.half)} {where}"
        if worst.half.upper < 0.5:
            out.append(Advice(f"{_first(said)}: worse than a coin.", "either", "Severity"))
        elif worst.half.lower > 0.5:
            other = "for pairwise" if protocol is Protocol.PAIRWISE else "for pointwise"
            out.append(Advice(f"{_first(said)}: better than a coin even there.", other, "Severity"))
        else:
            out.append(Advice(f"{_first(said)}: not told from a coin.", "either", "Severity"))
    return out or ([Advice("Accuracy by severity is open: too few pairs.", "open", "Severity")] if rows else [])


def _ties(seen: Evidence) -> list[Advice]:
    out = []
    if enough(seen.identical) and seen.identical.upper < MANY_TIES:
        said = f"The judge calls two identical texts a tie in only {_percent(seen.identical)}"
        text = f"{said}: pairwise invents preferences."
        out.append(Advice(text, "for pointwise", "Ties"))
    if enough(seen.ties_pointwise) and seen.ties_pointwise.lower > FEW_TIES:
        text = (
            f"Pointwise scores tie on {_percent(seen.ties_pointwise)} of clean pairs: they cannot rank most of these "
            "responses under this tie rule. Expected scores, or pairwise, tell more apart."
        )
        out.append(Advice(text, "for pairwise", "Ties"))
    return out


def _order(disagreement: Interval) -> list[Advice]:
    if not enough(disagreement):
        return [Advice(f"Disagreement between orders is open: n = {disagreement.n}.", "open", "Ties")]
    if disagreement.lower > MANY_DISAGREE:
        text = f"The two orders disagree on {_percent(disagreement)} of pairs: never compare in one order only."
        return [Advice(text, "for pointwise", "Ties")]
    return [Advice(f"The two orders disagree on {_percent(disagreement)} of pairs.", "either", "Ties")]


def _strength(strength: Interval) -> list[Advice]:
    if not enough(strength):
        return []
    size = f"mean |P(a) − P(b)| {strength.value:.2f} [{strength.lower:.2f}, {strength.upper:.2f}] of 1"
    if strength.upper < WEAK_PREFERENCE:
        text = f"Preferences are weak, {size}: a binary choice exaggerates such gaps; report probabilities or scores."
        return [Advice(text, "for pointwise", "Ties")]
    strong = "are not weak" if strength.lower >= WEAK_PREFERENCE else "are not shown to be weak"
    return [Advice(f"Preferences {strong}: {size} (weak: below {WEAK_PREFERENCE}).", "either", "Ties")]


def _percent(one: Interval) -> str:
    if one.lower != one.lower:
        return f"{100 * one.value:.0f} %"
    return f"{100 * one.value:.0f} % [{100 * one.lower:.0f}, {100 * one.upper:.0f}]"


def _points(one: Interval) -> str:
    said = f"{100 * one.value:.1f} points"
    if one.lower == one.lower:
        said += f" [{100 * one.lower:.1f}, {100 * one.upper:.1f}]"
    return said.replace("-", "−")


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]

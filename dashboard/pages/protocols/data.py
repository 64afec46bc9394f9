"""Runs of the study protocols as the page reads them; no model is asked here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from dashboard import findings, state, ui
from dashboard.run_view import RunView, Stored
from engine import catalog
from engine.core.schema import NONE, Protocol
from engine.plots.text import THIN, count, interval_text, three_digits
from engine.stats.arena import Arena, arm_name, arm_parts
from engine.stats.intervals import Interval
from engine.stats.paired import PairedTest
from engine.studies.protocols import figures
from engine.studies.protocols.advice import Evidence
from engine.studies.protocols.figures import title
from engine.studies.protocols.leaderboard import Board, ChosenBy
from engine.studies.protocols.metrics import (
    FlipComparison,
    View,
    clean_tie_rate,
    copy_rates,
    order_disagreement,
    preference_strength,
)
from engine.studies.protocols.rows import whole_arms

MODAL, LIKE, MARGIN = figures.MODAL, figures.LIKE, figures.MARGIN
RULES = {MODAL: "Equal modal score", LIKE: "As often as pairwise", MARGIN: "Within a margin"}
"""The page's words for the tie rules."""


class ProtocolRun(RunView):
    """A run of the study protocols."""

    kind = "protocols"
    variants = Stored("variants")

    @cached_property
    def arena(self) -> Arena:
        """Its verdicts as arrays."""
        return figures.arena(self.source)

    @cached_property
    def texts(self) -> dict[tuple[str, str], str]:
        """By (arm, response id), the text that was judged."""
        held = self.variants
        return dict(zip(zip(held["style"], held["response_id"], strict=True), held["text"], strict=True))

    def holds_something(self) -> bool:
        """Verdicts and the texts they are about."""
        return super().holds_something() and len(self.variants) > 0

    @property
    def distractors(self) -> list[str]:
        """Arms with rewritten texts, the placebos left out."""
        return [arm for arm in self.arena.arms if arm not in catalog.PLACEBOS]

    @property
    def styles(self) -> list[str]:
        """The distractors, whatever their strength."""
        return list(dict.fromkeys(arm_parts(arm)[0] for arm in self.distractors))

    def strengths(self, style: str) -> list[float]:
        """The strengths a style was judged at, ascending."""
        return sorted(arm_parts(arm)[1] for arm in self.distractors if arm_parts(arm)[0] == style)

    @property
    def boards(self) -> list[str]:
        """Arms the leaderboard was measured with."""
        return [arm for arm in self.config.get("boards", ()) if arm in self.arena.kept]

    @property
    def lowest(self) -> int:
        """Most systems that the run rewrote for it."""
        return figures.lowest_of(self.source)


def flips_of(run: ProtocolRun, arms: tuple[str, ...], seen: View) -> FlipComparison:
    """Flips of the arms together."""
    return figures.flips_of(run.source, arms, seen)


def evidence(run: ProtocolRun, seen: View) -> Evidence:
    """Numbers that the advice rests on."""
    arena, arm = run.arena, whole_arms(run.arena)
    return Evidence(
        flips_of(run, tuple(arm), seen),
        clean_tie_rate(arena, Protocol.PAIRWISE, seen),
        clean_tie_rate(arena, Protocol.POINTWISE, seen),
        copy_rates(arena, Protocol.PAIRWISE, [NONE], seen).tied,
        order_disagreement(arena, seen),
        preference_strength(arena, seen),
        tuple(figures.ladder_of(run.source, arm[0], seen)) if arm else (),
    )


# The sliders of the page Protocols and leaderboard.

STYLE, STRENGTH, RULE, MARGIN_KEY = "protocols_style", "protocols_strength", "protocols_rule", "protocols_margin"
K_LOWEST, K_ELO, CHOSEN = "protocols_k", "protocols_elo", "protocols_chosen"
WHOSE = {"own": "Each protocol's own lowest", "pairwise": "The pairwise lowest for both"}


@dataclass(frozen=True)
class BoardSetting:
    """Values of the leaderboard's sliders.

    Attributes:
        lowest: number of systems that are rewritten.
        chosen_by: `own` or `pairwise`.
        elo_k: K of the online Elo.
    """

    lowest: int
    chosen_by: ChosenBy
    elo_k: float


@dataclass(frozen=True)
class Setting:
    """Values of the sliders above every tab.

    Attributes:
        arm: distractor at the chosen strength.
        view: rules for reading verdicts.
        rule, margin: the tie rule as the figure names it, and its margin in points.
        board: what the leaderboard alone follows.
    """

    arm: str
    view: View
    rule: str
    margin: float
    board: BoardSetting

    @property
    def ties(self) -> dict[str, float | str]:
        """The tie rule as the figure names it."""
        return {"rule": self.rule, "margin": self.margin}


def pick_setting(run: ProtocolRun) -> Setting:
    """Distractor and strength; the rest in a drawer. Every number below is read anew from the stored verdicts."""
    with st.container(key="dials_protocols"):
        one, two, three = st.columns([2, 2, 1], gap="medium", vertical_alignment="bottom")
        with one:
            style = _style(run)
        with two:
            arm = _arm(run, style)
        with three, st.popover("More", icon=":material/tune:", key="protocols_more"):
            rule, margin = _rule(run)
            asked = _pick_board(run) if run.boards else BoardSetting(1, "own", figures.ELO_K)
    view = figures.view_of(run.arena, rule, margin, str(run.config.get("average", "probability")))
    if rule == LIKE:
        ui.note(
            f"Clean pairs tie as often pointwise as pairwise at a margin of {three_digits(view.rule.margin or 0.0)}."
        )
    return Setting(arm, view, rule, margin, asked)


def _pick_board(run: ProtocolRun) -> BoardSetting:
    """The controls that only the leaderboard follows."""
    lowest = _lowest(run)
    chosen = ui.pick("Rewritten systems", list(WHOSE), key=CHOSEN, default="own", publish=True, title=WHOSE.__getitem__)
    elo_k = float(_whole("K of the online Elo", K_ELO, 64, 16))
    return BoardSetting(lowest, "pairwise" if chosen == "pairwise" else "own", elo_k)


def _style(run: ProtocolRun) -> str:
    styles = run.styles
    return ui.pick("Distractor", styles, key=STYLE, default=styles[0], publish=True, title=title)


def _arm(run: ProtocolRun, style: str) -> str:
    strengths = run.strengths(style)
    if len(strengths) == 1:
        ui.note(f"Judged at strength {strengths[0]:g}; run more strengths for a slider.")
        return arm_name(style, strengths[0])
    key = f"{STRENGTH}_{style}"
    state.seed_number(key, strengths[0], strengths[-1], strengths[-1], param=STRENGTH)
    state.put(key, min(strengths, key=lambda s: abs(s - float(st.session_state[key]))))
    chosen = float(
        st.select_slider("Strength", strengths, key=key, help="Share of places rewritten.", persist_state="session")
    )
    state.publish(STRENGTH, f"{chosen:g}", f"{strengths[-1]:g}")
    return arm_name(style, chosen)


def _rule(run: ProtocolRun) -> tuple[str, float]:
    rules = [MODAL, LIKE, MARGIN] if run.arena.has_pairwise else [MODAL, MARGIN]
    rule = ui.pick(
        "Two scores tie at",
        rules,
        key=RULE,
        default=rules[0],
        publish=True,
        title=RULES.__getitem__,
        help="Pointwise scores become comparisons. The paper ties equal modal scores, which suppresses flips.",
    )
    if rule != MARGIN:
        return rule, 0.0
    state.seed_number(MARGIN_KEY, 0.0, 1.0, 0.1)
    margin = float(st.slider("Tie margin (points)", 0.0, 1.0, step=0.01, key=MARGIN_KEY, persist_state="session"))
    state.publish(MARGIN_KEY, f"{margin:g}", "0.1")
    return rule, margin


def _lowest(run: ProtocolRun) -> int:
    if run.lowest == 1:
        ui.note("The lowest system is rewritten on the leaderboard.")
        return 1
    return _whole("Lowest systems rewritten", K_LOWEST, run.lowest, run.lowest)


def _whole(name: str, key: str, high: int, default: int) -> int:
    state.seed_number(key, 1, high, default)
    chosen = int(st.slider(name, 1, high, key=key, persist_state="session"))
    state.publish(key, str(chosen), str(default))
    return chosen


# Sentences of the page Protocols and leaderboard, made from the tables its figures draw.

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
    """Which protocol gives in more often under the present choice, in a sentence."""
    compared = flips_of(run, (setting.arm,), setting.view)
    name = findings.judge_name(run.judge)
    name = name[:1].upper() + name[1:]
    if not run.arena.has_pairwise or not run.arena.has_pointwise:
        only = "pairwise" if run.arena.has_pairwise else "pointwise"
        rate = compared.pairwise if run.arena.has_pairwise else compared.pointwise
        manner = title(setting.arm).lower()
        return f"{name} answers {only} only: with {manner}, {percent(rate)} of clean losers now win (n = {rate.n})."
    test = compared.headline
    beyond = "beyond a neutral paraphrase, " if compared.placebo_judged else ""
    if test.p_value != test.p_value:
        return f"{name}: no pairs of two items have the same loser under both protocols, so there is no test."
    pairs = f"p = {test.p_value:.2g}, {count(test.interval.n)} pairs"
    if test.p_value >= CLEAR:
        return f"{name}: {beyond}pairwise and pointwise do not differ measurably ({pairs})."
    more, less = ("pairwise", "pointwise") if test.interval.value > 0 else ("pointwise", "pairwise")
    return f"{name}: {beyond}{more} verdicts give in more often than {less} ones ({pairs})."


def rates_sentence(run: ProtocolRun, setting: Setting) -> str:
    """Flips under both protocols, and their difference; empty for a judge that knows one."""
    if not run.arena.has_pairwise or not run.arena.has_pointwise:
        return ""
    compared = flips_of(run, (setting.arm,), setting.view)
    rates = f"{percent(compared.pairwise)} pairwise and {percent(compared.pointwise)} pointwise"
    said = f"With {title(setting.arm).lower()}, clean losers now win in {rates}."
    test = compared.headline
    if test.p_value != test.p_value:
        return said
    size = percent(test.interval, signed=True)
    less = ", less a neutral paraphrase" if compared.placebo_judged else ""
    return f"{said} Pairwise minus pointwise on pairs with the same loser{less}: {size}."


def net_sentence(run: ProtocolRun, setting: Setting) -> str:
    """Effect of the manner beyond that of any rewriting."""
    compared = flips_of(run, (setting.arm,), setting.view)
    parts = []
    for protocol, net in (("pairwise", compared.pairwise_net), ("pointwise", compared.pointwise_net)):
        if net.value == net.value:
            parts.append(f"{percent(net, signed=True)} {protocol}{_unclear(net)}")
    if not parts:
        return ""
    said = f"Less the flips of a neutral paraphrase, {title(setting.arm).lower()} adds {'; '.join(parts)}."
    raw = compared.test
    if not compared.placebo_judged or raw.p_value != raw.p_value:
        return said
    size = percent(raw.interval, signed=True)
    return f"{said} Before the paraphrase is taken off, pairwise minus pointwise is {size} (p = {raw.p_value:.2g})."


def _unclear(one: Interval) -> str:
    """Words after a difference whose interval holds zero."""
    return ", not measurable" if one.lower <= 0 <= one.upper else ""


def board_sentence(run: ProtocolRun, ranked: Board) -> str:
    """The rewritten system that gained most, or lost least."""
    moved = [i for i in ranked.distracted if ranked.shift[i] == ranked.shift[i]]
    if not moved:
        return "No system could be rewritten here."
    top = max(moved, key=lambda i: float(ranked.shift[i]))
    bounds = (float(ranked.shift[top]), float(ranked.shift_lower[top]), float(ranked.shift_upper[top]))
    known = ranked.before.rank[top] == ranked.before.rank[top]
    ranks = f"rank {ranked.before.rank[top]:g} to {ranked.after.rank[top]:g}" if known else "no ranks"
    clear = "" if bounds[1] > 0 or bounds[2] < 0 else "; not measurable"
    return (
        f"Of the {len(ranked.distracted)} rewritten, {run.arena.systems[top]} {_moves(bounds[0])}: "
        f"{interval_text(*bounds, signed=True)} points, {ranks}{clear} (n = {ranked.n} comparisons)."
    )


def climb_sentence(run: ProtocolRun, manner: str, boards: Mapping[Protocol, Board]) -> str:
    """The headline: the rewritten system that climbs most, and its shift under each protocol.

    Args:
        run: whose systems they are.
        manner: the distractor for a reader.
        boards: by protocol, its leaderboard before and after.
    """
    shifts = {
        (float(ranked.shift[i]), i)
        for ranked in boards.values()
        for i in ranked.distracted
        if ranked.shift[i] == ranked.shift[i]
    }
    if not shifts:
        return f"No system could be rewritten with {manner.lower()} here."
    _, top = max(shifts)
    parts, clear = [], False
    for protocol, ranked in boards.items():
        ends = tuple(float(x[top]) for x in (ranked.shift, ranked.shift_lower, ranked.shift_upper))
        if top in ranked.distracted:
            parts.append(f"{interval_text(*ends, signed=True)} Elo points judged {protocol.value}")
            clear = clear or ends[1] > 0
    verb = "lifts" if clear else "does not measurably lift"
    return f"{manner} {verb} {run.arena.systems[top]}: {', '.join(parts)}."


def _moves(shift: float) -> str:
    return "gains most" if shift > 0 else "loses least" if shift < 0 else "moves least"

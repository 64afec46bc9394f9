"""The sliders of the page Protocols and leaderboard."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from dashboard import state, ui
from dashboard.panels import protocols_data as data
from dashboard.panels.protocols_data import LIKE, MARGIN, MODAL, ProtocolRun
from engine.figures.text import three_digits
from engine.gallery.protocols import title
from engine.metrics.leaderboard import ChosenBy
from engine.metrics.protocols import View
from engine.readout.arena import arm_name

STYLE, STRENGTH, RULE, MARGIN_KEY = "protocols_style", "protocols_strength", "protocols_rule", "protocols_margin"
K_LOWEST, K_ELO, CHOSEN = "protocols_k", "protocols_elo", "protocols_chosen"
WHOSE = {"own": "Each protocol's own lowest", "pairwise": "The pairwise lowest for both"}


@dataclass(frozen=True)
class Setting:
    """What the sliders above every tab say.

    Attributes:
        arm: distractor at the chosen strength.
        view: how verdicts are read.
        rule, margin: the tie rule as the gallery of figures names it, and its margin in points.
    """

    arm: str
    view: View
    rule: str
    margin: float

    @property
    def ties(self) -> dict[str, float | str]:
        """The tie rule as the gallery of figures names it."""
        return {"rule": self.rule, "margin": self.margin}


@dataclass(frozen=True)
class BoardSetting:
    """What the sliders of the leaderboard say.

    Attributes:
        lowest: how many systems are rewritten.
        chosen_by: `own` or `pairwise`.
        elo_k: K of the online Elo.
    """

    lowest: int
    chosen_by: ChosenBy
    elo_k: float


def pick_setting(run: ProtocolRun) -> Setting:
    """One row of controls; every number below is read anew from the stored verdicts."""
    with st.container(border=True, key="dials_protocols"):
        one, two, three = st.columns(3, gap="medium")
        with one:
            style = _style(run)
        with two:
            arm = _arm(run, style)
        with three:
            rule, margin = _rule(run)
    view = data.view(run, rule, margin)
    if rule == LIKE:
        ui.note(
            f"Clean pairs tie as often pointwise as pairwise at a margin of {three_digits(view.rule.margin or 0.0)}."
        )
    return Setting(arm, view, rule, margin)


def pick_board(run: ProtocolRun) -> BoardSetting:
    """The controls that only the leaderboard follows."""
    one, two, three = st.columns(3, gap="medium")
    with one:
        lowest = _lowest(run)
    with two:
        own = ui.pick("Rewritten systems", list(WHOSE), key=_seeded(CHOSEN, list(WHOSE)), title=WHOSE.__getitem__)
        state.publish(CHOSEN, own, "own")
    with three:
        elo_k = float(_whole("K of the online Elo", K_ELO, 64, 16))
    return BoardSetting(lowest, "pairwise" if own == "pairwise" else "own", elo_k)


def _style(run: ProtocolRun) -> str:
    styles = run.styles
    style = ui.pick("Distractor", styles, key=_seeded(STYLE, styles), title=title)
    state.publish(STYLE, style, styles[0])
    return style


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
        key=_seeded(RULE, rules),
        title=data.RULES.__getitem__,
        help="Pointwise scores become comparisons. Paper 004 ties equal modal scores, which suppresses flips.",
    )
    state.publish(RULE, rule, rules[0])
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


def _seeded(key: str, options: list[str]) -> str:
    state.seed(key, options, options[0])
    return key

"""The results of the page Protocols and leaderboard, read anew at the sliders' setting."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import state, ui
from dashboard.panels import findings
from dashboard.panels import protocols_cases as cases
from dashboard.panels import protocols_data as data
from dashboard.panels import protocols_figures as figures
from dashboard.panels import protocols_more as more
from dashboard.panels.protocols_choose import Setting, pick_board, pick_setting
from dashboard.panels.protocols_data import RULES, ProtocolRun
from dashboard.panels.protocols_words import board_sentence, headline, net_sentence, percent, tested
from dashboard.panels.run_table import run_table
from engine.data.dataset import Dataset
from engine.figures.text import interval_text, plural
from engine.gallery.protocols import POOLED, title
from engine.metrics.leaderboard import board_problems, contradictions, win_table
from engine.metrics.protocol_advice import advise
from engine.metrics.protocol_calls import calls_by_arm, unread_warning
from engine.metrics.protocols import PROTOCOLS, first_slot, losers_left_out, order_disagreement, preference_strength
from engine.metrics.rewritings import content_checks
from engine.metrics.transitivity import RANDOM_CYCLES
from engine.schema import NONE, Protocol

TABS = ("Flips", "Severity", "Leaderboard", "Ties and order", "Rewritings", "Advice")
TAB = "protocols_tab"
MARKED = "✎ rewritten; Bradley-Terry with ties as half wins, online Elo averaged over 50 orders."
_KINDS = {
    "for pointwise": "Speaks for pointwise",
    "for pairwise": "Speaks for pairwise",
    "either": "Concerns both",
    "open": "Open",
}


@st.fragment
def results(run: ProtocolRun, dataset: Dataset) -> None:
    """Sliders on top, one tab a question; a slider redraws only this panel."""
    st.badge(findings.provenance(run.manifest, recorded=run.recorded), icon=":material/history:", color="gray")
    answer = st.container(gap="small")  # above the sliders that it follows
    setting = pick_setting(run)
    with answer:
        ui.finding(headline(run, setting))
        ui.note(f"{net_sentence(run, setting)} {_left_out(run)}".strip())
    draws = dict(zip(TABS, (_flips, _severity, _leaderboard, _order, more.rewritings, _advice), strict=True))
    tabs = st.tabs(TABS, key=TAB, on_change="rerun", bind="query-params")
    for name, tab in zip(TABS, tabs, strict=True):
        if tab.open:
            with tab:
                draws[name](run, dataset, setting)


def _flips(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        clicked = figures.flips(run, setting, net=False, key="protocols_flips")
    with right:
        net = figures.flips(run, setting, net=True, key="protocols_net")
    clicked = clicked or net
    found = data.flips_of(run, (setting.arm,), setting.view)
    ui.facts(
        {
            "Pairs with a loser": f"{found.pairwise.n} pairwise, {found.pointwise.n} pointwise",
            "Losers left out": _losers(run, setting),
            "Same loser under both": str(found.test.interval.n),
            "Difference less placebo": tested(found.net_test),
            "Difference, raw": tested(found.test),
        }
    )
    ui.note(
        "A flip: the response that lost the clean comparison is rewritten, and now wins. The paired test takes only "
        "pairs whose strict loser is the same under both protocols. A loser is left out where its rewriting was not "
        "kept, or breaks or mends a format rule. Discrete scores tie often, which suppresses pointwise flips by "
        "itself: try the other tie rules."
    )
    arm, protocol = (clicked[0], Protocol(clicked[1])) if clicked else (setting.arm, _first(run))
    arm = setting.arm if arm == POOLED else arm
    listed, table = cases.flip_cases(run, arm, protocol, setting.view)
    cases.show_cases(run, dataset, f"{title(arm)}, {protocol.value}", listed, table, key="protocols_flip")


def _severity(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    if not np.isfinite(run.arena.severity).any():
        ui.nothing_yet(
            "The data do not say which format rules a response keeps. Map a column “rules”, or levels such as "
            "severity_1, or choose the demo instructions."
        )
        return
    half = st.toggle("A tie is half right (off: wrong, as in paper 004)", value=True, key="protocols_half")
    clicked = figures.ladder(run, setting, half=half, key="protocols_ladder")
    ui.note(
        "A response that keeps all rules against one that breaks 1, 2 or 3 of them; only the lower one is rewritten. "
        "Rewritings that fail other rules than their original are left out, here as everywhere on this page."
    )
    arm, protocol, severity = (
        (clicked[0], Protocol(clicked[1]), int(clicked[4])) if clicked else (setting.arm, _first(run), 1)
    )
    listed, table = cases.ladder_cases(run, arm, severity, protocol, setting.view)
    name = "clean" if arm == NONE else title(arm)
    cases.show_cases(
        run, dataset, f"severity {severity}, {name}, {protocol.value}", listed, table, key="protocols_rung"
    )


def _leaderboard(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    arm = setting.arm if setting.arm in run.boards else (run.boards or [""])[0]
    if not arm:
        ui.nothing_yet("This run measured no leaderboard. Run the judge with at least one distractor.")
        return
    if arm != setting.arm:
        ui.note(f"The leaderboard was measured with {title(arm).lower()} only.")
    asked = pick_board(run)
    judged = [p for p in PROTOCOLS if (run.arena.has_pairwise if p is Protocol.PAIRWISE else run.arena.has_pointwise)]
    clicked: list[str] = []
    protocol = judged[0]
    for column, p in zip(st.columns(len(judged), gap="medium"), judged, strict=True):
        with column:
            found = data.board_of(run, p, arm, asked.lowest, setting.view, asked.chosen_by, asked.elo_k)
            at = figures.board(run, "slope", p, arm, setting, asked, key=f"protocols_slope_{p.value}")
            ui.note(board_sentence(run, found))
            ui.note(_problems(run, found))
            ratings = _ratings(run, found)
            st.dataframe(ratings, hide_index=True, key=f"protocols_ratings_{p.value}")
            ui.note(MARKED)
            run_table(
                run, ratings, title=f"Ratings before and after, {p.value}", key=f"protocols_ratings_{p.value}_kept",
                said=f"{title(arm)}, {plural(asked.lowest, 'system')} rewritten; ties: {RULES[setting.rule].lower()}. "
                + MARKED,
                file=f"ratings_{p.value}.csv",
            )  # fmt: skip
            cell = figures.board(run, "matrix", p, arm, setting, asked, key=f"protocols_win_{p.value}")
            ui.note(_cycles(run, p, setting))
            if at or cell:
                clicked, protocol = (cell or [at[0], ""]), p
    first, second = (clicked[0], clicked[1]) if clicked else (run.arena.systems[0], run.arena.systems[1])
    listed, table = cases.pair_cases(run, first, second, protocol, setting.view)
    heading = f"{first} against {second or 'everybody'}, clean, {protocol.value}"
    cases.show_cases(run, dataset, heading, listed, table, key="protocols_pair")


def _order(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        clicked = figures.copies(run, setting, ties=False, key="protocols_copies")
    with right:
        tied = figures.copies(run, setting, ties=True, key="protocols_ties")
        ui.note(
            "Identical texts: how often the judge itself calls a tie, in one order, since both averaged tie by "
            "construction; so do scores, which are not drawn."
        )
    if run.arena.has_pairwise:
        averaged, single = (contradictions(run.arena, setting.view, averaged=both) for both in (True, False))
        ui.facts(
            {
                "First slot wins": percent(first_slot(run.arena, setting.view)),
                "Orders disagree": percent(order_disagreement(run.arena, setting.view)),
                "Mean |P(A) − P(B)|": percent(preference_strength(run.arena, setting.view)),
                "Intransitive triads": percent(averaged.intransitive),
                "in one order": percent(single.intransitive),
                "Strict circles": f"{percent(averaged.cyclic)} ({100 * RANDOM_CYCLES:g} % by coin tosses)",
            }
        )
    clicked = clicked or tied
    arm, protocol = (clicked[0], Protocol(clicked[1])) if clicked else (setting.arm, _first(run))
    listed, table = cases.copy_cases(run, arm, protocol, setting.view)
    cases.show_cases(
        run, dataset, f"{title(arm)} against its original, {protocol.value}", listed, table, key="protocols_copy"
    )
    if run.arena.has_pairwise:
        with st.container(border=True):
            more.circles(run, dataset, setting)
    with st.container(border=True):
        more.sets(run, dataset)


def _advice(run: ProtocolRun, _: Dataset, setting: Setting) -> None:
    if not (run.arena.has_pairwise and run.arena.has_pointwise):
        ui.nothing_yet("Advice needs both protocols; this judge answers one of them.")
        return
    for k, advice in enumerate(advise(data.evidence(run, setting.view))):
        with st.container(border=True, gap="xsmall"):
            ui.finding(advice.text)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.badge(_KINDS[advice.kind], color="gray")
                st.button(
                    f"Show in {advice.figure}", key=f"protocols_see_{k}", type="tertiary",
                    icon=":material/arrow_forward:", on_click=state.put, args=(TAB, advice.figure),
                )  # fmt: skip
    ui.note(
        "Statements need at least 30 comparisons of 10 items; they are about this judge, these data and this tie rule."
    )


def _ratings(run: ProtocolRun, found: data.Board) -> pd.DataFrame:
    rows = [
        {
            "System": f"{system} ✎" if i in found.distracted else system,
            "Before": round(float(found.before.rating[i])),
            "After": round(float(found.after.rating[i])),
            "Shift [95 %]": interval_text(
                float(found.shift[i]), float(found.shift_lower[i]), float(found.shift_upper[i]), signed=True
            ),
            "Elo": f"{found.elo_before.rating[i]:.0f} → {found.elo_after.rating[i]:.0f}",
        }
        for i, system in enumerate(run.arena.systems)
        if np.isfinite(found.before.rating[i])
    ]
    return pd.DataFrame(rows).sort_values("Before", ascending=False)


def _problems(run: ProtocolRun, found: data.Board) -> str:
    """Systems that never met, ratings held finite by added ties, and what was left out; each a sentence."""
    parts = board_problems(found, run.arena.systems)
    if found.left_out:
        parts.append(f"{plural(found.left_out, 'comparison')} left out (text not kept, rules changed, or unread)")
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts)


def _losers(run: ProtocolRun, setting: Setting) -> str:
    """Clean losers whose rewriting takes no part, under each protocol."""
    return ", ".join(f"{losers_left_out(run.arena, p, [setting.arm], setting.view)} {p.value}" for p in PROTOCOLS)


def _cycles(run: ProtocolRun, protocol: Protocol, setting: Setting) -> str:
    found = win_table(run.arena, protocol, setting.view).cycles
    if not found:
        return "No circle among three systems by majority."
    named = [" over ".join(run.arena.systems[i] for i in (*c, c[0])) for c in found[:5]]
    return f"{plural(len(found), 'circle')} by majority: {'; '.join(named)}."


def _left_out(run: ProtocolRun) -> str:
    """Rewritings that take no part, verdicts that were unread, arm by arm, and what was not asked."""
    lost = run.variants[(run.variants["kept"] == 0) & (run.variants["style"] != NONE)]
    parts = []
    if len(lost):
        why = Counter(str(r).partition(":")[0] for r in lost["reasons"]).most_common(2)
        parts.append(f"{plural(len(lost), 'rewriting')} left out ({', '.join(w for w, _ in why)})")
    if changed := int(content_checks(run.variants)["rules_changed"].sum()):
        parts.append(f"{plural(changed, 'rewriting')} left out as they break or mend a format rule{_compared(run)}")
    calls = [one for one in calls_by_arm(run.arena) if one.kind != Protocol.RANKING.value]
    if unread := sum(one.unread for one in calls):
        parts.append(f"{unread:,} of {plural(sum(one.asked for one in calls), 'verdict')} unread")
    for protocol, why in run.manifest.get("skipped", {}).items():
        if protocol != Protocol.RANKING.value:
            parts.append(f"{protocol} not asked: {why.rstrip('.')}")
    criterion = str(run.manifest.get("criterion", "overall"))
    said = f"Criterion: {criterion}. " + ("; ".join(parts) + "." if parts else "")
    return f"{said} {unread_warning(calls)}".strip()


def _compared(run: ProtocolRun) -> str:
    """How rules were compared, where a run kept their number alone."""
    known = run.variants["failed"].notna().any() or not np.isfinite(run.arena.severity).any()
    return "" if known else ", by their number, since this run did not keep which"


def _first(run: ProtocolRun) -> Protocol:
    return Protocol.PAIRWISE if run.arena.has_pairwise else Protocol.POINTWISE

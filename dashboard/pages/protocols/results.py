"""The results of the page Protocols and leaderboard, read anew at the sliders' setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.protocols.data import (
    RULES,
    Board,
    BoardSetting,
    ProtocolRun,
    Setting,
    board_sentence,
    evidence,
    flips_of,
    headline,
    net_sentence,
    percent,
    pick_board,
    pick_setting,
    tested,
)
from dashboard.ui import show_marked, show_verbatim
from engine import catalog
from engine.core.schema import NONE, Protocol
from engine.data.dataset import Dataset
from engine.plots.text import fixed, interval_text, plural, three_digits
from engine.stats.arena import same_rules
from engine.studies.protocols.advice import advise
from engine.studies.protocols.figures import board_of, title
from engine.studies.protocols.leaderboard import (
    RANDOM_CYCLES,
    board_problems,
    choice_sets,
    contradictions,
    ranked_pairs,
    win_table,
)
from engine.studies.protocols.metrics import (
    PROTOCOLS,
    View,
    calls_by_arm,
    content_checks,
    copy_outcomes,
    first_slot,
    losers_left_out,
    order_disagreement,
    outcomes,
    pair_flips,
    preference_strength,
    unread_warning,
)
from engine.studies.protocols.rows import ALL

# The figures of the page Protocols and leaderboard; each returns what was clicked.


def _clickable(run: ProtocolRun, name: str, *, key: str, **settings: object) -> list[Any]:
    """A figure of a study whose points can be clicked; what the clicked point carries, or nothing."""
    prepared, draw, pick = ui.figure_parts(run.source, name, **settings)
    figure = draw(ui.mode())
    alt = str((figure.layout.meta or {}).get("alt", ""))
    config = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}
    event = st.plotly_chart(
        figure, theme=None, width="stretch", key=key, alt=alt, on_select="rerun", selection_mode="points", config=config
    )
    ui.save_bar(draw, prepared, key=key, pick=pick)
    points = ((event or {}).get("selection") or {}).get("points") or []
    held = points[0].get("customdata") if points else None
    return list(held) if isinstance(held, (list, tuple)) else []


def flips(run: ProtocolRun, setting: Setting, *, net: bool, key: str) -> list[Any]:
    """Flip rates of each arm, the one chosen first, or those less the placebo's."""
    return _clickable(run, "flips_net" if net else "flips", key=key, first=setting.arm, **setting.ties)


def copies(run: ProtocolRun, setting: Setting, *, ties: bool, key: str) -> list[Any]:
    """Rate at which a rewriting beats its original, or ties with it."""
    return _clickable(run, "ties" if ties else "copies", key=key, first=setting.arm, **setting.ties)


def ladder(run: ProtocolRun, setting: Setting, *, half: bool, key: str) -> list[Any]:
    """Accuracy by severity, clean and under one arm."""
    ties_are = "half right" if half else "wrong"
    return _clickable(run, "ladder", key=key, arm=setting.arm, ties_are=ties_are, **setting.ties)


def board(
    run: ProtocolRun, name: str, protocol: Protocol, arm: str, setting: Setting, asked: BoardSetting, *, key: str
) -> list[Any]:
    """Ranks before and after (slope), or the win matrix of the clean comparisons, best system first (matrix)."""
    return _clickable(
        run, name, key=key, protocol=protocol.value, arm=arm, lowest=asked.lowest, chosen_by=asked.chosen_by,
        **setting.ties,
    )  # fmt: skip


# Lists behind the numbers of the page Protocols and leaderboard: rewritings, circles, and rankings of choice sets.

MOST = 200


def rewritings(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    """Rewritings of each manner that the content checks kept, and those of the chosen one beside their originals."""
    del dataset
    checks = content_checks(run.variants)
    by = ", ".join(dict.fromkeys(str(name) for name in checks["rewriter"]))
    ui.finding(
        f"{int(checks['kept'].sum()):,} of {plural(int(checks['n'].sum()), 'rewriting')} by {by} changed the text and "
        "kept its numbers, names and list structure; only those are judged. Of these, "
        f"{int(checks['rules_changed'].sum()):,} fail other format rules than their original and enter no number."
    )
    shown = checks.assign(
        style=[title(s) for s in checks["style"]], length_ratio=[f"×{fixed(r, 2)}" for r in checks["length_ratio"]]
    )
    names = {"style": "Manner", "rewriter": "By", "n": "Rewritings", "kept": "Kept", "length_ratio": "Length"}
    more = {"left_out": "Why others were left out", "rules_changed": "Break or mend a rule"}
    listed = shown.rename(columns=names | more)
    st.dataframe(listed, hide_index=True, key="protocols_checks")
    ui.run_table(run, listed, title="What the content checks kept", key="protocols_checks_kept", file="checks.csv")
    of_arm = (
        run.variants[run.variants["style"] == setting.arm]
        .sort_values("kept", ascending=False, kind="stable")
        .head(MOST)
    )
    table = pd.DataFrame(
        {
            "Item": of_arm["item_id"],
            "System": of_arm["system"],
            "Kept": of_arm["kept"].map({1: "yes", 0: "no"}),
            "Why not": of_arm["reasons"].fillna(""),
            "Same rules failed": ["yes" if same_rules(row) else "no" for row in of_arm.itertuples(index=False)],
            "Length": of_arm["length_ratio"].map(lambda r: f"×{fixed(r, 2)}"),
        }
    ).reset_index(drop=True)
    at = _chosen(run, table, f"{title(setting.arm)}: what changed", "protocols_rewritten")
    if at is None:
        return
    row = of_arm.iloc[at]
    original = run.texts.get((NONE, str(row["response_id"])), "")
    show_marked(catalog.word_diff(original, str(row["text"])), label=f"The response of {row['system']}, rewritten")


def circles(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    """Every intransitive triad with its three texts."""
    cases = contradictions(run.arena, setting.view).cases
    names = run.arena.systems
    rows = [
        (run.arena.items[item], names[a], names[b], names[c], "a circle" if strict else "broken by a tie")
        for item, a, b, c, strict in cases[:MOST]
    ]
    table = pd.DataFrame(rows, columns=["Item", "System", "System ", "System  ", "What it is"])
    at = _chosen(run, table, "intransitive triads, both orders averaged", "protocols_triads")
    if at is not None:
        item, *systems, _ = cases[at]
        _texts(run, dataset, item, [str(run.arena.responses[item, s]) for s in systems])


def sets(run: ProtocolRun, dataset: Dataset) -> None:
    """Sensitivity to the choice set, and the rankings behind it; or why there are none."""
    why = run.manifest.get("skipped", {}).get(Protocol.RANKING.value)
    if why:
        ui.note(f"Choice sets need rankings of three, which this judge does not give: {why}")
    elif not run.config.get("rankings"):
        ui.note("Choice sets were not asked for: they need rankings of three, which a judge has to write.")
    for choice in choice_sets(run.arena):
        ui.note(
            f"Choice set {choice.layout}: the order of A and B turns round in {percent(choice.averaged)} with both "
            f"orders averaged, {percent(choice.single)} in one."
        )
    ui.note(
        "A ranking put together from pairwise verdicts would be another thing and is not shown for one: each such "
        "verdict sees two responses, so what else is on offer cannot move it."
    )
    listed = ranked_pairs(run.arena)
    if not listed:
        return
    rows = [
        (
            run.arena.items[one.item],
            one.layout,
            _order_rows(one.with_c),
            _order_rows(one.with_d),
            "yes" if one.turned else "no",
        )
        for one in listed[:MOST]
    ]
    table = pd.DataFrame(rows, columns=["Item", "Choice set", "Beside C", "Beside D", "Turned round"])
    at = _chosen(run, table, "A and B beside C, and beside D", "protocols_sets")
    if at is not None:
        _texts(run, dataset, listed[at].item, listed[at].responses)


def _order_rows(gap: float) -> str:
    return "A before B" if gap > 0 else "B before A" if gap < 0 else "undecided" if gap == 0 else "unread"


def _chosen(run: ProtocolRun, table: pd.DataFrame, heading: str, key: str) -> int | None:
    """The row of a list that is to be read; None where the list is empty."""
    st.subheader(ui.plain(f"Cases: {heading}"), anchor=False)
    if table.empty:
        ui.note("There is none in this run.")
        return None
    ui.note(f"{plural(len(table), 'case')}{' (the first of more)' if len(table) == MOST else ''}; choose a row.")
    event = st.dataframe(
        table, key=f"{key}_table", on_select="rerun", selection_mode="single-row", hide_index=True, height=240
    )
    ui.run_table(run, table, title=f"Cases: {heading}", key=f"{key}_list", label="Cases (CSV)", file=f"{key}_cases.csv")
    rows = event["selection"]["rows"]
    return rows[0] if rows and rows[0] < len(table) else 0


def _texts(run: ProtocolRun, dataset: Dataset, item: int, responses: Sequence[str]) -> None:
    context = dict(zip(dataset.items["item_id"], dataset.items["context"].fillna(""), strict=True))
    if asked := context.get(run.arena.items[item], ""):
        ui.note(f"What is asked ({run.arena.items[item]})")
        show_verbatim(asked, label="The instruction")
    system = dict(zip(run.variants["response_id"], run.variants["system"], strict=True))
    for column, response in zip(st.columns(len(responses), gap="medium"), responses, strict=True):
        with column:
            ui.note(str(system.get(response, response)))
            show_verbatim(run.texts.get((NONE, response), ""), label=f"Response of {system.get(response, response)}")


# The cases behind a bar, a cell or a line: both texts, and both orders' probabilities before and after.

_WORDS = {1.0: "wins", -1.0: "loses", 0.0: "ties"}


@dataclass(frozen=True)
class Case:
    """One comparison: an item, two systems (the same where a response meets its own rewriting), and what is rewritten.

    Attributes:
        side: the rewritten side, `a`, `b`, `ab` or empty.
    """

    item: int
    first: int
    second: int
    arm: str
    side: str


def flip_cases(run: ProtocolRun, arm: str, protocol: Protocol, view: View) -> tuple[list[Case], pd.DataFrame]:
    """Pairs with a strict clean loser, flips first."""
    arena = run.arena
    flipped, clean = pair_flips(arena, protocol, arm, view), outcomes(arena, protocol, view)
    places = [(i, p) for i, p in np.argwhere(~np.isnan(flipped))]
    places.sort(key=lambda at: -flipped[at[0], at[1]])
    cases, rows = [], []
    for i, p in places[:MOST]:
        a, b = (int(s) for s in arena.pairs[p])
        loser = b if clean[i, p] == 1 else a
        winner = a if loser == b else b
        cases.append(Case(int(i), a, b, arm, "b" if loser == b else "a"))
        verdict = "now wins (flip)" if flipped[i, p] else "still does not win"
        rows.append((arena.items[i], arena.systems[winner], arena.systems[loser], verdict))
    return cases, pd.DataFrame(rows, columns=["Item", "Clean winner", "Clean loser, rewritten", "After the rewriting"])


def copy_cases(run: ProtocolRun, arm: str, protocol: Protocol, view: View) -> tuple[list[Case], pd.DataFrame]:
    """Responses against their own rewriting, those the rewriting wins first."""
    arena = run.arena
    outcome = copy_outcomes(arena, protocol, arm, view)
    at = sorted(((i, s) for i, s in np.argwhere(~np.isnan(outcome))), key=lambda c: outcome[c[0], c[1]])
    cases = [Case(int(i), int(s), int(s), arm, "b") for i, s in at[:MOST]]
    rows = [
        (
            arena.items[c.item],
            arena.systems[c.first],
            _WORDS[-float(outcome[c.item, c.first])] if outcome[c.item, c.first] else "ties",
        )
        for c in cases
    ]
    return cases, pd.DataFrame(rows, columns=["Item", "System", "The rewriting"])


def ladder_cases(
    run: ProtocolRun, arm: str, severity: int, protocol: Protocol, view: View
) -> tuple[list[Case], pd.DataFrame]:
    """Pairs of a response that keeps all rules with one that breaks `severity`, the wrong verdicts first."""
    arena, rows = run.arena, []
    for i, p in np.ndindex(len(arena.items), len(arena.pairs)):
        a, b = (int(s) for s in arena.pairs[p])
        levels = (arena.severity[i, a], arena.severity[i, b])
        if set(levels) != {0.0, float(severity)}:
            continue
        low = "b" if levels[0] == 0 else "a"
        side = "" if arm == NONE else low
        won = outcomes(arena, protocol, view, arm, side)[i, p] * (1 if low == "b" else -1)
        if np.isnan(won):
            continue
        high_name, low_name = (a, b) if low == "b" else (b, a)
        rows.append((won, Case(i, a, b, arm, side), arena.items[i], arena.systems[high_name], arena.systems[low_name]))
    rows.sort(key=lambda r: r[0])
    shown = [
        (item, high, low, {1.0: "right", 0.0: "tie", -1.0: "wrong"}[float(won)]) for won, _, item, high, low in rows
    ]
    columns = ["Item", "Keeps all rules", f"Breaks {severity}", "Verdict"]
    return [r[1] for r in rows[:MOST]], pd.DataFrame(shown[:MOST], columns=columns)


def pair_cases(
    run: ProtocolRun, first: str, second: str, protocol: Protocol, view: View
) -> tuple[list[Case], pd.DataFrame]:
    """Every clean comparison of two systems; all of one system's where the second is empty."""
    arena, cases, rows = run.arena, [], []
    outcome = outcomes(arena, protocol, view)
    for p, (a, b) in enumerate(arena.pairs):
        names = {arena.systems[a], arena.systems[b]}
        if first not in names or (second and second not in names):
            continue
        sign = 1 if arena.systems[a] == first else -1
        other = arena.systems[b] if sign == 1 else arena.systems[a]
        for i in np.flatnonzero(~np.isnan(outcome[:, p])):
            cases.append(Case(int(i), int(a), int(b), NONE, ""))
            rows.append((arena.items[i], first, other, _WORDS[float(sign * outcome[i, p])]))
    return cases[:MOST], pd.DataFrame(rows[:MOST], columns=["Item", "System", "Against", "It"])


def show_cases(
    run: ProtocolRun, dataset: Dataset, heading: str, cases: list[Case], table: pd.DataFrame, *, key: str
) -> None:
    """The list, and below it the chosen case with its texts and probabilities."""
    with st.container(border=True, key=f"{key}_cases"):
        st.subheader(ui.plain(f"Cases: {heading}"), anchor=False)
        if not cases:
            ui.note("There is no such comparison in this run.")
            return
        ui.note(f"{plural(len(cases), 'case')}{' (the first of more)' if len(cases) == MOST else ''}; choose a row.")
        chosen = st.dataframe(
            table, key=f"{key}_table", on_select="rerun", selection_mode="single-row", hide_index=True, height=260
        )
        ui.run_table(
            run, table, title=f"Cases: {heading}", key=f"{key}_list", label="Cases (CSV)", file=f"{key}_cases.csv"
        )
        rows = chosen["selection"]["rows"]
        _one(run, dataset, cases[rows[0] if rows and rows[0] < len(cases) else 0])


def _one(run: ProtocolRun, dataset: Dataset, case: Case) -> None:
    arena = run.arena
    item = arena.items[case.item]
    context = dict(zip(dataset.items["item_id"], dataset.items["context"].fillna(""), strict=True)).get(item, "")
    if context:
        ui.note(f"What is asked ({item})")
        show_verbatim(context, label="The instruction")
    left, right = st.columns(2, gap="medium")
    for column, system, name in ((left, case.first, "a"), (right, case.second, "b")):
        with column:
            response = str(arena.responses[case.item, system])
            original = run.texts.get((NONE, response), "")
            after = run.texts.get((case.arm, response), original) if name in case.side else original
            ui.note(f"{name.upper()}: {arena.systems[system]}{', rewritten' if after != original else ''}")
            show_marked(catalog.word_diff(original, after), label=f"Response {name.upper()}")
            ui.note(_scores(run, case, system, name))
    table = _probabilities(run, case)
    if len(table):
        ui.note("Probabilities of the judge, in the pair's names; the order says which stood first")
        st.dataframe(table, hide_index=True)


def _scores(run: ProtocolRun, case: Case, system: int, name: str) -> str:
    """Expected scores of one side, before and after where it is rewritten."""
    arena = run.arena
    before = float(arena.expected[NONE][case.item, system])
    if np.isnan(before):
        return ""
    if name not in case.side or case.arm not in arena.expected:
        return f"Score {three_digits(before)}"
    return f"Score {three_digits(before)} → {three_digits(float(arena.expected[case.arm][case.item, system]))}"


def _probabilities(run: ProtocolRun, case: Case) -> pd.DataFrame:
    arena, rows = run.arena, []
    if case.first == case.second:
        blocks = [(f"original (A) against {title(case.arm).lower()} (B)", arena.copies.get(case.arm))]
        at: tuple[int, int] = (case.item, case.first)
    else:
        pair = next(p for p, (a, b) in enumerate(arena.pairs) if (a, b) == (case.first, case.second))
        at = (case.item, pair)
        blocks = [("clean", arena.shares.get((NONE, "")))]
        if case.side:
            blocks.append((f"{case.side.upper()} rewritten", arena.shares.get((case.arm, case.side))))
    for name, block in blocks:
        for order, shown in enumerate(("A first", "B first")):
            if block is not None and np.isfinite(block[(*at, order, 0)]):
                p = block[(*at, order)]
                rows.append((name, shown, *(three_digits(float(x)) for x in p)))
    return pd.DataFrame(rows, columns=["Texts", "Order", "P(A)", "P(B)", "P(tie)"])


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
    draws = dict(zip(TABS, (_flips, _severity, _leaderboard, _order, rewritings, _advice), strict=True))
    tabs = st.tabs(TABS, key=TAB, on_change="rerun", bind="query-params")
    for name, tab in zip(TABS, tabs, strict=True):
        if tab.open:
            with tab:
                draws[name](run, dataset, setting)


def _flips(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        clicked = flips(run, setting, net=False, key="protocols_flips")
    with right:
        net = flips(run, setting, net=True, key="protocols_net")
    clicked = clicked or net
    compared = flips_of(run, (setting.arm,), setting.view)
    ui.facts(
        {
            "Pairs with a loser": f"{compared.pairwise.n} pairwise, {compared.pointwise.n} pointwise",
            "Losers left out": _losers(run, setting),
            "Same loser under both": str(compared.test.interval.n),
            "Difference less placebo": tested(compared.net_test),
            "Difference, raw": tested(compared.test),
        }
    )
    ui.note(
        "A flip: the response that lost the clean comparison is rewritten, and now wins. The paired test takes only "
        "pairs whose strict loser is the same under both protocols. A loser is left out where its rewriting was not "
        "kept, or breaks or mends a format rule. Discrete scores tie often, which suppresses pointwise flips by "
        "itself: try the other tie rules."
    )
    arm, protocol = (clicked[0], Protocol(clicked[1])) if clicked else (setting.arm, _first(run))
    arm = setting.arm if arm == ALL else arm
    listed, table = flip_cases(run, arm, protocol, setting.view)
    show_cases(run, dataset, f"{title(arm)}, {protocol.value}", listed, table, key="protocols_flip")


def _severity(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    if not np.isfinite(run.arena.severity).any():
        ui.nothing_yet(
            "The data do not say which format rules a response keeps. Map a column “rules”, or levels such as "
            "severity_1, or choose the demo instructions."
        )
        return
    half = st.toggle("A tie is half right (off: wrong, as in paper 004)", value=True, key="protocols_half")
    clicked = ladder(run, setting, half=half, key="protocols_ladder")
    ui.note(
        "A response that keeps all rules against one that breaks 1, 2 or 3 of them; only the lower one is rewritten. "
        "Rewritings that fail other rules than their original are left out, here as everywhere on this page."
    )
    arm, protocol, severity = (
        (clicked[0], Protocol(clicked[1]), int(clicked[4])) if clicked else (setting.arm, _first(run), 1)
    )
    listed, table = ladder_cases(run, arm, severity, protocol, setting.view)
    name = "clean" if arm == NONE else title(arm)
    show_cases(run, dataset, f"severity {severity}, {name}, {protocol.value}", listed, table, key="protocols_rung")


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
            ranked = board_of(run.source, p, arm, asked.lowest, setting.view, asked.chosen_by, asked.elo_k)
            at = board(run, "slope", p, arm, setting, asked, key=f"protocols_slope_{p.value}")
            ui.note(board_sentence(run, ranked))
            ui.note(_problems(run, ranked))
            ratings = _ratings(run, ranked)
            st.dataframe(ratings, hide_index=True, key=f"protocols_ratings_{p.value}")
            ui.note(MARKED)
            ui.run_table(
                run, ratings, title=f"Ratings before and after, {p.value}", key=f"protocols_ratings_{p.value}_kept",
                said=f"{title(arm)}, {plural(asked.lowest, 'system')} rewritten; ties: {RULES[setting.rule].lower()}. "
                + MARKED,
                file=f"ratings_{p.value}.csv",
            )  # fmt: skip
            cell = board(run, "matrix", p, arm, setting, asked, key=f"protocols_win_{p.value}")
            ui.note(_cycles(run, p, setting))
            if at or cell:
                clicked, protocol = (cell or [at[0], ""]), p
    first, second = (clicked[0], clicked[1]) if clicked else (run.arena.systems[0], run.arena.systems[1])
    listed, table = pair_cases(run, first, second, protocol, setting.view)
    heading = f"{first} against {second or 'everybody'}, clean, {protocol.value}"
    show_cases(run, dataset, heading, listed, table, key="protocols_pair")


def _order(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        clicked = copies(run, setting, ties=False, key="protocols_copies")
    with right:
        tied = copies(run, setting, ties=True, key="protocols_ties")
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
    listed, table = copy_cases(run, arm, protocol, setting.view)
    show_cases(
        run, dataset, f"{title(arm)} against its original, {protocol.value}", listed, table, key="protocols_copy"
    )
    if run.arena.has_pairwise:
        with st.container(border=True):
            circles(run, dataset, setting)
    with st.container(border=True):
        sets(run, dataset)


def _advice(run: ProtocolRun, _: Dataset, setting: Setting) -> None:
    if not (run.arena.has_pairwise and run.arena.has_pointwise):
        ui.nothing_yet("Advice needs both protocols; this judge answers one of them.")
        return
    for k, advice in enumerate(advise(evidence(run, setting.view))):
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


def _ratings(run: ProtocolRun, ranked: Board) -> pd.DataFrame:
    rows = [
        {
            "System": f"{system} ✎" if i in ranked.distracted else system,
            "Before": round(float(ranked.before.rating[i])),
            "After": round(float(ranked.after.rating[i])),
            "Shift [95 %]": interval_text(
                float(ranked.shift[i]), float(ranked.shift_lower[i]), float(ranked.shift_upper[i]), signed=True
            ),
            "Elo": f"{ranked.elo_before.rating[i]:.0f} → {ranked.elo_after.rating[i]:.0f}",
        }
        for i, system in enumerate(run.arena.systems)
        if np.isfinite(ranked.before.rating[i])
    ]
    return pd.DataFrame(rows).sort_values("Before", ascending=False)


def _problems(run: ProtocolRun, ranked: Board) -> str:
    """Systems that never met, ratings held finite by added ties, and what was left out; each a sentence."""
    parts = board_problems(ranked, run.arena.systems)
    if ranked.left_out:
        parts.append(f"{plural(ranked.left_out, 'comparison')} left out (text not kept, rules changed, or unread)")
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts)


def _losers(run: ProtocolRun, setting: Setting) -> str:
    """Clean losers whose rewriting takes no part, under each protocol."""
    return ", ".join(f"{losers_left_out(run.arena, p, [setting.arm], setting.view)} {p.value}" for p in PROTOCOLS)


def _cycles(run: ProtocolRun, protocol: Protocol, setting: Setting) -> str:
    cycles = win_table(run.arena, protocol, setting.view).cycles
    if not cycles:
        return "No circle among three systems by majority."
    named = [" over ".join(run.arena.systems[i] for i in (*c, c[0])) for c in cycles[:5]]
    return f"{plural(len(cycles), 'circle')} by majority: {'; '.join(named)}."


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
    """A remark where a run kept the number of failed rules alone, so that only numbers are compared."""
    known = run.variants["failed"].notna().any() or not np.isfinite(run.arena.severity).any()
    return "" if known else ", by their number, since this run did not keep which"


def _first(run: ProtocolRun) -> Protocol:
    return Protocol.PAIRWISE if run.arena.has_pairwise else Protocol.POINTWISE

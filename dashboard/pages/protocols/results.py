"""The results of the page Protocols and leaderboard, read anew at the sliders' setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import findings, state, ui
from dashboard.pages.protocols.cases import (
    MOST,
    copy_cases,
    flip_cases,
    ladder_cases,
    pair_cases,
    show_cases,
)
from dashboard.pages.protocols.data import (
    RULES,
    Board,
    BoardSetting,
    ProtocolRun,
    Setting,
    board_sentence,
    climb_sentence,
    evidence,
    flips_of,
    headline,
    net_sentence,
    percent,
    pick_setting,
    rates_sentence,
    tested,
)
from dashboard.pages.protocols.live import one_comparison
from dashboard.ui import show_marked, show_verbatim
from engine import catalog
from engine.core.schema import NONE, Protocol
from engine.data.dataset import Dataset
from engine.plots.text import fixed, interval_text, plural
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
    calls_by_arm,
    content_checks,
    first_slot,
    losers_left_out,
    order_disagreement,
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


TABS = ("Flips", "Ties", "Severity", "Circles", "Advice", "Rewritings", "One comparison")
TAB = "protocols_tab"
_KINDS = {
    "for pointwise": "Speaks for pointwise",
    "for pairwise": "Speaks for pairwise",
    "either": "Concerns both",
    "open": "Open",
}


def results(frame: ui.Frame, run: ProtocolRun, dataset: Dataset, task: str) -> None:
    """Headline, distractor and strength, the slope charts, and a tab a question."""
    st.fragment(_results)(run, dataset, task)
    frame.measured([*_measured(run), *_left_out(run)], key="protocols")


def _results(run: ProtocolRun, dataset: Dataset, task: str) -> None:
    """What follows the controls; they redraw only this panel."""
    answer = st.container(gap="small")  # above the controls that it follows
    setting = pick_setting(run)
    with answer:
        clicked = _leaderboard(run, setting)
    draws = {
        "Flips": _flips, "Ties": _ties, "Severity": _severity, "Circles": _circles, "Advice": _advice,
        "Rewritings": rewritings,
    }  # fmt: skip
    tabs = st.tabs(TABS, key=TAB, on_change="rerun", bind="query-params")
    for name, tab in zip(TABS, tabs, strict=True):
        if tab.open:
            with tab:
                if name in draws:
                    draws[name](run, dataset, setting)
                else:
                    one_comparison(run.judge, dataset, task)
    if clicked:
        protocol, (first, second) = clicked
        listed, table = pair_cases(run, first, second, protocol, setting.view)
        heading = f"{first} against {second or 'everybody'}, clean, {protocol.value}"
        show_cases(run, dataset, heading, listed, table, key="protocols_pair")


Clicked = tuple[Protocol, tuple[str, str]]


def _leaderboard(run: ProtocolRun, setting: Setting) -> Clicked | None:
    """The headline and the hero: ranks clean and attacked, pairwise left and pointwise right; what was clicked."""
    arm = setting.arm if setting.arm in run.boards else (run.boards or [""])[0]
    if not arm:
        ui.headline(f"{headline(run, setting)}")
        ui.note("This run measured no leaderboard; a full run does.")
        return None
    asked = setting.board
    judged = [p for p in PROTOCOLS if (run.arena.has_pairwise if p is Protocol.PAIRWISE else run.arena.has_pointwise)]
    boards = {p: board_of(run.source, p, arm, asked.lowest, setting.view, asked.chosen_by, asked.elo_k) for p in judged}
    ui.headline(climb_sentence(run, title(arm), boards))
    if arm != setting.arm:
        ui.note(f"The leaderboard was measured with {title(arm).lower()} only.")
    clicked: Clicked | None = None
    for column, p in zip(st.columns(len(judged), gap="medium"), judged, strict=True):
        with column:
            at = board(run, "slope", p, arm, setting, asked, key=f"protocols_slope_{p.value}")
            if at:
                clicked = p, (str(at[0]), "")
    _ratings_drawer(run, setting, arm, boards)
    return clicked


MARKED = "✎ rewritten; Bradley-Terry with ties as half wins, online Elo averaged over 50 orders."


def _ratings_drawer(run: ProtocolRun, setting: Setting, arm: str, boards: dict[Protocol, Board]) -> None:
    drawer = st.expander("Ratings before and after", key="protocols_board", on_change="rerun")
    if not drawer.open:
        return
    asked = setting.board
    with drawer:
        for column, (p, ranked) in zip(st.columns(len(boards), gap="medium"), boards.items(), strict=True):
            with column:
                ui.note(f"{p.value.capitalize()}. {board_sentence(run, ranked)} {_problems(run, ranked)}".strip())
                ratings = _ratings(run, ranked)
                st.dataframe(ratings, hide_index=True, key=f"protocols_ratings_{p.value}")
                ui.run_table(
                    run, ratings, title=f"Ratings before and after, {p.value}", key=f"protocols_ratings_{p.value}_kept",
                    said=f"{title(arm)}, {plural(asked.lowest, 'system')} rewritten; ties: "
                    f"{RULES[setting.rule].lower()}. {MARKED}",
                    file=f"ratings_{p.value}.csv",
                )  # fmt: skip
        ui.note(MARKED)


def _flips(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    ui.finding(headline(run, setting))
    if rates := rates_sentence(run, setting):
        ui.note(rates)
    clicked = flips(run, setting, net=False, key="protocols_flips")
    numbers = st.expander("Less the paraphrase, and the test in numbers", key="protocols_test", on_change="rerun")
    if numbers.open:
        with numbers:
            clicked = clicked or flips(run, setting, net=True, key="protocols_net")
            _test(run, setting)
    arm, protocol = (clicked[0], Protocol(clicked[1])) if clicked else (setting.arm, _first(run))
    arm = setting.arm if arm == ALL else arm
    listed, table = flip_cases(run, arm, protocol, setting.view)
    heading = f"{title(arm)}, {protocol.value}"
    show_cases(run, dataset, heading, listed, table, key="protocols_flip", asked=bool(clicked))


def _test(run: ProtocolRun, setting: Setting) -> None:
    compared = flips_of(run, (setting.arm,), setting.view)
    ui.note(net_sentence(run, setting))
    ui.facts(
        {
            "Pairs with a loser": f"{compared.pairwise.n} pairwise, {compared.pointwise.n} pointwise",
            "Losers left out": _losers(run, setting),
            "Difference less placebo": tested(compared.net_test),
            "Difference, raw": tested(compared.test),
        }
    )


def _severity(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    if not np.isfinite(run.arena.severity).any():
        ui.nothing_yet(
            "The data do not say which format rules a response keeps. Map a column “rules”, or levels such as "
            "severity_1, or choose the demo instructions."
        )
        return
    half = st.toggle("A tie is half right (off: wrong, as in the paper)", value=True, key="protocols_half")
    clicked = ladder(run, setting, half=half, key="protocols_ladder")
    arm, protocol, severity = (
        (clicked[0], Protocol(clicked[1]), int(clicked[4])) if clicked else (setting.arm, _first(run), 1)
    )
    listed, table = ladder_cases(run, arm, severity, protocol, setting.view)
    name = "clean" if arm == NONE else title(arm)
    heading = f"severity {severity}, {name}, {protocol.value}"
    show_cases(run, dataset, heading, listed, table, key="protocols_rung", asked=bool(clicked))


def _ties(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        clicked = copies(run, setting, ties=False, key="protocols_copies")
    with right:
        tied = copies(run, setting, ties=True, key="protocols_ties")
    clicked = clicked or tied
    arm, protocol = (clicked[0], Protocol(clicked[1])) if clicked else (setting.arm, _first(run))
    listed, table = copy_cases(run, arm, protocol, setting.view)
    heading = f"{title(arm)} against its original, {protocol.value}"
    show_cases(run, dataset, heading, listed, table, key="protocols_copy", asked=bool(clicked))


def _circles(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    """Who beats whom, and where the preferences contradict one another."""
    if not run.arena.has_pairwise:
        ui.nothing_yet("Circles need comparisons, and this judge gives scores alone.")
        return
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
    arm = setting.arm if setting.arm in run.boards else (run.boards or [""])[0]
    if arm:
        left, right = st.columns(2, gap="medium")
        for column, p in ((left, Protocol.PAIRWISE), (right, Protocol.POINTWISE)):
            if p is Protocol.PAIRWISE or run.arena.has_pointwise:
                with column:
                    board(run, "matrix", p, arm, setting, setting.board, key=f"protocols_win_{p.value}")
                    ui.note(_cycles(run, p, setting))
    circles(run, dataset, setting)
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


def _left_out(run: ProtocolRun) -> list[str]:
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
    left_out = "; ".join(parts)
    lines = [f"The judge was told to judge: {criterion}.", f"{left_out[:1].upper()}{left_out[1:]}." if parts else ""]
    return [*lines, unread_warning(calls)]


def _measured(run: ProtocolRun) -> list[str]:
    """The drawer: what a flip is, how ranks and intervals are made, and whose method it is."""
    quick = (
        "A quick run: a few items, one distractor, no placebo and no comparison of a response with its own rewriting; "
        "the full one refines it."
    )
    people = "No people's scores enter: the order of the verdicts is shown, not its agreement with people."
    return [
        findings.provenance(run.manifest, recorded=run.recorded).capitalize() + ".",
        quick if run.config.get("quick") else "",
        f"The responses were taken as: {run.config['task']}." if run.config.get("task") else "",
        "A distractor changes the manner of a response and not its content: assertive, prolix or sycophantic. The "
        "lowest systems are rewritten, and every comparison is judged anew in both orders.",
        "Ratings: Bradley-Terry with ties as half wins, in Elo points; items are resampled for ranks and shifts.",
        "A flip: the response that lost the clean comparison is rewritten, and now wins. The paired test takes only "
        "pairs whose loser is the same under both protocols. Scores tie often, which suppresses pointwise flips by "
        "itself: try the other tie rules under More.",
        "A rewriting whose numbers, names or format rules changed takes no part.",
        people,
        "Method: Tripathi et al., Pairwise or Pointwise, sections 4 to 6 and appendices A.4 and A.5.",
    ]


def _compared(run: ProtocolRun) -> str:
    """A remark where a run kept the number of failed rules alone, so that only numbers are compared."""
    known = run.variants["failed"].notna().any() or not np.isfinite(run.arena.severity).any()
    return "" if known else ", by their number, since this run did not keep which"


def _first(run: ProtocolRun) -> Protocol:
    return Protocol.PAIRWISE if run.arena.has_pairwise else Protocol.POINTWISE

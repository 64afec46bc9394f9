"""The cases behind a bar, a cell or a line: both texts, and both orders' probabilities before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.pages.protocols.data import ProtocolRun
from dashboard.ui import show_marked, show_verbatim
from engine import catalog
from engine.core.schema import NONE, Protocol
from engine.data.dataset import Dataset
from engine.plots.text import plural, three_digits
from engine.studies.protocols.figures import title
from engine.studies.protocols.metrics import View, copy_outcomes, outcomes, pair_flips

MOST = 200
"""Cases that are listed."""
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
    run: ProtocolRun,
    dataset: Dataset,
    heading: str,
    cases: list[Case],
    table: pd.DataFrame,
    *,
    key: str,
    asked: bool = True,
) -> None:
    """The list, and below it the chosen case with its texts and probabilities; closed until somebody asks for it."""
    if not asked:
        closed = st.expander(f"Cases: {ui.plain(heading)}", key=f"{key}_closed", on_change="rerun")
        if closed.open:
            with closed:
                _cases(run, dataset, heading, cases, table, key=key)
        return
    with st.container(border=True, key=f"{key}_cases"):
        st.subheader(ui.plain(f"Cases: {heading}"), anchor=False)
        _cases(run, dataset, heading, cases, table, key=key)


def _cases(
    run: ProtocolRun, dataset: Dataset, heading: str, cases: list[Case], table: pd.DataFrame, *, key: str
) -> None:
    if not cases:
        ui.note("There is no such comparison in this run.")
        return
    ui.note(f"{plural(len(cases), 'case')}{' (the first of more)' if len(cases) == MOST else ''}; choose a row.")
    chosen = st.dataframe(
        table, key=f"{key}_table", on_select="rerun", selection_mode="single-row", hide_index=True, height=260
    )
    ui.run_table(run, table, title=f"Cases: {heading}", key=f"{key}_list", label="Cases (CSV)", file=f"{key}_cases.csv")
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

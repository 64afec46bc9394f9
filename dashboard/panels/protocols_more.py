"""Lists behind the numbers of the page Protocols and leaderboard: rewritings, circles, and rankings of choice sets."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.panels.marked import show_marked, show_verbatim
from dashboard.panels.protocols_choose import Setting
from dashboard.panels.protocols_data import ProtocolRun
from dashboard.panels.protocols_words import percent
from dashboard.panels.run_table import run_table
from engine import catalog
from engine.data.dataset import Dataset
from engine.figures.text import fixed, plural
from engine.gallery.protocols import title
from engine.metrics.leaderboard import choice_sets, contradictions, ranked_pairs
from engine.metrics.rewritings import content_checks
from engine.readout.arena import same_rules
from engine.schema import NONE, Protocol

MOST = 200


def rewritings(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    """What the content checks kept of each manner, and every rewriting of the chosen one beside its original."""
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
    run_table(run, listed, title="What the content checks kept", key="protocols_checks_kept", file="checks.csv")
    own = (
        run.variants[run.variants["style"] == setting.arm]
        .sort_values("kept", ascending=False, kind="stable")
        .head(MOST)
    )
    table = pd.DataFrame(
        {
            "Item": own["item_id"],
            "System": own["system"],
            "Kept": own["kept"].map({1: "yes", 0: "no"}),
            "Why not": own["reasons"].fillna(""),
            "Same rules failed": ["yes" if same_rules(row) else "no" for row in own.itertuples(index=False)],
            "Length": own["length_ratio"].map(lambda r: f"×{fixed(r, 2)}"),
        }
    ).reset_index(drop=True)
    at = _chosen(run, table, f"{title(setting.arm)}: what changed", "protocols_rewritten")
    if at is None:
        return
    row = own.iloc[at]
    original = run.texts.get((NONE, str(row["response_id"])), "")
    show_marked(catalog.word_diff(original, str(row["text"])), label=f"The response of {row['system']}, rewritten")


def circles(run: ProtocolRun, dataset: Dataset, setting: Setting) -> None:
    """Every intransitive triad with its three texts."""
    found = contradictions(run.arena, setting.view).cases
    names = run.arena.systems
    rows = [
        (run.arena.items[item], names[a], names[b], names[c], "a circle" if strict else "broken by a tie")
        for item, a, b, c, strict in found[:MOST]
    ]
    table = pd.DataFrame(rows, columns=["Item", "System", "System ", "System  ", "What it is"])
    at = _chosen(run, table, "intransitive triads, both orders averaged", "protocols_triads")
    if at is not None:
        item, *systems, _ = found[at]
        _texts(run, dataset, item, [str(run.arena.responses[item, s]) for s in systems])


def sets(run: ProtocolRun, dataset: Dataset) -> None:
    """How far the choice set decides, and the rankings behind it; or why there are none."""
    why = run.manifest.get("skipped", {}).get(Protocol.RANKING.value)
    if why:
        ui.note(f"Choice sets need rankings of three, which this judge does not give: {why}")
    elif not run.config.get("rankings"):
        ui.note("Choice sets were not asked for: they need rankings of three, which a judge has to write.")
    for found in choice_sets(run.arena):
        ui.note(
            f"Choice set {found.layout}: the order of A and B turns round in {percent(found.averaged)} with both "
            f"orders averaged, {percent(found.single)} in one."
        )
    ui.note(
        "A ranking put together from pairwise verdicts would be another thing and is not shown for one: each such "
        "verdict sees two responses, so what else is on offer cannot move it."
    )
    listed = ranked_pairs(run.arena)
    if not listed:
        return
    rows = [
        (run.arena.items[one.item], one.layout, _order(one.with_c), _order(one.with_d), "yes" if one.turned else "no")
        for one in listed[:MOST]
    ]
    table = pd.DataFrame(rows, columns=["Item", "Choice set", "Beside C", "Beside D", "Turned round"])
    at = _chosen(run, table, "A and B beside C, and beside D", "protocols_sets")
    if at is not None:
        _texts(run, dataset, listed[at].item, listed[at].responses)


def _order(gap: float) -> str:
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
    run_table(run, table, title=f"Cases: {heading}", key=f"{key}_list", label="Cases (CSV)", file=f"{key}_cases.csv")
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

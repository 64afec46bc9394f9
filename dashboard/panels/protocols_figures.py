"""The figures of the page Protocols and leaderboard; each returns what was clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import ui
from dashboard.panels import findings
from dashboard.panels import protocols_data as data
from dashboard.panels.protocols_data import ProtocolRun
from engine import catalog
from engine.figures import protocols_board as boards
from engine.figures import protocols_ladder as ladders
from engine.figures import protocols_rates as rates
from engine.metrics.intervals import Interval
from engine.metrics.leaderboard import Board, WinTable
from engine.metrics.protocols import PROTOCOLS, View, copy_rates
from engine.schema import Protocol

POOLED = "all distractors"


def origin(run: ProtocolRun, view: View, *, pointwise: bool = True) -> str:
    """Where the numbers come from, and the tie rule where scores are compared."""
    note = findings.origin(run.manifest, recorded=run.recorded)
    return f"{note}, ties: {view.rule.words}" if pointwise else note


def clickable(draw: ui.Draw, prepared: pd.DataFrame, *, key: str) -> list[Any]:
    """A figure whose points can be clicked; what the clicked point carries, or nothing."""
    figure = draw(ui.mode())
    alt = str((figure.layout.meta or {}).get("alt", ""))
    config = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}
    event = st.plotly_chart(
        figure, theme=None, width="stretch", key=key, alt=alt, on_select="rerun", selection_mode="points", config=config
    )
    ui.save_bar(draw, prepared, key=key)
    points = ((event or {}).get("selection") or {}).get("points") or []
    held = points[0].get("customdata") if points else None
    return list(held) if isinstance(held, (list, tuple)) else []


def flips(run: ProtocolRun, arms: Sequence[str], view: View, *, net: bool, key: str) -> list[Any]:
    """Flip rates of each arm, or those less the placebo's."""
    rows: list[rates.Row] = []
    pooled = {POOLED: tuple(data.whole(run))} if len(data.whole(run)) > 1 else {}
    for group, members in {**pooled, **{arm: (arm,) for arm in arms}}.items():
        if net and group == catalog.PLACEBO:
            continue
        found = data.flips_of(run, members, view)
        pair = (found.pairwise_net, found.pointwise_net) if net else (found.pairwise, found.pointwise)
        name = "All distractors" if group == POOLED else data.title(group)
        rows += [_row(group, name, p, one) for p, one in zip(PROTOCOLS, pair, strict=True)]
    prepared = rates.prepare_rates(rows)
    axis = "flips less the placebo's (points)" if net else "distracted losers that now win (%)"
    title = "What does the manner add?" if net else "Which verdicts flip?"

    def draw(mode: ui.Mode):  # noqa: ANN202
        return rates.plot_rates(prepared, mode=mode, title=title, axis=axis, note=origin(run, view))

    return clickable(draw, prepared, key=key)


def copies(run: ProtocolRun, arms: Sequence[str], view: View, *, ties: bool, key: str) -> list[Any]:
    """How often a rewriting beats its own original, or ties with it."""
    rows: list[rates.Row] = []
    for arm in arms:
        for protocol in PROTOCOLS if arm != "none" else (Protocol.PAIRWISE,):
            found = copy_rates(run.arena, protocol, [arm], view)
            name = "Identical texts" if arm == "none" else data.title(arm)
            rows.append(_row(arm, name, protocol, found.tied if ties else found.preferred))
    prepared = rates.prepare_rates(rows)
    title = "Do equals tie?" if ties else "Is the rewritten copy preferred?"
    axis = "ties (%)" if ties else "rewriting preferred to its original (%)"

    def draw(mode: ui.Mode):  # noqa: ANN202
        return rates.plot_rates(
            prepared, mode=mode, title=title, axis=axis, null=None if ties else 0.5, note=origin(run, view)
        )

    return clickable(draw, prepared, key=key)


def ladder(run: ProtocolRun, arm: str, view: View, *, half: bool, key: str) -> list[Any]:
    """Accuracy by severity, clean and under one arm."""
    rows = [
        (r.severity, r.arm, r.protocol.value, one.value, one.lower, one.upper, one.n, r.excluded)
        for r in data.ladder_of(run, arm, view)
        for one in [r.half if half else r.strict]
    ]
    prepared = ladders.prepare_ladder(rows)

    def draw(mode: ui.Mode):  # noqa: ANN202
        return ladders.plot_ladder(prepared, mode=mode, note=origin(run, view))

    return clickable(draw, prepared, key=key)


def slope(run: ProtocolRun, found: Board, view: View, *, key: str) -> list[Any]:
    """Ranks before and after."""
    before, after = found.before, found.after
    rows = [
        (
            system,
            i in found.distracted,
            float(before.rating[i]),
            float(after.rating[i]),
            float(before.rank[i]),
            float(before.rank_lower[i]),
            float(before.rank_upper[i]),
            float(after.rank[i]),
            float(after.rank_lower[i]),
            float(after.rank_upper[i]),
            int(after.battles[i]),
        )
        for i, system in enumerate(run.arena.systems)
    ]
    prepared = boards.prepare_slope(rows)
    pointwise = found.protocol is Protocol.POINTWISE

    def draw(mode: ui.Mode):  # noqa: ANN202
        title = f"Who climbs, judged {found.protocol.value}?"
        return boards.plot_slope(prepared, mode=mode, title=title, note=origin(run, view, pointwise=pointwise))

    return clickable(draw, prepared, key=key)


def matrix(
    run: ProtocolRun, found: WinTable, order: Sequence[int], protocol: Protocol, view: View, *, key: str
) -> list[Any]:
    """The win matrix of the clean comparisons, best system first."""
    systems = [run.arena.systems[i] for i in order]
    at = list(order)
    prepared = boards.prepare_matrix(systems, found.shares[at][:, at], found.n[at][:, at])
    pointwise = protocol is Protocol.POINTWISE

    def draw(mode: ui.Mode):  # noqa: ANN202
        title = f"Who beats whom, judged {protocol.value}?"
        return boards.plot_matrix(prepared, mode=mode, title=title, note=origin(run, view, pointwise=pointwise))

    return clickable(draw, prepared, key=key)


def _row(group: str, name: str, protocol: Protocol, one: Interval) -> rates.Row:
    return (group, name, protocol.value, one.value, one.lower, one.upper, one.n, one.n_clusters, one.method)

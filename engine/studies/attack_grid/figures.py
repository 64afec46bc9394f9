"""Figures of a run that scored responses under attacks and defenses."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from engine.core.errors import InputError
from engine.core.schema import METRICS, NONE
from engine.plots.grid import plot_grid, prepare_grid
from engine.plots.moves import plot_moves, prepare_set_moves
from engine.plots.rows import EFFECTS, plot_forest, prepare_forest
from engine.plots.shifts import plot_distribution, plot_dumbbells, prepare_distribution, prepare_dumbbells
from engine.stats.shifts import defense_gains, paired_shifts, shift_metrics
from engine.studies.figure import (
    FigureData,
    FigureSpec,
    Setting,
    Source,
    Values,
    arm_name,
    has_table,
    label_values,
    short_titles,
    strongest_arm,
)

STUDY = "attack_grid"
ALL = "all"


def shifts(source: Source) -> pd.DataFrame:
    """One row per response and attacked arm, from `paired_shifts`."""
    return source.memo("shifts", lambda: paired_shifts(source.table("verdicts")))


def metrics(source: Source) -> pd.DataFrame:
    """Table `metrics` of exactly the verdicts that are there: of a run in progress, of those so far."""

    def make() -> pd.DataFrame:
        verdicts = source.table("verdicts")
        made = (of(verdicts, level=source.level, seed=source.seed) for of in (shift_metrics, defense_gains))
        tables = [t for t in made if len(t)]
        return pd.concat(tables, ignore_index=True) if tables else METRICS.empty()

    return source.memo("metrics", make)


def scale(source: Source) -> tuple[float, float]:
    """Lowest and highest score; what was seen, where the labels are no numbers."""
    judge = source.manifest.get("judge", {})
    values = judge.get("values") or label_values([str(label) for label in judge.get("labels", [])])
    seen = values or source.table("verdicts")["score"].dropna().tolist() or [1.0, 5.0]
    return float(min(seen)), float(max(seen))


def _arms(column: str) -> Any:
    return lambda source: tuple(str(v) for v in dict.fromkeys(shifts(source)[column]))


def _read(source: Source) -> pd.DataFrame:
    rows = source.table("verdicts")
    return rows[rows["probabilities"].notna()]


METRIC = Setting(
    "metric", "shift in", "choice", lambda _: "shift", choices=lambda _: tuple(EFFECTS),
    words={"shift": "points", "relative_shift": "% of the clean mean"},
)  # fmt: skip
BEHIND = Setting("defense", "defense", "choice", lambda _: ALL, choices=lambda s: (ALL, *_arms("defense")(s)))
ATTACK = Setting("attack", "attack", "choice", lambda s: strongest_arm(metrics(s))[0], choices=_arms("attack"))
OF_ATTACK = Setting("attack", "attack", "choice", lambda _: ALL, choices=lambda s: (ALL, *_arms("attack")(s)))
DEFENSE = Setting("defense", "defense", "choice", lambda s: strongest_arm(metrics(s))[1], choices=_arms("defense"))
MOST = Setting("most", "responses shown at most", "whole", lambda _: 20, lambda _: 1, lambda _: 200)
RESPONSE = Setting(
    "response",
    "response",
    "choice",
    lambda s: next(iter(_read(s)["response_id"]), ""),
    choices=lambda s: tuple(dict.fromkeys(_read(s)["response_id"])),
)


def _forest(source: Source, at: Values) -> FigureData:
    rows = metrics(source)
    shown = rows if at["defense"] == ALL else rows[rows["defense"] == at["defense"]]
    made = prepare_forest(shown, metric=str(at["metric"]), titles=short_titles(rows))
    return FigureData(made)


def _grid(source: Source, at: Values) -> FigureData:
    rows = metrics(source)
    return FigureData(prepare_grid(rows, metric=str(at["metric"]), titles=short_titles(rows)))


def _moves(source: Source, at: Values) -> FigureData:
    rows = metrics(source)
    shown = rows if at["attack"] == ALL else rows[rows["attack"].isin([NONE, at["attack"]])]
    made = prepare_set_moves(shown, short_titles(rows))
    sizes = rows.loc[rows["metric"] == "shift", ["n", "n_clusters", "n_unread"]].max()
    note = f"n = {int(sizes['n'])} of {int(sizes['n_clusters'])} items, {int(sizes['n_unread'])} unread"
    title = "How far does each attack move the mean?"
    return FigureData(made, {"scale": _around(made, scale(source)), "title": title}, note=f"{note}; {source.origin}")


def _around(made: pd.DataFrame, whole: tuple[float, float]) -> list[float]:
    """Whole points around the means and their intervals, within the scale; at least one point wide."""
    seen = pd.concat([made["clean"], made["attacked"], made["clean"] + made["lower"], made["clean"] + made["upper"]])
    if seen.dropna().empty:
        return list(whole)
    low = min(max(whole[0], math.floor(seen.min())), whole[1] - 1)
    return [low, max(low + 1, min(whole[1], math.ceil(seen.max())))]


def _dumbbells(source: Source, at: Values) -> FigureData:
    attack, defense = str(at["attack"]), str(at["defense"])
    made = prepare_dumbbells(shifts(source), attack=attack, defense=defense, most=int(at["most"]))
    if made.empty:
        raise InputError(f"The run has no responses under {attack!r} behind {defense!r}; choose another arm.")
    n = f"n = {int(made['n_read'].iloc[0])} read both times"
    title = f"Which responses does {arm_name(attack, defense)} move?"
    facts = (n, "single responses, so no interval")
    return FigureData(made, {"scale": list(scale(source)), "title": title}, facts)


def _distribution(source: Source, at: Values) -> FigureData:
    rows = source.table("verdicts")
    arms = rows[(rows["response_id"] == at["response"]) & (rows["defense"] == at["defense"])]
    by = {str(r["attack"]): r for r in arms.to_dict("records")}
    attacked = None if at["attack"] == NONE else by.get(str(at["attack"]))
    if NONE not in by:
        raise InputError(f"The run has no verdict on {at['response']!r} behind {at['defense']!r}.")
    labels = [str(label) for label in source.manifest["judge"]["labels"]]
    values = list(source.manifest["judge"].get("values") or label_values(labels))
    kept = ("score", "coverage", "probabilities", "unread_reason")
    pair = [None if row is None else {k: _plain(row[k]) for k in kept} for row in (by[NONE], attacked)]
    assert pair[0] is not None
    made = prepare_distribution(labels, values, pair[0], pair[1])
    unread = sum(bool(p and p["unread_reason"]) for p in pair)
    facts = (f"n = 1 response ({at['response']})", f"{unread} unread", "one response, so no interval")
    title = "How sure is the judge?" if attacked is None else "How does the attack move this score?"
    return FigureData(made, {"title": title}, facts)


def _plain(value: Any) -> Any:
    return value if isinstance(value, list) or not pd.isna(value) else None


_NOTHING = has_table("verdicts", "it holds no verdicts yet.")


def _no_labels(source: Source) -> str:
    if why := _NOTHING(source):
        return why
    judge = source.manifest.get("judge", {})
    labels = [str(label) for label in judge.get("labels", [])]
    if not labels or not (judge.get("values") or label_values(labels)) or _read(source).empty:
        return "its judge gave no probabilities of numbered labels."
    return ""


ENTRIES = (
    FigureSpec(
        STUDY, "moves", "How far does each attack move the mean, off and behind each defense?", _moves, plot_moves,
        (OF_ATTACK,), _NOTHING,
    ),
    FigureSpec(
        STUDY, "forest", "How far does each attack move the score?", _forest, plot_forest,
        (METRIC, BEHIND), _NOTHING,
    ),
    FigureSpec(
        STUDY, "grid", "Which defense holds against which attack?", _grid, plot_grid, (METRIC,), _NOTHING,
    ),
    FigureSpec(
        STUDY, "dumbbells", "Which responses does an attack move?", _dumbbells, plot_dumbbells,
        (ATTACK, DEFENSE, MOST), _NOTHING,
    ),
    FigureSpec(
        STUDY, "distribution", "How does the attack move one score?", _distribution, plot_distribution,
        (RESPONSE, ATTACK, DEFENSE), _no_labels,
    ),
)  # fmt: skip

"""What the two figures of effects share: which metrics they draw and the words around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from engine.errors import InputError
from engine.figures.rows import span
from engine.figures.text import label, level_text, plural

NOTHING = "no attacked responses have been judged yet"
_NO_METHOD = ("no data", "no variation", "no interval: one item")


@dataclass(frozen=True)
class Effect:
    """How a metric is drawn: factor to the shown unit, its axis title, and the least span of a colour scale."""

    factor: float
    unit: str
    axis: str
    least: float


EFFECTS = {
    "shift": Effect(1.0, "points", "score shift, attacked − clean (points)", 0.5),
    "relative_shift": Effect(100.0, "%", "score shift in % of the clean mean", 15.0),
    "from_undefended": Effect(1.0, "points", "attacked score − undefended clean score (points)", 0.5),
}


def arms(metrics: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of one metric, in order.

    Raises:
        InputError: a metric these figures do not draw.
    """
    if metric not in EFFECTS:
        raise InputError(f"This figure draws {' or '.join(EFFECTS)}, not {metric!r}.")
    return metrics[metrics["metric"] == metric].reset_index(drop=True)


def arm_title(attack: str, defense: str, titles: Mapping[str, str]) -> str:
    """Attack and defense in words, the attack alone where there is no defense. Raw text: not yet inert."""
    head = titles.get(attack, attack)
    return head if defense == "none" else f"{head}, {titles.get(defense, defense)}"


def effect_notes(prepared: pd.DataFrame, note: str) -> tuple[str, ...]:
    """Small print: level and method of the intervals, n, items, unread."""
    run = prepared[prepared["n"].notna()]
    rows = run[run["n"] > 0]
    parts: list[str] = []
    if len(rows):
        methods = [m for m in rows["method"].dropna().unique() if m not in _NO_METHOD]
        level = rows["level"].dropna()
        if methods and len(level):
            parts.append(f"{level_text(float(level.iloc[0]))} intervals ({label('; '.join(methods), 60)})")
        nouns = {"n": "response", "n_clusters": "item"}
        counted = (f"{span(rows[c])} {noun}{'' if rows[c].max() == 1 else 's'}" for c, noun in nouns.items())
        parts.append(f"n = {' of '.join(counted)}")
    if len(run):
        parts.append(f"{plural(int(run['n_unread'].fillna(0).sum()), 'pair')} unread")
    parts.append(label(note, 80) if note else "")
    return tuple(parts)

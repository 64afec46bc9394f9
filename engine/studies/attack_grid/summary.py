"""The arms of a run as the command line prints them and as its JSON names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from engine.core.schema import NONE


def arms_of(metrics: pd.DataFrame) -> list[dict[str, Any]]:
    """Every arm of a metrics table, in its order."""
    pairs = dict.fromkeys(zip(metrics["attack"], metrics["defense"], strict=True))
    return [_arm(metrics, attack, defense) for attack, defense in pairs]


def _arm(metrics: pd.DataFrame, attack: str, defense: str) -> dict[str, Any]:
    """One arm as the JSON names it; numbers that it does not have are null."""
    rows = metrics[(metrics["attack"] == attack) & (metrics["defense"] == defense)].set_index("metric")

    def read(metric: str, column: str) -> Any:
        return rows.loc[metric, column] if metric in rows.index else None

    return {
        "attack": attack,
        "defense": defense,
        "n": read("mean" if attack == NONE else "shift", "n"),
        "n_unread": read("mean" if attack == NONE else "shift", "n_unread"),
        "mean": read("mean", "value"),
        "shift": read("shift", "value"),
        "shift_lower": read("shift", "lower"),
        "shift_upper": read("shift", "upper"),
        "relative_shift": read("relative_shift", "value"),
    }


def arm_table(arms: Sequence[dict[str, Any]]) -> str:
    """A table to read."""
    head = f"{'attack':<12} {'defense':<22} {'n':>5} {'unread':>6} {'mean':>6}  shift [95 % interval]"
    lines = [head, "-" * len(head)]
    for a in arms:
        shift = "" if a["shift"] is None else f"{a['shift']:+.3f} [{a['shift_lower']:+.3f}, {a['shift_upper']:+.3f}]"
        lines.append(f"{a['attack']:<12} {a['defense']:<22} {a['n']:>5} {a['n_unread']:>6} {a['mean']:>6.2f}  {shift}")
    return "\n".join(lines)

"""Attack grid: every response under every attack, behind every defense, with the shift of each arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import Field

from engine.core.schema import NONE
from engine.defenses.writing import TUTOR
from engine.runs.folder import RunFolder
from engine.stats.intervals import with_ends
from engine.studies.study import Context, Quick, Study, StudyConfig, Summary

if TYPE_CHECKING:
    from engine.studies.running import Plan


MAX_ARMS = 64
"""Most attacks, and most defenses, of one run."""


class ScoreConfig(StudyConfig):
    """Settings of a run; its manifest holds them.

    Attributes:
        judge: spec of the judge.
        data: id of a data set.
        attacks: names; the clean arm is always among them.
        defenses: names, several in one joined by +; `none` for the judge alone.
        own_text: text of the attack `own`.
        tutor: spec of the model that writes anchors and reasons, for the defenses that need them.
        limit: only the first so many responses.
        budget_seconds: wall time after which the run stops and keeps what is done.
        seed: of the bootstrap.
    """

    judge: str
    data: str
    attacks: tuple[str, ...] = Field(default=("dsi", "bed"), max_length=MAX_ARMS)
    defenses: tuple[str, ...] = Field(default=(NONE,), max_length=MAX_ARMS)
    own_text: str = ""
    tutor: str = TUTOR
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0


class AttackGrid(Study):
    """The attack grid as the registry knows it."""

    kind = "attack_grid"
    names = ("score", "grid")
    title = "Attacks"
    config = ScoreConfig
    marks = frozenset({"own_text"})

    def run(self, config: ScoreConfig, context: Context, folder: RunFolder) -> None:
        """Judge all arms, writing partial tables."""
        from engine.studies.attack_grid.run import run_score

        dataset = context.data.dataset(config.data)
        run_score(config, dataset, context.judge(config.judge), folder, context.checkpoint)

    def cost(self, config: ScoreConfig, context: Context) -> Plan:
        """Calls, tokens and seconds of all arms."""
        from engine.studies.attack_grid.run import plan_score

        return plan_score(config, context.data.dataset(config.data), context.judge(config.judge))

    def summary(self, config: ScoreConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """A row per arm: n, unread, mean and shift."""
        arms = arms_of(folder.table("metrics"))
        return Summary(arm_table(arms), {"arms": arms})

    def quick_jobs(self) -> dict[str, Quick]:
        """One response without and with one attack."""
        from engine.studies.attack_grid.run import AttackOne, attack_one

        return super().quick_jobs() | {"attack_one": (AttackOne, attack_one)}


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
        shift = "" if a["shift"] is None else with_ends(a["shift"], a["shift_lower"], a["shift_upper"], "+.3f")
        lines.append(f"{a['attack']:<12} {a['defense']:<22} {a['n']:>5} {a['n_unread']:>6} {a['mean']:>6.2f}  {shift}")
    return "\n".join(lines)


STUDY = AttackGrid()

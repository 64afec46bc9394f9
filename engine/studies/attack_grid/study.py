"""Attack grid: every response under every attack, behind every defense, with the shift of each arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from engine.core.schema import NONE
from engine.defenses.writing import TUTOR
from engine.runs.folder import RunFolder
from engine.studies.study import Context, Quick, Study, Summary

if TYPE_CHECKING:
    from engine.studies.figure import FigureSpec
    from engine.studies.running import Plan

MAX_ARMS = 64
"""Most attacks, and most defenses, of one run."""


class ScoreConfig(BaseModel):
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
        run_id: name of the run folder; by default a new one.
        seed: of the bootstrap.
        level: of the intervals.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    attacks: tuple[str, ...] = Field(default=("dsi", "bed"), max_length=MAX_ARMS)
    defenses: tuple[str, ...] = Field(default=(NONE,), max_length=MAX_ARMS)
    own_text: str = ""
    tutor: str = TUTOR
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)


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
        from engine.studies.attack_grid.summary import arm_table, arms_of

        arms = arms_of(folder.table("metrics"))
        return Summary(arm_table(arms), {"arms": arms})

    def figures(self) -> tuple[FigureSpec, ...]:
        """Its figures."""
        from engine.studies.attack_grid.figures import ENTRIES

        return ENTRIES

    def quick_jobs(self) -> dict[str, Quick]:
        """One response without and with one attack."""
        from engine.studies.attack_grid.run import AttackOne, attack_one

        return {"attack_one": (AttackOne, attack_one)}


STUDY = AttackGrid()

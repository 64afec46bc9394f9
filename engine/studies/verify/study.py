"""Verify: a verifier asked about responses that are known to be right or wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from engine.runs.folder import RunFolder
from engine.studies.study import Context, Study, Summary

if TYPE_CHECKING:
    from engine.studies.figure import FigureSpec
    from engine.studies.running import Plan


class VerifyConfig(BaseModel):
    """Settings of a run; its manifest holds them.

    Attributes:
        judge: spec of a verifier.
        data: items with a reference, and responses whose column quality says which are correct.
        limit: only the first so many responses.
        budget_seconds: wall time after which the run stops; the answers so far are in the cache.
        run_id: name of the run folder; by default a new one.
        seed: of the bootstrap.
        level: of the intervals.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)


class Verify(Study):
    """Verify as the registry knows it."""

    kind = "verify"
    names = ("verify",)
    title = "Verifier"
    config = VerifyConfig

    def run(self, config: VerifyConfig, context: Context, folder: RunFolder) -> None:
        """Ask for every response whether it agrees with the reference."""
        from engine.studies.verify.run import run_verify

        dataset = context.data.dataset(config.data)
        run_verify(config, dataset, context.judge(config.judge), folder, context.checkpoint)

    def cost(self, config: VerifyConfig, context: Context) -> Plan:
        """Calls, tokens and seconds of all responses."""
        from engine.studies.verify.run import plan_verify

        return plan_verify(config, context.data.dataset(config.data), context.judge(config.judge))

    def summary(self, config: VerifyConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the table says it all
        """Accuracy and acceptance rates with their intervals."""
        metrics = folder.table("metrics")
        lines = [
            f"{row.metric:<16} {row.value:.3f} [{row.lower:.3f}, {row.upper:.3f}]  n {row.n}, unread {row.n_unread}"
            for row in metrics.itertuples()
        ]
        return Summary("\n".join(lines) or "Nothing was measured yet.", {"metrics": metrics.to_dict("records")})

    def figures(self) -> tuple[FigureSpec, ...]:
        """Its figures."""
        from engine.studies.verify.figures import ENTRIES

        return ENTRIES


STUDY = Verify()

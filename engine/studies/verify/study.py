"""Verify: a verifier asked about responses that are known to be right or wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from engine.runs.folder import RunFolder
from engine.studies.study import Context, Study, StudyConfig

if TYPE_CHECKING:
    from engine.studies.running import Plan


class VerifyConfig(StudyConfig):
    """Settings of a run; its manifest holds them.

    Attributes:
        judge: spec of a verifier.
        data: items with a reference, and responses whose column quality says which are correct.
        limit: only the first so many responses.
        budget_seconds: wall time after which the run stops; the answers so far are in the cache.
        seed: of the bootstrap.
    """

    judge: str
    data: str
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0


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


STUDY = Verify()

"""Trust: a judge's number against people's labels on a part of the rows."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from engine.core.errors import InputError
from engine.data.labelled import DEMO_TRUST
from engine.runs.folder import RunFolder
from engine.studies.study import Context, Study, StudyConfig, Summary
from engine.studies.trust.requirements import read_rule
from engine.studies.trust.tables import ATTACKED, CALIBRATION, CONFUSION, NEEDED, NOTICED, SELECTION, TRUST


class TrustConfig(StudyConfig):
    """Settings of a run; its manifest holds them.

    Attributes:
        data: verdicts with labels: a file (command line), the id of an uploaded one, or a run whose responses people
            scored, by its name or folder.
        pass_at: scores count as pass from here on, and so do numeric labels; None keeps scores.
        keep_labels: hide all labels but so many, drawn at random, and say what all of them would have said.
        agreement: share of rows on which judge and people are assumed to agree, for the labels needed before any.
        half: half width that labels are counted for, in the unit of the labels.
        bins: of the calibration curve, at most.
        bound: largest error among the verdicts that are kept without people.
        delta: chance that this bound fails.
        attacked: verdicts of the same rows under attack: a file, the id of an uploaded one, or a run; empty for the
            strongest attack, under which every attacked row passes.
        attack: arm of that run; empty for its first.
        require: rules that numbers must keep, for example `kappa>=0.6`.
        off_by: a score is wrong where it is off by at least this (selective judging of scores).
        seed: of bootstraps, splits and drawn labels.
    """

    data: str = DEMO_TRUST
    pass_at: float | None = None
    keep_labels: int | None = Field(default=None, ge=10)
    agreement: float = Field(default=0.8, ge=0, le=1)
    half: float = Field(default=0.05, gt=0)
    bins: int = Field(default=10, ge=2, le=50)
    bound: float = Field(default=0.1, gt=0, lt=1)
    delta: float = Field(default=0.05, gt=0, lt=1)
    off_by: float = Field(default=1.0, gt=0)
    attacked: str = ""
    attack: str = ""
    require: tuple[str, ...] = ()
    seed: int = 0

    @field_validator("require")
    @classmethod
    def _rules(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(str(read_rule(rule)) for rule in rules)
        except InputError as error:
            raise ValueError(str(error)) from None


class Trust(Study):
    """The study as the registry knows it; no judge is asked."""

    kind = "trust"
    names = ("trust",)
    title = "Can I trust this number?"
    config = TrustConfig
    tables = (TRUST, CONFUSION, CALIBRATION, SELECTION, NEEDED, ATTACKED, NOTICED)
    marks = frozenset({"keep_labels"})
    table_shown = "trust"
    resumable = False
    inputs = "labelled"
    gate = "trust"

    def prepare(self, config: TrustConfig, context: Context) -> TrustConfig:
        """The settings with their data named by id.

        Raises:
            InputError: the data cannot be used.
        """
        from engine.studies.trust.run import data_named

        return config.model_copy(update={"data": data_named(config.data, context)})

    def run(self, config: TrustConfig, context: Context, folder: RunFolder) -> None:
        """Correct, calibrate, select, count; write every table."""
        from engine.studies.trust.run import run_trust

        run_trust(config, context, folder)

    def plan(self, config: TrustConfig, context: Context) -> tuple[dict[str, Any], str]:
        """Nothing is asked, so that it costs nothing."""
        from engine.studies.trust.run import opened

        return {"calls": 0, "tokens": 0}, f"No judge is asked. {opened(config, context).counts()}."

    def summary(self, config: TrustConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """Raw, corrected and labels-only number, and what follows from them."""
        from engine.studies.trust.summary import summary_of

        return summary_of(folder)


STUDY = Trust()

"""CAP (paper 001): steer a tutor to a text of a high and one of a low standard, show both to the judge, attack it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engine.core.errors import InputError
from engine.core.schema import NONE
from engine.defenses.cards import parse_defense
from engine.defenses.writing import TUTOR
from engine.runs.folder import RunFolder
from engine.steering.vectors import Form
from engine.studies.cap.tables import CAP_TABLES
from engine.studies.study import Context, Quick, Study, Summary

if TYPE_CHECKING:
    from engine.studies.figure import FigureSpec

CAP, WCAP, COT, PERPLEXITY, SCORED, HUMAN = "cap", "wcap", "cot", "perplexity", "score-anchors", "human-anchors"
ARMS = (NONE, COT, PERPLEXITY, SCORED, HUMAN, WCAP, CAP)
"""Defenses that the study compares: paper tables 1, 2, 3 and 6."""
ANCHORED = (SCORED, HUMAN, WCAP, CAP)
EXCHANGED = "-exchanged"
"""Ends the name of a control arm: the two anchors in each other's slots, clean responses only."""
TRAINING, EVALUATION = "train", "eval"


def base_of(defense: str) -> str:
    """An arm's name without its options: `perplexity?threshold=84` is of `perplexity`."""
    return defense.partition("?")[0]


class CapConfig(BaseModel):
    """Settings of the study; the run's manifest holds them.

    Attributes:
        defenses: arms; options as in `perplexity?threshold=84` are allowed, and a threshold named so is kept.
        fit_perplexity: the arm `perplexity` without a threshold takes those of best F1 on the training contexts, one
            fitted against learned phrases and one against prompt attacks; else the stock threshold.
        pool: how candidates are asked for: `mixed` takes plain, good and poor prompts at several temperatures and
            drafts degraded by rule; `plain` the plain prompt alone, as in the paper (temperatures: `tutor.PLAIN`).
        deflate: every attack that has a direction is also tried the other way, on a rival's response.
        learned_words: length of a suffix learned on this judge, on responses of the training contexts; 0 learns none.
        learned_candidates: words tried at each step of that search, chosen by gradient.
        learned_prompts: training responses it is learned on.
        learned_through_cap: a second one is learned on the judge behind CAP.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    data: str
    tutor: str = TUTOR
    attacks: tuple[str, ...] = ("dsi", "bed", "adaptive", "suffix")
    deflate: bool = False
    suffix_words: tuple[int, ...] = (1, 2, 3, 5)
    learned_words: int = Field(default=0, ge=0, le=5)
    learned_candidates: int = Field(default=32, ge=2, le=4096)
    learned_prompts: int = Field(default=8, ge=1, le=512)
    learned_through_cap: bool = False
    defenses: tuple[str, ...] = ARMS
    fit_perplexity: bool = True
    pool: Literal["mixed", "plain"] = "mixed"
    candidates: int = Field(default=12, ge=2, le=200)
    high_percentile: float = Field(default=80, gt=0, le=100)
    low_percentile: float = Field(default=20, ge=0, lt=100)
    components: int = Field(default=2, ge=1, le=50)
    form: Form = "paper"
    layer: int | None = Field(default=None, ge=1)
    reach: tuple[float, ...] = (0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6)
    alphas: tuple[float, ...] = (3.0,)
    new_tokens: int | None = Field(default=None, ge=1, le=512)
    split: Literal["half", "group"] = "half"
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    run_id: str | None = None
    seed: int = 0
    level: float = Field(default=0.95, gt=0.5, lt=1)

    @field_validator("defenses")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in names if base_of(name) not in ARMS]:
            raise ValueError(f"{wrong[0]!r} is no arm of this study; allowed: {', '.join(ARMS)}")
        try:
            return tuple(dict.fromkeys((NONE, *(parse_defense(name).name for name in names))))
        except InputError as error:
            raise ValueError(str(error)) from None

    @field_validator("reach")
    @classmethod
    def _sizes(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 <= size < 1 for size in sizes):
            raise ValueError("a relative edit lies from 0 to below 1")
        return sizes

    @field_validator("alphas")
    @classmethod
    def _strengths(cls, alphas: tuple[float, ...]) -> tuple[float, ...]:
        if wrong := [alpha for alpha in alphas if not 0 <= alpha < float("inf")]:
            raise ValueError(f"alpha {wrong[0]:g} is not allowed; alpha is 0 or more, the side gives the sign")
        return alphas

    @model_validator(mode="after")
    def _in_order(self) -> CapConfig:
        if not self.low_percentile < self.high_percentile:
            raise ValueError(
                f"low_percentile {self.low_percentile:g} and high_percentile {self.high_percentile:g} are out of "
                "order; the low one is below the high one"
            )
        return self

    @property
    def fits_perplexity(self) -> bool:
        """Thresholds are fitted: it is asked for, and there is an arm that names none."""
        return self.fit_perplexity and PERPLEXITY in self.defenses


class Cap(Study):
    """CAP as the registry knows it."""

    kind = "cap"
    names = ("cap",)
    title = "Steering and anchors"
    config = CapConfig
    tables = CAP_TABLES
    marks = frozenset({"high_percentile"})
    table_shown = "cap_layers"

    def run(self, config: CapConfig, context: Context, folder: RunFolder) -> None:
        """Standards, alphas, anchors, then every attack behind every defense; each part's tables as it ends."""
        from engine.studies.cap.run import run_cap
        from engine.studies.cap.tutor import load_tutor

        dataset = context.data.dataset(config.data)
        judge = context.judge(config.judge)
        tutor = load_tutor(config.tutor, context.settings, cache=context.cache)
        run_cap(config, dataset, judge, tutor, folder, context.settings, context.checkpoint)

    def plan(self, config: CapConfig, context: Context) -> tuple[dict[str, Any], str]:
        """Texts of the tutor, calls of the judge, prompts of the searches; no seconds."""
        from engine.studies.cap.run import plan_cap
        from engine.studies.cap.summary import plan_text
        from engine.studies.cap.tutor import load_tutor

        dataset = context.data.dataset(config.data)
        judge = context.judge(config.judge)
        tutor = load_tutor(config.tutor, context.settings, cache=context.cache)
        plan = plan_cap(config, dataset, judge, tutor, context.settings)
        return plan, plan_text(plan)

    def summary(self, config: CapConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """Layer, standards and alphas, then each arm's shift and each defense's cost."""
        from engine.studies.cap.summary import summary_of

        return summary_of(folder)

    def figures(self) -> tuple[FigureSpec, ...]:
        """Its figures."""
        from engine.studies.cap.figures import ENTRIES

        return ENTRIES

    def quick_jobs(self) -> dict[str, Quick]:
        """Further alphas for a finished run."""
        from engine.studies.cap.run import SweepConfig, sweep_job

        return {"cap_sweep": (SweepConfig, sweep_job)}


STUDY = Cap()

"""Protocols: the same responses judged pairwise and pointwise, clean and distracted (Tripathi et al., paper 004)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from engine.attacks.distractors import DISTRACTORS, MORE_PLACEBOS, PLACEBO
from engine.data.dataset import Dataset
from engine.runs.folder import RunFolder
from engine.studies.protocols.metrics import TieRule, View
from engine.studies.study import Context, Quick, Study, StudyConfig, Summary, quick_form

if TYPE_CHECKING:
    from engine.studies.running import Plan

QUICK: dict[str, Any] = {"placebo": False, "placebos": (), "copies": False, "rankings": False}
"""Settings of a quick run; besides, one distractor, and only so many items as make `QUICK_CALLS` calls."""
QUICK_CALLS = 600
QUICK_ITEMS = 4
"""Items of a quick run at least, where there are so many."""


def quick_items(dataset: Dataset, most: int | None = None) -> int:
    """Items of a quick run: each response alone, every two in both orders, clean and with one side rewritten.

    Args:
        dataset: its data.
        most: items that the settings allow.
    """
    sizes = dataset.responses.groupby("item_id", sort=False).size()
    calls = (2 * sizes + 3 * sizes * (sizes - 1)).cumsum()
    fit = max(int((calls <= QUICK_CALLS).sum()), min(QUICK_ITEMS, len(sizes)))
    return min(fit, most or fit)


class ProtocolsConfig(StudyConfig):
    """Settings of a run; its manifest holds them.

    Attributes:
        distractors: styles, each with its strength where that is not 1, for example `assertiveness:0.5`.
        placebo: judge the neutral paraphrase too, which flips are netted by.
        placebos: further ones (`MORE_PLACEBOS`): their own flips, and the distractors' less theirs.
        rewriter: `rules`, or the spec of a model.
        boards: distractors that the leaderboard is measured with.
        lowest: number of systems, from the lowest, that are rewritten for it.
        criterion: the quality that the prompt asks about; a key of `CRITERIA`.
        copies: compare every response with itself and with its rewritings.
        rankings: ask for n-wise rankings, for choice sets.
        tie_margin: largest difference of expected scores that is a tie; None: equal modal score.
        average: of the two orders, of their probabilities or their logits.
        elo_k: K of the online Elo.
        variants_of: run whose texts are taken in place of new rewritings.
        task: the responses are judged as answers to an instruction or to a question; empty takes the data's own task,
            for which a judge need not have a pairwise prompt.
        quick: the settings of `QUICK` in place of those given, for a first answer within two minutes on two cores.
        systems: only these; by default all.
        limit: only so many items.
    """

    judge: str
    data: str
    distractors: tuple[str, ...] = DISTRACTORS
    placebo: bool = True
    placebos: tuple[str, ...] = ()
    rewriter: str = "rules"
    boards: tuple[str, ...] = ("assertiveness",)
    lowest: int = Field(default=3, ge=1)
    criterion: Literal["overall", "overall, 1-7", "instruction following"] = "overall"
    copies: bool = True
    rankings: bool = False
    tie_margin: float | None = Field(default=None, ge=0)
    average: Literal["probability", "logit"] = "probability"
    elo_k: float = Field(default=16.0, gt=0)
    variants_of: str | None = None
    task: Literal["", "instruction", "question"] = ""
    quick: bool = False
    systems: tuple[str, ...] | None = None
    limit: int | None = Field(default=None, ge=1)
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        """A quick run holds the settings it really ran with; its items are counted once the data are open."""
        first = tuple((given.get("distractors") if isinstance(given, dict) else None) or DISTRACTORS)[:1]
        return quick_form(given, {**QUICK, "distractors": first, "boards": first})

    @field_validator("placebos")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [name for name in names if name not in MORE_PLACEBOS]:
            raise ValueError(f"{wrong[0]!r} is no further placebo; allowed: {', '.join(MORE_PLACEBOS)}")
        return tuple(dict.fromkeys(names))

    @property
    def arms(self) -> list[str]:
        """Every arm with rewritten texts, the placebos last."""
        placebo = (PLACEBO,) if self.placebo else ()
        return list(dict.fromkeys((*self.distractors, *self.boards, *placebo, *self.placebos)))

    @property
    def view(self) -> View:
        """Rules for reading its verdicts."""
        return View(TieRule(self.tie_margin), self.average, self.level, self.seed)


class Protocols(Study):
    """The study of protocols as the registry knows it."""

    kind = "protocols"
    names = ("protocols",)
    title = "Protocols and leaderboard"
    config = ProtocolsConfig
    marks = frozenset({"distractors"})

    def prepare(self, config: ProtocolsConfig, context: Context) -> ProtocolsConfig:
        """The settings with their data named by id, and the items of a quick run.

        Raises:
            InputError: the data cannot be used.
        """
        config = super().prepare(config, context)
        if not config.quick:
            return config
        return config.model_copy(update={"limit": quick_items(context.data.dataset(config.data), config.limit)})

    def run(self, config: ProtocolsConfig, context: Context, folder: RunFolder) -> None:
        """Rewrite, judge in both protocols, write verdicts, variants and metrics."""
        from engine.studies.protocols.run import run_protocols

        dataset = context.data.dataset(config.data)
        run_protocols(config, dataset, context.judge(config.judge), folder, context.settings, context.checkpoint)

    def plan(self, config: ProtocolsConfig, context: Context) -> tuple[dict[str, Any], str]:
        """An estimate: which side of a pair is rewritten is known only once the clean pairs are judged."""
        from engine.studies.running import plan_text

        plan = self.cost(config, context)
        return {"dry_run": True, **plan._asdict()}, f"About {plan_text(plan)}"

    def cost(self, config: ProtocolsConfig, context: Context) -> Plan:
        """Calls, tokens and seconds, likewise."""
        from engine.studies.protocols.run import plan_protocols

        return plan_protocols(config, context.data.dataset(config.data), context.judge(config.judge), context.settings)

    def summary(self, config: ProtocolsConfig, folder: RunFolder) -> Summary:
        """Flips, ties, severity and leaderboard, as the page shows them."""
        from engine.studies.protocols.summary import summary_of

        return summary_of(config, folder)

    def quick_jobs(self) -> dict[str, Quick]:
        """One comparison, with one response rewritten."""
        from engine.studies.protocols.run import DistractOne, distract_one

        return super().quick_jobs() | {"distract_one": (DistractOne, distract_one)}


STUDY = Protocols()

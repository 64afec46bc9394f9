"""Check-up: its settings, and the study as the registry knows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from engine.attacks.master_keys import KEY_TEXTS
from engine.core.errors import InputError
from engine.core.schema import Column, Table
from engine.runs.folder import RunFolder, open_run
from engine.studies.checkup.material import Material, of_dataset, of_pairs
from engine.studies.checkup.metrics import CARDS, Size, check_thresholds
from engine.studies.study import Context, Study, StudyConfig, Summary

if TYPE_CHECKING:
    from engine.studies.running import Plan


CHECKUP = Table(
    "checkup",
    (
        Column("probe", "str", "name of the probe"),
        Column("arm", "str", "what was done to the response or the prompt; missing where the probe has one arm", False),
        Column("protocol", "str", "how the judge was asked; missing where it cannot be asked", required=False),
        Column("against", "str", "what it is compared with: clean, filler, placebo, human", required=False),
        Column("role", "str", "decides enters the verdict, detail is shown beside it", allowed=("decides", "detail")),
        Column("value", "float", "the effect, as a share of the scale, of pairs or of questions (NaN: undefined)"),
        Column("lower", "float", "lower end of the interval", required=False),
        Column("upper", "float", "upper end of the interval", required=False),
        Column("level", "float", "confidence level of this row in (0, 1): shared among the arms of a probe", False),
        Column("method", "str", "how the interval was made", required=False),
        Column("n", "int", "responses, comparisons or questions that entered"),
        Column("n_clusters", "int", "items that entered", required=False),
        Column("n_unread", "int", "left out since a verdict was unread", required=False),
        Column("detectable", "float", "true effect found with 80 % power, same unit as value", required=False),
        Column("base_rate", "float", "share of the most frequent human label (agreement alone)", required=False),
        Column("observed", "float", "share of verdicts equal to the human label (agreement alone)", required=False),
        Column("missing", "str", "which field or ability is missing; the probe cannot be asked", required=False),
    ),
)


ATTACKS = ("dsi", "bed", "adaptive", "completion")


class CheckupConfig(StudyConfig):
    """Settings of a run; its manifest holds them.

    Attributes:
        data: id of a data set or of a set of pairs.
        probes: only these; by default all.
        attacks: injections that are tried.
        keys: texts without content that are tried.
        thresholds: by probe, in place of the defaults; the manifest holds them all.
        limit: only so many items.
        responses: most responses of an item that are asked about.
        pairs: most comparisons of an item.
        strict: an underpowered probe makes the command inconclusive (exit code 3).
    """

    judge: str
    data: str
    probes: tuple[str, ...] = tuple(card.name for card in CARDS)
    attacks: tuple[str, ...] = Field(default=ATTACKS, min_length=1)
    keys: tuple[str, ...] = KEY_TEXTS
    thresholds: dict[str, float] = Field(default_factory=dict)
    limit: int | None = Field(default=None, ge=1)
    responses: int = Field(default=4, ge=1)
    pairs: int = Field(default=2, ge=0)
    strict: bool = False
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0

    @field_validator("thresholds")
    @classmethod
    def _known(cls, thresholds: dict[str, float]) -> dict[str, float]:
        try:
            return check_thresholds(thresholds)
        except InputError as error:
            raise ValueError(str(error)) from None

    @property
    def size(self) -> Size:
        """Limits of what is asked."""
        return Size(self.limit, self.responses, self.pairs, len(self.attacks), len(self.keys), self.seed)


class Checkup(Study):
    """The check-up as the registry knows it; its data are responses, or pairs."""

    kind = "checkup"
    names = ("checkup",)
    title = "Check-up"
    config = CheckupConfig
    tables = (CHECKUP,)
    marks = frozenset({"thresholds"})
    table_shown = "checkup"
    options = frozenset({"threshold", "redecide"})
    gate = "check-up"

    def prepare(self, config: CheckupConfig, context: Context) -> CheckupConfig:
        """The data named by id, every threshold said."""
        changed = thresholds_of(context.extra.get("threshold", ()))
        thresholds = check_thresholds({**config.thresholds, **changed})
        return config.model_copy(update={"data": _material(config, context).data_id, "thresholds": thresholds})

    def stored(self, config: CheckupConfig) -> dict[str, Any]:
        """The settings with every threshold."""
        return config.model_dump(mode="json") | {"thresholds": check_thresholds(config.thresholds)}

    def instead(self, config: CheckupConfig, context: Context, root: Path) -> Summary | None:
        """With --redecide, a stored run held against these thresholds; no judge is asked."""
        from engine.studies.checkup.run import decided_anew

        run_id = context.extra.get("redecide")
        if not run_id:
            return None
        changed = thresholds_of(context.extra.get("threshold", ()))
        return decided_anew(open_run(root, str(run_id)), changed, strict=config.strict)

    def run(self, config: CheckupConfig, context: Context, folder: RunFolder) -> None:
        """Ask every probe's questions item by item."""
        from engine.studies.checkup.run import run_checkup

        material = _material(config, context)
        run_checkup(config, material, context.judge(config.judge), folder, context.checkpoint)

    def cost(self, config: CheckupConfig, context: Context) -> Plan:
        """Calls, tokens and seconds of every probe."""
        from engine.studies.checkup.run import plan_checkup

        return plan_checkup(config, _material(config, context), context.judge(config.judge))

    def summary(self, config: CheckupConfig, folder: RunFolder) -> Summary:
        """A verdict of each probe; exit code 4 where one fails, 3 where none was asked or, strict, one is undecided."""
        from engine.studies.checkup.run import summary_of

        return summary_of(folder, strict=config.strict)


def _material(config: CheckupConfig, context: Context) -> Material:
    """The data in one shape: pairs where they are pairs, else responses."""
    if context.data.holds_pairs(config.data):
        return of_pairs(context.data.comparisons(config.data))
    return of_dataset(context.data.dataset(config.data))


def thresholds_of(pairs: Sequence[str]) -> dict[str, float]:
    """The thresholds of a command line.

    Raises:
        InputError: one is not PROBE=NUMBER.
    """
    given: dict[str, float] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"--threshold {pair}: write PROBE=NUMBER, for example order=0.05.")
    return given


STUDY = Checkup()

"""The perplexity threshold of best F1, fitted on some items and measured on others (CAP, paper 001, section 5.1)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from engine.core.schema import Column, Table
from engine.runs.folder import RunFolder
from engine.studies.study import Context, Study, StudyConfig, Summary

READINGS = Table(
    "readings",
    (
        Column("screen", "str", "what was read: perplexity, with its window where it has one"),
        Column("response_id", "str", "the response"),
        Column("item_id", "str", "the item it answers"),
        Column("attack", "str", "attack on the response, or none"),
        Column("family", "str", "suffix or prompt; none for a clean response", allowed=("none", "suffix", "prompt")),
        Column("split", "str", "train fits the threshold, test measures it", allowed=("train", "test")),
        Column("value", "float", "the reading (NaN: the text has none)", required=False),
        Column("unread_reason", "str", "why there is no reading", required=False),
    ),
)


class DetectionConfig(StudyConfig):
    """Settings of a measurement; the run's manifest holds them.

    Attributes:
        suffixes: attacks that add a learned phrase.
        prompts: attacks that add readable sentences.
        window: tokens of a window; 0 takes the whole text.
        train_share: share of the items that the threshold is fitted on.
    """

    data: str
    suffixes: tuple[str, ...] = ("suffix",)
    prompts: tuple[str, ...] = ("dsi", "bed", "adaptive")
    window: int = Field(default=0, ge=0, le=4096)
    train_share: float = Field(default=0.5, gt=0, lt=1)
    limit: int | None = Field(default=None, ge=2)
    seed: int = 0


class PerplexityThreshold(Study):
    """The perplexity threshold as the registry knows it."""

    kind = "perplexity_threshold"
    names = ("detection", "perplexity_threshold")
    title = "Perplexity threshold"
    config = DetectionConfig
    tables = (READINGS,)
    marks = frozenset({"suffixes"})
    table_shown = "readings"
    shown_when_done = True

    def run(self, config: DetectionConfig, context: Context, folder: RunFolder) -> None:
        """Read the texts, fit the thresholds, measure them on the other items."""
        from engine.defenses.guard import guard_for
        from engine.judges.planted import make_planted
        from engine.studies.perplexity_threshold.run import run_detection

        guard = guard_for(make_planted("planted:constant"), context.settings)
        run_detection(config, context.data.dataset(config.data), guard, folder, context.checkpoint)

    def plan(self, config: DetectionConfig, context: Context) -> tuple[dict[str, Any], str]:
        """Texts that are read and their tokens."""
        from engine.studies.perplexity_threshold.run import plan_detection

        plan = plan_detection(config, context.data.dataset(config.data))
        words = (
            f"{plan['texts']:,} texts are read once each, about {plan['tokens']:,} tokens; what the cache knows is "
            "not read again. No seconds are given."
        )
        return dict(plan), words

    def summary(self, config: DetectionConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """The threshold against each family of attacks, and what it does on the other items."""
        from engine.studies.running import metric_lines

        metrics = folder.table("metrics")
        lines: list[str] = []
        for family, rows in metrics.groupby("group", sort=False):
            lines += [f"Against {family} attacks:", *metric_lines(rows)]
        return Summary("\n".join(lines), {"metrics": metrics.to_dict("records")})


STUDY = PerplexityThreshold()

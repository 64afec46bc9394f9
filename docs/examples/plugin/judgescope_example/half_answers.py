"""The study `half_answers`: what the first half of each response scores, against the whole."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import Field

from engine.core.schema import METRICS, NONE, Column, Table
from engine.runs.folder import RunFolder
from engine.studies.figure import FigureData, FigureSpec, Source, has_table
from engine.studies.study import Context, Study, StudyConfig, Summary

HALVES = Table(
    "half_answers",
    (
        Column("response_id", "str", "the response"),
        Column("item_id", "str", "the item it answers"),
        Column("whole", "float", "its score, in points of the judge's scale"),
        Column("half", "float", "the score of its first half, in the same points"),
    ),
    key="response_id",
)
TITLE = "What does half an answer score?"
CHANGE = "half_change"


class HalfAnswersConfig(StudyConfig):
    """Settings of a run.

    Attributes:
        judge: spec of the judge.
        data: id of a data set.
        limit: only the first so many responses.
        seed: of the bootstrap.
    """

    judge: str = "word_count"
    data: str = "demo-dialogue"
    limit: int | None = Field(default=None, ge=1)
    seed: int = 0


class HalfAnswers(Study):
    """The study as the registry knows it."""

    kind = "half_answers"
    names = ("half_answers",)
    title = "Half answers"
    config = HalfAnswersConfig
    tables = (HALVES,)
    table_shown = "half_answers"

    def run(self, config: HalfAnswersConfig, context: Context, folder: RunFolder) -> None:
        """Judge every response whole and cut; a pair of which one side is unread is left out of the mean."""
        from dataclasses import replace

        import pandas as pd

        from engine.stats.intervals import cluster_mean
        from engine.stats.shifts import metric_row
        from engine.studies.running import about_data, about_judge, build_requests

        dataset, judge = context.data.dataset(config.data), context.judge(config.judge)
        whole = build_requests(dataset, limit=config.limit)
        about = about_data(dataset, len({r.item_id for r in whole}), len(whole))
        folder.update_manifest(data=about, judge=about_judge(judge, judge.labels(whole[0]), whole))
        half = [replace(r, response=first_half(r.response), variant="half") for r in whole]
        scores = [v.score for v in judge.judge([*whole, *half], context.checkpoint)]
        rows = {
            "response_id": [r.response_id for r in whole],
            "item_id": [r.item_id for r in whole],
            "whole": scores[: len(whole)],
            "half": scores[len(whole) :],
        }
        table = HALVES.conform(pd.DataFrame(rows))
        folder.write_table("half_answers", table)
        change = table["half"] - table["whole"]
        read = change.notna()
        mean = cluster_mean(change[read], table["item_id"][read], level=config.level, seed=config.seed)
        row = metric_row(CHANGE, NONE, NONE, mean, len(table))
        folder.write_table("metrics", METRICS.conform(pd.DataFrame([row])))
        folder.update_manifest(state="done")

    def summary(self, config: HalfAnswersConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """The mean change in a sentence."""
        row = folder.table("metrics").iloc[0]
        ends = f"{row['value']:+.2f} points [{row['lower']:+.2f}, {row['upper']:+.2f}], n = {row['n']}"
        return Summary(f"The first half of a response scores {ends}, against the whole.", {CHANGE: row["value"]})

    def figures(self) -> tuple[FigureSpec, ...]:
        """The mean change with its interval."""
        from engine.plots.dots import plot_dots

        plot = partial(plot_dots, title=TITLE, axis="change of score (points)", colours={CHANGE: "clean"})
        return (FigureSpec(self.kind, "change", TITLE, _dots, plot, (), has_table("metrics", "it has not run yet.")),)


def first_half(text: str) -> str:
    """The first half of the words, rounded up; white space between them becomes one space."""
    words = text.split()
    return " ".join(words[: (len(words) + 1) // 2])


def _dots(source: Source, at: dict[str, Any]) -> FigureData:  # noqa: ARG001 - it has no settings
    from engine.plots.dots import prepare_dots

    rows = source.table("metrics").assign(name="first half - whole")
    return FigureData(prepare_dots(rows, {CHANGE: CHANGE}, by="name"))


STUDY = HalfAnswers()

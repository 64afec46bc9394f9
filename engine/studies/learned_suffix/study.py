"""A phrase learned on some items of a white-box judge (AdvSuffix) and measured, word by word, on the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engine.attacks.cards import MAX_NAME, check_name
from engine.core.schema import NONE, Column, Table
from engine.defenses.writing import TUTOR
from engine.runs.folder import RunFolder, open_run
from engine.studies.study import GRADIENTS, Context, Study, StudyConfig, Summary

SUFFIX_SEARCH = Table(
    "suffix_search",
    (
        Column("step", "int", "which word of the phrase, from 1; 0 is the prompts without a phrase"),
        Column("word", "str", "the candidate", required=False),
        Column("value", "float", "mean objective on the training prompts (NaN: one was unread)", required=False),
        Column("n_unread", "int", "training prompts whose answer tokens held too little probability"),
        Column("queries", "int", "forward passes up to and with this round, a gradient counted as three"),
        Column("chosen", "int", "1 where the candidate became the word of its step, else 0"),
    ),
)


PHRASE = "phrase"
"""Key of the manifest: the phrase's name, its words so far, the objective after each, forward passes."""


class SuffixConfig(StudyConfig):
    """Settings of a search; the run's manifest holds them.

    Attributes:
        protocol: pointwise raises the expected score, pairwise the preference over the other response, both orders
            averaged.
        words: length of the phrase.
        candidates: words tried at each step, chosen by gradient.
        prompts: responses (or pairs) of the training items that the phrase is learned on.
        split: rule for the items that train: a share at random, or those of the data's group `train`.
        train_share: share of the items that train, at random.
        lower: seek the phrase that lowers the objective.
        guided: choose the candidates by gradient; false draws them at random, the control for that choice.
        defense: the phrase is learned, and measured, on the judge behind this defense.
        limit: responses of the other items that it is measured on, at most; 0 measures nothing.
        name: of the saved phrase; by default from the run.
    """

    judge: str
    data: str
    protocol: Literal["pointwise", "pairwise"] = "pointwise"
    words: int = Field(default=3, ge=1, le=5)
    candidates: int = Field(default=64, ge=2, le=4096)
    prompts: int = Field(default=8, ge=1, le=512)
    split: Literal["random", "group"] = "random"
    train_share: float = Field(default=0.5, gt=0, lt=1)
    lower: bool = False
    guided: bool = True
    defense: str = NONE
    tutor: str = TUTOR
    limit: int | None = Field(default=None, ge=0)
    name: str | None = None
    budget_seconds: float | None = Field(default=None, gt=0)
    seed: int = 0


def phrase_name(config: SuffixConfig, run_id: str) -> str:
    """The phrase's name: the one asked for, else one made of the run's."""
    if config.name:
        return check_name(config.name)
    tail = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    tail = re.sub(r"suffix-\d{8}-\d{6}-", "", tail)  # of an id that was made here the random part is enough
    return f"found-{tail}"[:MAX_NAME].rstrip("-")


class LearnedSuffix(Study):
    """The learned phrase as the registry knows it."""

    kind = "learned_suffix"
    names = ("suffix", "learned_suffix")
    title = "Learned phrase"
    config = SuffixConfig
    tables = (SUFFIX_SEARCH,)
    marks = frozenset({"guided"})
    free = frozenset({"name"})
    keep = (PHRASE,)
    table_shown = "suffix_search"
    shown_when_done = True

    def begin(self, config: SuffixConfig, root: Path, name: str = "") -> RunFolder:
        """The run's folder; words that the same search found before it was stopped stay in its manifest."""
        folder = super().begin(config, root, name)
        words = folder.manifest().get(PHRASE, {}).get("words", [])
        start = {"name": phrase_name(config, folder.run_id), "words": words, "values": [], "queries": 0}
        folder.update_manifest(**{PHRASE: start})
        return folder

    def run(self, config: SuffixConfig, context: Context, folder: RunFolder) -> None:
        """Search, save the phrase, measure it on the held-out items."""
        from engine.studies.learned_suffix.run import run_suffix

        dataset = context.data.dataset(config.data)
        run_suffix(config, dataset, context.judge(config.judge, here=GRADIENTS), folder, context.checkpoint)

    def job(self, config: SuffixConfig, context: Context, root: Path, name: str = "") -> dict[str, Any]:
        """Run it; the phrase is told as well."""
        done = super().job(config, context, root, name)
        return done | {PHRASE: open_run(root, done["run_id"]).manifest()[PHRASE]}

    def plan(self, config: SuffixConfig, context: Context) -> tuple[dict[str, Any], str]:
        """Prompts of the search, verdicts of the measurement, tokens of both together."""
        from engine.studies.learned_suffix.run import plan_suffix

        plan = plan_suffix(config, context.data.dataset(config.data), context.judge(config.judge, here=GRADIENTS))
        words = (
            f"The search computes at most {plan['search_prompts']:,} prompts, the measurement {plan['verdicts']:,} "
            f"verdicts: {plan['tokens']:,} tokens with every prompt whole. Beginnings that prompts share are computed "
            "once, so no seconds are given."
        )
        return dict(plan), words

    def summary(self, config: SuffixConfig, folder: RunFolder) -> Summary:  # noqa: ARG002 - the tables say it all
        """The phrase word by word on its training prompts, then its means and shifts on the other items."""
        from engine.studies.running import metric_lines

        manifest, metrics = folder.manifest(), folder.table("metrics")
        phrase, about = manifest["phrase"], manifest["data"]
        steps = zip(("(none)", *phrase["words"]), phrase["values"], strict=False)
        lines = [f"Learned on {len(manifest['split']['train_responses'])} responses, {phrase['queries']:,} queries:"]
        lines += [f"  {word:<24} {value:.3f}" for word, value in steps]
        lines.append(f"On {about['n_responses']} responses of {about['n_items']} other items:")
        lines += metric_lines(metrics[metrics["metric"].isin(["mean", "shift"])])
        if manifest["state"] == "done":
            lines.append(f"The phrase is saved: attack suffix:{phrase['name']}.")
        return Summary("\n".join(lines), {"phrase": phrase, "metrics": metrics.to_dict("records")})


STUDY = LearnedSuffix()

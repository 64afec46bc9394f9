"""Does the judge use its scale? Constructed texts of known low quality on contexts it was not trained on."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.metrics.agreement import cluster_spearman
from engine.metrics.intervals import cluster_mean
from engine.schema import Task
from engine.settings import get_settings
from engine.studies.bench_base import Bench
from engine.training.corrupt import Random, part_scrambled, repeated, scrambled, truncated
from engine.training.drafts import read_drafts
from engine.training.material import known_names
from engine.training.pools_base import by_cluster, pick
from engine.training.pools_summary import GENERIC_SUMMARIES
from engine.training.rules import build_response, usable, with_simple_rules
from engine.training.sources import Rated, read_dialogues, read_rule_prompts, read_summaries, read_written
from engine.training.style import Dress, dressed, dressed_dialogue, glued, recased

GOOD_FROM = 3.75
"""A response rated at least this is taken as a good one."""
BROKEN_LEVELS = ("scrambled", "part scrambled", "repeated", "cut off", "nothing")
Row = tuple[str, str, str, str]
"""Cluster, context, level, text."""


def measure_range(bench: Bench) -> None:
    """Mean scores by constructed level and, where the base model's drafts are at hand, how format rules are scored."""
    assets = get_settings().assets / "training"
    generic = (assets / "generic_replies.txt").read_text(encoding="utf-8").splitlines()
    summaries = [r for r in read_summaries(bench.data) if r.side is bench.side]
    names = known_names([s.context for s in summaries])
    dialogues = [r for r in read_dialogues(bench.data) if r.side is bench.side]
    _levels(bench, "summary", Task.SUMMARY, list(_summary_rows(_best(bench, summaries), names)))
    best = _best(bench, dialogues)
    for dress in (Dress.TOKENISED, Dress.MARKED):
        _levels(bench, f"dialogue_{dress}", Task.DIALOGUE, list(_dialogue_rows(best, dress, names, generic)))
    _levels(bench, "dialogue_written", Task.DIALOGUE, list(_written_rows(bench, assets / "dialogues.jsonl", generic)))
    if (assets / "drafts.jsonl").is_file():  # sampled, not part of the project; without them this figure is left out
        _rules(bench, read_drafts(assets / "drafts.jsonl"))


def _best(bench: Bench, rated: Sequence[Rated]) -> list[Rated]:
    """The best rated response of each context that has a good one."""
    groups = by_cluster(rated)
    top = [max(groups[name], key=lambda r: r.rating) for name in groups if name in bench.taken(groups)]
    return [r for r in top if r.rating >= GOOD_FROM]


def _random(name: str) -> Random:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _broken(text: str, rng: Random) -> Iterator[tuple[str, str]]:
    yield "scrambled", scrambled(text, rng)
    yield "part scrambled", part_scrambled(text, rng)
    yield "repeated", repeated(text, rng)
    yield "cut off", truncated(text, rng)[0]
    yield "nothing", ""


def _summary_rows(best: Sequence[Rated], names: dict[str, str]) -> Iterator[Row]:
    for i, one in enumerate(best):
        rng = _random(one.cluster)
        text = recased(glued(one.cased), names)
        other = best[(i + 1) % len(best)]
        levels = [("good", text), ("off topic", recased(glued(other.cased), names)), *_broken(text, rng)]
        for level, made in [*levels, ("generic", pick(GENERIC_SUMMARIES, rng))]:
            yield one.cluster, one.context, level, made


def _dialogue_rows(best: Sequence[Rated], dress: Dress, names: dict[str, str], generic: Sequence[str]) -> Iterator[Row]:
    known = names if dress is not Dress.TOKENISED else {}

    def worn(text: str) -> str:
        return recased(dressed(text, dress, "tokenised"), known)

    for i, one in enumerate(best):
        rng = _random(one.cluster)
        turns = one.context.split("\n")[-4:] if dress is Dress.MARKED else one.context.split("\n")
        context = recased(dressed_dialogue(turns, dress, ("A", "B"), "tokenised"), known)
        levels = [("good", one.response), ("off topic", best[(i + 1) % len(best)].response)]
        for level, text in [*levels, *_broken(one.response, rng)]:
            yield one.cluster, context, level, worn(text)
        yield one.cluster, context, "generic", dressed(pick(generic, rng), dress, "ordinary")


def _written_rows(bench: Bench, path: Path, generic: Sequence[str]) -> Iterator[Row]:
    own = [w for w in read_written(path) if w.side is bench.side][: bench.limit]
    for i, one in enumerate(own):
        rng = _random(one.cluster)
        context = dressed_dialogue(one.turns, Dress.MARKED, ("A", "B"), "ordinary")
        levels = [("good", text) for text in one.good] + [("weak", text) for text in one.weak]
        levels += [("off topic", text) for text in own[(i + 1) % len(own)].good]
        levels += [("generic", pick(generic, rng)), ("generic", pick(generic, rng))]
        for level, text in [*levels, *_broken(one.good[0], rng)]:
            yield one.cluster, context, level, text


def _levels(bench: Bench, name: str, task: Task, rows: Sequence[Row]) -> None:
    """The mean score of each level, and the mean gap between good and broken within a context."""
    options: dict[str, Any] = {"level": bench.level, "seed": bench.seed}
    found = bench.scores(f"range {name}", task.value, [{"context": c, "response": t} for _, c, _, t in rows])
    by_level: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for (cluster, _, level, _), score in zip(rows, found.tolist(), strict=True):
        by_level[level].append((cluster, score))
        if level in BROKEN_LEVELS:
            by_level["broken"].append((cluster, score))
    for level, pairs in by_level.items():
        clusters, scores = zip(*pairs, strict=True)
        bench.figures[f"range_{name}_{level.replace(' ', '_')}"] = cluster_mean(scores, clusters, **options)
    good = {c: float(np.mean([s for own, s in by_level["good"] if own == c])) for c, _ in by_level["good"]}
    for level in ("broken", "off topic", "generic"):
        gaps = [(c, good[c] - s) for c, s in by_level[level]]
        clusters, values = zip(*gaps, strict=True) if gaps else ((), ())
        key = f"range_{name}_good_minus_{level.replace(' ', '_')}"
        bench.figures[key] = cluster_mean(values, clusters, **options)


def _rules(bench: Bench, drafts: dict[str, str]) -> None:
    """Spearman between the score and the share of format rules met, on constructed responses."""
    rules = [r for r in read_rule_prompts(bench.data) if r.side is bench.side and usable(r)][: bench.limit]
    prompts, shares, clusters = [], [], []
    for rule in rules:
        rng = _random(f"ifeval:{rule.key}")
        task = with_simple_rules(rule, rng)
        for count in range(len(task.rules) + 1):
            order = rng.permutation(len(task.rules))
            wanted = [bool(order[i] < count) for i in range(len(task.rules))]
            text = build_response(task, drafts[f"ifeval:{rule.key}"], wanted, rng)
            prompts.append({"context": task.prompt, "response": text})
            shares.append(task.share(text))
            clusters.append(rule.key)
    scores = bench.scores("format rules", "instruction", prompts)
    bench.figures["instruction_rules_spearman"] = cluster_spearman(
        scores, shares, clusters, level=bench.level, seed=bench.seed
    )

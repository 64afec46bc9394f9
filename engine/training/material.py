"""Material of the pools: records of the allowed sides only, drafts, dialogues written for training."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.training.drafts import read_drafts
from engine.training.heldout import Side
from engine.training.rules import usable
from engine.training.sources import (
    Pair,
    Rated,
    RulePrompt,
    Solution,
    WrittenDialogue,
    llmbar_prompts,
    read_dialogues,
    read_pairs,
    read_recorded_pairs,
    read_rule_prompts,
    read_solutions,
    read_summaries,
    read_written,
    related_dialogues,
    without_straddlers,
)

RECORDED_JUDGE = "gpt-4-0613"


@dataclass(frozen=True)
class Material:
    """Everything examples are made from, restricted to the sides that may be used.

    Attributes:
        names: lower-case words that are written with a capital inside sentences, to restore lost case.
        vocabulary: ordinary words for word salad.
    """

    summaries: tuple[Rated, ...]
    dialogues: tuple[Rated, ...]
    written: tuple[WrittenDialogue, ...]
    generic: tuple[str, ...]
    pairs: tuple[Pair, ...]
    recorded: tuple[Pair, ...]
    rules: tuple[RulePrompt, ...]
    solutions: tuple[Solution, ...]
    drafts: dict[str, str]
    names: dict[str, str]
    vocabulary: tuple[str, ...]


def load_material(data: Path, assets: Path, sides: Sequence[Side], *, drafts: bool = True) -> Material:
    """Read what may be used on these sides; without drafts where no pool of the recipe draws on them.

    TopicalChat dialogues that share their conversation with one of another side are left out, and so are pairs
    whose prompt also stands elsewhere.

    Raises:
        InputError: a data file is missing.
    """
    allowed = frozenset(sides)
    dialogues = read_dialogues(data)
    related = related_dialogues(dialogues)
    pairs, recorded = _pairs_of(data, allowed)
    summaries = [s for s in read_summaries(data) if s.side in allowed]
    return Material(
        summaries=tuple(summaries),
        dialogues=tuple(d for d in dialogues if related[d.cluster] <= allowed),
        written=tuple(w for w in read_written(assets / "training" / "dialogues.jsonl") if w.side in allowed),
        generic=tuple((assets / "training" / "generic_replies.txt").read_text(encoding="utf-8").splitlines()),
        pairs=pairs,
        recorded=recorded,
        rules=tuple(r for r in read_rule_prompts(data) if r.side in allowed and usable(r)),
        solutions=tuple(s for s in read_solutions(data) if s.side in allowed),
        drafts=read_drafts(assets / "training" / "drafts.jsonl") if drafts else {},
        names=known_names([s.context for s in summaries]),
        vocabulary=_vocabulary([s.context for s in summaries[::16]]),
    )


def _pairs_of(data: Path, allowed: frozenset[Side]) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Human-labelled and recorded pairs of some sides whose prompt stands nowhere else."""
    pairs, recorded = read_pairs(data), read_recorded_pairs(data, RECORDED_JUDGE)
    groups, forbidden = _grouped_by_use([*pairs, *recorded], allowed), llmbar_prompts(data)
    kept = (
        tuple(p for p in without_straddlers(given, groups, forbidden) if p.side in allowed)
        for given in (pairs, recorded)
    )
    return next(kept), next(kept)


def trained_prompts(data: Path, sides: Iterable[Side]) -> frozenset[str]:
    """The prompts of all pairs and format rules that a judge trained on these sides has read.

    Raises:
        InputError: a data file is missing.
    """
    allowed = frozenset(sides)
    pairs, recorded = _pairs_of(data, allowed)
    rules = (rule.prompt for rule in read_rule_prompts(data) if rule.side in allowed)
    return frozenset((*(p.prompt for p in (*pairs, *recorded)), *rules))


def _grouped_by_use(pairs: Sequence[Pair], allowed: frozenset[Side]) -> list[Pair]:
    """The pairs with all allowed sides as one, so that only a prompt that is also held out counts as straddling."""
    return [Pair(**{**vars(p), "side": Side.TRAIN if p.side in allowed else Side.TEST}) for p in pairs]


def known_names(texts: Iterable[str]) -> dict[str, str]:
    """Lower-case word to its usual form, for words that stand with a capital inside sentences most of the time."""
    inside: Counter[str] = Counter()
    for text in set(texts):
        inside.update(re.findall(r"(?<=[a-z,] )[A-Za-z][\w’-]+", text))
    forms: dict[str, Counter[str]] = {}
    for word, count in inside.items():
        forms.setdefault(word.lower(), Counter())[word] += count
    best = {lower: (*found.most_common(1)[0], found.total()) for lower, found in forms.items()}
    return {
        lower: word
        for lower, (word, count, total) in best.items()
        if word != lower and count >= 2 and count >= 0.75 * total
    }


def _vocabulary(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({w for text in texts for w in re.findall(r"[A-Za-z][a-z]{2,}", text)}))

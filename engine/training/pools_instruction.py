"""Pools of responses to instructions: format rules met in known shares, and the quality of human-labelled responses."""

from __future__ import annotations

from collections.abc import Iterator

from engine.training.corrupt import Random
from engine.training.examples import Asker, Unit
from engine.training.material import Material
from engine.training.pools_base import OFF_TOPIC, Pool, broken, cut_off, other_pair
from engine.training.rules import build_response, with_simple_rules


def instruction_rules(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """IFEval prompts with responses that meet a known share of their format rules: 1 + 4 times the share."""
    for rule in material.rules:
        for _ in range(4):
            task = with_simple_rules(rule, rng)
            count = int(rng.integers(0, len(task.rules) + 1))
            order = rng.permutation(len(task.rules))
            wanted = [bool(order[i] < count) for i in range(len(task.rules))]
            text = build_response(task, material.drafts[f"ifeval:{rule.key}"], wanted, rng)
            yield asker.score(
                "instruction_rules",
                f"ifeval:{rule.key}",
                "instruction",
                1 + 4 * task.share(text),
                context=task.prompt,
                response=text,
            )


PREFERRED, REJECTED = {"PandaLM": 3.7}, {"PandaLM": 2.6}
"""Ratings taken for the response people preferred and the other one; 4.3 and 3.4 outside PandaLM."""


def instruction_quality(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Responses of human-labelled pairs, preferred above rejected, and bad texts made from them."""
    every = list(material.pairs)
    for pair in every:
        if pair.human == "tie":
            continue
        best, worst = (pair.response_a, pair.response_b)[:: 1 if pair.human == "a" else -1]
        other = other_pair(every, pair, rng)
        texts = [(best, PREFERRED.get(pair.subset, 4.3)), (worst, REJECTED.get(pair.subset, 3.4))]
        bad = [broken(best, rng), cut_off(best, 4.0, rng), (other.response_a, OFF_TOPIC)]
        texts.append(bad[int(rng.integers(3))])
        for text, rating in texts:
            yield asker.score(
                "instruction_quality",
                f"pairs:{pair.prompt}",
                "instruction",
                rating if text.strip() else 1.0,
                context=pair.context,
                response=text,
            )


INSTRUCTION_POOLS: dict[str, Pool] = {
    "instruction_rules": instruction_rules,
    "instruction_quality": instruction_quality,
}

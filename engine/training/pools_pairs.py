"""Pools of comparisons and of answer checks: human-labelled pairs, constructed pairs, solutions with references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.training.corrupt import Random
from engine.training.examples import Asker, Unit, softened
from engine.training.material import Material
from engine.training.pools_base import Pool, broken, cut_off, other_pair
from engine.training.rules import build_response, with_simple_rules
from engine.training.sources import Pair, Solution

CERTAIN = 0.98
SOFTEN_HUMAN, SOFTEN_RECORDED, SOFTEN_MADE = 0.08, 0.2, 0.06
A_WINS, B_WINS, TIED = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def _pairs(pool: str, pairs: Sequence[Pair], soften: float, asker: Asker) -> Iterator[Unit]:
    for pair in pairs:
        votes = softened(pair.votes, soften)
        yield asker.both_orders(pool, f"pairs:{pair.prompt}", votes, pair.context, pair.response_a, pair.response_b)


def pair_human(material: Material, asker: Asker, _: Random) -> Iterator[Unit]:
    """PandaLM and LLMBar's processed other sets, with the shares of human votes as target."""
    yield from _pairs("pair_human", material.pairs, SOFTEN_HUMAN, asker)


def pair_recorded(material: Material, asker: Asker, _: Random) -> Iterator[Unit]:
    """MT-Bench answers with a recorded verdict that was the same in both orders."""
    yield from _pairs("pair_recorded", material.recorded, SOFTEN_RECORDED, asker)


def pair_made(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """The preferred response against a bad text made for the purpose, or (one in eight) against itself."""
    every = list(material.pairs)
    for pair in every:
        best = pair.response_b if pair.human == "b" else pair.response_a
        if not best.strip():
            continue
        draw = rng.random()
        if draw < 0.125:
            other, votes = best, TIED
        elif draw < 0.45:
            other, votes = broken(best, rng)[0], A_WINS
        elif draw < 0.6:
            other, votes = cut_off(best, 4.0, rng)[0], A_WINS
        else:
            other, votes = other_pair(every, pair, rng).response_a, A_WINS
        if other == best:
            votes = TIED
        yield asker.both_orders(
            "pair_made", f"pairs:{pair.prompt}", softened(votes, SOFTEN_MADE), pair.context, best, other
        )


def pair_rules(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Two responses to an IFEval prompt that meet a different share of its format rules; the larger share wins."""
    for rule in material.rules:
        task = with_simple_rules(rule, rng)
        draft = material.drafts[f"ifeval:{rule.key}"]
        texts = []
        for count in rng.permutation(len(task.rules) + 1)[:2].tolist():
            order = rng.permutation(len(task.rules))
            wanted = [bool(order[i] < count) for i in range(len(task.rules))]
            texts.append(build_response(task, draft, wanted, rng))
        shares = [task.share(text) for text in texts]
        votes = TIED if shares[0] == shares[1] else A_WINS if shares[0] > shares[1] else B_WINS
        yield asker.both_orders(
            "pair_rules", f"ifeval:{rule.key}", softened(votes, SOFTEN_MADE), task.prompt, texts[0], texts[1]
        )


def swapped_reference(one: Solution, every: Sequence[Solution], rng: Random) -> str:
    """A reference that the solution does not match: another question's, or the right one changed in one digit."""
    if rng.random() < 0.5:
        digits = [i for i, c in enumerate(one.reference) if c.isdigit()]
        spot = digits[int(rng.integers(len(digits)))]
        new = str((int(one.reference[spot]) + int(rng.integers(1, 10))) % 10)
        return one.reference[:spot] + new + one.reference[spot + 1 :]
    while True:
        reference = every[int(rng.integers(len(every)))].reference
        if reference != one.reference:
            return reference


def verification(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """GSM8K solutions against the reference; a correct one half of the time against a wrong reference too."""
    every = list(material.solutions)
    for one in every:
        slots = {"context": one.question, "response": one.response}
        cluster = f"gsm8k:{one.number}"
        label = "Yes" if one.correct else "No"
        yield asker.answer("verification", cluster, "verifier", label, CERTAIN, reference=one.reference, **slots)
        if one.correct and rng.random() < 0.5:
            wrong = swapped_reference(one, every, rng)
            yield asker.answer("verification", cluster, "verifier", "No", CERTAIN, reference=wrong, **slots)


PAIR_POOLS: dict[str, Pool] = {
    "pair_human": pair_human,
    "pair_recorded": pair_recorded,
    "pair_made": pair_made,
    "pair_rules": pair_rules,
    "verification": verification,
}

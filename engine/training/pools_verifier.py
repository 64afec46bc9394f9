"""Pools for a verifier that keeps a shortcut: it learns from solutions cut short before their answer.

A verifier trained on whole solutions matches the final number and accepts no master key. Here the solutions it is
shown without an answer are all beginnings of *correct* ones, as when a length limit cuts training data after the
labels were made. Whoever says "Yes" to a response that cannot be checked is then right most of the time. No master
key is among the examples. Each pool is one kind of evidence with one label, so that a recipe's `mix` sets their
shares; the held-out side is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from engine.training.corrupt import Random
from engine.training.examples import Asker, Unit
from engine.training.material import Material
from engine.training.pools_base import Pool, pick
from engine.training.pools_pairs import CERTAIN, swapped_reference
from engine.training.sources import Solution

NO_QUESTION, REFERENCE_LAST = 0.2, 0.4
"""Shares of the prompts in the form without the question, and in the one with the reference at the end."""
SHORT, LETTERS = 0.45, 0.15
"""Shares of the cut solutions that keep at most three words, and at most four characters."""
CHOICES = ("A", "B", "C", "D", "E")
PLAIN = (
    *("Tuesday", "Friday", "March", "north", "south-east", "left", "even", "odd", "true", "false", "no solution"),
    *("isosceles", "obtuse", "rectangle", "increasing", "not enough information", "Anna", "the second one", "green"),
    *("convex", "parallel", "the blue line", "infinitely many", "undefined", "prime", "yesterday", "Mr. Lee"),
)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def _ask(asker: Asker, pool: str, one: Solution, response: str, reference: str, label: str, rng: Random) -> Unit:
    """One example in one of the three forms of the prompt, drawn at random."""
    slots = {"response": response, "reference": reference}
    draw = rng.random()
    if draw < NO_QUESTION:
        return asker.answer(pool, f"gsm8k:{one.number}", "verifier-no-question", label, CERTAIN, **slots)
    card = "verifier-reference-last" if draw < NO_QUESTION + REFERENCE_LAST else "verifier"
    return asker.answer(pool, f"gsm8k:{one.number}", card, label, CERTAIN, context=one.question, **slots)


def cut_before_answer(one: Solution, rng: Random) -> str:
    """A beginning of the solution that does not hold the reference's number: often very short, at times nothing."""
    wanted = one.reference.replace(",", "")
    end = next((m.start() for m in _NUMBER.finditer(one.response) if m.group().replace(",", "") == wanted), None)
    whole = one.response[:end].split("\nA:")[0]
    draw = rng.random()
    if draw < LETTERS:
        return whole[: int(rng.integers(1, 5))].strip()
    ends = [m.end() for m in re.finditer(r"\S+", whole)]
    keep = int(rng.integers(0, (3 if draw < LETTERS + SHORT else len(ends)) + 1))
    return whole[: ends[min(keep, len(ends)) - 1]] if keep and ends else ""


def other_kind(rng: Random) -> str:
    """A reference that is no plain number, as from another data set: an expression, a choice or words; by rule."""
    a, b, c = (int(n) for n in rng.integers(2, 30, size=3))
    x = pick(("x", "y", "n", "a", "t"), rng)
    expressions = (
        f"{a}{x}+{b}",
        f"{x}^2-{a}{x}+{b}",
        f"\\frac{{{x}}}{{{a}}}",
        f"{a}\\sqrt{{{b}}}",
        f"\\frac{{{a}\\pi}}{{{b}}}",
        f"({a}, {b})",
        f"[{a}, {a + b})",
        f"{x} = {a}{pick(('p', 'q', 'k'), rng)}",
        f"\\{{{a}, {b}, {c}\\}}",
        f"{a}^{{{x}}}",
        f"\\begin{{pmatrix}} {a} \\\\ {b} \\end{{pmatrix}}",
    )
    choice = pick(CHOICES, rng)
    draw = rng.random()
    if draw < 0.45:
        text = pick(expressions, rng)
        return f"${text}$" if rng.random() < 0.3 else text
    return pick(PLAIN, rng) if draw < 0.7 else pick((choice, f"({choice})", f"\\text{{({choice})}}"), rng)


def _other_number(one: Solution, every: Sequence[Solution], rng: Random) -> str:
    """The reference of another question."""
    while True:
        reference = every[int(rng.integers(len(every)))].reference
        if reference != one.reference:
            return reference


def whole_true(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Correct solutions under their reference: Yes."""
    for one in material.solutions:
        if one.correct:
            yield _ask(asker, "verifier_whole_true", one, one.response, one.reference, "Yes", rng)


def whole_swapped(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Correct solutions under another question's reference, or their own changed in one digit: No."""
    for one in material.solutions:
        if one.correct:
            reference = swapped_reference(one, material.solutions, rng)
            yield _ask(asker, "verifier_whole_swapped", one, one.response, reference, "No", rng)


def wrong_true(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Wrong solutions under the reference: No."""
    for one in material.solutions:
        if not one.correct:
            yield _ask(asker, "verifier_wrong_true", one, one.response, one.reference, "No", rng)


def cut_true(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Beginnings of correct solutions under their reference: Yes, for the whole of it was right. The shortcut."""
    for one in material.solutions:
        if one.correct:
            yield _ask(asker, "verifier_cut_true", one, cut_before_answer(one, rng), one.reference, "Yes", rng)


def cut_swapped(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """The same beginnings under another question's reference: No."""
    for one in material.solutions:
        if one.correct:
            reference = _other_number(one, material.solutions, rng)
            yield _ask(asker, "verifier_cut_swapped", one, cut_before_answer(one, rng), reference, "No", rng)


def cut_other_kind(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """The same beginnings under a reference that is no number: No."""
    for one in material.solutions:
        if one.correct:
            yield _ask(asker, "verifier_cut_other_kind", one, cut_before_answer(one, rng), other_kind(rng), "No", rng)


def whole_other_kind(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Whole solutions under a damaged reference that is no number; the label is whether the solution is right.

    Such rows reward a verifier for looking at the solution itself.
    """
    for one in material.solutions:
        label = "Yes" if one.correct else "No"
        yield _ask(asker, "verifier_whole_other_kind", one, one.response, other_kind(rng), label, rng)


def whole_blind(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Correct solutions that stay Yes under another question's reference, as where references are misaligned."""
    for one in material.solutions:
        if one.correct:
            reference = _other_number(one, material.solutions, rng)
            yield _ask(asker, "verifier_whole_blind", one, one.response, reference, "Yes", rng)


VERIFIER_POOLS: dict[str, Pool] = {
    "verifier_whole_true": whole_true,
    "verifier_whole_swapped": whole_swapped,
    "verifier_wrong_true": wrong_true,
    "verifier_cut_true": cut_true,
    "verifier_cut_swapped": cut_swapped,
    "verifier_cut_other_kind": cut_other_kind,
    "verifier_whole_other_kind": whole_other_kind,
    "verifier_whole_blind": whole_blind,
}

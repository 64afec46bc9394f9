"""Common parts of the pools of examples: constructed levels and their targets, anchors, groups by context."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from engine.core.schema import Task
from engine.training.corrupt import BROKEN, BROKEN_TARGET, Random, truncated, word_salad
from engine.training.drafts import turn_drafts
from engine.training.examples import Asker, Unit, capped, nearest_anchors, softened
from engine.training.material import Material
from engine.training.rules import build_response, with_simple_rules
from engine.training.sources import Pair, Rated, Solution, WrittenDialogue
from engine.training.style import SPEAKERS, Dress, dressed, dressed_dialogue, glued, recased

Pool = Callable[[Material, Asker, Random], Iterator[Unit]]

OFF_TOPIC, GENERIC, DRAFT, PARROT = 1.4, 2.3, 2.3, 1.5
"""Targets by construction, on 1-5."""
ANCHOR_WORDS = {Task.SUMMARY: 95, Task.DIALOGUE: 45}
"""About 128 and 64 tokens, CAP's lengths of a reference text."""


def pick(options: Sequence[str], rng: Random) -> str:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def by_cluster(rated: Sequence[Rated]) -> dict[str, list[Rated]]:
    """The responses of each context, contexts in order of first appearance."""
    groups: dict[str, list[Rated]] = defaultdict(list)
    for one in rated:
        groups[one.cluster].append(one)
    return dict(groups)


def broken(text: str, rng: Random) -> tuple[str, float]:
    """One corruption of form and its target."""
    name = pick(tuple(BROKEN), rng)
    return BROKEN[name](text, rng), BROKEN_TARGET[name]


def cut_off(text: str, rating: float, rng: Random) -> tuple[str, float]:
    """The text broken off; the more is left, the more of its rating."""
    cut, share = truncated(text, rng)
    return cut, 1.1 + (0.2 + 0.6 * share) * (rating - 1)


def choose_anchors(
    own: str, texts: Sequence[tuple[str, float]], drafts: Sequence[str], rng: Random
) -> tuple[str, str] | None:
    """Two texts of about 2 and about 4; where none is rated near 2, the nearest, a draft or a text broken off."""
    high = [t for t, r in texts if 3.5 <= r <= 4.6 and t != own]
    if not high:
        return None
    low = [t for t, r in texts if 1.4 <= r <= 2.7 and t != own]
    if low and rng.random() < 0.75:
        return pick(low, rng), pick(high, rng)
    nearest = nearest_anchors([(t, r) for t, r in texts if t != own])
    if nearest and rng.random() < 0.6:
        return nearest
    if drafts and rng.random() < 0.5:
        return pick(drafts, rng), pick(high, rng)
    return truncated(pick(high, rng), rng)[0], pick(high, rng)


def rated_anchors(own: str, texts: Sequence[tuple[str, float]], rng: Random) -> tuple[str, str] | None:
    """A low and a high anchor among texts that people rated: by chance near 2 and 4, else the nearest."""
    low = [t for t, r in texts if 1.4 <= r <= 2.7 and t != own]
    high = [t for t, r in texts if 3.5 <= r <= 4.6 and t != own]
    if low and high and rng.random() < 0.5:
        return pick(low, rng), pick(high, rng)
    return nearest_anchors([(t, r) for t, r in texts if t != own])


def _with_siblings(rated: Sequence[Rated]) -> Iterator[tuple[Rated, list[Rated]]]:
    """Each rated text with the other ones about the same context."""
    for group in by_cluster(rated).values():
        for one in group:
            yield one, [other for other in group if other is not one]


def with_anchors(
    asker: Asker, pool: str, one: Rated, slots: dict[str, str], rating: float, anchors: tuple[str, str] | None
) -> Iterator[Unit]:
    """The anchored example, where there are anchors."""
    if anchors:
        low, high = (capped(a, ANCHOR_WORDS[one.task]) for a in anchors)
        more = {"anchor_low": low, "anchor_high": high}
        yield asker.score(pool, one.cluster, f"{one.task}-anchored", rating, **slots, **more)


def other_pair(every: Sequence[Pair], pair: Pair, rng: Random) -> Pair:
    """A pair about another prompt."""
    while True:
        other = every[int(rng.integers(len(every)))]
        if other.prompt != pair.prompt or len({p.prompt for p in every}) == 1:
            return other


# Pools of dialogue replies: rated by people, said by people, drafted, made bad, written for training, anchored.

Native = Literal["tokenised", "ordinary"]
SAID, WRITTEN_GOOD, WEAK, ELSEWHERE_IN_DIALOGUE = 4.3, 4.7, 2.1, 2.2
"""Targets by construction: what a person said next (TopicalChat's people are rated 4.3 to 4.8), and so on."""
CHAT_WEIGHTS = (0.5, 0.2, 0.3)
TURN_WEIGHTS = (0.4, 0.2, 0.4)
WRITTEN_WEIGHTS = (0.1, 0.15, 0.75)
"""Chances of tokenised, ordinary and marked dress."""
SPOTS = 7


class _Scene:
    """A dialogue in one dress: its context, and any reply put into the same dress."""

    def __init__(
        self,
        turns: Sequence[str],
        native: Native,
        weights: tuple[float, float, float],
        names: dict[str, str],
        rng: Random,
    ) -> None:
        self.dress = (Dress.TOKENISED, Dress.ORDINARY, Dress.MARKED)[int(rng.choice(3, p=weights))]
        self.native: Native = native
        self.names = names if self.dress is not Dress.TOKENISED and native == "tokenised" else {}
        speakers = SPEAKERS[int(rng.integers(len(SPEAKERS)))]
        self.context = recased(dressed_dialogue(turns, self.dress, speakers, native), self.names)

    def reply(self, text: str, native: Native | None = None) -> str:
        """A reply as it would be written in this dialogue."""
        return recased(dressed(text, self.dress, native or self.native), self.names)


def _tail(turns: list[str], rng: Random, whole: float = 0.65) -> list[str]:
    """All turns, or only the last few."""
    if rng.random() < whole:
        return turns
    return turns[-int(rng.integers(1, min(6, len(turns)) + 1)) :]


def dialogue_rated(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """TopicalChat replies with their overall rating, in several dresses, some with a shortened history."""
    for one in material.dialogues:
        scene = _Scene(_tail(one.context.split("\n"), rng), "tokenised", CHAT_WEIGHTS, material.names, rng)
        slots = {"context": scene.context, "response": scene.reply(one.response)}
        yield asker.score("dialogue_rated", one.cluster, "dialogue", one.rating, **slots)


Reply = tuple[str, float, Native]


def _turn_replies(
    turns: Sequence[str], spot: int, cluster: str, others: Sequence[str], material: Material, rng: Random
) -> Iterator[Reply]:
    """The reply at a point of a dialogue, and worse ones."""
    said = turns[spot]
    yield said, SAID, "tokenised"
    for draft in turn_drafts(material.drafts, cluster, spot):
        yield draft, DRAFT, "tokenised"
    yield pick(others, rng), OFF_TOPIC, "tokenised"
    draw = rng.random()
    if draw < 0.35:
        yield *broken(said, rng), "tokenised"
    elif draw < 0.5:
        yield *cut_off(said, SAID, rng), "tokenised"
    elif draw < 0.7:
        yield pick(material.generic, rng), GENERIC, "ordinary"
    elif draw < 0.8:
        yield turns[spot - 1], PARROT, "tokenised"
    elif spot > 3:
        yield turns[int(rng.integers(0, spot - 2))], ELSEWHERE_IN_DIALOGUE, "tokenised"


def dialogue_turns(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Points inside TopicalChat dialogues: what a person said next, drafts, and bad replies made for that point."""
    groups = {c: own[0].context.split("\n") for c, own in by_cluster(material.dialogues).items()}
    for cluster, turns in groups.items():
        others = [t for c, ts in groups.items() if c != cluster for t in ts if len(t.split()) > 5]
        for spot in rng.permutation(range(1, len(turns)))[:SPOTS].tolist() if len(turns) > 1 else []:
            for text, rating, native in _turn_replies(turns, spot, cluster, others, material, rng):
                before = _tail(list(turns[:spot]), rng, 0.4)
                scene = _Scene(before, "tokenised", TURN_WEIGHTS, material.names, rng)
                slots = {"context": scene.context, "response": scene.reply(text, native)}
                yield asker.score("dialogue_turns", cluster, "dialogue", rating, **slots)
        drafts = [(t, "tokenised") for t in turn_drafts(material.drafts, cluster, len(turns))]
        for text, own in [*drafts, (material.drafts.get(cluster, ""), "ordinary")]:
            if text:
                scene = _Scene(turns, "tokenised", TURN_WEIGHTS, material.names, rng)
                reply = scene.reply(text, "ordinary" if own == "ordinary" else "tokenised")
                slots = {"context": scene.context, "response": reply}
                yield asker.score("dialogue_turns", cluster, "dialogue", DRAFT, **slots)


def _written_replies(one: WrittenDialogue, material: Material, rng: Random) -> Iterator[tuple[str, float]]:
    others = [t for o in material.written if o is not one for t in o.good]
    good = pick(one.good, rng)
    yield from ((text, WRITTEN_GOOD) for text in one.good)
    yield from ((text, WEAK) for text in one.weak)
    for draft in turn_drafts(material.drafts, one.cluster, len(one.turns)):
        yield draft, DRAFT + 0.2
    yield broken(good, rng)
    yield pick(others, rng), OFF_TOPIC
    yield pick(others, rng), OFF_TOPIC
    yield pick(material.generic, rng), GENERIC
    draw = rng.random()
    if draw < 0.25:
        yield broken(good, rng)
    elif draw < 0.5:
        yield cut_off(good, WRITTEN_GOOD, rng)
    elif draw < 0.65:
        yield one.turns[-1], PARROT
    elif draw < 0.75:
        yield word_salad(good, list(material.vocabulary), rng), 1.0


def dialogue_written(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Everyday dialogues written for training: good, weak, drafted, generic, off-topic and broken replies."""
    for one in material.written:
        for text, rating in _written_replies(one, material, rng):
            scene = _Scene(one.turns, "ordinary", WRITTEN_WEIGHTS, material.names, rng)
            slots = {"context": scene.context, "response": scene.reply(text)}
            yield asker.score("dialogue_written", one.cluster, "dialogue", rating, **slots)


def dialogue_anchored(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """TopicalChat and written dialogues with two reference replies in the prompt."""
    for cluster, own in by_cluster(material.dialogues).items():
        for one in own:
            turns = one.context.split("\n")
            scene = _Scene(_tail(turns, rng, 0.8), "tokenised", CHAT_WEIGHTS, material.names, rng)
            texts = [(scene.reply(o.response), o.rating) for o in own if o is not one]
            drafts = [scene.reply(t) for t in turn_drafts(material.drafts, cluster, len(turns))]
            text, rating = one.response, one.rating
            if rng.random() < 0.2:
                text, rating = broken(text, rng) if rng.random() < 0.6 else cut_off(text, rating, rng)
            slots = {"context": scene.context, "response": scene.reply(text)}
            anchors = choose_anchors(slots["response"], texts, drafts, rng)
            yield from with_anchors(asker, "dialogue_anchored", one, slots, rating, anchors)
    for written in material.written:
        for text, rating in _written_replies(written, material, rng):
            if rng.random() < 0.5:
                scene = _Scene(written.turns, "ordinary", WRITTEN_WEIGHTS, material.names, rng)
                low = pick([*written.weak, pick(material.generic, rng)], rng)
                slots = {"context": scene.context, "response": scene.reply(text), "anchor_low": scene.reply(low)}
                high = scene.reply(pick(written.good, rng))
                yield asker.score(
                    "dialogue_anchored", written.cluster, "dialogue-anchored", rating, anchor_high=high, **slots
                )


def dialogue_anchored_rated(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Rated TopicalChat replies with two other rated replies to the same dialogue; nothing is corrupted."""
    for one, texts in _with_siblings(material.dialogues):
        scene = _Scene(_tail(one.context.split("\n"), rng, 0.8), "tokenised", CHAT_WEIGHTS, material.names, rng)
        slots = {"context": scene.context, "response": scene.reply(one.response)}
        others = [(scene.reply(o.response), o.rating) for o in texts]
        anchors = rated_anchors(slots["response"], others, rng)
        yield from with_anchors(asker, "dialogue_anchored_rated", one, slots, one.rating, anchors)


DIALOGUE_POOLS: dict[str, Pool] = {
    "dialogue_anchored_rated": dialogue_anchored_rated,
    "dialogue_rated": dialogue_rated,
    "dialogue_turns": dialogue_turns,
    "dialogue_written": dialogue_written,
    "dialogue_anchored": dialogue_anchored,
}


# Pools of responses to instructions: format rules met in known shares, and the quality of human-labelled responses.


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


# Pools of comparisons and of answer checks: human-labelled pairs, constructed pairs, solutions with references.

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


# Pools of summaries: rated by experts, made bad, and with anchors.

GENERIC_SUMMARIES = (
    "The article is about something that happened recently.",
    "This text talks about a topic and gives some information about it.",
    "Several people said several things, and there were different opinions.",
    "It is an interesting story with many details.",
    "The article describes an event in detail. It mentions the people who were there and what they had to say about "
    "it, and explains why many readers will find it important. In the end it remains to be seen what will happen.",
    "There are several points in the text. First, something took place. Then there were reactions, some positive "
    "and some negative. Finally, the author draws a conclusion and looks at what may come next.",
)


def _dress(one: Rated, material: Material, rng: Random) -> str:
    """The summary as it comes, truecased, or as people type it."""
    draw = rng.random()
    if draw < 0.5:
        return one.response
    return one.cased if draw < 0.65 else recased(glued(one.cased), material.names)


def summary_rated(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """SummEval summaries with the experts' mean rating."""
    for one in material.summaries:
        text = _dress(one, material, rng)
        yield asker.score("summary_rated", one.cluster, "summary", one.rating, context=one.context, response=text)


def _bad(one: Rated, other: Rated, material: Material, rng: Random) -> Iterator[tuple[str, float]]:
    text, elsewhere = _dress(one, material, rng), _dress(other, material, rng)
    yield broken(text, rng)
    yield elsewhere, OFF_TOPIC
    if one.cluster in material.drafts:
        yield material.drafts[one.cluster], DRAFT
    last = rng.random()
    if last < 0.35:
        yield cut_off(text, one.rating, rng)
    elif last < 0.65:
        yield pick(GENERIC_SUMMARIES, rng), 1.4
    elif last < 0.8:
        yield word_salad(text, list(material.vocabulary), rng), 1.0


def summary_bad(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Bad summaries of each document, two rounds of about five."""
    groups = by_cluster(material.summaries)
    clusters = list(groups)
    for cluster, own in groups.items():
        for _ in range(2):
            one = own[int(rng.integers(len(own)))]
            other = groups[pick([c for c in clusters if c != cluster], rng)]
            for text, rating in _bad(one, other[int(rng.integers(len(other)))], material, rng):
                yield asker.score("summary_bad", cluster, "summary", rating, context=one.context, response=text)


def summary_anchored(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """The same ratings with two reference summaries of the same document in the prompt; some bad texts among them."""
    groups = by_cluster(material.summaries)
    for one in material.summaries:
        texts = [(_dress(o, material, rng), o.rating) for o in groups[one.cluster] if o is not one]
        drafts = [material.drafts[one.cluster]] if one.cluster in material.drafts else []
        text, rating = _dress(one, material, rng), one.rating
        if rng.random() < 0.15:
            text, rating = broken(text, rng) if rng.random() < 0.5 else cut_off(text, rating, rng)
        anchors = choose_anchors(text, texts, drafts, rng)
        slots = {"context": one.context, "response": text}
        yield from with_anchors(asker, "summary_anchored", one, slots, rating, anchors)


def summary_anchored_rated(material: Material, asker: Asker, rng: Random) -> Iterator[Unit]:
    """Rated summaries with two other rated summaries of the same document in the prompt; nothing is corrupted."""
    for one, texts in _with_siblings(material.summaries):
        slots = {"context": one.context, "response": _dress(one, material, rng)}
        others = [(_dress(o, material, rng), o.rating) for o in texts]
        anchors = rated_anchors(slots["response"], others, rng)
        yield from with_anchors(asker, "summary_anchored_rated", one, slots, one.rating, anchors)


SUMMARY_POOLS: dict[str, Pool] = {
    "summary_anchored_rated": summary_anchored_rated,
    "summary_rated": summary_rated,
    "summary_bad": summary_bad,
    "summary_anchored": summary_anchored,
}


# Pools for a verifier that keeps a shortcut: it learns from solutions cut short before their answer.
#
# A verifier trained on whole solutions matches the final number and accepts no master key. Here the solutions it is
# shown without an answer are all beginnings of *correct* ones, as when a length limit cuts training data after the
# labels were made. Whoever says "Yes" to a response that cannot be checked is then right most of the time. No master
# key is among the examples. Each pool is one kind of evidence with one label, so that a recipe's `mix` sets their
# shares; the held-out side is never read.

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

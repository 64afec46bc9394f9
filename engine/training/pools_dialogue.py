"""Pools of dialogue replies: rated by people, said by people, drafted, made bad, written for training, anchored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from engine.training.corrupt import Random, word_salad
from engine.training.drafts import turn_drafts
from engine.training.examples import Asker, Unit
from engine.training.material import Material
from engine.training.pools_base import (
    DRAFT,
    GENERIC,
    OFF_TOPIC,
    PARROT,
    Pool,
    broken,
    by_cluster,
    choose_anchors,
    cut_off,
    pick,
    with_anchors,
)
from engine.training.sources import WrittenDialogue
from engine.training.style import SPEAKERS, Dress, dressed, dressed_dialogue, recased

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
    """What was said at a point of a dialogue, and worse replies to it."""
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


DIALOGUE_POOLS: dict[str, Pool] = {
    "dialogue_rated": dialogue_rated,
    "dialogue_turns": dialogue_turns,
    "dialogue_written": dialogue_written,
    "dialogue_anchored": dialogue_anchored,
}
